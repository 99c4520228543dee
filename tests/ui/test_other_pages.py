"""A page of another port of this machine can neither read nor write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from tests.ui.conftest import Open, Started

ATTACK = """<!doctype html><title>attack</title><script>
async function attempt(work) {
  try { return await work() } catch (error) { return `failed: ${error.name}` }
}
async function attack(root) {
  const get = (path, options) => attempt(async () => (await fetch(root + path, options)).text());
  const post = (type, mode) => attempt(async () => (await fetch(root + "/api/v1/delete", {
    method: "POST", credentials: "include", mode, headers: {"Content-Type": type},
    body: '{"kind": "Pod", "namespace": "default", "name": "web-1"}'})).text());
  const event = await new Promise((done) => {
    const address = root + "/api/v1/stream?generation=0&attempt=0";
    const source = new EventSource(address, {withCredentials: true});
    source.onmessage = (message) => done(message.data);
    source.onerror = () => { source.close(); done("failed") };
  });
  const script = await new Promise((done) => {
    const element = document.createElement("script");
    element.src = root + "/api/v1/export";
    element.onload = () => done("loaded");
    element.onerror = () => done("failed");
    document.head.append(element);
  });
  return {state: await get("/api/v1/state", {credentials: "include"}),
          opaque: await get("/api/v1/state", {credentials: "include", mode: "no-cors"}),
          json: await post("application/json", "cors"), text: await post("text/plain", "no-cors"),
          event, script};
}
</script><body></body>"""


@pytest.fixture
def attacker() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(ATTACK.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_another_page_reads_and_writes_nothing(
    open_page: Open, mooring: Started, attacker: str
) -> None:
    ours = open_page()
    other = open_page.context.new_page()  # type: ignore[attr-defined] # with the same cookies
    other.goto(attacker)

    answers = other.evaluate("root => attack(root)", mooring.root)

    assert answers["state"].startswith("failed")
    assert answers["json"].startswith("failed")
    assert answers["opaque"] in ("", "failed: TypeError")
    assert answers["text"] in ("", "failed: TypeError")
    assert answers["event"] == "failed"
    assert answers["script"] == "failed"
    ours.get_by_role("link", name="Pods").click()
    expect(ours.get_by_role("link", name="default/web-1")).to_be_visible()


def test_no_other_page_shows_ours_in_a_frame(
    open_page: Open, mooring: Started, attacker: str
) -> None:
    open_page()
    other = open_page.context.new_page()  # type: ignore[attr-defined]
    other.goto(attacker)
    other.evaluate(
        """root => new Promise((done) => {
            const frame = document.createElement("iframe");
            frame.src = root + "/";
            frame.onload = done;
            document.body.append(frame);
        })""",
        mooring.root,
    )

    frame = other.frames[-1]
    assert "mooring" not in frame.content()

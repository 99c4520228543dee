"""Journeys through the page, in a real browser."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.helpers.page import pod
from tests.ui.conftest import Open, Started

#: Waits until the first chart has at least 50 pixels of a colour; the policy of the page allows no
#: ``wait_for_function``.
LINE_IS_DRAWN = """async colour => {
    for (const end = Date.now() + 10000; Date.now() < end; ) {
        await new Promise(requestAnimationFrame);
        const canvas = document.querySelector(".chart canvas");
        if (!canvas) continue;
        const copy = document.createElement("canvas");
        [copy.width, copy.height] = [canvas.width, canvas.height];
        const context = copy.getContext("2d", { willReadFrequently: true });
        context.drawImage(canvas, 0, 0);
        const { data } = context.getImageData(0, 0, copy.width, copy.height);
        let count = 0;
        for (let at = 0; at < data.length; at += 4) {
            count += colour.every((value, channel) => data[at + channel] === value);
        }
        if (count >= 50) return true;
    }
    return false;
}"""


def go(page: Page, view: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=view, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(view)


def apply(page: Page, text: str) -> None:
    go(page, "Objects")
    page.get_by_label("YAML or JSON").fill(text)
    page.get_by_role("button", name="Apply").click()


def test_the_cluster_is_shown_at_once(open_page: Open) -> None:
    page = open_page()

    expect(page.get_by_text("3 nodes", exact=True)).to_be_visible()
    expect(page.get_by_text("2 bound", exact=True)).to_be_visible()
    expect(page.get_by_role("application")).to_have_accessible_name(
        "Map of 3 nodes: arrow keys select a node, Enter opens it"
    )
    assert "#" not in page.url.replace("/#/", "")  # the token is gone from the address
    page.get_by_role("button", name="Table", exact=True).click()
    table = page.get_by_role("table", name="Nodes")
    expect(table.get_by_role("row")).to_have_count(4)
    expect(table.get_by_role("row", name="node-c")).to_contain_text("unschedulable")


def test_curves_follow_the_cluster_and_have_a_table(open_page: Open) -> None:
    page = open_page()
    allocated = page.get_by_role("img", name="Allocated: cpu, memory")
    expect(allocated.locator(".u-legend .u-label")).to_have_text(["time", "cpu", "memory"])
    apply(page, json.dumps(pod("another", cpu="900m")))
    expect(page.get_by_text("3 bound", exact=True)).to_be_visible()
    go(page, "Cluster")
    # The line of cpu has the colour of links, in both themes.
    assert page.evaluate(LINE_IS_DRAWN, [11, 79, 158])
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(LINE_IS_DRAWN, [142, 193, 255])
    page.set_viewport_size({"width": 500, "height": 800})
    expect(allocated.locator(".uplot")).to_have_css("width", "480px")  # the view without its edges
    page.get_by_role("button", name="Curves as a table").click()
    rows = page.get_by_role("table", name="Over the last 15 minutes").get_by_role("row")
    # 6 of 10 cores are requested at first, then 6.9; two pods are pending all the time.
    expect(rows.nth(1)).to_contain_text("69 %")
    expect(rows.last).to_contain_text("60 %")
    expect(rows.last.get_by_role("cell").last).to_have_text("2")


def test_a_pending_pod_is_found_explained_and_gets_room(open_page: Open) -> None:
    page = open_page()
    go(page, "Queue")
    page.get_by_role("link", name="default/late").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Pod default/late")
    expect(page.locator(".summary")).to_contain_text("0/3 nodes are feasible")
    expect(page.get_by_role("heading", name="It would fit with")).to_be_visible()
    nodes = page.get_by_role("table", name="Each node")
    headings = page.locator("main h1, main h2, main h3, main caption").all_inner_texts()
    assert [text.partition(":")[0].partition(",")[0] for text in headings] == [
        *("Pod default/late", "Why", "It would fit with", "Each node", "Attempts"),
    ]
    expect(nodes.get_by_role("row", name="node-c")).to_contain_text("rejected")

    nodes.get_by_role("link", name="node-a").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Node node-a")
    rejected = page.get_by_role("table", name="1 pending pod, by reason")
    row = rejected.get_by_role("row").filter(has_text="NodeResourcesFit: Insufficient cpu")
    expect(row.get_by_role("link", name="default/late")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Really delete").click()
    expect(page.get_by_role("status").filter(has_text="deleted")).to_be_visible()

    # The kubelet ends the pod at once, or after its grace period; then the room is free.
    pods = page.get_by_role("table", name="on this node")
    expect(pods.get_by_role("link", name="default/late")).to_be_visible(timeout=60_000)
    expect(page.get_by_text("No pod waits.")).to_be_visible()


def test_a_deployment_from_a_template_gets_its_pods(open_page: Open) -> None:
    page = open_page()
    go(page, "Objects")
    page.get_by_label("Template").select_option("Deployment")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("table", name="1 of 1 objects stored")).to_be_visible()

    go(page, "Pods")
    page.get_by_label("Name contains").fill("default/web-")
    page.get_by_label("State").select_option("bound")
    expect(page.get_by_role("link", name="default/web-")).to_have_count(5)  # with web-1 and web-2


def test_errors_of_a_text_are_shown_by_line(open_page: Open) -> None:
    page = open_page()
    apply(page, f"{json.dumps(pod('fine'))}\n---\n{json.dumps({**pod('bad'), 'kind': 'Pud'})}")

    table = page.get_by_role("table", name="1 of 2 objects stored")
    expect(table.get_by_role("row", name="Pud bad")).to_contain_text("does not serve Pud")
    expect(table.get_by_role("row", name="Pud bad")).to_contain_text("3")

    page.get_by_label("YAML or JSON").fill("a: [")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("table", name="0 of 1 objects stored")).to_contain_text("is not YAML")


def test_files_are_read_and_the_cluster_is_exported(open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(pod("from-a-file", cpu="100m")))
    page = open_page()
    go(page, "Objects")
    page.get_by_label("Files").set_input_files(file)
    expect(page.get_by_role("status").filter(has_text="1 file read")).to_be_visible()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("table", name="1 of 1 objects stored")).to_be_visible()

    with page.expect_download() as download:
        page.get_by_role("link", name="Export all objects").click()
    exported = json.loads(Path(download.value.path()).read_text())
    names = {item["metadata"]["name"] for item in exported["items"]}
    assert {"node-a", "web-1", "late", "from-a-file"} <= names


def test_a_snapshot_is_exported_removed_and_imported_again(open_page: Open, tmp_path: Path) -> None:
    page = open_page()
    go(page, "Objects")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export all objects").click()
    file = tmp_path / "cluster.json"
    download.value.save_as(file)

    expect(page.get_by_role("button", name="Replace all objects")).to_be_disabled()
    page.get_by_role("button", name="Remove all objects").click()
    page.get_by_role("button", name="Really remove all objects").click()
    expect(page.get_by_role("status").filter(has_text="objects removed")).to_be_visible()
    expect(page.get_by_text("0 nodes", exact=True)).to_be_visible()
    expect(page.get_by_text("0 pending", exact=False)).to_be_visible()

    apply(page, json.dumps(pod("other")))
    expect(page.get_by_text("1 pending", exact=False)).to_be_visible()
    page.get_by_label("Files").set_input_files(file)
    expect(page.get_by_role("status").filter(has_text="1 file read")).to_be_visible()
    page.get_by_role("button", name="Replace all objects").click()
    page.get_by_role("button", name="Really replace all objects").click()
    expect(page.get_by_role("table", name="7 of 7 objects stored")).to_be_visible()
    expect(page.get_by_text("3 nodes", exact=True)).to_be_visible()
    expect(page.get_by_text("2 bound", exact=True)).to_be_visible()
    expect(page.get_by_text("1 gated", exact=False)).to_be_visible()


def test_everything_is_reached_by_the_keyboard(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("application").focus()
    page.keyboard.press("End")
    expect(page.locator("#map-node")).to_contain_text("node-c")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#map-node")).to_contain_text("node-b")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Node node-b")
    expect(page.get_by_role("heading", level=1)).to_be_focused()

    page.get_by_role("button", name="Cordon").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Uncordon")).to_be_visible()


def test_decisions_flow_in_and_can_be_filtered(open_page: Open) -> None:
    page = open_page()
    go(page, "Decisions")
    apply(page, json.dumps(pod("tiny", cpu="1m")))
    go(page, "Decisions")
    page.get_by_label("Pod contains").fill("tiny")
    row = page.get_by_role("row", name="default/tiny")
    expect(row).to_contain_text("scheduled")
    page.get_by_label("Result").select_option("unschedulable")
    expect(row).to_have_count(0)


def test_an_attempt_shows_the_verdict_on_each_node(open_page: Open) -> None:
    page = open_page()
    apply(page, json.dumps(pod("tiny", cpu="1m")))
    go(page, "Decisions")
    row = page.get_by_role("row", name="default/tiny")
    row.get_by_role("link", name="the verdict on each node").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Attempt ")
    verdicts = page.get_by_role("table", name="3 nodes: the weighted score")
    rows = verdicts.get_by_role("row")
    expect(rows).to_have_count(4)
    expect(verdicts.get_by_role("row", name="node-c")).to_contain_text("NodeUnschedulable")
    verdicts.get_by_role("button", name="Total").click()
    expect(rows.nth(1)).to_contain_text("node-c")  # ascending: a node without a score is first

    # The weight of TaintToleration is 3.
    taints = verdicts.get_by_role("columnheader").filter(has_text="TaintToleration x 3")
    expect(taints).to_have_count(1)
    page.get_by_role("combobox", name="Scores").select_option("normalised")
    page.get_by_role("combobox", name="Plugin").select_option("TaintToleration")
    scored = page.get_by_role("table", name="2 nodes: the normalised score")
    expect(scored.get_by_role("row", name="node-a")).to_contain_text("100")
    page.get_by_role("combobox", name="Plugin").select_option("NodeUnschedulable")
    expect(page.get_by_role("table", name="1 node: ")).to_contain_text("node-c")
    page.get_by_role("combobox", name="Plugin").select_option("")
    page.get_by_label("Node or reason contains").fill("NODE-B")
    expect(page.get_by_role("table", name="1 node: ")).to_contain_text("node-b")


def test_a_reload_keeps_the_session_and_two_tabs_see_the_same(open_page: Open) -> None:
    first = open_page()
    first.reload()
    expect(first.get_by_text("2 bound", exact=True)).to_be_visible()
    second = open_page()
    apply(first, json.dumps(pod("tiny", cpu="1m")))
    for page in (first, second):
        expect(page.get_by_text("3 bound", exact=True)).to_be_visible()


def test_a_server_that_is_gone_is_told(open_page: Open, mooring: Started) -> None:
    page = open_page()
    mooring.process.send_signal(signal.SIGKILL)
    mooring.process.wait()

    expect(page.get_by_role("alert")).to_contain_text("Disconnected")
    page.close()  # it goes on to ask, and browsers log each request that fails
    open_page.problems.clear()  # type: ignore[attr-defined]


def test_a_server_that_is_back_is_followed_again(open_page: Open, mooring: Started) -> None:
    page = open_page()
    go(page, "Pods")
    mooring.process.send_signal(signal.SIGSTOP)
    expect(page.get_by_role("alert")).to_contain_text("Disconnected")
    mooring.process.send_signal(signal.SIGCONT)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_have_text("Pods")

    apply(page, json.dumps(pod("tiny", cpu="1m")))
    expect(page.get_by_text("3 bound", exact=True)).to_be_visible()


def test_without_the_token_nothing_is_shown(open_page: Open, mooring: Started) -> None:
    page = open_page.context.new_page()  # type: ignore[attr-defined]
    page.goto(f"{mooring.root}/")

    expect(page.get_by_role("alert")).to_contain_text("open the address that mooring printed")
    expect(page.get_by_role("main")).to_be_empty()


def test_an_answer_that_comes_before_the_first_paint_is_drawn(
    open_page: Open, mooring: Started
) -> None:
    page = open_page.context.new_page()  # type: ignore[attr-defined]
    page.add_init_script(
        """const setTimer = setTimeout;
        window.setTimeout = (call, ms, ...rest) => setTimer(call, Math.max(ms ?? 0, 1500), ...rest);
        window.requestAnimationFrame = (call) => setTimer(call, 1500);"""
    )
    page.goto(f"{mooring.root}/")

    expect(page.get_by_role("alert")).to_contain_text("open the address that mooring printed")


def test_a_configuration_is_edited_tried_out_and_applied(open_page: Open) -> None:
    page = open_page()
    go(page, "Configuration")
    text = page.get_by_label("YAML or JSON")
    written = text.input_value()
    assert "kind: KubeSchedulerConfiguration" in written

    text.fill(written.replace("parallelism: 16", "parallelism: 0"))
    page.get_by_role("button", name="Check").click()
    errors = page.get_by_role("table", name="1 error")
    line = written.splitlines().index("parallelism: 16") + 1
    expect(errors.get_by_role("row", name="parallelism")).to_contain_text("greater than zero")
    errors.get_by_role("button", name=f"Go to line {line}").click()
    selected = text.evaluate("area => area.value.slice(area.selectionStart, area.selectionEnd)")
    assert selected == "parallelism: 0"

    # The pod that fits nowhere is placed when neither cordons nor resources are regarded.
    text.fill(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {disabled: "
        "[{name: NodeUnschedulable}, {name: NodeResourcesFit}]}}}]"
    )
    page.get_by_role("button", name="What if").click()
    expect(page.locator(".summary")).to_contain_text("1 of 2 pods would have another node")
    row = page.get_by_role("table", name="Pods").get_by_role("row", name="default/late")
    expect(row).to_contain_text("yes")

    page.get_by_role("button", name="Apply").click()
    page.get_by_role("button", name="Really apply").click()
    expect(page.get_by_role("status").filter(has_text="applied")).to_be_visible()
    expect(page.get_by_text("3 bound", exact=True)).to_be_visible()
    go(page, "Cluster")
    expect(page.get_by_text("3 nodes", exact=True)).to_be_visible()

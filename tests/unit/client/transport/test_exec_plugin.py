"""Exec credential plugins: their input, and their errors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mooring.client.transport.exec_plugin import run_plugin
from mooring.client.transport.kubeconfig import ExecPlugin
from mooring.errors import Unreachable
from tests.helpers.credentials import PATH, V1, credential

NO_ZONE = credential(token="t", expirationTimestamp="2026-01-01T00:00:00")


def test_a_plugin_is_told_what_is_asked(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = f'printf %s "$KUBERNETES_EXEC_INFO" > {out}; printf %s "$ANSWER"'
    answer = {"ANSWER": json.dumps(credential(token="t"))}
    plugin = ExecPlugin("sh", ("-c", script), answer, V1, "", {"server": "https://a"})
    asyncio.run(run_plugin(plugin, environment={"PATH": PATH}))
    assert json.loads(out.read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://a"}},
    }


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'no login' >&2; echo SECRET; exit 3", "failed with exit code 3: no login"),
        ("exit 3", "sh failed with exit code 3"),
        ("echo SECRET", "printed no ExecCredential"),
        ("echo '{}'", "printed no ExecCredential"),
        (f"""echo '{json.dumps({**credential(token="t"), "apiVersion": "v9"})}'""", "not client."),
        (f"echo '{json.dumps(credential())}'", "neither a token nor a certificate"),
        (f"echo '{json.dumps(credential(clientCertificateData='x'))}'", "together with its key"),
        (f"echo '{json.dumps(NO_ZONE)}'", "without a time zone"),
    ],
)
def test_a_plugin_that_fails_says_why_and_shows_no_secret(script: str, problem: str) -> None:
    plugin = ExecPlugin("sh", ("-c", script), {}, V1, "", None)
    with pytest.raises(Unreachable) as failed:
        asyncio.run(run_plugin(plugin, environment={"PATH": PATH}))
    assert problem in str(failed.value)
    assert "SECRET" not in str(failed.value)


def test_what_a_plugin_starts_ends_with_it(tmp_path: Path) -> None:
    # The one in the background holds the pipes, and would for a quarter of an hour.
    script = f"sleep 1000 & echo $! > {tmp_path}/child; sleep 1000"
    plugin = ExecPlugin("sh", ("-c", script), {}, V1, "", None)

    def is_alive() -> bool:
        """Returns whether the process runs; a zombie does not."""
        status = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
        try:
            return status.read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    async def main() -> None:
        async with asyncio.timeout(20):
            with pytest.raises(Unreachable, match=r"did not end within 0\.5 s"):
                await run_plugin(plugin, environment={"PATH": PATH}, deadline_s=0.5)
            while is_alive():  # noqa: ASYNC110 - no event for its end
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_plugin_that_prints_without_end_fills_no_memory() -> None:
    script = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"
    plugin = ExecPlugin("sh", ("-c", script), {}, V1, "", None)
    with pytest.raises(Unreachable, match="printed more than 1048576 bytes"):
        asyncio.run(run_plugin(plugin, environment={"PATH": PATH}))
    failing = ExecPlugin("sh", ("-c", f"{script}; exit 1"), {}, V1, "", None)
    with pytest.raises(Unreachable) as failed:
        asyncio.run(run_plugin(failing, environment={"PATH": PATH}))
    assert len(str(failed.value)) < 1000


def test_a_plugin_that_cannot_be_started_says_why() -> None:
    plugin = ExecPlugin("sh", ("-c", "a\0b"), {}, V1, "", None)
    with pytest.raises(Unreachable, match="sh cannot be run: embedded null byte"):
        asyncio.run(run_plugin(plugin, environment={"PATH": PATH}))


def test_a_plugin_that_is_not_installed_says_how_to_get_it() -> None:
    plugin = ExecPlugin("no-such-program-here", (), {}, V1, "get it there", None)
    with pytest.raises(Unreachable, match=r"cannot be run: .*; get it there"):
        asyncio.run(run_plugin(plugin, environment={}))


def test_a_plugin_that_hangs_is_killed() -> None:
    plugin = ExecPlugin("sh", ("-c", "exec sleep 1000"), {}, V1, "", None)
    with pytest.raises(Unreachable, match="did not end within 0 s"):
        asyncio.run(run_plugin(plugin, environment={"PATH": PATH}, deadline_s=0.0))

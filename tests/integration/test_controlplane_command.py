"""``python -m mooring.testing.controlplane``, and the tool that makes its certificates."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.testing.controlplane import IDENTITIES, ControlPlaneFailed
from mooring.testing.controlplane.certificates import file_name, make_certificates

COMMAND = [sys.executable, "-m", "mooring.testing.controlplane"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_build_prints_the_folder_and_says_nothing_when_it_is_there(programs: Path) -> None:
    done = run("build")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{programs}\n", "")


def test_what_cannot_be_built_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("build", MOORING_CONTROLPLANE_CACHE=str(tmp_path / "file" / "below"))
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("the control plane cannot be built: ")


def test_an_unknown_command_is_a_usage_error() -> None:
    done = run("dance")
    assert done.returncode == 2
    assert "No such command 'dance'" in done.stderr


def test_run_says_how_to_reach_it_and_ends_when_asked(programs: Path) -> None:
    with subprocess.Popen([*COMMAND, "run"], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        lines = [running.stdout.readline() for _ in IDENTITIES]
        first = lines[0].removeprefix("export KUBECONFIG=").split()[0]

        said = subprocess.run(
            [programs / "kubectl", "get", "--raw", "/readyz"],
            env={"KUBECONFIG": first, "HOME": str(Path(first).parent)},
            capture_output=True,
            text=True,
        )
        running.send_signal(signal.SIGTERM)

        assert said.stdout == "ok"
        assert running.wait() == 0
    assert [line.split()[-1] for line in lines] == list(IDENTITIES)
    assert not Path(first).exists()


def test_certificates_are_signed_by_their_authority_and_no_other(
    programs: Path, tmp_path: Path
) -> None:
    make_certificates(programs / "plane-tool", tmp_path)

    for name in ("server", *map(file_name, IDENTITIES)):
        # Loading checks that certificate and key belong together.
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        context.load_cert_chain(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")
        assert [authority["subject"] for authority in context.get_ca_certs()] == [
            ((("commonName", "ca"),),)
        ]
    mixed = ssl.create_default_context()
    with pytest.raises(ssl.SSLError, match=r"KEY_VALUES_MISMATCH|key values mismatch"):
        mixed.load_cert_chain(tmp_path / "admin.crt", tmp_path / "nobody.key")


def test_two_control_planes_cannot_share_a_folder_of_keys(programs: Path, tmp_path: Path) -> None:
    make_certificates(programs / "plane-tool", tmp_path)
    with pytest.raises(ControlPlaneFailed, match=r"certificates: .*\.crt: file exists"):
        make_certificates(programs / "plane-tool", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "usage: plane-tool"),
        (["dance"], 2, "usage: plane-tool"),
        (["guard"], 1, "no command"),
        (["guard", "--", "/no/such/program"], 1, "no such file"),
        (["wait", "--ca=/no/such/file", "/"], 1, "no such file"),
    ],
)
def test_the_tool_says_what_is_wrong(
    programs: Path, arguments: list[str], code: int, words: str
) -> None:
    tool = str(programs / "plane-tool")
    done = subprocess.run([tool, *arguments], stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == code
    assert words in done.stderr.decode()


@pytest.mark.parametrize("request_text", ["", "nonsense", '{"folders": "typo"}'])
def test_the_tool_refuses_a_request_that_it_does_not_understand(
    programs: Path, request_text: str
) -> None:
    tool = str(programs / "plane-tool")
    done = subprocess.run([tool, "certificates"], input=request_text.encode(), capture_output=True)
    assert done.returncode == 1
    assert b"standard input" in done.stderr


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_a_guard_ends_as_what_it_guards(programs: Path, script: str, code: int) -> None:
    guard = [str(programs / "plane-tool"), "guard", f"--parent={os.getpid()}", "--", "sh", "-c"]
    with subprocess.Popen([*guard, script], stdin=subprocess.PIPE) as running:
        assert running.wait() == code

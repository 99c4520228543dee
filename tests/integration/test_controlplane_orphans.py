"""Nothing outlives its owner, however that ends; what is shared ends with its last user.

Most of it is shown with ``sleep`` in place of a server: the guard does not know the difference.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.testing.controlplane import ControlPlaneFailed
from mooring.testing.controlplane.certificates import Pair, make_certificates
from mooring.testing.controlplane.processes import Process, Readiness

LONG = ["sleep", "600"]
#: Far more than it takes, so that a busy machine does not fail.
GONE_MS_MAX = 20_000

#: A Python process that owns a program, says so, and waits to be killed.
OWNER = """
import os, sys
from pathlib import Path
from tests.integration.test_controlplane_orphans import process
owned = process(Path(sys.argv[1]), Path(sys.argv[2]), temporary_folder=Path(sys.argv[3]))
owned.launch()
while not (owned.folder / "sleeper.pid").exists():
    pass
if sys.argv[4] == "fork" and os.fork() == 0:
    # A child without a program of its own: it holds a copy of every pipe of its parent.
    os.close(1)
    sys.stdin.read()
    os._exit(0)
print(owned.pid, flush=True)
sys.stdin.read()
"""

USER = """
import sys
from pathlib import Path
from mooring.testing.controlplane import shared
with shared(Path(sys.argv[1])) as plane:
    pids = [(plane.folder / f"{name}.pid").read_text() for name in ("etcd", "kube-apiserver")]
    print(plane.folder, plane.url, *pids, flush=True)
    sys.stdin.read()
"""


def process(programs: Path, folder: Path, temporary_folder: Path | None = None) -> Process:
    """Returns a program that only sleeps, without a readiness check."""
    (folder / "logs").mkdir(exist_ok=True)
    return Process(
        "sleeper",
        LONG,
        tool=programs / "plane-tool",
        folder=folder,
        readiness=Readiness("", [], folder, Pair(folder, folder)),
        environment=os.environ,
        temporary_folder=temporary_folder,
    )


@contextmanager
def python(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a Python process; killed at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def said(child: subprocess.Popen[str]) -> list[str]:
    assert child.stdout is not None
    return child.stdout.readline().split()


class Gone:
    """Wakes when a process has ended. Made while it runs, so its number cannot be another's."""

    def __init__(self, pid: int) -> None:
        self._file = os.pidfd_open(pid)

    def wait(self) -> bool:
        poll = select.poll()
        poll.register(self._file, select.POLLIN)
        ended = bool(poll.poll(GONE_MS_MAX))
        os.close(self._file)
        return ended


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("copies", ["no", "fork"])
def test_a_program_dies_with_a_parent_that_is_killed_and_its_folder_goes(
    programs: Path, tmp_path: Path, copies: str
) -> None:
    temporary_folder = tmp_path / "temporary_folder"
    temporary_folder.mkdir()
    (temporary_folder / "data").write_text("much")
    with python(OWNER, str(programs), str(tmp_path), str(temporary_folder), copies) as owner:
        pid = int(said(owner)[0])
        program, guard = Gone(pid), Gone(parent_of(pid))

        owner.send_signal(signal.SIGKILL)

        assert program.wait()
        assert guard.wait()
        assert not temporary_folder.exists()


@pytest.fixture
def sleeper(programs: Path, tmp_path: Path) -> Iterator[Process]:
    """Yields a process that is not started; killed at the end."""
    sleeping = process(programs, tmp_path)
    yield sleeping
    sleeping.kill()


def test_a_program_dies_with_its_guard(sleeper: Process) -> None:
    launched(sleeper)
    program = Gone(sleeper.pid)
    os.kill(parent_of(sleeper.pid), signal.SIGKILL)
    assert program.wait()


def launched(sleeper: Process) -> None:
    """Starts it, until the guard has written down its number."""
    sleeper.launch()
    pid_file = sleeper.folder / "sleeper.pid"
    while not pid_file.exists():
        pass


def test_a_program_outlives_the_thread_that_started_it(sleeper: Process) -> None:
    thread = threading.Thread(target=launched, args=(sleeper,))
    thread.start()
    thread.join()
    # Twice the time in which the guard looks at its parent.
    gone = select.poll()
    file = os.pidfd_open(sleeper.pid)
    gone.register(file, select.POLLIN)
    assert not gone.poll(1_000)
    os.close(file)
    assert sleeper.is_running


def test_killing_is_harmless_when_repeated_and_before_a_start(sleeper: Process) -> None:
    sleeper.kill()
    launched(sleeper)
    program = Gone(sleeper.pid)
    sleeper.kill()
    assert program.wait()
    sleeper.kill()
    with pytest.raises(ControlPlaneFailed, match="sleeper: is not running"):
        _ = sleeper.pid
    with pytest.raises(ControlPlaneFailed, match="sleeper: is not running"):
        sleeper.pause()


def test_a_frozen_program_can_be_killed(sleeper: Process) -> None:
    launched(sleeper)
    sleeper.pause()
    sleeper.kill()
    assert not sleeper.is_running


def test_a_program_that_ended_by_itself_is_noticed(
    sleeper: Process, programs: Path, tmp_path: Path
) -> None:
    pki = tmp_path / "pki"
    pki.mkdir()
    make_certificates(programs / "plane-tool", pki)
    sleeper.readiness = Readiness(
        "https://127.0.0.1:1", ["/"], pki / "ca.crt", Pair.of(pki, "admin")
    )
    sleeper.command = ["sh", "-c", "echo first; echo last; exit 3"]
    sleeper.launch()
    with pytest.raises(ControlPlaneFailed) as raised:
        sleeper.wait_until_ready()
    assert "ended while starting (exit code 3); log: " in str(raised.value)
    assert raised.value.part == "sleeper"
    assert raised.value.log_tail == "first\nlast"


def test_a_long_log_is_cut_to_its_end(sleeper: Process) -> None:
    lines = [f"{number} " + "x" * 400 for number in range(1000)]
    sleeper.log.write_text("\n".join(lines))
    tail = sleeper.log_tail().splitlines()
    assert [line.split()[0] for line in tail] == [str(number) for number in range(985, 1000)]
    assert {len(line) for line in tail} == {300}


def test_users_share_one_control_plane_and_the_last_one_ends_it(
    programs: Path, tmp_path: Path
) -> None:
    with python(USER, str(tmp_path)) as one, python(USER, str(tmp_path)) as other:
        folder, url, *pids = said(one)
        assert said(other) == [folder, url, *pids]
        parts = [Gone(int(pid)) for pid in pids]
        keeper = Gone(parent_of(parent_of(int(pids[0]))))

        one.kill()
        one.wait()
        assert Path(folder).exists()
        with python(USER, str(tmp_path)) as third:
            assert said(third)[0] == folder
        other.communicate("")

        assert all(part.wait() for part in parts)
        assert keeper.wait()
        assert not Path(folder).exists()


def test_control_planes_that_start_at_once_do_not_meet_and_die_with_their_owner(
    programs: Path, tmp_path: Path
) -> None:
    with python(USER, str(tmp_path / "a")) as one, python(USER, str(tmp_path / "b")) as other:
        folder, url, *pids = said(one)
        assert said(other)[1] != url
        guards = [parent_of(int(pid)) for pid in pids]
        everything = [Gone(pid) for pid in (*guards, *map(int, pids))]

        # The keeper is the Python process that owns the control plane.
        os.kill(parent_of(guards[0]), signal.SIGKILL)

        assert all(process.wait() for process in everything)
        assert not Path(folder).exists()

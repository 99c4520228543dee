"""``mooring apiserver``: its data file, and what it says when it cannot start."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring import cli
from mooring.apiserver import ApiServer
from mooring.apiserver.persistence import LOST_VERSIONS_MAX, SnapshotFile
from mooring.cli.apiserver import _wait_until_stopped
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import ConfigError
from tests.helpers.full_disk import full_disk

MAPS = "/api/v1/namespaces/default/configmaps"


def make_api() -> ApiServer:
    return ApiServer(VirtualClock(), seeded_random(1))


def add(api: ApiServer, name: str) -> None:
    body = json.dumps({"metadata": {"name": name}}).encode()
    headers = {"content-type": "application/json"}
    assert asyncio.run(api.handle("POST", MAPS, [], headers, body))[0] == 201


def names(api: ApiServer) -> list[str]:
    _, _, body = asyncio.run(api.handle("GET", MAPS, [], {}, b""))
    assert isinstance(body, bytes)
    return [one["metadata"]["name"] for one in json.loads(body)["items"]]


def test_what_one_server_saved_another_one_has(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    first, second = make_api(), make_api()
    add(first, "kept")
    SnapshotFile(first, path).save()
    SnapshotFile(second, path).load()

    assert names(second) == ["kept"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_not_there_yet_is_no_error(tmp_path: Path) -> None:
    api = make_api()
    SnapshotFile(api, tmp_path / "none.json").load()

    assert names(api) == []


def test_nothing_is_written_unless_something_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    api = make_api()
    snapshot_file = SnapshotFile(api, path)
    snapshot_file.save()
    path.unlink()
    snapshot_file.save()
    assert not path.exists()
    add(api, "new")
    snapshot_file.save()

    assert path.exists()


def test_a_loaded_server_has_nothing_new_to_save(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    SnapshotFile(make_api(), path).save()
    snapshot_file = SnapshotFile(make_api(), path)
    snapshot_file.load()
    path.unlink()
    snapshot_file.save()

    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"not json", b'{"format": "other"}'])
def test_a_file_that_is_no_snapshot_is_named_and_left_alone(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(content)

    code = cli.main(["apiserver", "--port=0", f"--data={path}", f"--kubeconfig-out={tmp_path}/k"])

    assert code == 2
    assert capsys.readouterr().err.startswith(f"mooring apiserver: {path}: ")
    assert path.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["data.json"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [("", "'--data': must name a file, got ''"), ("/", "'--data': File '/' is a directory.")],
)
def test_a_data_file_must_have_the_name_of_a_file(
    name: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["apiserver", "--port=0", f"--data={name}"]) == 2
    assert problem in capsys.readouterr().err


def test_a_data_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "data.json"

    with pytest.raises(ConfigError, match=rf"{path}: No such file or directory"):
        SnapshotFile(make_api(), path).save()


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_a_port_is_a_number_that_there_is(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["apiserver", f"--port={port}"]) == 2
    assert "--port" in capsys.readouterr().err


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - the file has no event
        await asyncio.sleep(0)


def test_a_disk_that_is_full_for_a_while_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.cli.apiserver.SAVE_EVERY_S", 0.01)
    folder = tmp_path / "full"  # a folder that is not there refuses files as a full disk does
    api = make_api()
    add(api, "kept")
    snapshot_file = SnapshotFile(api, folder / "data.json")

    async def run() -> None:
        stopped = asyncio.Event()
        waiting = asyncio.create_task(_wait_until_stopped(stopped, snapshot_file))
        errors: list[str] = []

        def has_failed_twice() -> bool:
            errors.append(capsys.readouterr().err)
            return "".join(errors).count("cannot save") >= 2

        await until(has_failed_twice)
        problem = f"cannot save to {folder / 'data.json'}: No such file or directory"
        assert problem in "".join(errors)
        folder.mkdir()
        await until(lambda: snapshot_file.is_saved)
        stopped.set()
        await waiting

    asyncio.run(asyncio.wait_for(run(), 20))
    restored = make_api()
    SnapshotFile(restored, folder / "data.json").load()
    assert names(restored) == ["kept"]


def test_a_new_data_file_is_saved_before_clients_can_read_versions(tmp_path: Path) -> None:
    """The next start skips versions if there is a file, and the first run may crash."""
    path, missing = tmp_path / "data.json", tmp_path / "none" / "kubeconfig"

    code = cli.main(["apiserver", "--port=0", f"--data={path}", f"--kubeconfig-out={missing}"])

    assert code == 2  # as in a crash, nothing is saved at the end
    api = make_api()
    SnapshotFile(api, path).load()
    assert api.store.version > LOST_VERSIONS_MAX


def test_a_first_save_that_fails_is_retried_as_later_ones_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, missing = tmp_path / "data.json", tmp_path / "none" / "kubeconfig"

    with full_disk(after_bytes=10_000):
        cli.main(["apiserver", "--port=0", f"--data={path}", f"--kubeconfig-out={missing}"])

    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith(f"mooring apiserver: cannot save to {path}: File too large; ")
    assert errors[0].endswith("next try in 30 s")
    assert errors[1].startswith(f"mooring apiserver: {missing}: ")  # so it went on
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["data.json", "link", "folder/../data.json"])
def test_the_data_file_cannot_be_the_kubeconfig(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = tmp_path / "data.json"
    SnapshotFile(make_api(), path).save()
    before = path.read_bytes()
    (tmp_path / "link").symlink_to("data.json")
    (tmp_path / "folder").mkdir()
    kubeconfig = tmp_path / name

    code = cli.main(["apiserver", "--port=0", f"--data={path}", f"--kubeconfig-out={kubeconfig}"])

    assert code == 2
    problem = "the data file cannot be the kubeconfig as well"
    advice = "another file can be chosen with --kubeconfig-out"
    assert capsys.readouterr().err == f"mooring apiserver: {path}: {problem}; {advice}\n"
    assert path.read_bytes() == before


def test_the_data_file_cannot_be_the_default_kubeconfig(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "mooring").mkdir()

    code = cli.main(["apiserver", "--port=0", f"--data={tmp_path}/mooring/apiserver.kubeconfig"])

    assert code == 2
    assert "the data file cannot be the kubeconfig as well" in capsys.readouterr().err


def test_a_gate_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["apiserver", "--feature-gates=DRADeviceTaintRule=true"]) == 2
    assert "unrecognized feature gate: DRADeviceTaintRule" in capsys.readouterr().err


def test_gates_of_the_scheduler_alone_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none" / "kubeconfig"
    gates = "--feature-gates=DRADeviceTaintRules=true,DRADeviceTaints=true,DRAPrioritizedList=false"

    assert cli.main(["apiserver", "--port=0", gates, f"--kubeconfig-out={missing}"]) == 2

    note = capsys.readouterr().err.splitlines()[0]
    assert note == (
        "mooring apiserver: note: feature gates without effect on the API server: "
        "DRAPrioritizedList"
    )

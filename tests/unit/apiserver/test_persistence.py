from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.apiserver.persistence import SnapshotFile, new_private_file
from mooring.apiserver.server import ApiServer
from mooring.apiserver.storage.store import SLICE_OBJECTS, SnapshotError
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import ConfigError
from tests.helpers.api import CONFIG_MAPS, Api, config_map


def api_with(count: int) -> Api:
    api = Api()
    for number in range(count):
        api.post(CONFIG_MAPS, config_map(f"m{number:05}", data={"a": "1"}))
    return api


def loaded(path: Path) -> ApiServer:
    other = ApiServer(VirtualClock(), seeded_random(1))
    SnapshotFile(other, path).load()
    return other


def test_slices_make_the_whole() -> None:
    api = api_with(SLICE_OBJECTS + 2)
    slices = list(api.server.store.snapshot_slices())
    assert len(slices) > 5
    assert b"".join(slices) == api.server.snapshot()
    other = ApiServer(VirtualClock(), seeded_random(1))
    other.load(b"".join(slices))
    assert other.snapshot() == api.server.snapshot()


def test_what_is_written_meanwhile_is_not_in_the_file(tmp_path: Path) -> None:
    api = api_with(SLICE_OBJECTS * 2)
    before = api.server.snapshot()
    snapshot_file = SnapshotFile(api.server, tmp_path / "data.json")

    async def run() -> int:
        turns = 0
        async with asyncio.TaskGroup() as group:
            saving = group.create_task(snapshot_file.save_async())
            await asyncio.sleep(0)  # it has begun
            while not saving.done():
                turns += 1
                answer = api.server.handle("DELETE", f"{CONFIG_MAPS}/m{turns:05}", [], {}, b"")
                assert (await answer)[0] == 200
                await asyncio.sleep(0)
        return turns

    assert asyncio.run(run()) > 3
    other = ApiServer(VirtualClock(), seeded_random(1))
    other.load((tmp_path / "data.json").read_bytes())
    assert other.snapshot() == before
    assert snapshot_file.is_saved is False
    snapshot_file.save()
    other.load((tmp_path / "data.json").read_bytes())
    assert other.snapshot() == api.server.snapshot()


def test_nothing_is_written_if_nothing_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    snapshot_file = SnapshotFile(api_with(1).server, path)
    snapshot_file.save()
    path.unlink()
    snapshot_file.save()
    asyncio.run(snapshot_file.save_async())
    assert not path.exists()


def test_a_save_that_is_cancelled_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(b"old")
    snapshot_file = SnapshotFile(api_with(3).server, path)

    async def run() -> None:
        async with asyncio.timeout(0):
            await snapshot_file.save_async()

    with pytest.raises(TimeoutError):
        asyncio.run(run())
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["data.json"]
    assert not snapshot_file.is_saved


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    snapshot_file = SnapshotFile(api_with(1).server, tmp_path / "none" / "data.json")
    with pytest.raises(ConfigError, match="No such file"):
        snapshot_file.save()


def test_a_missing_folder_is_reported_before_anything_could_be_lost(tmp_path: Path) -> None:
    path = tmp_path / "none" / "data.json"
    with pytest.raises(ConfigError, match=r"data\.json: cannot be written: its folder does not"):
        SnapshotFile(api_with(1).server, path).load()


def test_json_without_a_format_is_no_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text("{}")
    with pytest.raises(ConfigError, match="not a snapshot of an API server: no 'format'"):
        loaded(path)


def test_a_private_file_is_private_from_the_first_moment(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    with new_private_file(path) as file:
        (partial,) = tmp_path.iterdir()
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
        file.write(b"x")
        assert not path.exists()
    assert path.read_bytes() == b"x"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_versions_that_a_crash_has_lost_are_never_given_out_again(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    api = api_with(3)
    SnapshotFile(api.server, path).save()
    api.post(CONFIG_MAPS, config_map("lost", data={"a": "1"}))
    lost_version = api.server.store.version

    first = loaded(path)
    assert first.store.version > lost_version
    # It crashes too, and has saved nothing more.
    second = loaded(path)
    assert second.store.version > first.store.version
    assert asyncio.run(watched(second, lost_version)) == 410


async def watched(server: ApiServer, version: int) -> int:
    """Returns the code with which a watch from an old version is answered, or ended."""
    query = [("watch", "1"), ("resourceVersion", str(version))]
    status, _, body = await server.handle("GET", CONFIG_MAPS, query, {}, b"")
    if isinstance(body, bytes):
        return int(status)
    line = json.loads(await anext(aiter(body)))
    return int(line["object"]["code"])


def test_a_path_that_is_not_a_regular_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(OSError, match="Not a regular file") as caught, new_private_file(pipe):
        pass

    assert caught.value.filename == str(pipe)
    assert pipe.is_fifo()


def test_an_error_names_the_file_and_not_its_temporary_name(tmp_path: Path) -> None:
    path = tmp_path / "none" / "state.json"

    with pytest.raises(FileNotFoundError) as caught, new_private_file(path):
        pass

    assert caught.value.filename == str(path)


# ---------------------------------------------------------------- damaged and unwritable files


def test_a_changed_byte_is_reported_and_nothing_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    SnapshotFile(api_with(3).server, path).save()
    saved = path.read_bytes()
    path.write_bytes(saved.replace(b"m00001", b"m00009"))

    with pytest.raises(ConfigError, match=r"data\.json.*checksum is wrong"):
        loaded(path)


def test_a_snapshot_without_its_end_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    SnapshotFile(api_with(3).server, path).save()
    document = json.loads(path.read_bytes())
    del document["sha256"]
    path.write_text(json.dumps(document))

    with pytest.raises(ConfigError, match="checksum is missing"):
        loaded(path)


def test_a_snapshot_of_an_earlier_release_has_no_checksum(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    SnapshotFile(api_with(3).server, path).save()
    document = json.loads(path.read_bytes())
    del document["sha256"]
    path.write_text(json.dumps({**document, "format": "mooring-apiserver-1"}))

    assert loaded(path).store.statistics()["configmaps"] == 3


def test_a_file_of_brackets_is_no_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(b"[" * 100_000)

    with pytest.raises(ConfigError, match="not a snapshot"):
        loaded(path)


def test_a_link_at_the_temporary_name_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".secret.{os.getpid()}.new").symlink_to(victim)

    with new_private_file(tmp_path / "secret") as file:
        file.write(b"x")

    assert victim.read_text() == "precious"
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_what_a_killed_process_left_behind_is_removed_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    SnapshotFile(api_with(1).server, path).save()
    (tmp_path / ".data.json.4711-12.new").write_text("half")
    others = [".data.json.abc.new", ".other.json.4711-0.new"]
    for name in others:
        (tmp_path / name).write_text("not ours")

    loaded(path)

    assert sorted(each.name for each in tmp_path.iterdir()) == [*others, "data.json"]


def test_a_start_leaves_the_running_save_of_a_file_with_a_longer_name(tmp_path: Path) -> None:
    longer = tmp_path / "data.json"
    with new_private_file(longer) as file:
        loaded(tmp_path / "data")
        file.write(b"saved")

    assert longer.read_bytes() == b"saved"


def test_what_a_killed_process_left_behind_is_beside_the_file_that_a_link_leads_to(
    tmp_path: Path,
) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link.json"
    folder.mkdir()
    link.symlink_to(folder / "data.json")
    SnapshotFile(api_with(1).server, link).save()
    (folder / ".data.json.4711-0.new").write_text("half")
    (tmp_path / ".link.json.4711-0.new").write_text("not ours")

    loaded(link)

    assert [file.name for file in folder.iterdir()] == ["data.json"]
    assert sorted(file.name for file in tmp_path.iterdir() if file != folder) == [
        ".link.json.4711-0.new",
        "link.json",
    ]
    assert link.is_symlink()


def test_objects_that_cannot_be_served_are_reported_and_nothing_is_loaded() -> None:
    """What fuzzing found: each was a traceback."""
    namespace = {"name": "default", "resourceVersion": "1", "uid": "u"}
    terminating = {**namespace, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    definition = {
        "metadata": {"name": "things.example.com", "resourceVersion": "2", "uid": "d"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": []},
        "status": {"conditions": []},
    }
    for objects, problem in (
        (
            {"namespaces": [{"metadata": terminating, "status": {"phase": "Terminating"}}]},
            "its objects cannot be served: services .* is being terminated",
        ),
        (
            {"customresourcedefinitions.apiextensions.k8s.io": [definition]},
            "its objects cannot be served: KeyError",
        ),
    ):
        server = ApiServer(VirtualClock(), seeded_random(0))
        before = server.snapshot()
        data = {"format": "mooring-apiserver-1", "version": 9, "objects": objects}
        with pytest.raises(SnapshotError, match=problem):
            server.load(json.dumps(data).encode())
        assert server.snapshot() == before


def test_objects_that_are_there_twice_or_later_than_the_last_version_are_no_snapshot() -> None:
    def obj(name: str, version: str) -> dict[str, object]:
        return {"metadata": {"name": name, "resourceVersion": version, "uid": name}}

    for nodes, problem in (
        ([obj("n", "1"), obj("n", "2")], "nodes n twice"),
        ([obj("n", "10")], "nodes n has version 10, of 9"),
    ):
        data = {"format": "mooring-apiserver-1", "version": 9, "objects": {"nodes": nodes}}
        with pytest.raises(SnapshotError, match=f"not a snapshot of an API server: {problem}"):
            ApiServer(VirtualClock(), seeded_random(0)).load(json.dumps(data).encode())


def test_a_file_has_one_server(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    link = tmp_path / "link.json"
    link.symlink_to(path)
    first, second = (SnapshotFile(api_with(0).server, it) for it in (path, link))
    refused = pytest.raises(ConfigError, match=r"link\.json: another process uses this file")
    with first.locked(), refused, second.locked():
        raise AssertionError
    with second.locked():
        assert [it.name for it in tmp_path.iterdir() if it.suffix == ".lock"] == [".data.json.lock"]
    assert [it.name for it in tmp_path.iterdir()] == ["link.json"]


def test_a_lock_that_is_left_behind_does_not_count(tmp_path: Path) -> None:
    (tmp_path / ".data.json.lock").touch()
    with SnapshotFile(api_with(0).server, tmp_path / "data.json").locked():
        pass


def test_a_file_in_a_missing_folder_is_not_locked(tmp_path: Path) -> None:
    snapshot_file = SnapshotFile(api_with(0).server, tmp_path / "none" / "data.json")
    refused = pytest.raises(ConfigError, match="cannot be written: its folder does not exist")
    with refused, snapshot_file.locked():
        raise AssertionError


# ---------------------------------------------------------------- paths that are no regular file


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "data")
    return folder / "data"


def loop(folder: Path) -> Path:
    (folder / "data").symlink_to("data")
    return folder / "data"


def below_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "data"


def in_a_deleted_working_directory(folder: Path) -> Path:
    (folder / "deleted").mkdir()
    os.chdir(folder / "deleted")
    (folder / "deleted").rmdir()
    return Path("data")


@pytest.mark.parametrize(
    ("path_in", "problem"),
    [
        (fifo, "not a regular file"),
        (lambda _: Path("/dev/zero"), "not a regular file"),
        (lambda folder: folder, "not a regular file"),
        (loop, "cannot be read: too many levels of symbolic links"),
        (below_a_file, "cannot be read: not a directory"),
        (in_a_deleted_working_directory, "cannot be written: its folder does not exist"),
    ],
)
def test_what_cannot_be_a_data_file_is_refused_before_it_is_read_or_locked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path_in: Callable[[Path], Path],
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)  # it is the working directory again afterwards
    path = path_in(tmp_path)

    with pytest.raises(ConfigError) as caught:
        SnapshotFile(api_with(0).server, path)

    assert str(caught.value) == f"{path}: {problem}"
    assert not [file for file in tmp_path.iterdir() if file.suffix == ".lock"]

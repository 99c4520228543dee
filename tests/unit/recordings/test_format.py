"""Recordings are read as they were written, and what is none is refused with file and place."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.decision import Decision
from mooring.errors import ConfigError
from mooring.recordings import format as module
from mooring.recordings.format import (
    FORMAT,
    Effects,
    Recording,
    RecordingReader,
    RecordingWriter,
    Step,
    object_key,
    read_recording,
    write_recording,
)
from tests.helpers.full_disk import full_disk
from tests.helpers.paths import PARITY_DATA

DATA = PARITY_DATA


def step(name: str, node: str | None = "n1") -> Step:
    tied = () if node is None else (node,)
    result = "unschedulable" if node is None else "scheduled"
    decision = Decision(result, node, tied, {}, (), ())
    pod = {"kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
    return Step(pod, 1, 0, decision, Effects(nominated={"default/b": "n1"}))


def recording(*steps: Step) -> Recording:
    node = {"kind": "Node", "metadata": {"name": "n1"}}
    return Recording(FORMAT, "mine-1", "mine", 1, "mooring", None, ("n1",), (node,), steps)


def document(**changes: Any) -> dict[str, Any]:
    fields = {"name": "x", "family": "x", "seed": 1, "upstream": "", "config": None}
    lists: dict[str, Any] = {"node_order": [], "objects": [], "steps": []}
    return {"format": FORMAT, **fields, **lists, **changes}


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_what_is_written_is_read_back(tmp_path: Path, name: str) -> None:
    before = recording(step("a"), step("b", None))
    write_recording(tmp_path / name, before)
    assert read_recording(tmp_path / name) == before
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("family", ["resources", "dra", "preemption", "volumes", "profiles"])
def test_a_recording_of_kube_scheduler_loses_nothing_on_the_way(
    tmp_path: Path, family: str
) -> None:
    source = DATA / f"{family}-1.json.gz"
    write_recording(tmp_path / "copy.json", read_recording(source))
    copied = json.loads((tmp_path / "copy.json").read_bytes())
    assert copied == json.loads(gzip.decompress(source.read_bytes()))


def test_equal_recordings_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        write_recording(tmp_path / name, recording(step("a")))
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_steps_are_read_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    write_recording(path, recording(step("a"), step("b")))
    with RecordingReader(path) as reader:
        assert reader.header.steps == ()
        assert reader.header.node_order == ("n1",)
        steps = iter(reader)
        assert next(steps).pod_key == "default/a"
        assert next(steps).pod_key == "default/b"
        assert list(steps) == []


def test_a_file_that_was_cut_off_gives_its_whole_steps_first(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_recording(path, recording(step("a"), step("b")))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    with RecordingReader(path) as reader:
        steps = iter(reader)
        assert next(steps).pod_key == "default/a"
        with pytest.raises(ConfigError, match="ends in the middle"):
            next(steps)


@pytest.mark.parametrize("more", [b"{}", b"x\n", b'\n\n{"format": "a"}'])
def test_what_stands_after_a_recording_is_an_error(tmp_path: Path, more: bytes) -> None:
    path = tmp_path / "a.json"
    write_recording(path, recording(step("a")))
    path.write_bytes(path.read_bytes().rstrip() + b"\n" + more)
    with pytest.raises(ConfigError, match="has more after the recording"):
        read_recording(path)
    path.write_bytes(path.read_bytes().removesuffix(more) + b"\n \n")
    assert len(read_recording(path).steps) == 1


def test_a_checksum_that_is_wrong_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    write_recording(path, recording(step("a")))
    content = bytearray(path.read_bytes())
    content[-8] ^= 1
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="cannot be read: CRC check failed"):
        read_recording(path)


def test_a_run_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def run() -> None:
        with RecordingWriter(tmp_path / "a.json", recording()) as writer:
            writer.add(step("a"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        run()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["r.json", "r.json.gz"])
def test_a_full_disk_names_the_recording_and_leaves_no_file(tmp_path: Path, name: str) -> None:
    with full_disk(after_bytes=100), pytest.raises(ConfigError) as caught:
        write_recording(tmp_path / name, recording(*map(step, map(str, range(99)))))
    assert str(caught.value) == f"{tmp_path / name}: cannot be written: File too large"
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_keeps_the_file_of_the_run_before(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_recording(path, recording(step("a")))
    writer = RecordingWriter(path, recording())
    writer.__exit__(RuntimeError, RuntimeError(), None)
    assert len(read_recording(path).steps) == 1


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"format": "recording/2"}, "format"),
        ({"seed": "one"}, "seed"),
        ({"objects": {}}, "objects"),
        ({"steps": [{}]}, "steps[0]"),
        ({"extra": 1}, None),
    ],
)
def test_what_is_no_recording_is_refused_with_file_and_path(
    tmp_path: Path, changes: dict[str, Any], path: str | None
) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps(document(**changes)))
    with pytest.raises(ConfigError) as caught:
        read_recording(file)
    assert caught.value.file == str(file)
    assert caught.value.path == path


def test_a_decision_that_contradicts_itself_is_refused_with_its_step(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    bad = Step({}, 1, 0, Decision("scheduled", None, (), {}, (), ()))
    for write in (
        lambda: write_recording(file, recording(step("a"), bad)),
        lambda: file.write_text(
            json.dumps(json.loads((tmp_path / "a.json").read_bytes()), indent=1)
        ),
    ):
        write()
        with pytest.raises(ConfigError) as caught:
            read_recording(file)
        assert caught.value.path == "steps[1].decision.node"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x1f\x8b",
        b"\x1f\x8bnot really",
        gzip.compress(b"{}", mtime=0)[:-6],  # the time of now would be part of the test's name
        b"nonsense",
        b"[]",
        b"3",
    ],
)
def test_bytes_that_are_no_recording_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.json.gz"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_recording(file)
    assert caught.value.file == str(file)


@pytest.mark.parametrize("content", ["apiVersion: v1\n", "{}", "[" * 100_000])
def test_another_file_is_not_called_a_damaged_recording(tmp_path: Path, content: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"a\.yaml: is not a recording: "):
        read_recording(file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_recording(tmp_path / "a.json")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_recording(tmp_path / "no" / "a.json", recording())


def test_a_gzip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RATIO_FREE_BYTES", 1000)
    file = tmp_path / "a.json.gz"
    file.write_bytes(gzip.compress(json.dumps(document(name="x" * 1_000_000)).encode()))
    with pytest.raises(ConfigError, match=r"larger than .* when unpacked"):
        read_recording(file)


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 100)
    file = tmp_path / "a.json"
    file.write_text(json.dumps(document(name="x" * 200)))
    with pytest.raises(ConfigError, match="a line is longer than 100 bytes"):
        read_recording(file)


def test_a_file_beyond_all_measure_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.json"
    write_recording(file, recording(*[step("a")] * 20))
    monkeypatch.setattr(module, "MAX_TEXT_BYTES", 1500)
    with pytest.raises(ConfigError, match="larger than 1500 bytes"):
        read_recording(file)


def test_a_key_is_the_name_with_its_namespace() -> None:
    assert object_key({"metadata": {"name": "a", "namespace": "b"}}) == "b/a"
    assert object_key({"metadata": {"name": "a"}}) == "a"
    assert object_key({}) == ""


def test_a_recording_that_is_written_to_a_pipe_does_not_replace_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    write_recording(pipe, recording(step("a")))

    assert pipe.is_fifo()
    with os.fdopen(reader, "rb") as file:
        (tmp_path / "read.json").write_bytes(file.read())
    assert len(read_recording(tmp_path / "read.json").steps) == 1


def test_the_error_of_a_run_is_not_replaced_by_that_of_a_full_disk(tmp_path: Path) -> None:
    def run() -> None:
        with RecordingWriter(tmp_path / "a.json.gz", recording()) as writer:
            writer.add(step("a"))
            raise RuntimeError

    with full_disk(after_bytes=0), pytest.raises(RuntimeError):
        run()
    assert list(tmp_path.iterdir()) == []


def test_a_value_of_a_wrong_type_is_named_in_plain_words(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text('{"format": 3}')

    with pytest.raises(ConfigError, match=r"r\.json: is not a recording: format: must be a string"):
        read_recording(file)


def test_an_object_of_a_step_without_a_mapping_of_metadata_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    good, bad = step("a"), {"kind": "Pod", "metadata": ["a"]}
    updated = msgspec.structs.replace(good, effects=Effects(updated=({"kind": "Node"}, bad)))
    for damaged, path in [
        (msgspec.structs.replace(good, pod=bad), "steps[1].pod.metadata"),
        (updated, "steps[1].effects.updated[1].metadata"),
    ]:
        text = msgspec.json.encode(recording(good, damaged))
        file.write_bytes(text)
        with pytest.raises(ConfigError, match="must be a mapping, got ") as caught:
            read_recording(file)
        assert (caught.value.file, caught.value.path) == (str(file), path)

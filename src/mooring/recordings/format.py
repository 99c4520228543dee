"""Recordings: a cluster, a configuration, and the decisions about its pods, in order.

Reads and writes the format ``recording/1`` (``tests/parity/data/README.md`` describes the fields).
kube-scheduler's recordings are one line of JSON. Ours can be a thousand times larger (8 000 pods
on 1 000 nodes: about 2 GiB of scores), so ``RecordingWriter`` writes one step per line
and ``RecordingReader`` reads such a file step by step; both readers read both forms.

Pods and objects stay dicts, as on the wire. The replay converts them to structs.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, cast

import msgspec

from mooring.decision import Decision, bad_json, check_decision
from mooring.errors import ConfigError
from mooring.files import replaced_file

FORMAT: Final = "recording/1"

#: Size limit of a file that is read whole; kube-scheduler's recordings are <= 4 MiB.
MAX_WHOLE_BYTES: Final = 512 << 20
#: Size limit of a file that is read step by step: 8 000 pods on 1 200 nodes need 2 GiB.
MAX_TEXT_BYTES: Final = 8 << 30
#: Size limit of a line (the header or a step); 15 000 nodes with twenty plugins need 20 MiB.
MAX_LINE_BYTES: Final = 256 << 20
#: Limit of the compression ratio. A gzip bomb has 1000:1, a recording 20:1; small files are exempt.
MAX_RATIO: Final = 200
RATIO_FREE_BYTES: Final = 64 << 20

_GZIP_MAGIC: Final = b"\x1f\x8b"
_STEPS_OPEN: Final = b'"steps":[\n'
#: Level 6 takes four times as long and saves a fifth.
_GZIP_LEVEL: Final = 3

Document = dict[str, Any]


class Effects(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Changes to the cluster in addition to the decision.

    ``deleted`` holds "resource namespace/name", ``updated`` complete objects; ``nominated`` maps
    "namespace/name" of a pod to its ``status.nominatedNodeName`` ("" = none).
    """

    start_time: str | None = None
    deleted: tuple[str, ...] = ()
    updated: tuple[Document, ...] = ()
    nominated: dict[str, str] = {}
    extended_resource_claim_status: Document | None = None


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An attempt to schedule a pod: the scheduler's input, its decision, and the effects."""

    pod: Document
    attempt: int
    start_index: int
    decision: Decision
    effects: Effects | None = None

    @property
    def pod_key(self) -> str:
        """``namespace/name`` of the pod."""
        return object_key(self.pod)


class Recording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A complete recording; ``node_order`` is the scheduler's order of the nodes."""

    format: str
    name: str
    family: str
    seed: int
    upstream: str
    config: Document | None
    node_order: tuple[str, ...]
    objects: tuple[Document, ...]
    steps: tuple[Step, ...]


class RecordingReader:
    """Reader of a recording, step by step: only the cluster and one step are in memory.

    ``header`` is the recording without its steps. Iterate once; an invalid step raises when it is
    reached.

    Example:
        >>> from pathlib import Path
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.json"
        >>> write_recording(path, Recording(FORMAT, "a", "mine", 1, "", None, (), (), ()))
        >>> with RecordingReader(path) as reader:
        ...     reader.header.name, list(reader)
        ('a', [])
    """

    def __init__(self, path: str | Path) -> None:
        """Opens the file and reads everything up to the first step.

        Raises:
            ConfigError: the file cannot be read, is no recording, or exceeds a limit.
        """
        self.file = str(path)
        self._all_steps: tuple[Step, ...] | None = None
        self._read_bytes = 0
        self._stream, self._is_compressed = _open_binary(self.file)
        try:
            self.header = self._read_header()
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> RecordingReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()

    def __iter__(self) -> Iterator[Step]:
        """Yields the steps, in order.

        Raises:
            ConfigError: a step is invalid, or the file is truncated.
        """
        if self._all_steps is not None:
            yield from self._all_steps
            return
        index = 0
        while (line := self._line()).strip() != b"]}":
            if not line:
                raise ConfigError("ends in the middle of the recording", file=self.file)
            yield self._step(line, index)
            index += 1
        # The end of a compressed file has its checksum.
        while line := self._line():
            if line.strip():
                raise ConfigError("has more after the recording", file=self.file)

    def _read_header(self) -> Recording:
        first = self._line()
        if first.endswith(_STEPS_OPEN):
            return self._decode(first + b"]}")
        recording = self._decode(first + self._read_rest(len(first)))
        for index, step in enumerate(recording.steps):
            _check_step(step, file=self.file, path=f"steps[{index}]")
        self._all_steps = recording.steps
        return msgspec.structs.replace(recording, steps=())

    def _decode(self, text: bytes) -> Recording:
        try:
            format_name = self._format(text)
            if format_name != FORMAT:
                raise ConfigError(
                    f"must be {FORMAT}", file=self.file, path="format", value=format_name
                )
            return msgspec.json.decode(text, type=Recording)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_json(error, file=self.file) from error

    def _format(self, text: bytes) -> str:
        """Returns the format that the file says it has; a file without is something else."""
        try:
            return msgspec.json.decode(text, type=_Format).format
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problem = bad_json(error, file=None)
            raise ConfigError(f"is not a recording: {problem}", file=self.file) from error

    def _step(self, line: bytes, index: int) -> Step:
        path = f"steps[{index}]"
        try:
            step = msgspec.json.decode(line.rstrip(b",\n"), type=Step)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_json(error, file=self.file, path=path) from error
        _check_step(step, file=self.file, path=path)
        return step

    def _line(self) -> bytes:
        line = self._read(self._stream.readline, MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            raise ConfigError(f"a line is longer than {MAX_LINE_BYTES} bytes", file=self.file)
        self._read_bytes += len(line)
        if self._read_bytes > MAX_TEXT_BYTES:
            raise ConfigError(f"is larger than {MAX_TEXT_BYTES} bytes", file=self.file)
        return line

    def _read_rest(self, already_bytes: int) -> bytes:
        """Reads the rest of a file that ``RecordingWriter`` did not write."""
        limit = MAX_WHOLE_BYTES
        if self._is_compressed:
            compressed_bytes = os.path.getsize(self.file)
            limit = min(limit, max(RATIO_FREE_BYTES, compressed_bytes * MAX_RATIO))
        text = self._read(self._stream.read, max(limit - already_bytes, 0) + 1)
        if already_bytes + len(text) > limit:
            raise ConfigError(f"is larger than {limit} bytes when unpacked", file=self.file)
        return text

    def _read(self, read: Any, size: int) -> bytes:
        try:
            return bytes(read(size))
        except (OSError, EOFError, zlib.error) as error:
            raise ConfigError(f"cannot be read: {error}", file=self.file) from error


class RecordingWriter:
    """Writes a recording step by step; the file gets its final name when it is complete.

    A file named ``.gz`` is compressed. Equal recordings give equal bytes.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.json.gz"
        >>> with RecordingWriter(path, Recording(FORMAT, "a", "", 1, "", None, (), (), ())):
        ...     pass
        >>> read_recording(path).name
        'a'
    """

    def __init__(self, path: str | Path, header: Recording) -> None:
        """Creates a temporary file beside the final one.

        The header is written with the first step: until then ``change_objects`` changes it.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._path = str(path)
        self._encoder = msgspec.json.Encoder()
        self._separator = b""
        self._compressor: gzip.GzipFile | None = None
        self._files = ExitStack()
        try:
            self._file = self._files.enter_context(replaced_file(path))
        except OSError as error:
            raise self._unwritten(error) from error
        if self._path.endswith(".gz"):
            self._compressor = gzip.GzipFile("", "wb", _GZIP_LEVEL, self._file, mtime=0)
        self._files.push(self._complete)
        #: None = it is written.
        self._header: Recording | None = header

    def __enter__(self) -> RecordingWriter:
        return self

    def change_objects(
        self, updated: Iterable[Document], deleted: Collection[tuple[str, str]]
    ) -> None:
        """Changes the objects of the header: what happened before the first step.

        Args:
            updated: Objects that are new, or replace those of their kind and name.
            deleted: Kind and ``object_key`` of objects that do not exist any more.
        """
        assert self._header is not None, "the header is written"
        objects = {
            (str(document.get("kind")), object_key(document)): document
            for document in (*self._header.objects, *updated)
        }
        remaining = tuple(objects[name] for name in objects if name not in deleted)
        self._header = msgspec.structs.replace(self._header, objects=remaining)

    def add(self, step: Step) -> None:
        """Appends one step."""
        self._write_header()
        self._write(self._separator + self._encoder.encode(step))
        self._separator = b",\n"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Completes the file and renames it, or removes it if the run failed."""
        try:
            self._files.__exit__(kind, error, trace)
        except OSError as problem:  # the disk is full
            raise self._unwritten(problem) from problem

    def _complete(self, kind: type[BaseException] | None, *_: object) -> None:
        # The error that ended the run is more important than a full disk after it.
        ignored = nullcontext() if kind is None else suppress(OSError)
        try:
            if kind is None:
                self._write_header()
                self._write((b"\n" if self._separator else b"") + b"]}\n")
        finally:
            if self._compressor is not None:
                with ignored:
                    self._compressor.close()

    def _unwritten(self, error: OSError) -> ConfigError:
        return ConfigError(f"cannot be written: {error.strerror}", file=self._path)

    def _write_header(self) -> None:
        header, self._header = self._header, None
        if header is not None:
            text = self._encoder.encode(msgspec.structs.replace(header, steps=()))
            self._write(text.removesuffix(b"]}") + b"\n")

    def _write(self, data: bytes) -> None:
        try:
            (self._compressor or self._file).write(data)
        except OSError as error:  # the disk is full
            raise self._unwritten(error) from error


class _Format(msgspec.Struct):
    format: str


def read_recording(path: str | Path) -> Recording:
    """Reads a complete recording, gzip or plain.

    Raises:
        ConfigError: the file cannot be read, is no recording, exceeds a limit, or has an
            inconsistent decision.
    """
    with RecordingReader(path) as reader:
        return msgspec.structs.replace(reader.header, steps=tuple(reader))


def write_recording(path: str | Path, recording: Recording) -> None:
    """Writes a complete recording; see ``RecordingWriter``."""
    with RecordingWriter(path, recording) as writer:
        for step in recording.steps:
            writer.add(step)


def object_key(document: Document) -> str:
    """Returns ``namespace/name`` of an object as on the wire; the name if cluster-scoped."""
    metadata = document.get("metadata") or {}
    name = str(metadata.get("name", ""))
    namespace = metadata.get("namespace")
    return f"{namespace}/{name}" if namespace else name


def _check_step(step: Step, *, file: str, path: str) -> None:
    """Validates the decision of a step, and that its objects can have names.

    Raises:
        ConfigError: they cannot, or the fields of the decision contradict each other.
    """
    check_decision(step.decision, file=file, path=f"{path}.decision")
    documents = [("pod", step.pod)]
    if step.effects is not None:
        updated = enumerate(step.effects.updated)
        documents += [(f"effects.updated[{index}]", document) for index, document in updated]
    for name, document in documents:
        metadata = document.get("metadata")
        if not isinstance(metadata, dict | None):
            where = f"{path}.{name}.metadata"
            raise ConfigError("must be a mapping", file=file, path=where, value=metadata)


def _open_binary(file: str) -> tuple[IO[bytes], bool]:
    """Opens a file; returns its uncompressed bytes as a stream, and True if it is gzip."""
    try:
        stream = open(file, "rb")  # noqa: SIM115 - the reader closes it
        magic = stream.read(2)
        stream.seek(0)
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise ConfigError(problem, file=file) from error
    if magic != _GZIP_MAGIC:
        return stream, False
    return cast("IO[bytes]", _OwningGzip(stream)), True


class _OwningGzip(gzip.GzipFile):
    """A GzipFile that closes its underlying file."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._owned = stream
        super().__init__(fileobj=stream, mode="rb")

    def close(self) -> None:
        super().close()
        self._owned.close()

"""CPU profiles of this process, by sampling stacks on SIGPROF, in pprof's format or as text.

The signal comes every 10 ms of CPU time, so an idle process has few samples. Its handler runs in
the main thread, where the event loop is.

Source: https://github.com/google/pprof/blob/main/proto/profile.proto
"""

from __future__ import annotations

import gzip
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Final

from mooring.objects.codec.protobuf import bytes_field, int_field, packed_field

PERIOD_S: Final = 0.01
PERIOD_NS: Final = 10_000_000

#: Deeper stacks are cut at their outer end.
DEPTH_MAX: Final = 256

#: Samples of further stacks are counted under the innermost function alone.
STACKS_MAX: Final = 20_000

#: Code and line, innermost first.
Stack = tuple[tuple[CodeType, int], ...]


class ProfileInProgress(Exception):
    """Two profiles at the same time would take each other's samples."""


class CpuProfile:
    """The samples of one profile."""

    def __init__(self) -> None:
        self.samples: Counter[Stack] = Counter()

    def sample(self, _number: int, frame: FrameType | None) -> None:
        """Records the stack of ``frame``: a signal handler."""
        stack: list[tuple[CodeType, int]] = []
        while frame is not None and len(stack) < DEPTH_MAX:
            stack.append((frame.f_code, frame.f_lineno or 0))
            frame = frame.f_back
        key = tuple(stack)
        if key not in self.samples and len(self.samples) >= STACKS_MAX:
            key = key[:1]
        self.samples[key] += 1

    def collapsed(self) -> str:
        """Returns a line per stack, outermost first, with the number of samples."""
        lines = []
        for stack, count in sorted(self.samples.items(), key=lambda item: -item[1]):
            frames = (f"{code.co_qualname} ({code.co_filename}:{line})" for code, line in stack)
            lines.append(f"{';'.join(reversed(list(frames)))} {count}\n")
        return "".join(lines)

    def encoded(self, *, started_ns: int, duration_ns: int) -> bytes:
        """Returns the profile for ``go tool pprof``, compressed."""
        tables = _Tables()
        types = [("samples", "count"), ("cpu", "nanoseconds")]
        body = b"".join(bytes_field(1, tables.value_type(*names)) for names in types)
        for stack, count in self.samples.items():
            locations = [tables.location(code, line) for code, line in stack]
            values = [count, count * PERIOD_NS]
            body += bytes_field(2, packed_field(1, locations) + packed_field(2, values))
        period = tables.value_type("cpu", "nanoseconds")
        body += tables.encoded()
        body += int_field(9, started_ns) + int_field(10, duration_ns)
        body += bytes_field(11, period) + int_field(12, PERIOD_NS)
        return gzip.compress(body, mtime=0)


class _Tables:
    """Strings, functions and locations of a profile, by number."""

    def __init__(self) -> None:
        self._strings = {"": 0}
        self._functions: dict[CodeType, int] = {}
        self._locations: dict[tuple[CodeType, int], int] = {}

    def value_type(self, name: str, unit: str) -> bytes:
        return int_field(1, self._string(name)) + int_field(2, self._string(unit))

    def location(self, code: CodeType, line: int) -> int:
        self._functions.setdefault(code, len(self._functions) + 1)
        return self._locations.setdefault((code, line), len(self._locations) + 1)

    def encoded(self) -> bytes:
        parts = []
        for (code, line), number in self._locations.items():
            entry = int_field(1, self._functions[code]) + int_field(2, line)
            parts.append(bytes_field(4, int_field(1, number) + bytes_field(4, entry)))
        for code, number in self._functions.items():
            function = int_field(1, number) + int_field(2, self._string(code.co_qualname))
            function += int_field(3, self._string(code.co_qualname))
            function += int_field(4, self._string(code.co_filename))
            parts.append(bytes_field(5, function + int_field(5, code.co_firstlineno)))
        parts += [bytes_field(6, text.encode("utf-8", "replace")) for text in self._strings]
        return b"".join(parts)

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))


@contextmanager
def profiling() -> Iterator[CpuProfile]:
    """Samples this process during the block.

    Raises:
        ProfileInProgress: another profile is being taken.
        ValueError: this is not the main thread.
    """
    if signal.getitimer(signal.ITIMER_PROF)[0]:
        raise ProfileInProgress("cpu profiling already in use")
    profile = CpuProfile()
    signal.signal(signal.SIGPROF, profile.sample)
    try:
        signal.setitimer(signal.ITIMER_PROF, PERIOD_S, PERIOD_S)
        yield profile
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        # A last signal may be pending; its default action would end the process.
        signal.signal(signal.SIGPROF, signal.SIG_IGN)

"""Completion indexes: of pods, and as texts such as "0-2,5"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mooring.objects.pod import Pod

INDEX: Final = "batch.kubernetes.io/job-completion-index"


def index_of(pod: Pod) -> int:
    """Returns the completion index of a pod; -1 = it has none."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else -1


def indexes_of(text: str) -> set[int]:
    """Returns the indexes of a text such as "0-2,5"."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes |= set(range(int(first), int(last or first) + 1))
    return indexes


def indexes_text(indexes: Iterable[int]) -> str:
    """Returns indexes as a text.

    Example:
        >>> indexes_text({0, 1, 2, 5, 7, 8})
        '0-2,5,7,8'
    """
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][-1] == index - 1:
            parts[-1][1:] = [index]
        else:
            parts.append([index])
    # Two indexes in a row are not a range.
    return ",".join(
        ("," if part[-1] == part[0] + 1 else "-").join(map(str, part)) for part in parts
    )

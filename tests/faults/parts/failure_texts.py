"""Checks the reason of a failed attempt: it says what has failed, and in which plugin."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from mooring.framework import Diagnosis


class FailureTexts:
    """The texts of the attempts that will fail.

    Attributes:
        n_broken: Attempts that have failed since the scheduler's own code raised.

    Args:
        plugin: The name of the plugin that fails.
        cancelled: UIDs of the pods whose attempt was preempted.
    """

    def __init__(self, plugin: str, cancelled: Container[str]) -> None:
        self._plugin, self._cancelled = plugin, cancelled
        self._texts: dict[str, tuple[str, ...]] = {}
        self._interrupted: set[str] = set()
        self._broken: set[str] = set()
        self.n_broken = 0

    def begin(self, uid: str) -> None:
        """Begins an attempt."""
        self._texts.pop(uid, None)
        self._interrupted.discard(uid)

    def expect(self, uid: str, *texts: str) -> None:
        """Expects that the reason contains these texts."""
        self._texts[uid] = texts

    def expect_of(self, uid: str, point: str, text: str) -> None:
        """Expects that the reason contains a text, and says where the plugin has raised."""
        self._texts[uid] = text, self._running(point)

    def interrupt(self, uid: str) -> None:
        """Expects that a preemption is the reason, which has interrupted PreBind."""
        self._interrupted.add(uid)

    def breaks(self, uid: str) -> None:
        """Expects no text: an attempt fails since the scheduler's own code has raised."""
        self.begin(uid)
        self._broken.add(uid)
        self.n_broken += 1

    def is_broken(self, uid: str) -> bool:
        """Returns whether that is the reason of the attempt that fails now."""
        is_broken = uid in self._broken
        self._broken.discard(uid)
        return is_broken

    def problems(self, uid: str, reason: Any) -> Iterator[str]:
        """Yields what the reason of a failed attempt does not say."""
        texts = self._texts.pop(uid, ())
        is_preempted = uid in self._cancelled
        if uid in self._interrupted:
            self._interrupted.discard(uid)
            texts, is_preempted = ("preempted", self._running("PreBind")), False
        if isinstance(reason, Diagnosis):
            status = reason.pre_filter
            words = " ".join([*reason.reasons, *(status.reasons if status is not None else ())])
        else:
            words = " ".join([str(reason), *getattr(reason, "__notes__", ())])
        for text in texts:
            # A preemption may come just when the plugin has ended, and is the reason then.
            if text not in words and not (is_preempted and words == "preempted"):
                yield f"{uid} has failed since {words!r}, which does not say {text!r}"

    def _running(self, point: str) -> str:
        return f'running {point} plugin "{self._plugin}"'

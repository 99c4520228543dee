"""The order of writes: namespaces take turns, and the oldest key of each is written first.

It is the order of what the limits of writers allow, for urgent values and for the others by itself.
"""

from __future__ import annotations

from collections.abc import Callable

#: Namespace of the last turn, and whether it was for an urgent value.
Turn = tuple[str, bool]


class WriteTurns:
    """Follows which keys may be written, and which of them are.

    Args:
        ready: Returns the keys that may be written, but are not being written.
        is_urgent: Returns whether the value of a key is urgent; None if that is not certain.
        may_write: Returns whether the limits allow a namespace to write.
        report: Called with each problem.
    """

    def __init__(
        self,
        ready: Callable[[], set[str]],
        is_urgent: Callable[[str], bool | None],
        may_write: Callable[[str], bool],
        report: Callable[[str], None],
    ) -> None:
        self._ready, self._is_urgent, self._may_write = ready, is_urgent, may_write
        self._report = report
        self._looks = 0
        #: Key -> the number of the look that saw first that it is ready.
        self._since: dict[str, int] = {}
        #: Last turn of a namespace -> the keys of others that were ready then, and still are.
        self._passed: dict[Turn, set[str]] = {}

    def look(self) -> None:
        """Notes what is ready now: all that was ready before is older than what is new."""
        self._looks += 1
        ready = self._ready()
        self._since = {key: self._since.get(key, self._looks) for key in sorted(ready)}

    def forget(self, key: str) -> None:
        """Follows a key that was removed, or has another urgency: it is as new as any."""
        self._since.pop(key, None)
        for keys in self._passed.values():
            keys.discard(key)

    def begin(self, key: str) -> None:
        """Follows the begin of a write; its key is not ready any more."""
        name, is_urgent = _namespace(key), self._is_urgent(key)
        alike = {other for other in self._ready() if self._is_urgent(other) is is_urgent}
        since = self._since.get(key, self._looks + 1)
        for keys in self._passed.values():
            keys -= {other for other in keys if _namespace(other) == name}
        if is_urgent is not None:
            passed = self._passed.get((name, is_urgent), set()) & alike
            if waiting := sorted(it for it in passed if self._may_write(_namespace(it))):
                self._report(f"{key} is written, but it is the turn of {waiting}")
            own = sorted(other for other in alike if _namespace(other) == name)
            if older := [it for it in own if self._since.get(it, since) < since]:
                self._report(f"{key} is written before {older}, which have waited longer")
            self._passed[name, is_urgent] = {it for it in alike if _namespace(it) != name}
        self.forget(key)
        self.look()


def _namespace(key: str) -> str:
    return key.partition("/")[0]

"""Sets poison pods aside: pods at which a plugin, or the scheduling cycle itself, raises.

::

    error 1, 2 ──> backoff queue (1 s, 2 s)         as any other error
    error 3    ──> quarantined, 5 minutes           the same plugin raised three times in a row
    error 4, 5 ... quarantined, 10, 20, 40, 60 minutes

A quarantined pod is in the backoff queue, and no event, activation or empty active queue shortens
its wait. A change of its spec, labels or annotations ends the quarantine. So a poison pod costs at
most one attempt in five minutes, whatever its priority.

Errors that are no exceptions (a Status with the code Error, an answer of the API server, a network
that fails) are not counted: they say nothing about the pod.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from mooring.errors import PluginError, SchedulerError
from mooring.objects.pod import Pod
from mooring.queue.queued_pod import QueuedPod

#: Exceptions of the same plugin in a row, after which a pod is quarantined.
FAILURES_MAX: Final = 3

#: The first quarantine of a pod, and the longest: it doubles with each further error.
QUARANTINE_S: Final = 300.0
QUARANTINE_S_MAX: Final = 3600.0

#: A plugin is broken if it raises at more than this share of the pods attempted last.
BROKEN_SHARE: Final = 0.5

#: So many of the pods attempted last are remembered, and fewer than ``PODS_MIN`` prove nothing.
PODS_MAX: Final = 100
PODS_MIN: Final = 10

_log = logging.getLogger(__name__)


class Quarantine:
    """Counts the exceptions of plugins by pod.

    Attributes:
        counts: Plugin -> how often a pod was quarantined because of it.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        # UID -> the plugin that raised in the last attempt, "" = none; the last attempted last.
        self._attempted: dict[str, str] = {}

    def attempted(self, uid: str) -> None:
        """Remembers that an attempt at the pod begins. Complexity: O(1)."""
        attempted = self._attempted
        attempted.pop(uid, None)
        attempted[uid] = ""
        if len(attempted) > PODS_MAX:
            del attempted[next(iter(attempted))]

    def failed(self, entry: QueuedPod, error: SchedulerError | None) -> bool:
        """Counts the error that ended an attempt; None = it ended otherwise.

        Returns whether the pod is quarantined: ``entry.quarantine_s`` is set, and the backoff queue
        obeys it.
        """
        plugin = error.plugin if isinstance(error, PluginError) and _is_poison(error) else ""
        if not plugin:
            entry.failing_plugin, entry.plugin_failures = "", 0
            return False
        if entry.uid in self._attempted:
            self._attempted[entry.uid] = plugin
        if entry.failing_plugin != plugin:
            entry.failing_plugin, entry.plugin_failures = plugin, 0
        entry.plugin_failures += 1
        if entry.plugin_failures < FAILURES_MAX:
            return False
        doublings = min(entry.plugin_failures - FAILURES_MAX, 16)
        entry.quarantine_s = min(QUARANTINE_S * 2**doublings, QUARANTINE_S_MAX)
        self.counts[plugin] += 1
        fields = {
            "pod": entry.pod.key,
            "plugin": plugin,
            "failures": entry.plugin_failures,
            "seconds": entry.quarantine_s,
        }
        _log.error("a pod is quarantined", extra=fields)
        return True

    def broken_plugin(self) -> str | None:
        """Returns which plugin raises at most of the pods attempted last, as a reason; or None.

        Complexity: O(``PODS_MAX``).
        """
        pods = len(self._attempted)
        failing = Counter(filter(None, self._attempted.values()))
        if pods < PODS_MIN or not failing:
            return None
        plugin, count = failing.most_common(1)[0]
        if count <= BROKEN_SHARE * pods:
            return None
        return f'plugin "{plugin}" raises at {count} of the last {pods} pods'

    def __len__(self) -> int:
        """Returns the number of pods that are remembered."""
        return len(self._attempted)


def is_edited(old: Pod, new: Pod) -> bool:
    """Returns whether a user changed the pod, and not only its status."""
    before, after = old.metadata, new.metadata
    return (
        old.spec != new.spec
        or before.labels != after.labels
        or before.annotations != after.annotations
    )


def _is_poison(error: PluginError) -> bool:
    """Returns whether it is an exception that the pod's next attempt will meet again.

    OSError, which TimeoutError is, comes from the network or a disk.
    """
    return bool(error.location) and not isinstance(error.__cause__, OSError)

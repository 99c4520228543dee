"""ResourceClaims in their newest versions, those that the scheduler wrote itself included.

::

                 assume: the scheduler wrote it           put: the API server reports a newer one
    reported ---------------------------------> assumed ----------------------------> reported
        ^                                          |
        +------------------------------------------+
                   restore: the write is undone

Source: pkg/scheduler/util/assumecache/assume_cache.go. *Differs:* an object without a valid
resourceVersion, as in files, is always newer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from mooring.errors import SchedulerError
from mooring.objects.meta import ObjectMeta, key
from mooring.objects.resource import ResourceClaim
from mooring.objects.selectors import parse_int64

#: The annotation of claims that the scheduler made for extended resources of a pod.
EXTENDED_RESOURCE_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"

#: Called with a claim before and after a change: None = did not exist, was deleted.
Listener = Callable[[ResourceClaim | None, ResourceClaim | None], None]

_NONE: Final[frozenset[str]] = frozenset()


class ClaimNotFound(SchedulerError):
    """There is no claim with this name."""

    def __init__(self, claim_key: str) -> None:
        super().__init__(f'could not find ResourceClaim "{claim_key}"')


class _Entry(NamedTuple):
    """A claim: its newest version, and the version that the API server reported last."""

    latest: ResourceClaim
    reported: ResourceClaim


class Claims:
    """``namespace/name`` -> claim. Owned by ``Devices``.

    Attributes:
        version: Rises with every change.
    """

    def __init__(self) -> None:
        self.version = 0
        self._entries: dict[str, _Entry] = {}
        self._listeners: list[Listener] = []
        #: UID of a pod -> keys of the claims made for its extended resources.
        self._of_pod: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        """Returns the number of claims."""
        return len(self._entries)

    def listen(self, listener: Listener) -> None:
        """Calls ``listener`` after each change, also those by ``assume`` and ``restore``."""
        self._listeners.append(listener)

    def put(self, obj: ResourceClaim) -> None:
        """Stores the claim that the API server reports, unless the stored version is as new.

        *Differs:* upstream forgets that an assumed version was reported, and ``restore`` returns to
        the one before.
        """
        entry = self._entries.get(key(obj))
        if entry is None or _is_newer(obj.metadata, entry.latest.metadata):
            self._store(_Entry(obj, obj))
        elif _is_newer(obj.metadata, entry.reported.metadata):
            is_latest = not _is_newer(entry.latest.metadata, obj.metadata)
            self._entries[key(obj)] = entry._replace(reported=entry.latest if is_latest else obj)

    def remove(self, claim_key: str) -> None:
        """Removes a claim that was deleted. Unknown keys are ignored."""
        entry = self._entries.pop(claim_key, None)
        if entry is not None:
            self._index(claim_key, entry.latest, None)
            self._notify(entry.latest, None)

    def assume(self, obj: ResourceClaim) -> None:
        """Stores the version that the scheduler wrote.

        Raises:
            ClaimNotFound: the API server has not reported the claim yet, or it was deleted.
            SchedulerError: the stored version is newer.
        """
        claim_key = key(obj)
        entry = self._entries.get(claim_key)
        if entry is None:
            raise ClaimNotFound(claim_key)
        if entry.latest is obj:
            return
        new, stored = _version(obj.metadata), _version(entry.latest.metadata)
        if new is not None and stored is not None and new < stored:
            raise SchedulerError(
                f'ResourceClaim "{claim_key}" is out of sync (stored: {stored}, assume: {new})'
            )
        self._store(entry._replace(latest=obj))

    def restore(self, claim_key: str) -> None:
        """Returns to the version that the API server reported. Unknown keys are ignored."""
        entry = self._entries.get(claim_key)
        if entry is not None and entry.latest is not entry.reported:
            self._store(_Entry(entry.reported, entry.reported))

    def get(self, claim_key: str) -> ResourceClaim | None:
        """Returns the newest version of the claim ``namespace/name``; None = there is none."""
        entry = self._entries.get(claim_key)
        return entry.latest if entry is not None else None

    def all(self) -> list[ResourceClaim]:
        """Returns the newest versions of all claims."""
        return [entry.latest for entry in self._entries.values()]

    def for_extended_resources(self, pod_name: str, pod_uid: str) -> ResourceClaim | None:
        """Returns the claim that the scheduler made for a pod's extended resources, or None."""
        for claim_key in self._of_pod.get(pod_uid, ()):
            claim = self._entries[claim_key].latest
            if any(
                owner.uid == pod_uid and owner.name == pod_name and owner.controller
                for owner in claim.metadata.owner_references
            ):
                return claim
        return None

    def owners(self) -> set[str]:
        """Returns the UIDs of the pods that have such a claim, for the audit."""
        return set(self._of_pod)

    def _store(self, entry: _Entry) -> None:
        claim_key = key(entry.latest)
        before = self._entries.get(claim_key)
        old = before.latest if before is not None else None
        self._entries[claim_key] = entry
        self._index(claim_key, old, entry.latest)
        self._notify(old, entry.latest)

    def _notify(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self.version += 1
        for listener in self._listeners:
            listener(old, new)

    def _index(self, claim_key: str, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        before, after = _pods_of(old), _pods_of(new)
        if before is after or before == after:
            return
        for uid in before:
            self._of_pod[uid].pop(claim_key, None)
            if not self._of_pod[uid]:
                del self._of_pod[uid]
        for uid in after:
            self._of_pod.setdefault(uid, {})[claim_key] = None


def _pods_of(claim: ResourceClaim | None) -> frozenset[str]:
    """Returns the UIDs of the pods for whose extended resources the claim was made."""
    if claim is None or claim.metadata.annotations.get(EXTENDED_RESOURCE_ANNOTATION) != "true":
        return _NONE
    return frozenset(owner.uid for owner in claim.metadata.owner_references if owner.controller)


def _is_newer(new: ObjectMeta, stored: ObjectMeta) -> bool:
    new_version, stored_version = _version(new), _version(stored)
    if new_version is None or stored_version is None:
        return True
    return new_version > stored_version


def _version(metadata: ObjectMeta) -> int | None:
    return parse_int64(metadata.resource_version)

"""Changes of claims that PostFilter wants: each is written once, before the pod is requeued."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.clock import Rng
from mooring.framework.status import ClaimChange, PostFilterResult
from mooring.objects.meta import ObjectMeta
from mooring.objects.resource import ResourceClaim
from mooring.state import PodInfo

SHARE: Final = 0.5
#: In steps.
LONGEST: Final = 7


class ClaimChanges:
    """The changes of a run.

    Args:
        rng: Draws them, and how their writes end; None = there are none.
    """

    def __init__(self, rng: Rng | None) -> None:
        self._rng = rng
        #: UID -> the change that is to be written.
        self._wanted: dict[str, ClaimChange] = {}

    def added_to(self, result: PostFilterResult, pod: PodInfo) -> PostFilterResult:
        """Returns a result of PostFilter; some rejections want a claim to be changed."""
        if self._rng is None or result.status is None or self._rng.random() < SHARE:
            return result
        change = ClaimChange(ResourceClaim(metadata=ObjectMeta(name=pod.metadata.name)))
        self._wanted[pod.uid] = change
        return result._replace(claim_change=change)

    def written(self, uid: str, change: ClaimChange) -> Iterator[str]:
        """Notes a write; yields a problem if nothing wants it."""
        if self._wanted.pop(uid, None) is not change:
            yield f"a claim is written, which nothing wants to be changed for {uid}"

    def drop(self, uid: str) -> None:
        """Forgets a change: the attempt ends before it is made."""
        self._wanted.pop(uid, None)

    def failing_after(self) -> int | None:
        """Returns the number of steps after which a write fails; None = it does not."""
        assert self._rng is not None
        return self._rng.randrange(LONGEST) if self._rng.random() < SHARE else None

    def failed(self, uid: str) -> Iterator[str]:
        """Yields a problem if a pod is requeued before its change is written."""
        if self._wanted.pop(uid, None) is not None:
            yield f"the change of a claim that PostFilter of {uid} wants is not written"

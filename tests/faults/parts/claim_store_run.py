"""The store of resource claims: versions that are reported, assumed and restored, beside a model.

The model has for each claim the version that the API server reported last, and the newest one. A
listener follows the changes: what it was called with must add up to what the store returns, since
the devices in use are counted by one. A change of what is stored is a new ``version``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from mooring.clock import seeded_random
from mooring.errors import SchedulerError
from mooring.objects.codec.decode import convert
from mooring.objects.resource import ResourceClaim
from mooring.state.devices.claims import Claims

CALLS: Final = 150
NAMES: Final = ("a", "b", "c")
WEIGHTS: Final = {"write": 4, "report": 5, "assume": 4, "restore": 4, "remove": 1}


class ClaimStoreRun:
    """One run.

    Attributes:
        problems: What differs.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        self._claims = Claims()
        self._claims.listen(self._listen)
        #: Name -> the version that was reported last, and the newest one.
        self._expected: dict[str, tuple[ResourceClaim, ResourceClaim]] = {}
        #: Name -> the claim, by the calls of the listener.
        self._followed: dict[str, ResourceClaim] = {}
        #: Name -> all versions that the server has stored, the newest last.
        self._written: dict[str, list[ResourceClaim]] = {name: [] for name in NAMES}
        self._count = 0

    def run(self) -> None:
        """Makes all calls, until something differs."""
        names, weights = list(WEIGHTS), list(WEIGHTS.values())
        for _ in range(CALLS):
            chosen, claim_name = self._rng.choices(names, weights)[0], self._rng.choice(NAMES)
            action: Callable[[str], None] = getattr(self, f"_{chosen}")
            before, version = self._claims.all(), self._claims.version
            action(claim_name)
            is_same = [id(claim) for claim in before] == [id(it) for it in self._claims.all()]
            if not is_same and self._claims.version == version:
                self.problems.append(f"{chosen} of {claim_name} is a change without a new version")
            self._compare(f"after {chosen} of {claim_name}")
            if self.problems:
                return

    def _listen(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new if new is not None else old
        assert claim is not None
        name = claim.metadata.name
        if self._followed.pop(name, None) is not old:
            self.problems.append(f"the change of {name} begins at another version")
        if new is not None:
            self._followed[name] = new

    def _compare(self, when: str) -> None:
        expected = {name: newest for name, (_, newest) in self._expected.items()}
        actual = {claim.metadata.name: claim for claim in self._claims.all()}
        for what, claims in (("stored", actual), ("followed", self._followed)):
            if _versions(claims) != _versions(expected):
                self.problems.append(
                    f"{when} {_versions(claims)} are {what}, not {_versions(expected)}"
                )

    # -- the calls --------------------------------------------------------------------------------

    def _write(self, name: str) -> None:
        """Writes the claim on the server; the store does not know it."""
        self._count += 1
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        document = {"metadata": metadata, "spec": {}}
        claim: ResourceClaim = convert(document, "ResourceClaim")
        version = str(self._count)
        claim = replace(claim, metadata=replace(claim.metadata, resource_version=version))
        self._written[name].append(claim)

    def _report(self, name: str) -> None:
        """Reports a version as the watch does: the newest one, or after a while an older one."""
        if not self._written[name]:
            return
        new = self._written[name][-self._rng.choice((1, 1, 2)) :][0]
        entry = self._expected.get(name)
        self._claims.put(new)
        if entry is None:
            self._expected[name] = new, new
            return
        reported, newest = entry
        if _number(new) > _number(newest):
            self._expected[name] = new, new
        elif _number(new) > _number(reported):
            self._expected[name] = new, newest

    def _assume(self, name: str) -> None:
        """Assumes what was written last, or an older version, which may be outdated.

        The answer to a write is another object than the one of the watch.
        """
        if not self._written[name]:
            return
        new = replace(self._written[name][-self._rng.choice((1, 1, 1, 2)) :][0])
        entry = self._expected.get(name)
        try:
            self._claims.assume(new)
        except SchedulerError:
            if entry is not None and _number(new) >= _number(entry[1]):
                self.problems.append(f"{name} cannot be assumed in version {_number(new)}")
            return
        if entry is None or _number(new) < _number(entry[1]):
            self.problems.append(f"{name} is assumed in version {_number(new)}")
            return
        self._expected[name] = entry[0], new

    def _restore(self, name: str) -> None:
        self._claims.restore(f"default/{name}")
        if (entry := self._expected.get(name)) is not None:
            self._expected[name] = entry[0], entry[0]

    def _remove(self, name: str) -> None:
        self._claims.remove(f"default/{name}")
        self._expected.pop(name, None)


def _number(claim: ResourceClaim) -> int:
    return int(claim.metadata.resource_version)


def _versions(claims: dict[str, ResourceClaim]) -> dict[str, int]:
    return {name: _number(claim) for name, claim in sorted(claims.items())}


def run_claim_store(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: the store differs from the model.
    """
    run = ClaimStoreRun(seed)
    run.run()
    assert not run.problems, run.problems[0]

"""The store of resource claims: versions that are reported, assumed and restored, beside a model.

The model has for each claim the version that the API server reported last, and the newest one. A
listener follows the changes: what it was called with must add up to what the store returns, since
the devices in use are counted by one. A change of what is stored is a new ``version``. Claims have
owners, of which those for extended resources are found again; in a quarter of the runs some
versions are no numbers, which are newer than all others.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import seeded_random
from mooring.errors import SchedulerError
from mooring.objects.codec.decode import convert
from mooring.objects.resource import ResourceClaim
from mooring.state.devices.claims import Claims

CALLS: Final = 150
NAMES: Final = ("a", "b", "c")
#: Names and UIDs of pods that own claims.
POD_NAMES, POD_UIDS = ("web", "db"), ("uid-1", "uid-2")
ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
NO_NUMBERS: Final = ("", "x", "1.5")
WEIGHTS: Final = {"write": 4, "report": 5, "assume": 4, "restore": 4, "remove": 1}


class ClaimStoreRun:
    """One run.

    Attributes:
        problems: What differs.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        self._more = more = Random(f"{seed} claims")
        self._no_number_share = 0.2 if more.random() < 0.25 else 0.0
        self._calls = 0
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
        self._calls += 1
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
        self._compare_owners(when, list(expected.values()))

    def _compare_owners(self, when: str, claims: list[ResourceClaim]) -> None:
        """Compares the claims for extended resources of each pod."""
        made = [it for it in claims if it.metadata.annotations.get(ANNOTATION) == "true"]
        owned = [
            (owner, claim.metadata.name)
            for claim in made
            for owner in claim.metadata.owner_references
            if owner.controller
        ]
        if self._claims.owners() != {owner.uid for owner, _ in owned}:
            self.problems.append(f"{when} {sorted(self._claims.owners())} own claims, not {owned}")
        for name, uid in product(POD_NAMES, POD_UIDS):
            due = [of for owner, of in owned if (owner.name, owner.uid) == (name, uid)]
            claim = self._claims.for_extended_resources(name, uid)
            if (claim is None) is bool(due) or (claim and claim.metadata.name not in due):
                actual = None if claim is None else claim.metadata.name
                self.problems.append(f"{when} {name} ({uid}) has {actual}, not {due}")

    # -- the calls --------------------------------------------------------------------------------

    def _write(self, name: str) -> None:
        """Writes the claim on the server; the store does not know it."""
        self._count += 1
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **self._owners()}
        document = {"metadata": metadata, "spec": {}}
        claim: ResourceClaim = convert(document, "ResourceClaim")
        version = str(self._count)
        if self._more.random() < self._no_number_share:
            version = self._more.choice(NO_NUMBERS)
        claim = replace(claim, metadata=replace(claim.metadata, resource_version=version))
        self._written[name].append(claim)

    def _owners(self) -> dict[str, Any]:
        """Draws the owners of a claim, and whether it is for extended resources."""
        rng = self._more
        owners = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": rng.choice(POD_NAMES),
                "uid": rng.choice(POD_UIDS),
                "controller": rng.choice((True, True, False, None)),
            }
            for _ in range(rng.choice((0, 1, 1, 2)))
        ]
        text = rng.choice(("true", "true", "false", None))
        return {"ownerReferences": owners, "annotations": {ANNOTATION: text} if text else {}}

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
        if _is_newer(new, newest):
            self._expected[name] = new, new
        elif _is_newer(new, reported):
            # As new as the one that is assumed: that is what the server has.
            self._expected[name] = new if _is_newer(newest, new) else newest, newest

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
            if entry is not None and not _is_older(new, entry[1]):
                self.problems.append(f"{name} cannot be assumed in version {_version(new)}")
            return
        if entry is None or _is_older(new, entry[1]):
            self.problems.append(f"{name} is assumed in version {_version(new)}")
            return
        self._expected[name] = entry[0], new

    def _restore(self, name: str) -> None:
        calls = self._calls
        self._claims.restore(f"default/{name}")
        entry = self._expected.get(name)
        if entry is not None:
            self._expected[name] = entry[0], entry[0]
        is_due = entry is not None and entry[0] is not entry[1]
        if self._calls - calls != is_due:
            self.problems.append(f"restore of {name} is reported {self._calls - calls} times")

    def _remove(self, name: str) -> None:
        self._claims.remove(f"default/{name}")
        self._expected.pop(name, None)


def _version(claim: ResourceClaim) -> str:
    return claim.metadata.resource_version


def _is_older(new: ResourceClaim, stored: ResourceClaim) -> bool:
    """Returns whether both versions are numbers, and the first one is the lower one."""
    versions = _version(new), _version(stored)
    return all(map(str.isdecimal, versions)) and int(versions[0]) < int(versions[1])


def _is_newer(new: ResourceClaim, stored: ResourceClaim) -> bool:
    """Returns whether the first version is the higher one, or one of them is no number."""
    versions = _version(new), _version(stored)
    return not all(map(str.isdecimal, versions)) or int(versions[0]) > int(versions[1])


def _versions(claims: dict[str, ResourceClaim]) -> dict[str, str]:
    return {name: _version(claim) for name, claim in sorted(claims.items())}


def run_claim_store(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: the store differs from the model.
    """
    run = ClaimStoreRun(seed)
    run.run()
    assert not run.problems, run.problems[0]

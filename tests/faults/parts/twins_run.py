"""Plugins over columns beside scalar ones, with small limits, other gates and spoiled objects.

As ``scalar_run``, but each plugin has a run of its own, so that few seeds are many clusters. Limits
of caches, and the numbers from which another way of counting is faster, are as small as possible in
half of the runs. In others selectors cannot be compiled, and classes lack a mode. Beside any pod,
signatures are compared with those of a pod that differs in one field. The texts of errors are
compared where a pod has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mooring.clock import Rng, seeded_random
from mooring.objects.pod import Pod
from mooring.plugins.inter_pod_affinity import domains as affinity_domains
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.plugins.volume_binding import find_volumes
from mooring.testing import Harness
from tests.faults.parts.limits import set_limit
from tests.faults.parts.scalar_run import PAIRS, ScalarRun
from tests.faults.parts.spoiled_objects import (
    REPLACED,
    SpoiledAffinityTwin,
    SpoiledBindingTwin,
    SpoiledSpreadTwin,
    spoiled_object,
    spoiled_pod,
)
from tests.faults.parts.tight_run import small_limits
from tests.plugins.volume_binding_twin import BindingTwin

#: Added to the seed: what these runs draw.
TWINS_SEED: Final = 1 << 41
AFFINITY, SPREADING = len(PAIRS), len(PAIRS) + 1
#: Numbers from which another way is faster, and the smallest ones.
SWITCHES: Final = (
    (affinity_domains, "EXACT_MAX", 1),
    (affinity_domains, "COUNTERS_MAX", 0),
    (affinity_domains, "KEYS_MAX", 0),
    (affinity_domains, "NEW_KEYS_MAX", 0),
    (find_volumes, "_GROUPING_CLAIMS_MIN", 1),
)
#: Of the pods and objects so many are spoiled.
SPOILED_SHARES: Final = (0.0, 0.0, 0.15, 0.4)
KEYS_GATE: Final = "MatchLabelKeysInPodTopologySpread"
#: The parts in which a pod differs from another one.
PARTS: Final = (
    "labels",
    "namespace",
    "affinity",
    "constraints",
    "tolerations",
    "owners",
    "volumes",
)


class TwinsRun(ScalarRun):
    """One run of a plugin."""

    def __init__(self, seed: int, kind: int) -> None:
        self._draws = seeded_random(seed + TWINS_SEED)
        self._spoiled_share = self._draws.choice(SPOILED_SHARES)
        super().__init__(seed, kind)

    # -- clusters ---------------------------------------------------------------------------------

    def _begin_affinity(self) -> None:
        super()._begin_affinity()
        old = self._theirs.plugins[0]
        twin = SpoiledAffinityTwin(
            old.namespaces, hard_weight=old.hard_weight, ignores_others=old.ignores_others
        )
        self._theirs = Harness([], [twin], cache_results=False)
        self._spoil_pods()

    def _begin_spreading(self) -> None:
        super()._begin_spreading()
        old = self._theirs.plugins[0]
        twin = SpoiledSpreadTwin(None if old.is_system else old.defaults, old.workloads)
        twin.reads_keys = self._draws.random() < 0.7
        self._theirs = Harness([], [twin], cache_results=False)
        if not twin.reads_keys:
            plugin: Any = self._ours.plugins[0]
            args = plugin.constraints
            ours = PodTopologySpread(None, gates={KEYS_GATE: False})
            ours.constraints.is_system_defaulted = args.is_system_defaulted
            cache = self._ours.cache
            self._ours = Harness([], [_with_defaults(ours, args)], cache_results=False)
            self._ours.cache = cache
        self._spoil_pods()

    def _begin_volumes(self, ours: Any, theirs: Any) -> None:
        super()._begin_volumes(ours, theirs)
        twin = self._theirs.plugins[0]
        if isinstance(twin, BindingTwin):
            self._theirs = Harness([], [SpoiledBindingTwin(twin.facts)], cache_results=False)

    def _spoil_pods(self) -> None:
        pods = self._pods

        def maybe_spoiled(rng: Rng, name: str, **options: Any) -> Pod:
            pod = pods(rng, name, **options)
            is_spoiled = rng.random() < self._spoiled_share
            return spoiled_pod(rng, pod) if is_spoiled else pod

        self._pods = maybe_spoiled

    def _put_object(self, facts: Any, obj: Any) -> None:
        if self._draws.random() < self._spoiled_share:
            obj = spoiled_object(self._draws, obj)
        super()._put_object(facts, obj)

    # -- signatures -------------------------------------------------------------------------------

    def _other(self, step: int) -> Pod:
        """Returns any pod, or one that differs from the pod of the attempt in one part."""
        other = super()._other(step)
        if self._draws.random() < 0.4:
            return other
        own, spec = self._pod.metadata, self._pod.spec
        match self._draws.choice(PARTS):
            case "labels":
                own = replace(own, labels=other.metadata.labels)
            case "namespace":
                own = replace(own, namespace=other.metadata.namespace)
            case "affinity":
                spec = replace(spec, affinity=other.spec.affinity)
            case "constraints":
                constraints = other.spec.topology_spread_constraints
                spec = replace(spec, topology_spread_constraints=constraints)
            case "tolerations":
                spec = replace(spec, tolerations=other.spec.tolerations)
            case "owners":
                own = replace(own, owner_references=other.metadata.owner_references)
            case "volumes":
                spec = replace(spec, volumes=other.spec.volumes)
        return replace(self._pod, metadata=own, spec=spec)


def _with_defaults(plugin: PodTopologySpread, constraints: Any) -> PodTopologySpread:
    """Gives a plugin the default constraints of another one."""
    own = plugin.constraints
    own.is_system_defaulted = constraints.is_system_defaulted
    own.defaults = constraints.defaults
    own._defaults_of = constraints._defaults_of
    return plugin


@contextmanager
def small_numbers(seed: int) -> Iterator[None]:
    """Makes limits small in half of the runs, and replaces rules of the scalar plugins."""
    rng = seeded_random(seed + TWINS_SEED + 1)
    share = rng.choice((0.0, 0.0, 0.5, 1.0))
    with pytest.MonkeyPatch.context() as patch:
        small_limits(patch, rng, share)
        for module, name, least in SWITCHES:
            if rng.random() < share:
                set_limit(patch, module, name, least)
        for where, name, function in REPLACED:
            patch.setattr(where, name, function)
        yield


def _run(seed: int, kind: int) -> None:
    with small_numbers(seed):
        run = TwinsRun(seed, kind)
        run.run()
    assert not run.problems, run.problems[0]


def run_twin_affinity(seed: int) -> None:
    """Runs a seed of InterPodAffinity.

    Raises:
        AssertionError: a status, a score or a signature differs from that of the scalar plugin.
    """
    _run(seed, AFFINITY)


def run_twin_spreading(seed: int) -> None:
    """Runs a seed of PodTopologySpread.

    Raises:
        AssertionError: a status, a score or a signature differs from that of the scalar plugin.
    """
    _run(seed, SPREADING)


def run_twin_volumes(seed: int) -> None:
    """Runs a seed of one of the plugins about volumes.

    Raises:
        AssertionError: a status or a signature differs from that of the scalar plugin.
    """
    _run(seed, seed % len(PAIRS))

"""The kinds of runs that are recorded: how a seed of each is run, and which seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tests.faults import (
    test_device_seeds,
    test_lease_seeds,
    test_pause_seeds,
    test_volume_seeds,
)
from tests.faults.harness.scenario import run_scenario
from tests.faults.harness.swarm import crowded, reactive, scenario_of
from tests.faults.parts.runs import PART_RUNS
from tests.faults.parts.test_parts import CHEAP, SLOW
from tests.faults.test_extenders import run_extenders

#: Without MOORING_SEEDS.
SEEDS: Final = 200


class RecordedKind(NamedTuple):
    """A kind of runs: runs a seed, and has the seeds that ``make test`` runs."""

    run: Callable[[int], object]
    n_seeds: int


#: Name -> the kind.
KINDS: Final[Mapping[str, RecordedKind]] = {
    "plain": RecordedKind(lambda seed: run_scenario(scenario_of(seed)), SEEDS),
    "crowded": RecordedKind(lambda seed: run_scenario(crowded(seed)), SEEDS // 10),
    "reactive": RecordedKind(lambda seed: run_scenario(reactive(seed)), SEEDS // 20),
    "pauses": RecordedKind(test_pause_seeds.run_seed, SEEDS // 20),
    "leases": RecordedKind(test_lease_seeds.run_seed, SEEDS // 20),
    "volumes": RecordedKind(test_volume_seeds.run_seed, SEEDS // 10),
    "devices": RecordedKind(test_device_seeds.run_seed, SEEDS // 5),
    "extenders": RecordedKind(run_extenders, 10),
    **{
        f"part-{name}": RecordedKind(run, SEEDS // 10 * (1 if name in SLOW else CHEAP))
        for name, run in PART_RUNS.items()
    },
}

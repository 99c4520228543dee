"""The kinds of runs: how a seed of each is run, and which seeds are recorded."""

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


class Kind(NamedTuple):
    """A kind of runs: runs a seed, and has the seeds that ``make test`` runs."""

    run: Callable[[int], object]
    n_seeds: int


#: Name -> the kind.
KINDS: Final[Mapping[str, Kind]] = {
    "swarm": Kind(lambda seed: run_scenario(scenario_of(seed)), SEEDS),
    "crowd": Kind(lambda seed: run_scenario(crowded(seed)), SEEDS // 10),
    "reactive": Kind(lambda seed: run_scenario(reactive(seed)), SEEDS // 20),
    "pause": Kind(test_pause_seeds.run_seed, SEEDS // 20),
    "lease": Kind(test_lease_seeds.run_seed, SEEDS // 20),
    "volume": Kind(test_volume_seeds.run_seed, SEEDS // 10),
    "device": Kind(test_device_seeds.run_seed, SEEDS // 5),
    "extender": Kind(run_extenders, 10),
    **{
        name: Kind(run, SEEDS // 10 * (1 if name in SLOW else CHEAP))
        for name, run in PART_RUNS.items()
    },
}

"""A simulation decides as a scheduler on an API server: the same bindings, evictions and times.

``MOORING_LOCKSTEP_CLUSTERS=0-200`` runs other seeds than the default ones.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from tests.helpers.lockstep import Log, in_a_table, over_the_api
from tests.helpers.lockstep_clusters import random_cluster, random_events

FIRST, _, AFTER = os.environ.get("MOORING_LOCKSTEP_CLUSTERS", "0-40").partition("-")
CHUNK = 20
CHUNKS = range(int(FIRST), int(AFTER), CHUNK)


def run_both(folder: Path, seed: int) -> Log:
    """Runs one cluster twice, and returns the log of both."""
    file = folder / f"{seed}.json"
    items = random_cluster(seed)
    file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    events = random_events(items, seed)
    offline, online = in_a_table(file, seed, events), over_the_api(file, seed, events)

    assert offline.log.bindings == online.log.bindings, seed
    assert offline.log.evictions == online.log.evictions, seed
    assert offline.log.refusals == online.log.refusals, seed
    assert offline.nodes == online.nodes, seed
    return offline.log


@pytest.mark.parametrize("first", CHUNKS)
def test_a_table_and_an_api_server_lead_to_the_same_bindings_and_evictions(
    first: int, tmp_path: Path
) -> None:
    bindings = evictions = refusals = waits = 0
    for seed in range(first, min(first + CHUNK, int(AFTER))):
        log = run_both(tmp_path, seed)
        bindings += len(log.bindings)
        evictions += len(log.evictions)
        refusals += len(log.refusals)
        waits += sum(at_s > 0 for at_s, _, _ in log.bindings)
    print(
        f"\nseeds {first}-{seed}: {bindings} bindings ({waits} after 0 s),"
        f" {evictions} evictions, {refusals} refusals, no difference"
    )
    assert min(bindings, evictions, refusals, waits) > 0

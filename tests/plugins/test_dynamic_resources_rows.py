"""The results of rows follow the verdicts, whichever rows changed."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from mooring.framework import NodeView
from mooring.plugins.dynamic_resources.shared_results import (
    BY_INVALID_POOLS,
    FEASIBLE,
    INVALID_POOLS,
    NO_DEVICES,
    NOT_ALLOCATABLE,
    UNKNOWN,
    SharedResults,
)
from mooring.state.cache import Cache
from mooring.state.devices.signatures import NO_NODE, UNSHARED, NodeSignatures
from mooring.testing import make_node
from tests.helpers.devices import make_claim, make_device, make_slice, result_of

NODES = 12


def is_equal_to_a_computation_anew(results: SharedResults, signatures: NodeSignatures) -> bool:
    """Compares row by row, with a loop in place of columns."""
    unknown, rejected = 0, 0
    for row, signature in enumerate(signatures.column.tolist()):
        verdict = int(results.verdicts[signature])
        code = 0 if verdict == UNKNOWN else verdict - FEASIBLE
        unknown += verdict == UNKNOWN
        rejected += code != 0
        if int(results.codes[row]) != code or results.is_unknown[row] != (verdict == UNKNOWN):
            return False
    return (results.unknown_count, results.rejected_count) == (unknown, rejected)


@pytest.mark.parametrize("seed", range(8))
def test_rows_that_changed_are_updated_and_no_others(seed: int) -> None:
    random, cache = Random(seed), Cache()
    for number in range(NODES):
        cache.put_node(make_node(f"n{number}"))
        devices = [make_device(f"d{index}") for index in range(3)]
        cache.put_object("ResourceSlice", make_slice(f"s{number}", devices, node=f"n{number}"))
    signatures = cache.devices.signatures
    results = SharedResults(has_alternatives=False, ignores_released=True)
    updated = 0
    for step in range(80):
        name = f"n{random.randrange(NODES)}"
        kind = random.choice(["allocate", "allocate", "free", "node", "slice", "verdict", "all"])
        if kind == "allocate":
            used = [result_of(f"d{random.randrange(3)}", name)]
            cache.put_object("ResourceClaim", make_claim(f"c{step}", allocated=used))
        elif kind == "free":
            cache.remove_object("ResourceClaim", f"default/c{random.randrange(step + 1)}")
        elif kind == "node" and name in cache.nodes.names:
            cache.remove_node(name)
        elif kind == "node":
            cache.put_node(make_node(name))
        elif kind == "slice":
            cache.remove_object("ResourceSlice", f"s{name[1:]}")
        elif kind == "all" and random.random() < 0.2:
            signatures.read(frozenset({("gpu.test", f"a{step}")}))
        layout = signatures.layout
        signatures.refresh(cache.nodes)
        results.refresh(signatures)
        results.refresh_rows(signatures)
        updated += signatures.layout == layout
        if step % 3:  # after several changes, too
            column = signatures.column.tolist()
            numbers = {*column} - {UNSHARED, NO_NODE}
            for pairs in (
                signatures.one_row_of_each(),
                signatures.one_row_of_each(np.arange(len(column))),
            ):
                assert [number for number, _ in pairs] == sorted(numbers)
                assert all(column[row] == number for number, row in pairs)
            some = signatures.one_row_of_each(np.array([0, 2]))
            assert {number for number, _ in some} == {column[0], column[2]} & numbers
            assert {row for _, row in some} <= {0, 2}

        assert is_equal_to_a_computation_anew(results, signatures)
        if kind == "verdict":
            verdict = random.choice([FEASIBLE, NO_DEVICES, BY_INVALID_POOLS])
            results.put(random.randrange(NO_NODE + 1, signatures.count), verdict)
            results.recompute_rows(signatures)
            assert is_equal_to_a_computation_anew(results, signatures)
    assert updated > 30


def test_nodes_that_share_nothing_keep_no_result() -> None:
    results = SharedResults(has_alternatives=False, ignores_released=True)
    signatures = Cache().devices.signatures
    results.refresh(signatures)
    results.put(UNSHARED, FEASIBLE)

    assert int(results.verdicts[UNSHARED]) == UNKNOWN
    assert int(results.verdicts[NO_NODE]) == FEASIBLE


def test_the_statuses_after_the_first_searches_are_those_of_the_verdicts() -> None:
    cache = Cache()
    for number in range(4):  # of as many devices, so no two have the same signature
        cache.put_node(make_node(f"n{number}"))
        devices = [make_device(f"d{index}") for index in range(number)]
        cache.put_object("ResourceSlice", make_slice(f"s{number}", devices, node=f"n{number}"))
    signatures = cache.devices.signatures
    signatures.refresh(cache.nodes)
    results = SharedResults(has_alternatives=False, ignores_released=True)
    results.refresh(signatures)
    statuses = {FEASIBLE: None, NO_DEVICES: NOT_ALLOCATABLE, BY_INVALID_POOLS: INVALID_POOLS}
    verdicts = [NO_DEVICES, FEASIBLE, BY_INVALID_POOLS]
    numbers = [signatures.column.item(cache.nodes.row(f"n{number}")) for number in range(4)]
    for number, verdict in zip(numbers, verdicts, strict=False):
        results.put(number, verdict)

    all_nodes = NodeView(cache.snapshot())
    searched = NodeView(
        cache.snapshot(), np.array([cache.nodes.row(f"n{number}") for number in (2, 1, 0)])
    )
    assert results.first_statuses(all_nodes, signatures) is None  # n3 was not searched
    answers = results.first_statuses(searched, signatures)
    assert answers is not None
    assert [answers.table[code - 1] if code else None for code in answers.codes.tolist()] == [
        statuses[verdict] for verdict in reversed(verdicts)
    ]
    results.put(numbers[3], FEASIBLE)
    answers = results.first_statuses(all_nodes, signatures)
    assert answers is not None
    assert np.count_nonzero(answers.codes) == 2

"""Tolerations: a table of the rules, and a scalar twin on random input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.node import Taint
from mooring.objects.pod import Toleration
from mooring.objects.tolerations import (
    HARD_EFFECTS,
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    first_untolerated,
    is_tolerated,
    tolerates,
)

GPU = Taint(key="gpu", value="yes", effect=NO_SCHEDULE)

EFFECTS = ["", NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE]
TAINTS = st.builds(
    Taint,
    key=st.sampled_from("abc"),
    value=st.sampled_from(["", "1", "2"]),
    effect=st.sampled_from(EFFECTS[1:]),
)
TOLERATIONS = st.builds(
    Toleration,
    key=st.sampled_from(["", "a", "b", "c"]),
    operator=st.sampled_from(["", "Equal", "Exists", "Gt", "Lt", "Like"]),
    value=st.sampled_from(["", "1", "2"]),
    effect=st.sampled_from(EFFECTS),
)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="gpu", operator="Equal", value="yes", effect=NO_SCHEDULE), True),
        (Toleration(key="gpu", value="yes"), True),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists", effect=NO_SCHEDULE), True),
        # No key with Equal is not a wildcard for values, only for keys.
        (Toleration(operator="Equal", value="yes"), True),
        (Toleration(operator="Equal"), False),
        (Toleration(key="gpu", value="no"), False),
        (Toleration(key="cpu", operator="Exists"), False),
        (Toleration(key="gpu", operator="Exists", effect=NO_EXECUTE), False),
        (Toleration(key="gpu", operator="exists"), False),
    ],
)
def test_a_toleration_covers_a_taint(toleration: Toleration, *, expected: bool) -> None:
    assert tolerates(toleration, GPU) is expected


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_comparing_operators_cover_nothing_while_their_gate_is_off(operator: str) -> None:
    taint = Taint(key="load", value="5", effect=NO_SCHEDULE)
    for value in ("4", "5", "6"):
        assert not tolerates(Toleration(key="load", operator=operator, value=value), taint)


def covers(toleration: Toleration, taint: Taint) -> bool:
    """Returns the rules, said another way: every part must be equal or stand for everything."""
    same_effect = toleration.effect in ("", taint.effect)
    same_key = toleration.key in ("", taint.key)
    same_value = {
        "Exists": True,
        "Equal": taint.value == toleration.value,
        "": taint.value == toleration.value,
    }.get(toleration.operator, False)
    return all((same_effect, same_key, same_value))


@given(st.lists(TAINTS, max_size=5), st.lists(TOLERATIONS, max_size=4))
def test_the_first_uncovered_taint_is_found(
    taints: list[Taint], tolerations: list[Toleration]
) -> None:
    uncovered = [
        taint
        for taint in taints
        if taint.effect != PREFER_NO_SCHEDULE
        and not any(covers(toleration, taint) for toleration in tolerations)
    ]
    assert first_untolerated(taints, tolerations) == (uncovered[0] if uncovered else None)
    for taint in taints:
        assert is_tolerated(taint, tolerations) is any(covers(one, taint) for one in tolerations)


def test_only_taints_with_the_given_effects_count() -> None:
    soft = Taint(key="slow", effect=PREFER_NO_SCHEDULE)
    assert first_untolerated([soft], []) is None
    assert first_untolerated([soft], [], {PREFER_NO_SCHEDULE}) == soft
    assert first_untolerated([soft, GPU], [], HARD_EFFECTS) == GPU

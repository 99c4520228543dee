"""Matches tolerations with taints.

Source: api v0.36.3, core/v1/toleration.go; component-helpers v0.36.3, scheduling/corev1/helpers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from mooring.objects.node import Taint
    from mooring.objects.pod import Toleration

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

#: The effects that make a node infeasible; PreferNoSchedule only lowers its score.
HARD_EFFECTS: Final = frozenset((NO_SCHEDULE, NO_EXECUTE))


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Returns whether the toleration tolerates the taint.

    An empty effect or key matches all, an empty operator means Equal. The operators Gt
    and Lt match nothing: their feature gate (TaintTolerationComparisonOperators) is off by default.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Returns whether one of the tolerations tolerates the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def first_untolerated(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    effects: Container[str] = HARD_EFFECTS,
) -> Taint | None:
    """Returns the first taint with one of these effects that is not tolerated, or None.

    ``tolerations`` is iterated once per taint, so it must not be an iterator.
    """
    for taint in taints:
        if taint.effect in effects and not is_tolerated(taint, tolerations):
            return taint
    return None

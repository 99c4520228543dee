"""Matches tolerations with taints.

Source: api v0.36.3, core/v1/toleration.go; component-helpers v0.36.3, scheduling/corev1/helpers.go.
"""

from __future__ import annotations

import re
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

#: Source: apimachinery's api/validate/content (IsDecimalInteger).
_DECIMAL: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_INT64_LENGTH_MAX: Final = 20


def tolerates(toleration: Toleration, taint: Taint, *, compares: bool = False) -> bool:
    """Returns whether the toleration tolerates the taint.

    An empty effect or key matches all, an empty operator means Equal. The operators Gt and Lt match
    only if ``compares``: their feature gate (TaintTolerationComparisonOperators) is off by default.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    if compares and toleration.operator in ("Lt", "Gt"):
        return _compare(toleration, taint)
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def _compare(toleration: Toleration, taint: Taint) -> bool:
    """Returns whether the taint's value is below (Lt) or above (Gt) that of the toleration."""
    limit, value = _int64(toleration.value), _int64(taint.value)
    if limit is None or value is None:
        return False
    return value < limit if toleration.operator == "Lt" else value > limit


def _int64(text: str) -> int | None:
    """Returns a decimal integer without leading zeros and plus sign; None for other texts."""
    if not _DECIMAL.fullmatch(text) or len(text) > _INT64_LENGTH_MAX:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def is_tolerated(
    taint: Taint, tolerations: Iterable[Toleration], *, compares: bool = False
) -> bool:
    """Returns whether one of the tolerations tolerates the taint; ``compares`` as above."""
    return any(tolerates(toleration, taint, compares=compares) for toleration in tolerations)


def first_untolerated(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    effects: Container[str] = HARD_EFFECTS,
    *,
    compares: bool = False,
) -> Taint | None:
    """Returns the first taint with one of these effects that is not tolerated, or None.

    ``tolerations`` is iterated once per taint, so it must not be an iterator.
    """
    for taint in taints:
        if taint.effect in effects and not is_tolerated(taint, tolerations, compares=compares):
            return taint
    return None

"""Places of volumes and nodes in some of the runs: rules of each operator, zones that are new.

Nodes lose their zone, or are the first ones of a zone that did not exist; volumes have terms of one
or two rules with the operators In, NotIn, Exists and DoesNotExist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mooring.clock import Rng

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ZONES: Final = ("a", "b")
#: Zones that no node has at the start.
LATE_ZONES: Final = ("c", "d")
#: Of the nodes that move so many have no zone then, and so many are in a late one.
NO_ZONE_SHARE: Final = 0.2
LATE_SHARE: Final = 0.4
OPERATORS: Final = ("In", "In", "NotIn", "NotIn", "Exists", "DoesNotExist")


class VolumePlaces:
    """Draws what is said of places.

    Attributes:
        paths: What was drawn, and how often.

    Args:
        rng: Draws all; None = nodes are in the first zones, and volumes have rules with In alone.
    """

    def __init__(self, rng: Rng | None) -> None:
        self.paths: Counter[str] = Counter()
        self._rng = rng

    def moved(self, labels: Mapping[str, str], zone: str) -> dict[str, str]:
        """Returns the labels of a node that moves to ``zone``, or elsewhere."""
        rng, moved = self._rng, {**labels, ZONE: zone}
        if rng is None:
            return moved
        draw = rng.random()
        if draw < NO_ZONE_SHARE:
            del moved[ZONE]
            self.paths["node without a zone"] += 1
        elif draw < NO_ZONE_SHARE + LATE_SHARE:
            moved[ZONE] = rng.choice(LATE_ZONES)
            self.paths["node in a late zone"] += 1
        return moved

    def zone(self, zone: str) -> str:
        """Returns the zone of a capacity."""
        if self._rng is None or self._rng.random() >= LATE_SHARE:
            return zone
        return self._rng.choice(LATE_ZONES)

    def terms(self, key: str, values: Sequence[str]) -> list[dict[str, Any]]:
        """Returns the terms of a volume for nodes with one of these values of a label."""
        if self._rng is None:
            rule = {"key": key, "operator": "In", "values": list(values)}
            return [{"matchExpressions": [rule]}]
        return [self._term(self._rng, key, values) for _ in range(self._rng.choice((1, 1, 2)))]

    def _term(self, rng: Rng, key: str, values: Sequence[str]) -> dict[str, Any]:
        rules = [self._rule(rng, key, values)]
        if rng.random() < 0.3:
            rules.append(self._rule(rng, ZONE, [rng.choice((*ZONES, *LATE_ZONES))]))
        return {"matchExpressions": rules}

    def _rule(self, rng: Rng, key: str, values: Sequence[str]) -> dict[str, Any]:
        operator = rng.choice(OPERATORS)
        self.paths[operator] += 1
        rule: dict[str, Any] = {"key": key, "operator": operator}
        return rule | {"values": list(values)} if operator in ("In", "NotIn") else rule


def meets(labels: Mapping[str, str], key: str, operator: str, values: Sequence[str]) -> bool:
    """Returns whether a node with these labels meets a rule."""
    match operator:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case _:
            assert operator == "DoesNotExist"
            return key not in labels

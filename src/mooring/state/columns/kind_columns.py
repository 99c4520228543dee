"""Kinds of pods as columns: which of them a selector matches, without asking one after another.

Worth it where very many conditions meet very many kinds: a pod with a thousand terms in a cluster
with thousands of Deployments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mooring.objects.selectors import DOES_NOT_EXIST, EXISTS, IN, Requirement, Selector
from mooring.state.columns.labels import MISSING

Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]


class LabelClassColumns:
    """The labels of n kinds, of those keys that selectors ask for.

    Complexity: O(labels of all kinds) to make, O(n) for each condition.
    """

    def __init__(
        self, labels: Sequence[Iterable[tuple[str, str]]], selectors: Iterable[Selector]
    ) -> None:
        """``labels`` are those of each kind, by position."""
        self._length = len(labels)
        keys = {each.key for selector in selectors for each in selector.requirements}
        self._columns: dict[str, tuple[Codes, dict[str, int]]] = {}
        for position, of_kind in enumerate(labels):
            for key, value in of_kind:
                if key not in keys:
                    continue
                if key not in self._columns:
                    self._columns[key] = np.full(self._length, MISSING, dtype=np.int32), {}
                codes, values = self._columns[key]
                codes[position] = values.setdefault(value, len(values))

    def matching(self, selector: Selector) -> Bools:
        """Which kinds the selector matches, bool shape (n,)."""
        found = np.full(self._length, not selector.selects_nothing, dtype=np.bool_)
        for condition in selector.requirements:
            found &= self._meeting(condition)
        return found

    def _meeting(self, condition: Requirement) -> Bools | bool:
        """Which kinds meet one condition; one bool if it is the same for all."""
        column = self._columns.get(condition.key)
        is_inverse = condition.operator not in (IN, EXISTS)
        if column is None:
            return is_inverse  # nobody has the label
        codes, values = column
        if condition.operator in (EXISTS, DOES_NOT_EXIST):
            has_it: Bools = codes != MISSING
            return ~has_it if is_inverse else has_it
        is_among = np.zeros(len(values) + 1, dtype=np.bool_)  # the last: no such label
        # Of thousands of values that are asked for, kinds have but a few.
        is_among[[values[value] for value in values.keys() & condition.values]] = True
        among: Bools = is_among[codes]
        return ~among if is_inverse else among

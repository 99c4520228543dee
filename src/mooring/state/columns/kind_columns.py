"""Label classes of pods as columns, to evaluate a selector for all of them at once.

Useful for many conditions and many label classes: a pod with a thousand terms in a cluster with
thousands of Deployments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mooring.objects.selectors import DOES_NOT_EXIST, EXISTS, IN, Requirement, Selector
from mooring.state.columns.labels import MISSING
from mooring.state.types import Bools

Codes = npt.NDArray[np.int32]


class LabelClassColumns:
    """The labels of n label classes, limited to the keys that the selectors use.

    Complexity: O(labels of all classes) to build, O(n) per condition.
    """

    def __init__(
        self, labels: Sequence[Iterable[tuple[str, str]]], selectors: Iterable[Selector]
    ) -> None:
        """Takes ``labels``, the labels of each class, by position."""
        self._length = len(labels)
        keys = {condition.key for selector in selectors for condition in selector.requirements}
        self._columns: dict[str, tuple[Codes, dict[str, int]]] = {}
        for position, of_class in enumerate(labels):
            for key, value in of_class:
                if key not in keys:
                    continue
                if key not in self._columns:
                    self._columns[key] = np.full(self._length, MISSING, dtype=np.int32), {}
                codes, values = self._columns[key]
                codes[position] = values.setdefault(value, len(values))

    def matching(self, selector: Selector) -> Bools:
        """Returns a mask of the classes that the selector matches, bool shape (n,)."""
        mask = np.full(self._length, not selector.selects_nothing, dtype=np.bool_)
        for condition in selector.requirements:
            mask &= self._mask_of(condition)
        return mask

    def _mask_of(self, condition: Requirement) -> Bools | bool:
        """Returns a mask of the classes that meet the condition; one bool if equal for all."""
        column = self._columns.get(condition.key)
        is_inverse = condition.operator not in (IN, EXISTS)
        if column is None:
            return is_inverse  # no class has the label
        codes, values = column
        if condition.operator in (EXISTS, DOES_NOT_EXIST):
            has_label: Bools = codes != MISSING
            return ~has_label if is_inverse else has_label
        is_among = np.zeros(len(values) + 1, dtype=np.bool_)  # the last: no such label
        # Of thousands of values in the condition, the classes have only a few.
        is_among[[values[value] for value in values.keys() & condition.values]] = True
        among: Bools = is_among[codes]
        return ~among if is_inverse else among

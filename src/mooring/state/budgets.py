"""PodDisruptionBudgets: how many pods of which kind may go at once."""

from __future__ import annotations

from mooring.objects.meta import key
from mooring.objects.workloads import PodDisruptionBudget


class Budgets:
    """The budgets by "namespace/name". The Cache is the one owner."""

    def __init__(self) -> None:
        self._budgets: dict[str, PodDisruptionBudget] = {}

    def __len__(self) -> int:
        """How many are known."""
        return len(self._budgets)

    def put(self, obj: PodDisruptionBudget) -> None:
        """A budget is new or changed."""
        self._budgets[key(obj)] = obj

    def remove(self, _kind: str, object_key: str) -> None:
        """The budget is gone. Unknown ones are fine."""
        self._budgets.pop(object_key, None)

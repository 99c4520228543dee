"""Damages one value of a cache at a time: each time the audit has to report something.

The caches are that of a ``state`` run, and one with devices or with volumes. A column that the
audit does not compare with the objects would stay wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from mooring.clock import Rng, seeded_random
from mooring.state.audit import audit, audit_row
from tests.faults.parts.corrupted_values import value_damages
from tests.faults.parts.node_devices_run import NodeDevicesRun
from tests.faults.parts.restrictions_run import RestrictionsRun
from tests.faults.parts.state_run import StateRun
from tests.faults.parts.taint_rules_run import TaintRulesRun
from tests.faults.parts.volume_tables_run import CountedRun
from tests.faults.twins.leftovers import parts_of

#: Arrays with a value for each row of a node.
ROW_ARRAYS: Final = (
    "counters._counters[]._counts",
    "nodes._alive",
    "nodes._allowed_pods",
    "nodes._labels._columns[].codes",
    "nodes._nonzero",
    "nodes._pod_count",
    "nodes._taint_ids",
    "nodes._unschedulable",
)
#: Arrays with a value for each slot of a pod.
SLOT_ARRAYS: Final = ("pods.node_row", "pods.priority", "pods.start_s", "pods.usage")
#: Arrays that the audit of single rows compares.
OF_ROWS: Final = frozenset(
    {*ROW_ARRAYS, *SLOT_ARRAYS} - {"counters._counters[]._counts", "pods.node_row"}
)
#: Tables of which no element may be missing.
TABLES: Final = (
    "counters._ids_by_namespace",
    "counters._ids_by_namespace[]",
    "nodes._labels._holders",
    "nodes.images._states",
    "nodes.images._states[].rows",
    "nodes.ports._users",
    "nodes.ports._users[]",
    "nodes.ports._users[][]",
    "pods._by_uid",
    "pods._on_row",
    "pods._on_row[]",
    "terms._sets",
    *(f"terms.{sort}._shared" for sort in ("affinity", "anti_affinity", "preferred")),
    *(f"terms.{sort}._shared[].rows._few" for sort in ("affinity", "anti_affinity", "preferred")),
)

#: The same for a cache with devices, and for those with volumes.
DEVICE_TABLES: Final = tuple(
    f"devices.{name}"
    for name in (
        "claims._of_pod",
        "in_use._all_consumed",
        "in_use._all_consumed[]",
        "in_use._all_dedicated",
        "in_use._all_shared",
        "slices._slices",
        "taint_rules._published",
    )
)
VOLUME_TABLES: Final = tuple(
    f"storage.{name}"
    for name in (
        "_named",
        "_named[]",
        "use._dependents",
        "use._dependents[]",
        "use._users",
        "use._users[]",
        "use._uses",
        "use.attached_volumes._users",
        "use.attached_volumes._users[]",
        "use.disks._users",
        "use.disks._users[]",
    )
)
#: In such seeds, modulo three, other caches are damaged, too.
WITH_OTHERS: Final = 1
VOLUME_SLOTS: Final = ("storage.use._counting",)

Undo = Callable[[], None]


class CorruptedRun:
    """One run.

    Attributes:
        problems: Damages that were not reported, and repaired ones that were.
        paths: How many parts of each kind were damaged.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._rng = seeded_random(seed + 7)
        self._values = seeded_random(seed + 8)
        self._state = StateRun(seed)
        if seed % 2:
            self._state._weights["count"] = 0.0  # pods have classes without any counter, too
        self._cache = self._state.cache
        self._seed = seed

    def run(self) -> None:
        """Makes the changes of other runs, then damages each part of their caches once."""
        self._state.run()
        self.problems += self._state.problems
        self._damage_all(TABLES, SLOT_ARRAYS)
        self._check("the class of a pod", self._damage_class())
        self._damage_values()
        if self._seed % 3 == WITH_OTHERS:
            self._damage_others()

    def _damage_others(self) -> None:
        """Damages a cache with devices, or two with volumes."""
        if self._seed % 2:
            devices = DevicesOfRun(self._seed)
            devices.run()
            self._cache = devices.cache
            self._damage_all(DEVICE_TABLES, ())
            self._damage_values()
            rules = TaintRulesRun(self._seed)
            rules.change()
            self._cache = rules.cache
            self._damage_values()
            return
        counted = CountedRun(seeded_random(self._seed))
        counted.run()
        restrictions = RestrictionsRun(self._seed)
        restrictions.run()
        for cache in (counted.cache, restrictions.cache):
            self._cache = cache
            self._damage_all(VOLUME_TABLES, VOLUME_SLOTS)
            self._damage_values()

    def _damage_values(self) -> None:
        """Puts other values in the place of some."""
        for damage in value_damages(self._cache, self._values):
            self.paths[damage.what] += 1
            if not damage.problems():
                self.problems.append(f"the audit does not see that {damage.what} is wrong")
            damage.undo()
            if problems := damage.problems():
                self.problems.append(f"{damage.what} is right again, but {problems[0]}")
        self.problems += audit(self._cache)

    def _damage_all(self, tables: Sequence[str], slot_arrays: Sequence[str]) -> None:
        for path, part in list(parts_of(self._cache)):
            damage = self._damage(path.removeprefix("Cache."), part, tables, slot_arrays)
            if damage is not None:
                self.paths[path] += 1
                self._check(path, damage)

    def _check(self, path: str, undo: Undo | None) -> None:
        if undo is None:
            return
        if not audit(self._cache):
            self.problems.append(f"the audit does not see that {path} is wrong")
        if path.removeprefix("Cache.") in OF_ROWS and not self._audited_rows():
            self.problems.append(f"the audit of each row does not see that {path} is wrong")
        undo()
        if problems := audit(self._cache):
            self.problems.append(f"{path} is right again, but {problems[0]}")

    def _audited_rows(self) -> list[str]:
        """Returns what is wrong of each row: the scheduler audits them in turns."""
        rows = range(self._cache.nodes.size)
        return [problem for row in rows for problem in audit_row(self._cache, row)]

    def _damage(
        self, path: str, part: Any, tables: Sequence[str], slot_arrays: Sequence[str]
    ) -> Undo | None:
        """Damages a part of the cache; returns what repairs it, None if it is not audited."""
        cache, rng = self._cache, self._rng
        if path in ROW_ARRAYS and (rows := cache.nodes.order.rows()):
            return _damage_array(part, rng.choice(rows), rng)
        if path in slot_arrays and (slots := [placed.slot for placed in cache.pods]):
            return _damage_array(part, rng.choice(slots), rng)
        if path in tables and part:
            return _damage_table(part, rng)
        return None

    def _damage_class(self) -> Undo | None:
        """Makes a pod count as one with other labels."""
        pods = list(self._cache.pods)
        column = self._cache.counters._class_of_slot
        classes = sorted({int(column[placed.slot]) for placed in pods})
        if len(classes) < 2:
            return None
        slot = self._rng.choice(pods).slot
        before = int(column[slot])
        column[slot] = self._rng.choice([it for it in classes if it != before])

        def undo() -> None:
            column[slot] = before

        return undo


class DevicesOfRun(NodeDevicesRun):
    """A ``node_devices`` run whose cache is not emptied, without devices that two claims have."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, has_shared=seed % 4 == 1)
        self.cache = self._cache
        self._leftovers: Any = SimpleNamespace(problems=list)

    def _reallocate(self) -> None:
        """Does nothing."""


def _damage_array(array: Any, place: int, rng: Rng) -> Undo:
    index = (rng.randrange(array.shape[0]), place) if array.ndim == 2 else (place,)
    before, is_writeable = array[index], array.flags.writeable
    array.flags.writeable = True
    array[index] = not before if array.dtype == np.bool_ else before + rng.choice((1, 2))

    def undo() -> None:
        array[index] = before
        array.flags.writeable = is_writeable

    return undo


def _damage_table(table: Any, rng: Rng) -> Undo:
    before = table.copy()
    if isinstance(table, set):
        table.discard(rng.choice(sorted(table)))
    else:
        table.pop(rng.choice(list(table)) if isinstance(table, dict) else rng.randrange(len(table)))

    def undo() -> None:
        table.clear()
        (table.extend if isinstance(table, list) else table.update)(before)

    return undo


def run_corrupted(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: the audit does not report a damage.
    """
    run = CorruptedRun(seed)
    run.run()
    assert not run.problems, run.problems[0]

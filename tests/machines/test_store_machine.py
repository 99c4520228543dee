"""The store of the embedded API server against a model: what was written, in order.

After every step: a list is what the model has; a replay of the history from any kept version onto
the state at that version gives the present state; a snapshot loads to the same.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mooring.apiserver.resources import resource_named
from mooring.apiserver.storage.history import Dropped
from mooring.apiserver.storage.store import Store
from mooring.apiserver.storage.stored_object import Stored

PODS = resource_named("", "pods")
NAMESPACES = ("a", "a-b", "a0")
KEYS = st.builds("{}/{}".format, st.sampled_from(NAMESPACES), st.sampled_from("xyz"))
VALUES = st.integers(0, 2)
NODES = st.sampled_from(("", "n1", "n2"))
CHANGES_MAX = 12

State = dict[str, dict[str, Any]]


def pod(key: str, value: int, node: str) -> dict[str, Any]:
    namespace, _, name = key.partition("/")
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": {"v": str(value)}}
    if value:
        metadata["ownerReferences"] = [{"uid": f"owner-{value}"}]
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}}


class StoreMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.store = Store(changes_max=CHANGES_MAX)
        self.pods = self.store.collection(PODS)
        self.model: State = {}
        self.states: dict[int, State] = {0: {}}

    @rule(key=KEYS, value=VALUES, node=NODES)
    def create_or_replace(self, key: str, value: int, node: str) -> None:
        found = pod(key, value, node)
        before = self.store.version
        if key in self.model:
            stored = self.pods.replace(key, found)
            is_same = self.model[key] == found
            assert (self.store.version == before) is is_same
        else:
            stored = self.pods.create(key, found)
            assert self.store.version == before + 1
        assert stored.version <= self.store.version
        self._write(key, found)

    @rule(key=KEYS)
    def remove(self, key: str) -> None:
        if key not in self.model:
            return
        last = self.pods.remove(key)
        assert last.version == self.store.version
        self.model.pop(key)
        self._write(key, None)

    def _write(self, key: str, found: dict[str, Any] | None) -> None:
        if found is not None:
            self.model[key] = found
        self.states[self.store.version] = dict(self.model)

    @rule()
    def load_a_snapshot(self) -> None:
        other = Store(changes_max=CHANGES_MAX)
        other.load(self.store.snapshot())
        assert other.version == self.store.version
        assert contents(other.collection(PODS).in_order()) == contents(self.pods.in_order())
        assert other.snapshot() == self.store.snapshot()

    @invariant()
    def lists_are_the_model(self) -> None:
        assert contents(self.pods.in_order()) == self.model
        assert [stored.key for stored in self.pods.in_order()] == sorted(self.model)
        for namespace in NAMESPACES:
            keys = [key for key in sorted(self.model) if key.startswith(f"{namespace}/")]
            assert [stored.key for stored in self.pods.in_order(namespace)] == keys
            assert self.pods.count(namespace) == len(keys)

    @invariant()
    def indexes_are_the_model(self) -> None:
        for node in ("n1", "n2"):
            keys = [k for k in sorted(self.model) if self.model[k]["spec"].get("nodeName") == node]
            assert [stored.key for stored in self.pods.on_node(node)] == keys
        for value in (1, 2):
            wanted = [{"uid": f"owner-{value}"}]
            keys = [
                key
                for key in sorted(self.model)
                if self.model[key]["metadata"].get("ownerReferences") == wanted
            ]
            assert [stored.key for stored in self.pods.owned_by(f"owner-{value}")] == keys

    @invariant()
    def history_replays_to_the_present(self) -> None:
        for version, state in self.states.items():
            try:
                changes = list(self.pods.history.since(version))
            except Dropped:
                assert version < self.pods.history.compacted
                continue
            assert contents(self.pods.at_version(version)) == state
            replayed = dict(state)
            for change in changes:
                if change.new is None:
                    del replayed[change.key]
                else:
                    replayed[change.key] = plain(change.new)
            assert replayed == self.model

    @invariant()
    def history_is_bounded(self) -> None:
        kept = self.pods.history.end - self.pods.history.position_after(self.pods.history.compacted)
        assert kept <= CHANGES_MAX + CHANGES_MAX // 4


def plain(stored: Stored) -> dict[str, Any]:
    found = stored.object()
    assert found["metadata"].pop("resourceVersion") == str(stored.version)
    return {"metadata": found["metadata"], "spec": found.get("spec", {})}


def contents(objects: Any) -> State:
    return {stored.key: plain(stored) for stored in objects}


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

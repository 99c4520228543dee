"""A hypothesis run over what is known of volumes: nodes, pods and objects come, change and go.

After every step all indexes and columns are those of a fresh walk (the audit), and what is assumed
follows kube-scheduler's assume cache; once everything is gone, nothing is kept.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from mooring.clock import seeded_random
from mooring.objects.meta import ObjectMeta, ObjectReference, key
from mooring.state import PodInfo, audit
from mooring.state.cache import Cache
from tests.plugins import volume_clusters as clusters

SEEDS = st.integers(0, 2**32)
PODS = [f"pod-{number}" for number in range(5)]
DRIVERS = (clusters.NET, clusters.DISK, clusters.EBS)


class StorageMachine(RuleBasedStateMachine):
    """Every way in which what is known of volumes can change."""

    @initialize()
    def begin(self) -> None:
        self.cache = Cache()
        #: (Kind, key) -> object, as the API server would have it.
        self.objects: dict[tuple[str, str], Any] = {}
        #: The same of what is assumed.
        self.assumed: dict[tuple[str, str], Any] = {}
        self.versions = 0

    @rule(name=st.sampled_from(clusters.NODES), seed=SEEDS)
    def put_node(self, name: str, seed: int) -> None:
        self.cache.put_node(clusters.node(seeded_random(seed), name))

    @rule(name=st.sampled_from(clusters.NODES))
    def remove_node(self, name: str) -> None:
        self.cache.remove_node(name)

    @rule(name=st.sampled_from(PODS), node=st.sampled_from(clusters.NODES), seed=SEEDS)
    def put_pod(self, name: str, node: str, seed: int) -> None:
        if self.cache.pods.get(name) is None:
            pod = clusters.pod(seeded_random(seed), name, node=node)
            self.cache.put_pod(replace(pod, metadata=replace(pod.metadata, uid=name)))

    @rule(name=st.sampled_from(PODS), node=st.sampled_from(clusters.NODES), seed=SEEDS)
    def assume_and_forget_pod(self, name: str, node: str, seed: int) -> None:
        pod = clusters.pod(seeded_random(seed), f"assumed-{name}")
        with self.cache.assume(PodInfo(pod).on_node(node), node):
            assert audit(self.cache) == []

    @rule(name=st.sampled_from(PODS))
    def remove_pod(self, name: str) -> None:
        self.cache.remove_pod(name)

    @rule(seed=SEEDS, count=st.integers(1, 12))
    def put_objects(self, seed: int, count: int) -> None:
        rng = seeded_random(seed)
        for obj in rng.sample(clusters.storage(rng), k=count):
            self.versions += 1
            self.put(self.versioned(obj, str(self.versions)))

    @precondition(lambda self: self.objects)
    @rule(data=st.data())
    def put_again(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from(sorted(self.objects)))
        self.put(self.objects[at])

    @precondition(lambda self: self.objects)
    @rule(data=st.data())
    def remove_object(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from(sorted(self.objects)))
        del self.objects[at]
        self.assumed.pop(at, None)
        self.cache.remove_object(*at)

    @precondition(lambda self: self.of_kind("PersistentVolume"))
    @rule(data=st.data(), claim=st.sampled_from(clusters.CLAIMS))
    def assume_volume(self, data: st.DataObject, claim: str) -> None:
        at = data.draw(st.sampled_from(self.of_kind("PersistentVolume")))
        volume = self.objects[at]
        reference = ObjectReference(namespace="default", name=claim, uid="u")
        given = replace(volume, spec=replace(volume.spec, claim_ref=reference))
        self.cache.storage.assume_volume(given)
        self.assumed[at] = given

    @precondition(lambda self: self.of_kind("PersistentVolumeClaim"))
    @rule(data=st.data())
    def assume_claim(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from(self.of_kind("PersistentVolumeClaim")))
        given = replace(self.objects[at])
        self.cache.storage.assume_claim(given)
        self.assumed[at] = given

    @precondition(lambda self: self.assumed)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from(sorted(self.assumed)))
        obj = self.assumed.pop(at)
        if at[0] == "PersistentVolume":
            self.cache.storage.restore_volume(obj)
        else:
            self.cache.storage.restore_claim(obj)

    @rule(driver=st.sampled_from(DRIVERS))
    def ask(self, driver: str) -> None:
        self.cache.storage.use.attached_volumes.remaining_by_row(driver)

    @invariant()
    def all_indexes_are_those_of_a_walk(self) -> None:
        assert audit(self.cache) == []

    @invariant()
    def what_is_assumed_is_what_upstream_would_assume(self) -> None:
        volumes, claims = self.cache.storage.assumed()
        found: dict[tuple[str, str], Any] = {
            **{("PersistentVolume", at): volume for at, volume in volumes.items()},
            **{("PersistentVolumeClaim", at): claim for at, claim in claims.items()},
        }
        assert found.keys() == self.assumed.keys()
        assert all(found[at] is self.assumed[at] for at in found)

    def teardown(self) -> None:
        for at in list(self.objects):
            self.cache.remove_object(*at)
        for placed in list(self.cache.pods):
            self.cache.remove_pod(placed.info.uid)
        storage = self.cache.storage
        use = storage.use
        assert storage.listings() == ({}, {})
        assert storage.assumed() == ({}, {})
        assert [storage.capacities(name) for name in clusters.CLASSES] == [None] * 6
        assert use.indexes() == ({}, {}, {})
        assert (use.uses(), use.attachments(), use.problems) == ([], [], {})
        assert (len(use.attached_volumes), len(use.disks)) == (0, 0)
        assert audit(self.cache) == []

    # -- helpers ----------------------------------------------------------------------------------

    def of_kind(self, kind: str) -> list[tuple[str, str]]:
        return sorted(at for at in self.objects if at[0] == kind)

    def put(self, obj: Any) -> None:
        at = type(obj).__name__, key(obj)
        assumed = self.assumed.get(at)
        version = obj.metadata.resource_version
        if assumed is not None and assumed.metadata.resource_version != version:
            del self.assumed[at]
        self.objects[at] = obj
        self.cache.put_object(at[0], obj)

    @staticmethod
    def versioned(obj: Any, version: str) -> Any:
        metadata: ObjectMeta = replace(obj.metadata, resource_version=version)
        return replace(obj, metadata=metadata)


TestStorage = StorageMachine.TestCase
TestStorage.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

"""VolumeBinding in PreBind: what is written, what is waited for, and what comes to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.config.types import VolumeBindingArgs
from mooring.errors import Conflict, PluginError, SchedulerError
from mooring.framework import Cycle
from mooring.framework.runtime import bind as binding
from mooring.framework.waiting_pods import WaitingPod
from mooring.plugins import VolumeBinding
from mooring.state import PodInfo, Snapshot, audit
from mooring.state.cache import Cache
from mooring.testing import Harness, make_node
from tests.helpers.volume_objects import (
    DRIVER,
    HOSTNAME,
    claim,
    csi,
    csi_node,
    put,
    storage_class,
    user,
    volume,
)

Step = Callable[[], Any]
SELECTED = "volume.kubernetes.io/selected-node"


class Desk:
    """A handle over a cache. Each wait of the plugin lets the next thing of ``script`` happen."""

    def __init__(self, *, timeout_s: int = 10) -> None:
        plugin = VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=timeout_s), self)
        self.harness = Harness([make_node("a", zone="1"), make_node("b")], [plugin])
        self.cache: Cache = self.harness.cache
        put(self.cache, storage_class("local"), storage_class("made", provisioner=DRIVER))
        self.now_s = 0.0
        self.script: list[Step] = []
        self.patches: list[tuple[str, str, Mapping[str, Any]]] = []
        self.failures: dict[str, SchedulerError] = {}
        self.waits: list[tuple[str, str]] = []

    # -- the handle -------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        return self.cache.snapshot()

    def monotonic_s(self) -> float:
        return self.now_s

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> Any:
        """Answers as the API server would; the news of it comes later."""
        self.patches.append((kind, key, patch))
        if key in self.failures:
            raise self.failures[key]
        storage = self.cache.storage
        found: Any = storage.volume(key) if kind == "PersistentVolume" else storage.claim(key)
        return replace(found, metadata=replace(found.metadata, resource_version="20"))

    async def until(
        self, kind: str, key: str, predicate: Callable[[Any], bool], deadline_s: float
    ) -> Any:
        self.waits.append((kind, key))
        if self.script:
            self.script.pop(0)()
            if predicate(None):
                return None
        self.now_s += deadline_s
        raise PluginError("", "wait", "timed out")

    def random(self) -> float:
        raise NotImplementedError

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        raise NotImplementedError

    def waiting_pods(self) -> Iterable[WaitingPod]:
        raise NotImplementedError

    def activate(self, *uids: str) -> None:
        raise NotImplementedError

    def is_preempting(self, uid: str) -> bool:
        raise NotImplementedError

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        raise NotImplementedError

    async def read(self, path: str) -> bytes:
        raise NotImplementedError

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        raise NotImplementedError

    # -- the test ---------------------------------------------------------------------------------

    def held(self, *storage: Any, claims: tuple[str, ...] = ("c",)) -> Cycle:
        """Returns a pod that was decided to go to node a, assumed and reserved there."""
        put(self.cache, *storage)
        pod = user("p", *claims)
        cycle, view, refusal = self.harness.begin(pod)
        assert refusal is None
        self.harness.plugins[0].filter(cycle, view)
        self.cache.assume(PodInfo(pod).on_node("a"), "a").keep()
        assert binding.reserve(self.harness.framework, cycle, "a") is None
        return cycle

    def bind_volumes(self, cycle: Cycle) -> str:
        """Returns what PreBind comes to: "" = bound."""
        try:
            status = asyncio.run(binding.pre_bind(self.harness.framework, cycle, "a"))
        except SchedulerError as error:
            return str(error)
        assert status is None
        return ""

    def news(self, *objects: Any) -> Step:
        """Returns the API server's news of these objects, when it comes."""
        return lambda: put(self.cache, *objects)


def failed(problem: str) -> str:
    return f'running PreBind plugin "VolumeBinding": binding volumes: {problem}'


GIVEN: dict[str, Any] = {"claim": "default/c", "version": "20"}


def test_a_volume_is_given_to_the_claim_and_both_are_waited_for() -> None:
    desk = Desk()
    cycle = desk.held(claim("c"), volume("v", annotations={"kept": "as it is"}))
    desk.script = [
        desk.news(volume("v", **GIVEN)),
        desk.news(claim("c", volume_name="v", version="21")),
    ]

    assert desk.bind_volumes(cycle) == ""

    assert desk.patches == [
        (
            "PersistentVolume",
            "v",
            {
                "metadata": {
                    "resourceVersion": "1",
                    "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
                },
                "spec": {
                    "claimRef": {
                        "kind": "PersistentVolumeClaim",
                        "namespace": "default",
                        "name": "c",
                        "uid": "uid-c",
                        "apiVersion": "v1",
                        "resourceVersion": "1",
                    }
                },
            },
        )
    ]
    assert desk.waits == [("PersistentVolume", "v"), ("PersistentVolumeClaim", "default/c")]
    assert desk.cache.storage.assumed() == ({}, {})
    assert audit(desk.cache) == []


def test_a_claim_says_where_it_wants_its_volume_and_gets_it() -> None:
    desk = Desk()
    cycle = desk.held(claim("c", storage_class="made"))
    made: dict[str, Any] = {"storage_class": "made", "node": "a"}
    desk.script = [
        desk.news(claim("c", version="20", **made)),
        desk.news(claim("c", version="22", volume_name="new", **made)),
        desk.news(volume("new", csi=csi(), near={HOSTNAME: "a"}, claim="default/c")),
    ]

    assert desk.bind_volumes(cycle) == ""

    patch = {"metadata": {"resourceVersion": "1", "annotations": {SELECTED: "a"}}}
    assert desk.patches == [("PersistentVolumeClaim", "default/c", patch)]
    assert desk.waits[-1] == ("PersistentVolume", "new")


def test_all_claims_to_be_provisioned_are_waited_for() -> None:
    desk = Desk()
    made: dict[str, Any] = {"storage_class": "made"}
    cycle = desk.held(claim("c", **made), claim("d", **made), claims=("c", "d"))
    desk.script = [
        desk.news(
            claim("c", version="22", volume_name="v", node="a", **made),
            volume("v", csi=csi(), claim="default/c"),
        ),
        desk.news(
            claim("d", version="23", volume_name="w", node="a", **made),
            volume("w", csi=csi(), claim="default/d"),
        ),
    ]

    assert desk.bind_volumes(cycle) == ""

    claims = [("PersistentVolumeClaim", f"default/{name}") for name in "cd"]
    assert desk.waits == claims
    assert desk.script == []


def test_volumes_are_written_before_claims() -> None:
    desk = Desk(timeout_s=1)
    made = claim("d", storage_class="made")
    cycle = desk.held(claim("c"), volume("v"), made, claims=("d", "c"))

    desk.bind_volumes(cycle)

    written = [(kind, key) for kind, key, _ in desk.patches]
    assert written == [("PersistentVolume", "v"), ("PersistentVolumeClaim", "default/d")]


def test_the_wait_ends_when_the_time_is_over() -> None:
    desk = Desk(timeout_s=3)
    cycle = desk.held(claim("c"), volume("v"))

    assert desk.bind_volumes(cycle) == failed("context deadline exceeded")
    assert desk.now_s == 3.0
    assert len(desk.waits) == 3


def test_a_write_that_is_refused_gives_up_what_was_not_written() -> None:
    desk = Desk()
    storage = [claim("c"), volume("v"), claim("d", size="2Gi"), volume("w", size="2Gi")]
    cycle = desk.held(*storage, claims=("c", "d"))
    desk.failures["w"] = Conflict("somebody else was faster", status=409)

    assert desk.bind_volumes(cycle) == "somebody else was faster"

    assert [key for _, key, _ in desk.patches] == ["v", "w"]
    # What was written stays assumed until the API server's news of it comes.
    assert sorted(desk.cache.storage.assumed()[0]) == ["v"]
    binding.unreserve(desk.harness.framework, cycle, "a")
    assert sorted(desk.cache.storage.assumed()[0]) == ["v"]
    put(desk.cache, volume("v", **GIVEN))
    assert desk.cache.storage.assumed() == ({}, {})


def test_without_a_way_to_the_api_server_nothing_is_written() -> None:
    desk = Desk()
    plugin = VolumeBinding()
    desk.harness.framework.selection._plugins["pre_bind"] = [plugin]
    cycle = desk.held(claim("c"), volume("v"))

    assert "no API server to write to" in desk.bind_volumes(cycle)


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (
            lambda desk: desk.cache.remove_object("PersistentVolume", "v"),
            'failed to check binding: persistentvolumes "v" not found',
        ),
        (
            lambda desk: desk.cache.remove_object("PersistentVolumeClaim", "default/c"),
            'failed to check binding: persistentvolumeclaims "default/c" not found',
        ),
        (
            lambda desk: put(desk.cache, volume("v", version="21")),
            'ClaimRef got reset for pv "v"',
        ),
        (
            lambda desk: put(desk.cache, volume("v", near={HOSTNAME: "b"}, **GIVEN)),
            'pv "v" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
        ),
        (
            lambda desk: desk.cache.remove_node("a"),
            'failed to get node "a": node "a" not found',
        ),
        (
            lambda desk: desk.cache.forget("pod-default-p"),
            'pod does not exist any more: pod "p" not found',
        ),
        (
            lambda desk: put(
                desk.cache,
                csi_node("a", migrated="kubernetes.io/aws-ebs"),
                volume("v", awsElasticBlockStore={"volumeID": "aws://z/bad"}, **GIVEN),
            ),
            "failed to translate pv to csi: could not translate pv: failed to translate "
            "Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/bad)",
        ),
    ],
)
def test_a_binding_that_comes_to_nothing(step: Callable[[Desk], Any], problem: str) -> None:
    desk = Desk()
    cycle = desk.held(claim("c"), volume("v"))
    desk.script = [lambda: step(desk)]

    assert desk.bind_volumes(cycle) == failed(problem)


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (
            lambda desk: put(desk.cache, claim("c", storage_class="made", version="21")),
            'selectedNode annotation reset for PVC "c"',
        ),
        (
            lambda desk: put(
                desk.cache,
                claim("c", storage_class="made", version="21", annotations={"why": "full"}),
            ),
            'provisioning failed for PVC "c"',
        ),
        (
            lambda desk: put(desk.cache, claim("c", storage_class="made", version="21", node="b")),
            'provisioning failed for PVC "c"',
        ),
        (
            lambda desk: desk.cache.remove_object("PersistentVolumeClaim", "default/c"),
            'failed to check provisioning pvc: persistentvolumeclaims "default/c" not found',
        ),
        (
            lambda desk: put(
                desk.cache,
                volume("new", near={HOSTNAME: "b"}),
                claim("c", storage_class="made", version="21", node="a", volume_name="new"),
            ),
            'pv "new" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
        ),
    ],
)
def test_a_volume_that_is_not_made(step: Callable[[Desk], Any], problem: str) -> None:
    desk = Desk()
    cycle = desk.held(claim("c", storage_class="made"))
    desk.script = [lambda: step(desk)]

    assert desk.bind_volumes(cycle) == failed(problem)


def test_old_news_of_what_was_written_tell_nothing() -> None:
    desk = Desk(timeout_s=2)
    cycle = desk.held(claim("c"), volume("v"))
    # Another client's update was in progress between our read and our write.
    desk.script = [desk.news(volume("v", version="19"), claim("c", volume_name="v", version="19"))]

    assert desk.bind_volumes(cycle) == failed("context deadline exceeded")
    assert set(desk.waits) == {("PersistentVolume", "v")}


def test_a_claim_that_was_bound_meanwhile_needs_no_wait() -> None:
    desk = Desk()
    cycle = desk.held(claim("c"), volume("v"))
    slow = desk.patch

    async def quick(kind: str, key: str, patch: Mapping[str, Any]) -> Any:
        answer = await slow(kind, key, patch)
        put(desk.cache, volume("v", **GIVEN), claim("c", volume_name="v", version="21"))
        return answer

    desk.patch = quick  # type: ignore[method-assign]

    assert desk.bind_volumes(cycle) == ""
    assert desk.waits == []

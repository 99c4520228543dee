"""The progress of binding a pod's volumes, in any state of its objects.

A node, a pod, volumes and claims are there or not, older or newer than what was written, bound or
not, reset, elsewhere, or of a plugin whose driver has taken over. What the binding waits for next,
or why it has failed, is compared with the checks of kube-scheduler, one object at a time. So is
what a binder does that has no handle. And waits for volumes and devices end in any way.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go (checkBindings,
tryTranslatePVToCSI).
"""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mooring.clock import seeded_random
from mooring.errors import PluginError
from mooring.objects.meta import ObjectReference
from mooring.plugins.volume_binding import bind_volumes
from mooring.plugins.volume_binding.bind_volumes import (
    BindingFailed,
    BindProgress,
    PodVolumes,
    VolumeBinder,
)
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_pod
from tests.faults.parts.binding_waits import device_waits, volume_waits
from tests.faults.parts.spoiled_objects import holds, spoiled_object
from tests.faults.parts.wait_turns import device_turns, volume_turns
from tests.plugins import volume_binding_twin, volume_clusters
from tests.plugins.volume_binding_twin import affinity, csi_affinity, has_taken_over, reaches
from tests.plugins.volume_limits_twin import IN_TREE, Broken, source_of, translated

TRIALS: Final = 30
#: Waits for volumes and for devices, and what is added to the seed for them.
WAITS: Final = 6
WAITS_SEED: Final = 1 << 45
NODE: Final = "node-0"
SELECTED: Final = "volume.kubernetes.io/selected-node"
COMPLETED: Final = "pv.kubernetes.io/bind-completed"
VERSIONS: Final = ("9", "10", "11", "", "a")
REGION_PROBLEM: Final = "failed to get region from zones"
UIDS: Final = ("uid", "uid", "uid", "")

#: What a binding waits for: a kind and a key; or why it has failed; None = nothing.
Progress = tuple[str, str] | str | None


class ProgressRun:
    """One run.

    Attributes:
        problems: Differences to the checks.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        self._cache = Cache()
        self._stored: dict[str, Any] = {}
        self._node: Any = None
        self._csi_node: Any = None
        self._pod = PodInfo(make_pod("web", uid="web"))
        self._has_pod = False

    def run(self) -> None:
        """Makes all trials, until one differs."""
        self._check_without_handle()
        for _ in range(TRIALS):
            self._draw()
            bindings = [self._binding(number) for number in range(self._rng.choice((0, 1, 2)))]
            provisions = [self._provision(number) for number in range(self._rng.choice((0, 1, 2)))]
            handle: Any = SimpleNamespace(snapshot=self._cache.snapshot())
            volumes = PodVolumes(bindings, provisions)
            progress = BindProgress(handle, self._pod, NODE, volumes)
            actual: Progress
            try:
                pending = progress.first_pending()
                actual = pending if pending is None else (pending.kind, pending.object_key)
            except BindingFailed as error:
                actual = str(error)
            expected = self._progress(bindings, provisions)
            if _short(actual) != _short(expected):
                self.problems.append(f"{actual}, not {expected}: {volumes}, {self._stored}")
                return

    def _check_without_handle(self) -> None:
        binder = VolumeBinder("VolumeBinding", None, 10.0)
        with pytest.raises(PluginError) as caught:
            asyncio.run(binder.bind(self._pod, NODE, PodVolumes([], [])))
        error = caught.value
        if (error.plugin, error.problem) != ("VolumeBinding", "no API server to write to"):
            self.problems.append(f"a binder without a handle: {error}")

    # -- what is drawn ----------------------------------------------------------------------------

    def _draw(self) -> None:
        rng, cache = self._rng, self._cache = self._rng, Cache()
        self._stored = {}
        self._node = volume_clusters.node(rng, NODE) if rng.random() < 0.95 else None
        if self._node is not None:
            cache.put_node(self._node)
        cache.put_node(volume_clusters.node(rng, "node-1"))
        self._csi_node = volume_clusters.csi_node(rng, NODE) if rng.random() < 0.7 else None
        if self._csi_node is not None:
            cache.put_object("CSINode", self._csi_node)
        self._has_pod = rng.random() < 0.95
        if self._has_pod:
            cache.put_pod(self._pod.on_node("node-1").pod)

    def _put(self, kind: str, obj: Any) -> Any:
        """Stores an object in some version, mostly; returns the one that was written."""
        rng = self._rng
        key = obj.metadata.name if kind == "PersistentVolume" else f"default/{obj.metadata.name}"
        if rng.random() < 0.92:
            version = rng.choice(VERSIONS)
            new = replace(obj, metadata=replace(obj.metadata, resource_version=version))
            self._stored[f"{kind} {key}"] = new
            self._cache.put_object(kind, new)
        written = replace(obj.metadata, resource_version=rng.choice(VERSIONS))
        return replace(obj, metadata=written)

    def _volume(self, name: str) -> Any:
        rng = self._rng
        volume = volume_clusters.volume(rng, name)
        if rng.random() < 0.1:
            volume = spoiled_object(rng, volume)
        owner = ObjectReference(namespace="default", name="data", uid=rng.choice(UIDS))
        owners = (owner, owner, owner, None)
        return replace(volume, spec=replace(volume.spec, claim_ref=rng.choice(owners)))

    def _claim(self, name: str) -> Any:
        rng = self._rng
        claim = volume_clusters.claim(rng, name, "default")
        annotations = {COMPLETED: "yes"} if rng.random() < 0.6 else {}
        if rng.random() < 0.9:
            annotations[SELECTED] = NODE if rng.random() < 0.9 else "node-1"
        spec = replace(claim.spec, volume_name="")
        return replace(claim, spec=spec, metadata=replace(claim.metadata, annotations=annotations))

    def _binding(self, number: int) -> Any:
        rng, name = self._rng, f"claim-{number}"
        volume = self._put("PersistentVolume", self._volume(f"volume-{number}"))
        claim = self._claim(name)
        bound_to = volume.metadata.name if rng.random() < 0.7 else ""
        claim = replace(claim, spec=replace(claim.spec, volume_name=bound_to))
        self._put("PersistentVolumeClaim", claim)
        return bind_volumes._Binding(volume, claim, is_assumed=False)

    def _provision(self, number: int) -> Any:
        claim = self._claim(f"new-{number}")
        if self._rng.random() < 0.7:
            volume = self._put("PersistentVolume", self._volume(f"made-{number}"))
            claim = replace(claim, spec=replace(claim.spec, volume_name=volume.metadata.name))
        return bind_volumes._Provision(self._put("PersistentVolumeClaim", claim))

    # -- the checks -------------------------------------------------------------------------------

    def _progress(self, bindings: list[Any], provisions: list[Any]) -> Progress:
        if self._node is None:
            return f'failed to get node "{NODE}": node "{NODE}" not found'
        if not self._has_pod:
            return 'pod does not exist any more: pod "web" not found'
        for binding in bindings:
            if (progress := self._of_binding(binding)) is not None:
                return progress
        for provision in provisions:
            if (progress := self._of_provision(provision)) is not None:
                return progress
        return None

    def _of_binding(self, binding: Any) -> Progress:
        name, claim_key = binding.volume.metadata.name, f"default/{binding.claim.metadata.name}"
        volume = self._stored.get(f"PersistentVolume {name}")
        claim = self._stored.get(f"PersistentVolumeClaim {claim_key}")
        if volume is None:
            return f'failed to check binding: persistentvolumes "{name}" not found'
        if claim is None:
            return f'failed to check binding: persistentvolumeclaims "{claim_key}" not found'
        if _is_older(volume, binding.volume):
            return "PersistentVolume", name
        if problem := self._problem(volume, "failed to translate pv to csi: "):
            return problem
        owner = volume.spec.claim_ref
        if owner is None or owner.uid == "":
            return f'ClaimRef got reset for pv "{name}"'
        return None if _is_bound(claim) else ("PersistentVolumeClaim", claim_key)

    def _of_provision(self, provision: Any) -> Progress:
        name = provision.claim.metadata.name
        claim_key = f"default/{name}"
        claim = self._stored.get(f"PersistentVolumeClaim {claim_key}")
        if claim is None:
            text = f'persistentvolumeclaims "{claim_key}" not found'
            return f"failed to check provisioning pvc: {text}"
        if _is_older(claim, provision.claim):
            return "PersistentVolumeClaim", claim_key
        if not claim.metadata.annotations:
            return f'selectedNode annotation reset for PVC "{name}"'
        if claim.metadata.annotations.get(SELECTED) != NODE:
            return f'provisioning failed for PVC "{name}"'
        if volume_name := claim.spec.volume_name:
            volume = self._stored.get(f"PersistentVolume {volume_name}")
            if volume is None:
                return "PersistentVolume", volume_name
            if problem := self._problem(volume, ""):
                return problem
        return None if _is_bound(claim) else ("PersistentVolumeClaim", claim_key)

    def _problem(self, volume: Any, prefix: str) -> str:
        """Returns why the node cannot use a volume; "" = it can."""
        terms, source = affinity(volume), source_of(volume.spec)
        if source is not None and IN_TREE[source][2] and has_taken_over(self._csi_node, source):
            try:
                translated(volume, source)
            except Broken as error:
                return f"{prefix}could not translate pv: {error}"
            terms = csi_affinity(volume, source)
        if reaches(terms, self._node.metadata.labels):
            return ""
        return (
            f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{NODE}": '
            "no matching NodeSelectorTerms"
        )


def _short(progress: Progress) -> Progress:
    """Returns the text of a problem without which zones have no region: it is not modelled."""
    return progress.split(REGION_PROBLEM)[0] if isinstance(progress, str) else progress


def _is_older(stored: Any, written: Any) -> bool:
    """Returns whether the stored version is older; versions that are no numbers are not."""
    versions = [it.metadata.resource_version for it in (stored, written)]
    return all(it.isdigit() for it in versions) and int(versions[0]) < int(versions[1])


def _is_bound(claim: Any) -> bool:
    return bool(claim.spec.volume_name) and COMPLETED in claim.metadata.annotations


def run_bind_progress(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: the progress is another one.
    """
    run = ProgressRun(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(volume_binding_twin, "holds", holds)
        run.run()
    rng = seeded_random(seed + WAITS_SEED)
    for _ in range(WAITS):
        run.problems += [*volume_waits(rng), *device_waits(rng)]
    turns = Random(f"{seed} turns")
    run.problems += [*volume_turns(turns), *device_turns(turns)]
    assert not run.problems, run.problems[0]

"""Performs the operations of steps, one step after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.patch.patch import apply_patch
from mooring.apiserver.registry.existing_objects import ExistingObjects
from mooring.chance import Streams
from mooring.errors import ConfigError
from mooring.objects.files.reader import read_values
from mooring.objects.generic import GenericObject
from mooring.objects.pod import Pod
from mooring.objects.schema.types import struct_of
from mooring.scenario.run_times import Draws
from mooring.scenario.scenario import (
    Creation,
    Operation,
    Patching,
    Reference,
    Removal,
    RunTime,
    Step,
    Template,
)
from mooring.simulation.controllers.objects import WORKLOAD_KINDS, Workload

if TYPE_CHECKING:
    from mooring.objects.types import Object
    from mooring.scenario.arrivals import Creator
    from mooring.scenario.node_life import NodeLife
    from mooring.simulation.engine.object_table import ObjectTable
    from mooring.simulation.engine.workload_controllers import WorkloadControllers

#: Fields of a pod's spec that may change while it waits.
_CHANGING: Final = frozenset({"scheduling_gates", "tolerations"})


class StepPlayer:
    """Performs steps.

    Args:
        steps: In order.
        table: The objects.
        workloads: Deployments and the like.
        creator: Creates objects.
        nodes: Removes nodes.
        streams: Of the run.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        table: ObjectTable,
        workloads: WorkloadControllers,
        creator: Creator,
        nodes: NodeLife,
        streams: Streams,
    ) -> None:
        self._steps = steps
        self._next = 0
        self._count = 0
        self._table = table
        self._workloads = workloads
        self._creator = creator
        self._nodes = nodes
        self._streams = streams

    def play_next(self) -> bool:
        """Performs the operations of the next step; returns False if there is none.

        Raises:
            ConfigError: one of them cannot be performed.
        """
        if self._next == len(self._steps):
            return False
        step = self._steps[self._next]
        self._next += 1
        draws = Draws(f"step-{step.number}", RunTime(), self._streams)
        for operation in step.operations:
            self._count += 1
            try:
                self._perform(operation, draws)
            except ConfigError as error:
                problem = f"{error.path}: {error.problem}" if error.path else error.problem
                raise operation.source.fault(problem, value=error.value) from error
            except ApiStatusError as error:
                raise operation.source.fault(error.message) from error
        return True

    def _perform(self, operation: Operation, draws: Draws) -> None:
        action = operation.action
        is_there = self._is_there(action.object)
        if isinstance(action, Creation):
            if is_there:
                raise ConfigError(f"{action.object.text} exists already")
            self._creator.create(self._with_uids(action.template), draws)
            return
        if not is_there:
            raise ConfigError(f"there is no {action.object.text}")
        if isinstance(action, Removal):
            self._remove(action.object)
        else:
            self._patch(operation, action)

    def _is_there(self, own: Reference) -> bool:
        if own.kind in WORKLOAD_KINDS:
            return own.key in self._workloads.cluster.workloads[own.kind]
        return own.key in self._table.objects(own.kind)

    def _with_uids(self, template: Template) -> Template:
        """Returns a template whose objects differ from those of the same name before them."""
        return replace_others(template, f"operation-{self._count}")

    def _remove(self, own: Reference) -> None:
        if own.kind == "Node":
            self._nodes.remove(own.name)
        elif own.kind in WORKLOAD_KINDS:
            self._workloads.delete(own.kind, own.key)
        else:
            self._table.delete(own.kind, own.key)

    # -- patches ----------------------------------------------------------------------------------

    def _patch(self, operation: Operation, action: Patching) -> None:
        own = action.object
        is_workload = own.kind in WORKLOAD_KINDS
        objects = (
            self._workloads.cluster.workloads[own.kind]
            if is_workload
            else self._table.objects(own.kind)
        )
        old: Any = objects[own.key]
        raw = _json(old, own)
        group = own.api_version.rpartition("/")[0]
        patch = msgspec.json.decode(msgspec.json.encode(action.patch))
        status = raw.get("status")
        patched = apply_patch(action.media_type, _json(old, own), patch, struct_of(group, own.kind))
        if patched.get("status") != status:
            raise ConfigError("a patch of an object leaves its status as it is", path="status")
        self._check_identity(patched, raw)
        objects_read = read_values([(operation.source, patched)], validator=ExistingObjects())
        if is_workload:
            self._workloads.replace(own.kind, own.key, objects_read.workloads[0])
            return
        [new] = objects_read
        if isinstance(new, Pod):
            self._put_pod(old, new)
        else:
            self._put(old, new)

    @staticmethod
    def _check_identity(patched: Object, raw: Object) -> None:
        for name in ("apiVersion", "kind"):
            if patched.get(name) != raw[name]:
                raise ConfigError("a patch cannot change it", path=name, value=patched.get(name))
        metadata = patched.get("metadata")
        for name in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"):
            own = metadata.get(name) if isinstance(metadata, dict) else None
            if own != raw["metadata"].get(name):
                raise ConfigError("a patch cannot change it", path=f"metadata.{name}", value=own)

    def _put_pod(self, old: Pod, new: Pod) -> None:
        for name in old.spec.__struct_fields__:
            if name not in _CHANGING and getattr(new.spec, name) != getattr(old.spec, name):
                raise ConfigError("a pod keeps its spec", path=f"spec.{name}")
        if len(new.spec.scheduling_gates) > len(old.spec.scheduling_gates):
            raise ConfigError("gates can only be taken away", path="spec.schedulingGates")
        self._table.put(replace(old, metadata=new.metadata, spec=new.spec))

    def _put(self, old: Any, new: Any) -> None:
        self._table.put(new)
        if new.kind == "Node" and new.spec.unschedulable != old.spec.unschedulable:
            # The node lifecycle controller taints it.
            self._nodes.follow_cordon(new.metadata.name)


def replace_others(template: Template, uid: str) -> Template:
    """Returns a template whose objects that are no pods and no workloads have other UIDs."""
    others = [
        obj
        if isinstance(obj, GenericObject)
        else replace(obj, metadata=replace(obj.metadata, uid=f"{uid}-{at}"))
        for at, obj in enumerate(template.others)
    ]
    return Template(template.pods, template.workloads, others)


def _json(obj: Any, own: Reference) -> Object:
    """Returns an object as JSON that a patch may change."""
    if isinstance(obj, GenericObject):
        content: Object = msgspec.json.decode(msgspec.json.encode(dict(obj)))
        return content
    raw: Object = msgspec.json.decode(msgspec.json.encode(obj))
    assert isinstance(obj, Workload) or raw is not None
    return {**raw, "apiVersion": own.api_version, "kind": own.kind}

"""kube-scheduler-simulator's Scenario as it is written: structs that a strict reader fills."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Struct, field

#: The group has been written in two ways.
API_VERSIONS: Final = (
    "simulation.kube-scheduler-simulator.sigs.k8s.io/v1alpha1",
    "simulation.kube-scheduler-simulator.x-k8s.io/v1alpha1",
)
KIND: Final = "Scenario"
#: A major step is an int32.
_Step = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class TypeMeta(Struct, frozen=True, rename="camel"):
    """The kind of an object."""

    kind: str
    api_version: str


class ObjectMeta(Struct, frozen=True, rename="camel"):
    """The name of an object."""

    name: str
    namespace: str = ""


class CreateOperation(Struct, frozen=True, rename="camel"):
    """Creates an object."""

    object: dict[str, Any]
    create_options: dict[str, Any] = field(default_factory=dict)


class PatchOperation(Struct, frozen=True, rename="camel"):
    """Patches an object; ``PatchType`` is how Go writes a field without a tag."""

    type_meta: TypeMeta
    object_meta: ObjectMeta
    patch: str
    patch_type: str = ""
    go_patch_type: str = field(default="", name="PatchType")
    patch_options: dict[str, Any] = field(default_factory=dict)


class DeleteOperation(Struct, frozen=True, rename="camel"):
    """Deletes an object."""

    type_meta: TypeMeta
    object_meta: ObjectMeta
    delete_options: dict[str, Any] = field(default_factory=dict)


class DoneOperation(Struct, frozen=True, rename="camel"):
    """Ends the scenario with its step."""


class Operation(Struct, frozen=True, rename="camel"):
    """One operation, of one of four kinds."""

    step: _Step
    id: str = ""
    create_operation: CreateOperation | None = None
    patch_operation: PatchOperation | None = None
    delete_operation: DeleteOperation | None = None
    done_operation: DoneOperation | None = None


class Controller(Struct, frozen=True, rename="camel"):
    """The name of a controller."""

    name: str


class ControllerSet(Struct, frozen=True, rename="camel"):
    """Controllers that run, and that do not."""

    enabled: tuple[Controller, ...] = ()
    disabled: tuple[Controller, ...] = ()


class Controllers(Struct, frozen=True, rename="camel"):
    """Controllers that are simulated, and those that act before them."""

    presimulation_controllers: ControllerSet = ControllerSet()
    simulation_controllers: ControllerSet = ControllerSet()


class Spec(Struct, frozen=True, rename="camel"):
    """The operations."""

    operations: tuple[Operation, ...]
    controllers: Controllers = Controllers()


class Document(Struct, frozen=True, rename="camel"):
    """A Scenario; its status is a result of the simulator, and has no meaning here."""

    api_version: str
    kind: str
    spec: Spec
    metadata: dict[str, Any] = field(default_factory=dict)
    status: Any = None

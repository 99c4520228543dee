"""Stage documents as they are written: structs that a strict reader fills."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Struct, field

API_VERSION: Final = "kwok.x-k8s.io/v1alpha1"
KIND: Final = "Stage"
#: Kubernetes counts milliseconds in 64 bits; a year is more than any delay needs.
DELAY_MS_MAX: Final = 100 * 365 * 24 * 3600 * 1000
_Milliseconds = Annotated[int, Meta(ge=0, le=DELAY_MS_MAX)]
_Weight = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class ResourceRef(Struct, frozen=True, rename="camel"):
    """The kind of the objects: Pod or Node."""

    kind: str
    api_group: str = "v1"


class JqRequirement(Struct, frozen=True, rename="camel"):
    """A requirement of the newer form."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Requirement(Struct, frozen=True, rename="camel"):
    """A condition of the results of a query; ``jq`` and ``cel`` are the newer form."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()
    jq: JqRequirement | None = None
    cel: Any = None


class Selector(Struct, frozen=True, rename="camel"):
    """The objects of a stage: all requirements hold."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_annotations: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[Requirement, ...] = ()


class JqExpression(Struct, frozen=True, rename="camel"):
    """A query of the newer form."""

    expression: str


class ExpressionFrom(Struct, frozen=True, rename="camel"):
    """A query whose first result is a value; ``jq`` and ``cel`` are the newer form."""

    expression_from: str = ""
    jq: JqExpression | None = None
    cel: Any = None


class Delay(Struct, frozen=True, rename="camel"):
    """The time before a stage: anything between duration and jitter."""

    duration_milliseconds: _Milliseconds | None = None
    duration_from: ExpressionFrom | None = None
    jitter_duration_milliseconds: _Milliseconds | None = None
    jitter_duration_from: ExpressionFrom | None = None


class FinalizerItem(Struct, frozen=True, rename="camel"):
    """One finalizer."""

    value: str


class Finalizers(Struct, frozen=True, rename="camel"):
    """Changes of the finalizers: ``empty``, then ``remove``, then ``add``."""

    add: tuple[FinalizerItem, ...] = ()
    remove: tuple[FinalizerItem, ...] = ()
    empty: bool = False


class Event(Struct, frozen=True, rename="camel"):
    """An event that KWOK records."""

    type: str = ""
    reason: str = ""
    message: str = ""


class Patch(Struct, frozen=True, rename="camel"):
    """A patch of a part of the object: of its status, here."""

    template: str
    root: str = ""
    subresource: str = ""
    type: str = ""
    impersonation: Any = None


class Next(Struct, frozen=True, rename="camel"):
    """The effects of a stage on its object."""

    event: Event | None = None
    finalizers: Finalizers | None = None
    delete: bool = False
    status_template: str = ""
    status_subresource: str = ""
    status_patch_as: Any = None
    patches: tuple[Patch, ...] = ()


class Step(Struct, frozen=True, rename="camel"):
    """One of the things that a stage does, in the newer form."""

    event: Event | None = None
    finalizers: Finalizers | None = None
    delete: bool = False
    patch: Patch | None = None


class Spec(Struct, frozen=True, rename="camel"):
    """A stage."""

    resource_ref: ResourceRef
    selector: Selector | None = None
    weight: _Weight = 0
    weight_from: ExpressionFrom | None = None
    delay: Delay | None = None
    next: Next | None = None
    steps: tuple[Step, ...] = ()
    immediate_next_stage: bool = False


class Document(Struct, frozen=True, rename="camel"):
    """A Stage document; only the name of its metadata has a meaning, and its status has none."""

    api_version: str
    kind: str
    metadata: dict[str, Any]
    spec: Spec
    status: Any = None

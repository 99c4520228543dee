"""Objects through defaulting and admission, and back as structs: for tests of the rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mooring.objects.codec.decode import convert
from mooring.objects.defaulting.admission import Neighbors, admit, with_defaults
from mooring.objects.kinds import kind_named
from mooring.objects.pod import Pod

Object = dict[str, Any]


def made(kind: str, **fields: Any) -> Object:
    """An object as a person would write it."""
    fields.setdefault("metadata", {"name": kind.lower()})
    return {"apiVersion": kind_named(kind).api_version, "kind": kind, **fields}


def pod(spec: Object | None = None, **metadata: Any) -> Object:
    """A pod as a person would write it."""
    return made("Pod", metadata={"name": "p", **metadata}, spec=spec or {})


def complete(raw: Object) -> Object:
    """The object with defaults."""
    return with_defaults(raw, kind_named(raw["kind"]))


def complete_pod(raw: Object) -> Pod:
    """The pod with defaults, as a struct."""
    found: Pod = convert(complete(raw), "Pod")
    return found


def admitted(raw: Object, others: Iterable[Object] = ()) -> Any:
    """The object as it is stored where ``others`` are, as a struct."""
    obj = complete(raw)
    admit(obj, Neighbors([complete(other) for other in others]))
    return convert(obj, raw["kind"])


def admitted_pod(raw: Object, others: Sequence[Object] = ()) -> Pod:
    """The pod as it is stored where ``others`` are."""
    found: Pod = admitted(raw, others)
    return found

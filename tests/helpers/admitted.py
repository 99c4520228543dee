"""Runs objects through defaulting and admission, for tests of these rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mooring.objects.codec.decode import convert
from mooring.objects.defaulting.admission import Neighbors, admit, with_defaults
from mooring.objects.kinds import kind_named
from mooring.objects.pod import Pod

Object = dict[str, Any]


def made(kind: str, **fields: Any) -> Object:
    """Returns an object as in a file, without defaults."""
    fields.setdefault("metadata", {"name": kind.lower()})
    return {"apiVersion": kind_named(kind).api_version, "kind": kind, **fields}


def pod(spec: Object | None = None, **metadata: Any) -> Object:
    """Returns a pod as in a file, without defaults."""
    return made("Pod", metadata={"name": "p", **metadata}, spec=spec or {})


def complete(raw: Object) -> Object:
    """Returns the object with defaults."""
    return with_defaults(raw, kind_named(raw["kind"]))


def complete_pod(raw: Object) -> Pod:
    """Returns the pod with defaults, as a struct."""
    pod: Pod = convert(complete(raw), "Pod")
    return pod


def admitted(raw: Object, others: Iterable[Object] = ()) -> Any:
    """Returns the object as it is stored in a cluster with ``others``, as a struct."""
    obj = complete(raw)
    admit(obj, Neighbors([complete(other) for other in others]))
    return convert(obj, raw["kind"])


def admitted_pod(raw: Object, others: Sequence[Object] = ()) -> Pod:
    """Returns the pod as it is stored in a cluster with ``others``."""
    pod: Pod = admitted(raw, others)
    return pod

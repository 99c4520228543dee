"""JSON of extender calls: encodes the requests, decodes the responses.

Field names of requests are capitalized, as kube-scheduler writes them; those of responses are read
in any case, as Go reads them. Full objects are the API server's own JSON, inserted undecoded.

Source: k8s.io/kube-scheduler extender/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec

from mooring.errors import ExtenderError
from mooring.framework.extender import FilterResult, PrioritizeResult, Victims
from mooring.objects.meta import ObjectMeta

T = TypeVar("T")

_NULL: Final = b"null"

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


# ---------------------------------------------------------------- requests


class Names(NamedTuple):
    """Names of nodes, and their JSON."""

    names: Sequence[str]
    json: bytes


def names_of(names: Sequence[str]) -> Names:
    """Returns names with their JSON."""
    return Names(names, msgspec.json.encode(names))


def names_args(pod: bytes, names: Names) -> bytes:
    """Returns the arguments of filter and prioritize with names of nodes."""
    return b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, names.json)


def objects_args(pod: bytes, nodes: Iterable[bytes]) -> bytes:
    """Returns the arguments of filter and prioritize with full nodes."""
    listed = b",".join(nodes)
    return b'{"Pod":%b,"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null}' % (pod, listed)


def meta_victims_args(pod: bytes, victims: Mapping[str, Victims]) -> bytes:
    """Returns the arguments of preempt with UIDs of victims."""
    by_node = {
        node: {
            "Pods": [{"UID": uid} for uid in node_victims.uids],
            "NumPDBViolations": node_victims.violations,
        }
        for node, node_victims in victims.items()
    }
    message = msgspec.json.encode(by_node)
    return b'{"Pod":%b,"NodeNameToVictims":null,"NodeNameToMetaVictims":%b}' % (pod, message)


def victims_args(pod: bytes, victims: Mapping[str, tuple[Sequence[bytes], int]]) -> bytes:
    """Returns the arguments of preempt with full victims: node -> pods, violated budgets."""
    parts = [
        b'%b:{"Pods":[%b],"NumPDBViolations":%d}' % (_text(node), b",".join(pods), violations)
        for node, (pods, violations) in victims.items()
    ]
    message = b",".join(parts)
    return b'{"Pod":%b,"NodeNameToVictims":{%b},"NodeNameToMetaVictims":null}' % (pod, message)


def binding_args(metadata: ObjectMeta, node_name: str) -> bytes:
    """Returns the arguments of bind."""
    return msgspec.json.encode(
        {
            "PodName": metadata.name,
            "PodNamespace": metadata.namespace,
            "PodUID": metadata.uid,
            "Node": node_name,
        }
    )


def _text(value: str) -> bytes:
    return msgspec.json.encode(value)


# ---------------------------------------------------------------- answers


class _Priority(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    Host: str
    Score: Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Node(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_PRIORITIES: Final = msgspec.json.Decoder(list[_Priority])


def read_filter(body: bytes, requested: Names | None) -> FilterResult:
    """Returns the feasible nodes of a filter response.

    Args:
        body: The response.
        requested: The names that were sent; None = full nodes were sent. The field NodeNames
            counts only in the first case.

    Raises:
        ExtenderError: the answer cannot be read, or is an error.
    """
    fields = _fields(body)
    _raise_error(fields)
    failed = _messages(fields, "failednodes")
    failed_and_unresolvable = _messages(fields, "failedandunresolvablenodes")
    if requested is not None and "nodenames" in fields:
        names_json = fields["nodenames"]
        if (
            memoryview(names_json) == requested.json
        ):  # the names as they were sent: nothing to decode
            return FilterResult(requested.names, failed, failed_and_unresolvable)
        return FilterResult(_decode(names_json, list[str]), failed, failed_and_unresolvable)
    listed = _fields(fields["nodes"]) if "nodes" in fields else {}
    nodes = _part(listed, "items", list[_Node]) or ()
    return FilterResult([node.metadata.name for node in nodes], failed, failed_and_unresolvable)


def _messages(fields: Mapping[str, msgspec.Raw], name: str) -> dict[str, str]:
    messages = _part(fields, name, dict[str, str | None]) or {}
    return {node: message or "" for node, message in messages.items()}


def read_priorities(body: bytes) -> PrioritizeResult:
    """Returns the nodes and their scores, in the order of the response.

    Raises:
        ExtenderError: the answer cannot be read, or a score is no int64.
    """
    try:  # the usual spelling
        listed = _PRIORITIES.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        entries = _decode(body, list[dict[str, Any]] | None) or []
    else:
        return PrioritizeResult(
            [priority.Host for priority in listed], [priority.Score for priority in listed]
        )
    hosts, scores = [], []
    for number, entry in enumerate(entries):
        fields = {name.lower(): value for name, value in entry.items()}
        host, score = fields.get("host") or "", fields.get("score") or 0
        if not isinstance(host, str):
            raise ExtenderError(f"[{number}].Host: must be a string")
        if isinstance(score, bool) or not isinstance(score, int):
            raise ExtenderError(f"[{number}].Score: must be a whole number")
        if not INT64_MIN <= score <= INT64_MAX:
            raise ExtenderError(f"[{number}].Score: {score} is not an int64")
        hosts.append(host)
        scores.append(score)
    return PrioritizeResult(hosts, scores)


def read_preempt(body: bytes) -> dict[str, Victims]:
    """Returns node -> victims.

    Raises:
        ExtenderError: the answer cannot be read.
    """
    fields = _fields(body)
    by_node = _part(fields, "nodenametometavictims", dict[str, msgspec.Raw]) or {}
    return {node: _victims(body_of_node) for node, body_of_node in by_node.items()}


def _victims(body: msgspec.Raw) -> Victims:
    fields = _fields(body)
    pods = _part(fields, "pods", list[dict[str, Any]]) or []
    uids = []
    for pod in pods:
        uid = {name.lower(): value for name, value in pod.items()}.get("uid") or ""
        if not isinstance(uid, str):
            raise ExtenderError("Pods: a UID must be a string")
        uids.append(uid)
    return Victims(tuple(uids), _part(fields, "numpdbviolations", int) or 0)


def read_bind(body: bytes) -> None:
    """Checks the response to bind.

    Raises:
        ExtenderError: the answer cannot be read, or is an error.
    """
    _raise_error(_fields(body))


def _raise_error(fields: Mapping[str, msgspec.Raw]) -> None:
    problem = _part(fields, "error", str)
    if problem:
        raise ExtenderError(problem)


def _fields(body: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Returns the fields that are not null, undecoded, by their names in lower case."""
    by_name = _decode(body, dict[str, msgspec.Raw] | None) or {}
    return {name.lower(): value for name, value in by_name.items() if not _is_null(value)}


def _is_null(value: msgspec.Raw) -> bool:
    return len(memoryview(value)) == len(_NULL) and bytes(value) == _NULL


def _part(fields: Mapping[str, msgspec.Raw], name: str, shape: type[T]) -> T | None:
    return _decode(fields[name], shape) if name in fields else None


def _decode(body: bytes | msgspec.Raw, shape: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ExtenderError(f"its answer cannot be read: {error}") from error

"""JSON of the extender webhook: decodes the calls of kube-scheduler, encodes the responses.

Field names of calls are capitalized today and were in lower case before; Go reads both, so both are
read here. Field names of responses are capitalized.

Source: k8s.io/kube-scheduler extender/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from mooring.errors import ConfigError
from mooring.objects.codec.decode import convert
from mooring.objects.node import Node
from mooring.objects.pod import Pod

#: Scores of an extender go from 0 to this.
SCORE_MAX = 10

Document = dict[str, Any]


class Filtering(NamedTuple):
    """The arguments of filter and prioritize: full nodes, or names (``documents`` is None)."""

    pod: Pod
    names: tuple[str, ...]
    documents: Mapping[str, Document] | None

    def nodes(self) -> list[Node]:
        """Returns the nodes as they were sent; for a name, an empty node."""
        if self.documents is None:
            return [convert({"metadata": {"name": name}}, "Node") for name in self.names]
        return [convert(document, "Node") for document in self.documents.values()]


class Victims(NamedTuple):
    """The victims on a node, by UID, and the number of violated budgets."""

    uids: tuple[str, ...]
    pdb_violations: int


class Preempting(NamedTuple):
    """The arguments of preempt: the victims on each node."""

    pod: Pod
    victims: Mapping[str, Victims]


class Binding(NamedTuple):
    """The arguments of bind."""

    namespace: str
    name: str
    uid: str
    node: str


def read_filtering(body: bytes) -> Filtering:
    """Returns the arguments of filter and prioritize.

    Raises:
        ConfigError: they are not JSON, or not such arguments; the path says where.
    """
    fields = _fields(_decoded(body))
    pod = _pod(fields)
    listed, names = fields.get("nodes"), fields.get("nodenames")
    if listed is not None:
        items = _list(_fields(_object(listed, "Nodes")).get("items"), "Nodes.items")
        documents = {_name(item, f"Nodes.items[{i}]"): item for i, item in enumerate(items)}
        return Filtering(pod, tuple(documents), documents)
    if names is None:
        raise ConfigError("neither Nodes nor NodeNames is there")
    for i, name in enumerate(_list(names, "NodeNames")):
        if not isinstance(name, str):
            raise ConfigError("must be a string", path=f"NodeNames[{i}]", value=name)
    return Filtering(pod, tuple(dict.fromkeys(names)), None)


def read_preempting(body: bytes) -> Preempting:
    """Returns the arguments of preempt, with whole victims or with their UIDs.

    Raises:
        ConfigError: as ``read_filtering``.
    """
    fields = _fields(_decoded(body))
    for name in ("nodenametometavictims", "nodenametovictims", "nodetovictims"):
        if fields.get(name):
            by_node = _object(fields[name], name)
            victims = {node: _victims(node_victims, node) for node, node_victims in by_node.items()}
            return Preempting(_pod(fields), victims)
    return Preempting(_pod(fields), {})


def read_binding(body: bytes) -> Binding:
    """Returns the arguments of bind.

    Raises:
        ConfigError: as ``read_filtering``.
    """
    fields = _fields(_decoded(body))
    parts = []
    for name in ("PodNamespace", "PodName", "PodUID", "Node"):
        value = fields.get(name.lower())
        if not isinstance(value, str) or not value:
            raise ConfigError("must be a string", path=name, value=value)
        parts.append(value)
    return Binding(*parts)


# ---------------------------------------------------------------- answers


def filter_result(
    request: Filtering,
    feasible: Sequence[str],
    failed: Mapping[str, str],
    failed_and_unresolvable: Mapping[str, str],
) -> bytes:
    """Returns the response to filter, with nodes in the form in which they were sent."""
    nodes: Document | None = None
    if request.documents is not None:
        nodes = {"metadata": {}, "items": [request.documents[name] for name in feasible]}
    names = list(feasible) if request.documents is None else None
    answer = {
        "Nodes": nodes,
        "NodeNames": names,
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": failed_and_unresolvable,
        "Error": "",
    }
    return msgspec.json.encode(answer)


def filter_error(problem: str) -> bytes:
    """Returns the response to a filter call that failed."""
    nothing = dict.fromkeys(
        ("Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes"), None
    )
    return msgspec.json.encode({**nothing, "Error": problem})


def priorities(scores: Mapping[str, float]) -> bytes:
    """Returns the response to prioritize: scores of 0 to 100 scaled to 0 to 10, rounded."""
    best = 100 // SCORE_MAX
    return msgspec.json.encode(
        [{"Host": name, "Score": int(score / best + 0.5)} for name, score in scores.items()]
    )


def preempt_result(victims: Mapping[str, Victims]) -> bytes:
    """Returns the response to preempt."""
    return msgspec.json.encode(
        {
            "NodeNameToMetaVictims": {
                node: {
                    "Pods": [{"UID": uid} for uid in node_victims.uids],
                    "NumPDBViolations": node_victims.pdb_violations,
                }
                for node, node_victims in victims.items()
            }
        }
    )


def bind_result(problem: str = "") -> bytes:
    """Returns the response to bind; ``problem`` says why the pod was not bound."""
    return msgspec.json.encode({"Error": problem})


# ---------------------------------------------------------------- inside


def _decoded(body: bytes) -> Document:
    try:
        return _object(msgspec.json.decode(body), "body")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"is no JSON: {error}", path="body") from error


def _fields(document: Document) -> Document:
    """Returns the fields with their names in lower case."""
    return {key.lower(): value for key, value in document.items()}


def _pod(document: Document) -> Pod:
    try:
        pod: Pod = convert(_object(document.get("pod"), "Pod"), "Pod")
    except ConfigError as error:
        path = ".".join(["Pod", *([error.path] if error.path else [])])
        at = error.path if error.path == "Pod" else path
        raise ConfigError(error.problem, path=at, value=error.value) from error
    return pod


def _victims(document: Any, node: str) -> Victims:
    fields = _fields(_object(document, node))
    uids = []
    for i, pod in enumerate(_list(fields.get("pods") or [], f"{node}.Pods")):
        path = f"{node}.Pods[{i}]"
        pod_fields = _fields(_object(pod, path))
        metadata = _fields(_object(pod_fields.get("metadata") or {}, f"{path}.metadata"))
        uid = pod_fields.get("uid") or metadata.get("uid")
        if not isinstance(uid, str):
            raise ConfigError("has no UID", path=path)
        uids.append(uid)
    violations = fields.get("numpdbviolations") or 0
    if not isinstance(violations, int):
        raise ConfigError("must be a number", path=f"{node}.NumPDBViolations", value=violations)
    return Victims(tuple(uids), violations)


def _name(document: Any, path: str) -> str:
    metadata = _object(document, path).get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise ConfigError("must be a string", path=f"{path}.metadata.name", value=name)
    return name


def _object(value: Any, path: str) -> Document:
    if not isinstance(value, dict):
        raise ConfigError("must be an object", path=path, value=value)
    return value


def _list(value: Any, path: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConfigError("must be a list", path=path, value=value)
    return value

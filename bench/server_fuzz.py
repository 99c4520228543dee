"""The embedded API server beside kube-apiserver, with objects that are changed at random.

``python -m bench server_fuzz [--count N] [--seed N] [--kinds KIND ...] [--out FILE]``: each object
is one that a scenario of the contract suite creates, with one to three random changes by the types
of its fields. Both servers get it as a create or an update, as a dry run; their answers must be
equal but for what servers make up (``tests/integration/contract/api.py``). Each difference is
printed with what was sent: the causes that one server alone gives, or where the objects differ.
With ``--statuses`` they are random statuses of the stored objects instead, with ``--patches``
random patches and applies of them. Some of those that both servers accept are stored, so later
ones are changes of them.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.machine import machine
from mooring.apiserver.resources import RESOURCES, Resource, struct_of
from mooring.clock import Rng, seeded_random
from mooring.objects.schema.types import structs
from mooring.testing.controlplane import ControlPlane
from tests.helpers.contract_objects import NAMES, accepted_objects
from tests.integration.contract.api import APPLY, MERGE, STRATEGIC, Api
from tests.integration.contract.conftest import admin_of, api_of
from tests.integration.contract.scenario import path

Document = dict[str, Any]

NAMESPACE: Final = "fuzz"
SHOWN_MAX: Final = 240
#: Fields of metadata that are left alone: servers make them up, or names with them.
NOT_CHANGED: Final = frozenset(
    {
        *("managedFields", "ownerReferences", "resourceVersion", "uid", "selfLink"),
        *("generateName", "namespace"),
    }
)
#: Kind -> why it is left out; see also ``docs/reference/apiserver.md``.
LEFT_OUT: Final = {
    "Service": "addresses and ports are allocated by each server",
    "Lease": "the fields of coordinated election are stored without their gate",
}
TEXTS: Final = (
    *("", "a", "A", "a/b", "-x", "x" * 64, "x" * 254, "example.com/foo", "a b", "1", "true", "*"),
    *("a.b", "10.0.0.1", "::1", "host", "Never", "Always", "None", "Recreate", "IfNotPresent"),
    *("100%", "50%", "-1", "1Gi", "0.5", "In", "Exists", "TCP", "NoSchedule", "NoExecute"),
    *("kubernetes.io/x", "Local", "Cluster", "/a", "../a", "2026-01-02T03:04:05Z"),
)
KEYS: Final = ("a", "a/b", "x y", "example.com/foo", "cpu", "memory", "nvidia.com/gpu")
NUMBERS: Final = (0, 1, -1, 2, 100, 65536, 30, 2**31 - 1, -5, 10**9)
QUANTITIES: Final = ("1", "0", "-1", "100m", "1Gi", "1.5", "0.5m")
DEPTH_MAX: Final = 4
#: What follows in a message about a pod or a claim is the difference of two structs of Go.
_BEFORE_DIFFERENCE: Final = re.compile(
    r"(if it was previously negative\)|for bound claims|is immutable after creation)\n.*", re.DOTALL
)
WAYS: Final = ("create", "create", "create", "update")
#: A status that both servers accept is stored as often as that.
STORED: Final = 0.3
#: Objects of kinds that have a status and that the scheduler does not read: apiVersion, kind, spec.
#: Not ResourceQuota, whose status the embedded server writes by itself.
_TEMPLATE: Final[Document] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
_WORKLOAD: Final[Document] = {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}
_BATCH: Final[Document] = {
    "template": {"spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}},
}
_BACKEND: Final[Document] = {"service": {"name": "a", "port": {"number": 80}}}
OTHER_OBJECTS: Final[tuple[tuple[str, str, Document], ...]] = (
    ("apps/v1", "Deployment", _WORKLOAD),
    ("apps/v1", "DaemonSet", _WORKLOAD),
    ("batch/v1", "Job", _BATCH),
    ("batch/v1", "Job", {**_BATCH, "completions": 3, "completionMode": "Indexed"}),
    (
        "batch/v1",
        "Job",
        {**_BATCH, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1},
    ),
    ("batch/v1", "CronJob", {"schedule": "* * * * *", "jobTemplate": {"spec": _BATCH}}),
    ("networking.k8s.io/v1", "Ingress", {"defaultBackend": _BACKEND}),
    (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "a"}},
    ),
    ("policy/v1", "PodDisruptionBudget", {"minAvailable": 1}),
)
#: A part of a patch is kept as often as that.
PARTS: Final = 0.7
#: A text in a status is one of the object's own as often as that, such as a container's name.
OWN_TEXTS: Final = 0.4


class Base(NamedTuple):
    """An object that both servers accept."""

    resource: Resource
    sent: Document


def main(arguments: list[str]) -> int:
    """Sends the objects, prints the differences; 1 if there are any."""
    options = _parser().parse_args(arguments)
    print(machine())
    bases = _bases(set(options.kinds))
    if options.statuses:
        bases += _other_bases(set(options.kinds))
        bases = [base for base in bases if base.resource.subresource("status") is not None]
    rng = seeded_random(options.seed)
    codes: Counter[int] = Counter()
    differences: Counter[str] = Counter()
    with _servers() as servers, options.out as out:
        for base, api in itertools.product(bases, servers):
            api.post(_url(base.resource), _renamed(base, base.sent))
        statuses: dict[str, Document] = {}
        kinds = sorted({base.resource.kind for base in bases})
        for number in range(options.count):
            base = rng.choice(bases)
            if options.statuses or options.patches:  # most objects are pods
                kind = rng.choice(kinds)
                base = rng.choice([base for base in bases if base.resource.kind == kind])
            if options.patches:
                what = "patch"
                obj, real, embedded = _send_patch(servers, base, rng)
            elif options.statuses:
                what = "status"
                obj, real, embedded = _send_status(servers, base, statuses, rng)
            else:
                what = rng.choice(WAYS)
                obj = mutated(base, rng)
                real, embedded = (
                    _send(api, base, obj, is_update=what == "update") for api in servers
                )
            codes[real[1]] += 1
            if real == embedded:
                continue
            differences[base.resource.kind] += 1
            print(f"\n{number} {base.resource.kind}, {what}: {json.dumps(obj)}", file=out)
            out.writelines(f"  {line}\n" for line in _difference(real, embedded))
    told = ", ".join(f"{kind} {count}" for kind, count in differences.most_common())
    print(f"{options.count} objects of {len(bases)} bases, codes {dict(sorted(codes.items()))}")
    print(f"{differences.total()} answers differ{': ' if told else ''}{told}")
    return int(differences.total() > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench server_fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=[], help="these alone")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--statuses", action="store_true", help="updates of statuses")
    ways.add_argument("--patches", action="store_true", help="patches of stored objects")
    parser.add_argument("--out", type=argparse.FileType("w"), default=sys.stdout)
    return parser


def _bases(kinds: set[str]) -> list[Base]:
    """Returns the objects of the scenarios whose kinds are chosen."""
    resources = {
        (resource.api_version, resource.kind): resource
        for resource in RESOURCES
        if "create" in resource.verbs and resource.kind not in LEFT_OUT
    }
    return [
        Base(resource, accepted.sent)
        for name in NAMES
        for accepted in accepted_objects(name)
        if (resource := resources.get((accepted.stored["apiVersion"], accepted.stored["kind"])))
        and (not kinds or resource.kind in kinds)
    ]


def _other_bases(kinds: set[str]) -> list[Base]:
    resources = {(resource.api_version, resource.kind): resource for resource in RESOURCES}
    return [
        Base(
            resources[api_version, kind],
            {
                "apiVersion": api_version,
                "kind": kind,
                "metadata": {"name": f"other-{number}"},
                "spec": spec,
            },
        )
        for number, (api_version, kind, spec) in enumerate(OTHER_OBJECTS)
        if not kinds or kind in kinds
    ]


@contextmanager
def _servers() -> Iterator[tuple[Api, Api]]:
    """Runs kube-apiserver and ``mooring apiserver``, each with the namespace."""
    with tempfile.TemporaryDirectory() as folder, ControlPlane() as plane:
        file = Path(folder) / "kubeconfig"
        command = ["apiserver", "--port", "0", "--kubeconfig-out", str(file)]
        process = subprocess.Popen(
            [sys.executable, "-m", "mooring", *command], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it listens, and the file is there
            servers = admin_of(plane), api_of(file)
            for api in servers:
                space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
                account: Document = {"apiVersion": "v1", "kind": "ServiceAccount"}
                account |= {"metadata": {"name": "default"}}
                api.post("/api/v1/namespaces", space)
                api.post(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
            yield servers
        finally:
            process.terminate()
            process.communicate(timeout=30)


def _url(resource: Resource, name: str = "", *more: str) -> str:
    group = f"apis/{resource.group}" if resource.group else "api"
    namespace = NAMESPACE if resource.namespaced else ""
    return path(f"{group}/{resource.version}", namespace, resource.name, name, *more)


def _renamed(base: Base, obj: Document) -> Document:
    """Returns an object with a name of its own, under which both servers store it."""
    obj = _headed(base, obj)
    name = base.sent["metadata"].get("name", "object")
    return {**obj, "metadata": {**obj["metadata"], "name": f"{name}-stored"}}


def _headed(base: Base, obj: Document) -> Document:
    head = {"apiVersion": base.resource.api_version, "kind": base.resource.kind}
    metadata = {**obj.get("metadata", {})}
    metadata.pop("namespace", None)
    if metadata.pop("generateName", ""):  # each server would make up another name
        metadata.setdefault("name", "generated")
    return {**obj, **head, "metadata": metadata}


def _send(api: Api, base: Base, obj: Document, *, is_update: bool) -> list[Any]:
    """Returns request, code and body of the answer, with tokens for what servers make up."""
    api.notes.clear()
    if is_update:
        obj = _renamed(base, obj)
        api.put(_url(base.resource, obj["metadata"]["name"]), obj, dryRun="All")
    else:
        api.post(_url(base.resource), obj, dryRun="All")
    answer: list[Any] = _without_difference(api.transcript()[-1])
    return answer


def _send_status(
    servers: tuple[Api, Api], base: Base, statuses: dict[str, Document], rng: Rng
) -> tuple[Document, list[Any], list[Any]]:
    """Returns an object with a random status, and the answers of the servers.

    ``statuses`` has those that are stored, by the address of the object.
    """
    stored = _renamed(base, base.sent)
    address = _url(base.resource, stored["metadata"]["name"], "status")
    status = copy.deepcopy(statuses.get(address, {}))
    type_name = structs()[struct_of(base.resource)]["status"].type_name
    texts = (*TEXTS, *sorted(set(_texts(base.sent))))
    for _ in range(rng.choice((1, 2, 3, 4))):
        place = rng.choice(list(_places(None, "", type_name, status)))
        _change(place, rng)
    status = _with_own_texts(status, texts, rng)
    obj = {**stored, "status": status}
    real, embedded, is_stored = _ask(
        servers, lambda api, **query: api.put(address, obj, **query), rng
    )
    if is_stored:
        statuses[address] = status
    return obj, real, embedded


def _ask(
    servers: tuple[Api, Api], send: Callable[..., Any], rng: Rng
) -> tuple[list[Any], list[Any], bool]:
    """Returns the answers of both servers to a dry run, and whether both have stored it then."""
    answers = []
    for api in servers:
        api.notes.clear()
        send(api, dryRun="All")
        answers.append(_without_difference(api.transcript()[-1]))
    real, embedded = answers
    is_stored = real == embedded and real[1] == HTTPStatus.OK and rng.random() < STORED
    for api in servers if is_stored else ():
        send(api)
    return real, embedded, is_stored


def _send_patch(
    servers: tuple[Api, Api], base: Base, rng: Rng
) -> tuple[Document, list[Any], list[Any]]:
    """Returns a random patch of a stored object, with its kind, and the answers of the servers."""
    how = rng.choice((MERGE, STRATEGIC, APPLY, APPLY))
    obj = mutated(base, rng)
    if rng.random() < 0.7:
        obj = _thinned(obj, rng)
    name = _renamed(base, base.sent)["metadata"]["name"]
    head = {"apiVersion": base.resource.api_version, "kind": base.resource.kind}
    obj = {**obj, **head, "metadata": {**obj.get("metadata", {}), "name": name}}
    query = {"fieldManager": rng.choice(("one", "two"))}
    if how == APPLY and rng.random() < 0.5:
        query["force"] = "true"
    url = _url(base.resource, name)
    real, embedded, _ = _ask(
        servers, lambda api, **more: api.patch(url, obj, how, **query, **more), rng
    )
    return {"how": how, **query, "patch": obj}, real, embedded


def _thinned(value: Any, rng: Rng) -> Any:
    """Returns a part of an object."""
    if isinstance(value, dict):
        return {
            name: _thinned(below, rng)
            for name, below in value.items()
            if name in ("name", "key") or rng.random() < PARTS
        }
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for below in value.values() if isinstance(value, dict) else value:
            yield from _texts(below)


def _with_own_texts(value: Any, texts: Sequence[str], rng: Rng) -> Any:
    """Returns a status of which some random texts are texts of the object."""
    if isinstance(value, dict):
        return {name: _with_own_texts(below, texts, rng) for name, below in value.items()}
    if isinstance(value, list):
        return [_with_own_texts(below, texts, rng) for below in value]
    is_random = isinstance(value, str) and value in TEXTS and rng.random() < OWN_TEXTS
    return rng.choice(texts) if is_random else value


def _without_difference(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_difference(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_without_difference(below) for below in value]
    return _BEFORE_DIFFERENCE.sub(r"\1", value) if isinstance(value, str) else value


# -- random changes ------------------------------------------------------------------------------


def mutated(base: Base, rng: Rng) -> Document:
    """Returns a copy of an object with one to three changes."""
    type_name = struct_of(base.resource)
    obj = _headed(base, copy.deepcopy(base.sent))
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change(rng.choice(list(_places(None, "", type_name, obj))), rng)
    return _headed(base, obj)


class Place(NamedTuple):
    """Something in an object: its container and the key there, its type and value."""

    parent: Any
    key: Any
    type_name: str
    value: Any


def _places(parent: Any, key: Any, type_name: str, value: Any) -> Iterator[Place]:
    yield Place(parent, key, type_name, value)
    if type_name[:2] in ("[]", "{}") and isinstance(value, list | dict):
        items = enumerate(value) if isinstance(value, list) else value.items()
        for name, below in items:
            yield from _places(value, name, type_name[2:], below)
    elif type_name in structs() and isinstance(value, dict):
        fields = structs()[type_name]
        for name in sorted(value.keys() & fields.keys() - {"apiVersion", "kind"}):
            yield from _places(value, name, fields[name].type_name, value[name])


def _changed(type_name: str) -> set[str]:
    """Returns the fields of a struct that are changed: all but the status of an object."""
    fields = structs()[type_name]
    has_status = "status" in fields and fields["status"].type_name in structs()
    return fields.keys() - NOT_CHANGED - ({"status"} if has_status else set())


def _change(place: Place, rng: Rng) -> None:
    parent, key, type_name, value = place
    if type_name in structs() and isinstance(value, dict) and rng.random() < 0.75:
        fields = structs()[type_name]
        if names := sorted(_changed(type_name) - {"apiVersion", "kind"}):
            name = rng.choice(names)
            value[name] = _random(fields[name].type_name, rng, 0)
    elif parent is None:
        return
    elif rng.random() < 0.2:
        del parent[key]
    elif isinstance(parent, list) and rng.random() < 0.1:
        parent.append(copy.deepcopy(value))
    else:
        parent[key] = _random(type_name, rng, 0)


def _random(type_name: str, rng: Rng, depth: int) -> Any:
    """Returns a value of a type."""
    # Never an empty list or map: whether it was sent, the embedded server does not know.
    count = rng.choice((1, 1, 2))
    if type_name.startswith("[]"):
        return [_random(type_name[2:], rng, depth + 1) for _ in range(count)]
    if type_name.startswith("{}"):
        return {rng.choice(KEYS): _random(type_name[2:], rng, depth + 1) for _ in range(count)}
    if type_name in structs():
        fields = structs()[type_name]
        names = sorted(_changed(type_name)) if depth <= DEPTH_MAX else []
        chosen = rng.sample(names, min(count, len(names)))
        return {name: _random(fields[name].type_name, rng, depth + 1) for name in chosen}
    time = "2026-01-02T03:04:05Z"
    values: dict[str, Any] = {
        "string": rng.choice(TEXTS),
        "IntOrString": rng.choice((*NUMBERS, *TEXTS)),
        "bool": rng.random() < 0.5,
        "Quantity": rng.choice(QUANTITIES),
        "Time": time,
        "MicroTime": time.replace("Z", ".000000Z"),
        "bytes": "AQ==",
        "float64": 1.5,
        "any": {"a": "b"},
    }
    return values.get(type_name, rng.choice(NUMBERS))


# -- differences ---------------------------------------------------------------------------------


def _difference(real: list[Any], embedded: list[Any]) -> Iterator[str]:
    """Yields lines that say how two answers differ."""
    if real[1] != embedded[1]:
        yield f"kube-apiserver {real[1]}, mooring {embedded[1]}"
    causes, own = _causes(real[2]), _causes(embedded[2])
    counts, own_counts = Counter(causes), Counter(own)
    yield from (f"kube-apiserver alone: {text}" for text in counts - own_counts)
    yield from (f"mooring alone: {text}" for text in own_counts - counts)
    if real[1] == embedded[1] and sorted(causes) == sorted(own):
        texts = [json.dumps([answer[0], answer[2]], sort_keys=True) for answer in (real, embedded)]
        pairs = zip(*texts, strict=False)
        at = next((at for at, (one, other) in enumerate(pairs) if one != other), 0)
        for name, text in zip(("kube-apiserver", "mooring"), texts, strict=True):
            yield f"{name}: {text[max(0, at - SHOWN_MAX // 2) : at + SHOWN_MAX // 2]}"


def _causes(body: Any) -> list[str]:
    if not isinstance(body, dict) or body.get("kind") != "Status":
        return []
    causes = (body.get("details") or {}).get("causes") or []
    texts = [f"{cause.get('field')}: {cause.get('message')}"[:SHOWN_MAX] for cause in causes]
    return texts or [str(body.get("message"))[:SHOWN_MAX]]

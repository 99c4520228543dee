"""The check of quantities: every place where one may stand, in every kind, is looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import msgspec
import pytest

from mooring.client.informer.watch_events import EventReader
from mooring.errors import ConfigError
from mooring.objects.codec.decode import decode, decode_list
from mooring.objects.codec.quantity_check import CACHED_MAX, _ValidTexts, first_bad_quantity
from mooring.objects.kinds import KINDS_BY_STRUCT, Kind, kind_named
from mooring.objects.meta import RawQuantity, ResourceList
from mooring.objects.node import Node, NodeStatus

Steps = tuple[str | int, ...]


def places(struct: Any) -> Iterator[Steps]:
    """Yields where quantities stand in a struct, found here from its types alone."""
    for field in msgspec.structs.fields(struct):
        name = field.encode_name
        if field.type == ResourceList:
            yield (name, "example.com/x")
        elif field.type == RawQuantity or RawQuantity | None == field.type:
            yield (name,)
        elif get_origin(field.type) is dict:
            values = get_args(field.type)[1]
            yield from _inner(values, (name, "example.com/x"))
        elif get_origin(field.type) is tuple:
            yield from _inner(get_args(field.type)[0], (name, 0))
        else:
            yield from _inner(field.type, (name,))


def _inner(hint: Any, steps: Steps) -> Iterator[Steps]:
    if hint == RawQuantity:
        yield steps
    for one in (hint, *get_args(hint)):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            yield from ((*steps, *rest) for rest in places(one))


def holding(steps: Steps, value: Any) -> Any:
    for step in reversed(steps):
        value = [value] if isinstance(step, int) else {step: value}
    return value


def written(steps: Steps) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)[1:]


ALL = [(kind, steps) for kind in KINDS_BY_STRUCT.values() for steps in places(kind.struct)]


def object_with(kind: Kind, steps: Steps, value: Any) -> bytes:
    raw = {"apiVersion": kind.api_version, "kind": kind.name, **holding(steps, value)}
    raw.setdefault("metadata", {})["name"] = "one"
    return json.dumps(raw).encode()


def test_the_places_are_those_that_we_know_of() -> None:
    found = {f"{kind.name}.{written(steps)}" for kind, steps in ALL}
    assert len(found) >= 39
    assert "Pod.spec.containers[0].resources.requests.example.com/x" in found
    assert (
        "Pod.spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.limits.example.com/x"
        in (found)
    )
    assert "Pod.status.initContainerStatuses[0].allocatedResources.example.com/x" in found
    assert "Node.status.allocatable.example.com/x" in found


@pytest.mark.parametrize(
    ("kind", "steps"), ALL, ids=lambda one: getattr(one, "name", None) or written(one)
)
def test_a_bad_quantity_is_found_wherever_it_stands(kind: Kind, steps: Steps) -> None:
    good, bad = object_with(kind, steps, "1Gi"), object_with(kind, steps, "1GiB")
    decode(good, kind)
    with pytest.raises(ConfigError) as refused:
        decode(bad, kind)
    assert (refused.value.path, refused.value.value) == (written(steps), "1GiB")
    assert "is not a quantity" in str(refused.value)
    # In a list it takes no other object with it.
    page = decode_list(b'{"items":[%s,%s,%s]}' % (good, bad, good), kind)
    assert (len(page.items), page.malformed) == (2, 1)
    assert page.errors[0].path == f"items[1].{written(steps)}"
    # On a watch it still says who it is.
    event = EventReader(kind).read(b'{"type":"MODIFIED","object":%s}' % bad)
    assert (event.obj, event.key) == (None, "one")
    assert event.problem is not None
    assert event.problem.path == written(steps)


def test_a_number_is_valid_and_the_first_invalid_one_is_reported() -> None:
    pod = kind_named("Pod")
    resources = {"requests": {"cpu": 2, "memory": 1.5}, "limits": {"a": "x", "b": "y"}}
    containers = [{"resources": {"requests": {"cpu": "1"}}}, {"resources": resources}]
    raw = {"metadata": {"name": "one"}, "spec": {"containers": containers}}
    with pytest.raises(ConfigError) as refused:
        decode(json.dumps(raw).encode(), pod)
    assert refused.value.path == "spec.containers[1].resources.limits.a"


def test_what_has_no_quantities_is_sound() -> None:
    kind = kind_named("Namespace")
    assert first_bad_quantity(decode(b'{"metadata":{"name":"shop"}}', kind)) is None


def test_as_many_texts_are_remembered_as_are_good_for_it() -> None:
    known = _ValidTexts()
    for number in range(CACHED_MAX + 10):
        assert known.accept({"cpu": f"{number}m"})
    assert known.have(["0m", f"{CACHED_MAX - 1}m"])
    assert not known.have([f"{CACHED_MAX}m"])
    assert known.accept({"cpu": f"{CACHED_MAX}m"}), "slower, but right"
    assert not known.accept({"cpu": "many"})


@pytest.mark.parametrize(
    ("number", "is_accepted"),
    [(2**64 - 1, True), (2**64, False), (-(2**63), True), (-(2**63) - 1, False)],
)
def test_a_number_that_cannot_be_encoded_is_refused(number: int, is_accepted: bool) -> None:
    node = Node(status=NodeStatus(capacity={"cpu": number}))

    bad = first_bad_quantity(node)

    assert (bad is None) == is_accepted
    if bad is not None:
        assert bad.problem == "must be a string, since the number has more than 64 bits"


def test_a_large_number_is_refused_with_its_path_and_value() -> None:
    text = b'{"metadata": {"name": "a"}, "status": {"capacity": {"cpu": 1180591620717411303424}}}'

    with pytest.raises(ConfigError, match="more than 64 bits, got 1180591620717411303424") as error:
        decode(text, "Node")

    assert error.value.path == "status.capacity.cpu"

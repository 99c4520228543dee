"""Requests that cost more than they look, or ask for one thing and name another.

Costs are counted (comparisons, bytes), not timed.
"""

from __future__ import annotations

import base64
import gc
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from typing import Any
from urllib.parse import parse_qsl

import pytest

from mooring.apiserver.auth.authorization import attributes_of
from mooring.apiserver.custom.values import ABSENT, counterparts
from mooring.apiserver.errors import ApiStatusError, FieldError, first_errors, invalid
from mooring.apiserver.patch.patch import COPIED_BYTES_MAX, JSON_PATCH, apply_patch
from mooring.apiserver.patch.strategic_merge import strategic_merge
from mooring.apiserver.validation.affinity import validate_spread
from mooring.apiserver.validation.resources import validate_requirements
from tests.helpers.api import APPLY, CONFIG_MAPS, PODS, Api, config_map, pod

SERVICES = "/api/v1/namespaces/default/services"

# ---------------------------------------------------------------- names in field selectors


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("fieldSelector=metadata.name%3Da", "a"),
        ("fieldSelector=metadata.name%3D%3Da", "a"),
        ("fieldSelector=&fieldSelector=metadata.name%3Da", ""),
        ("fieldSelector=metadata.name%3Da&fieldSelector=metadata.name%3Db", "a"),
        ("fieldSelector=metadata.name!%3Da", ""),
        (r"fieldSelector=metadata.name%3Da%5C%2Cmetadata.name%3Db", r""),
        ("fieldSelector=status.phase%3Dx%5C%2Cmetadata.name%3Db", ""),
    ],
)
def test_the_name_that_is_authorised_is_the_one_that_the_list_selects(
    query: str, name: str
) -> None:
    pairs = parse_qsl(query, keep_blank_values=True)

    assert attributes_of("GET", "/api/v1/namespaces/default/configmaps", pairs).name == name


# ---------------------------------------------------------------- patches


class Compared(str):
    """A string that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Compared.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_strategic_merge_compares_each_element_a_few_times() -> None:
    count = 2_000
    old = {"env": [{"name": Compared(f"a{n}"), "value": "1"} for n in range(count)]}
    new = {"env": [{"name": Compared(f"a{n}"), "value": "2"} for n in reversed(range(count))]}
    Compared.comparisons = 0

    merged = strategic_merge(old, new, "core.Container")

    assert [item["name"] for item in merged["env"]] == [f"a{n}" for n in reversed(range(count))]
    assert {item["value"] for item in merged["env"]} == {"2"}
    assert Compared.comparisons < 20 * count


def test_deleting_many_elements_compares_each_a_few_times() -> None:
    count = 2_000
    old = {"env": [{"name": Compared(f"a{n}")} for n in range(count)]}
    new = {"env": [{"name": Compared(f"a{n}"), "$patch": "delete"} for n in range(1, count)]}
    Compared.comparisons = 0

    merged = strategic_merge(old, new, "core.Container")

    assert merged["env"] == [{"name": "a0"}]
    assert Compared.comparisons < 20 * count


def test_deleting_many_primitives_compares_each_a_few_times() -> None:
    count = 2_000
    old = {"finalizers": [Compared(f"a.b/{n}") for n in range(count)]}
    new: Any = {"$deleteFromPrimitiveList/finalizers": [f"a.b/{n}" for n in range(1, count)]}
    Compared.comparisons = 0

    assert strategic_merge(old, new, "meta.ObjectMeta") == {"finalizers": ["a.b/0"]}
    assert Compared.comparisons < 20 * count


def test_a_json_patch_that_doubles_an_object_is_refused_by_the_copied_bytes() -> None:
    present = {"data": {"a": "x" * 1000}}
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/c{n}"} for n in range(40)]

    with pytest.raises(ApiStatusError) as raised:
        apply_patch(JSON_PATCH, present, doubling, "core.ConfigMap")

    assert raised.value.code == 413
    assert "copy" in raised.value.message
    size = len(str(present))
    assert size < 3 * COPIED_BYTES_MAX


def test_a_json_patch_may_copy_as_much_as_upstream_allows() -> None:
    present = {"data": {"a": "x" * (COPIED_BYTES_MAX // 2 - 2)}}
    twice = [{"op": "copy", "from": "/data/a", "path": f"/data/{n}"} for n in "bc"]

    merged = apply_patch(JSON_PATCH, present, twice, "core.ConfigMap")

    assert merged["data"]["c"] == present["data"]["a"]


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("parameter", ["limit", "timeoutSeconds", "resourceVersion"])
def test_a_number_of_thousands_of_digits_is_a_bad_request(parameter: str) -> None:
    version = "&resourceVersionMatch=Exact" if parameter == "resourceVersion" else ""
    status, answer = Api().ask("GET", f"{CONFIG_MAPS}?{parameter}={'9' * 5000}{version}")

    assert (status, answer["reason"]) == (400, "BadRequest")
    assert "value out of range" in answer["message"]


def test_leading_zeros_do_not_make_a_number_large() -> None:
    assert Api().ask("GET", f"{CONFIG_MAPS}?limit={'0' * 5000}1")[0] == 200


def test_a_resource_version_of_thousands_of_digits_in_a_get_is_upstreams_500() -> None:
    api = Api()
    api.post(CONFIG_MAPS, config_map("a"))

    status, answer = api.ask("GET", f"{CONFIG_MAPS}/a?resourceVersion={'9' * 5000}")

    assert (status, "value out of range" in answer["message"]) == (500, True)


def test_a_pod_with_the_longest_grace_period_can_be_deleted() -> None:
    api = Api()
    body = pod("slow", terminationGracePeriodSeconds=2**63 - 1)
    api.post(PODS, body)
    target = {"kind": "Node", "name": "n1"}
    api.post(f"{PODS}/slow/binding", {"metadata": {"name": "slow"}, "target": target})

    deleted = api.delete(f"{PODS}/slow")

    assert deleted["metadata"]["deletionTimestamp"] == "9999-12-31T23:59:59Z"
    api.delete(f"{PODS}/slow?gracePeriodSeconds=0")
    assert api.names(PODS) == []


@pytest.mark.parametrize("version", ["true", "99999", "1e3", "null"])
def test_a_continue_token_has_a_version_that_exists(version: str) -> None:
    content = f'{{"v":"meta.k8s.io/v1","rv":{version},"start":"/a"}}'.encode()
    token = base64.urlsafe_b64encode(content).rstrip(b"=").decode()

    status, answer = Api().ask("GET", f"{CONFIG_MAPS}?limit=1&continue={token}")

    assert (status, answer["status"]) == (504 if version == "99999" else 400, "Failure")


# ---------------------------------------------------------------- duplicate keys


def test_warnings_of_duplicate_keys_are_few_and_found_without_parsing_all() -> None:
    api = Api()
    members = ",".join(['"a":"1"'] * 5_000)
    body = f'{{"metadata":{{"name":"m"}},"data":{{{members}}}}}'

    api.post(CONFIG_MAPS, body)

    warnings = api.response_headers["warning"]
    assert warnings == '299 - "duplicate field \\"data.a\\""'


# ---------------------------------------------------------------- caches


LONG = "a" * 5_000


def cached_chars() -> int:
    """Returns the length of the longest text that is part of a key of an ``lru_cache``."""
    caches = [thing for thing in gc.get_objects() if isinstance(thing, _lru_cache_wrapper)]
    return max(longest(key) for cache in caches for key in keys_of(cache))


def keys_of(cache: Any) -> list[Any]:
    """Returns the keys of an ``lru_cache`` of mooring's API server, or of what it uses."""
    if not cache.__module__.startswith(("mooring.apiserver", "mooring.objects", "mooring.cel")):
        return [""]
    parts = gc.get_referents(cache)
    return [key for part in parts if isinstance(part, dict) and "__module__" not in part
            for key in part]  # fmt: skip


def longest(key: Any) -> int:
    if isinstance(key, str):
        return len(key)
    return max(map(longest, key), default=0) if isinstance(key, (tuple, list)) else 0


def test_no_cache_keeps_long_texts_of_requests() -> None:
    """The number of entries is limited; their length must be, too."""
    api = Api()
    port = {"name": LONG, "port": 80, "targetPort": LONG, "protocol": LONG}
    container = {
        "name": LONG,
        "image": "i",
        "env": [{"name": LONG, "value": "x"}],
        "resources": {"requests": {"cpu": "1" * 5_000, LONG: "1", f"{LONG}/b": "2" * 5_000}},
        "livenessProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": LONG, "value": "x"}]}},
    }
    expression = {"key": LONG, "operator": "In", "values": [LONG]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    spec = {"containers": [container], "affinity": affinity, "dnsConfig": {"searches": [LONG]}}
    labels = {LONG: LONG, f"{LONG}/a": LONG}
    hostile_pod = pod("a", labels, **spec)
    selector = {"matchLabels": labels, "matchExpressions": [expression]}
    budget = {"metadata": {"name": LONG}, "spec": {"selector": selector}}
    before = cached_chars()

    api.ask("POST", PODS, hostile_pod)
    api.ask("PATCH", f"{PODS}/b", {**hostile_pod, "metadata": {}}, content_type=APPLY)
    api.ask("POST", CONFIG_MAPS, config_map(LONG, data={LONG: "x"}))
    api.ask("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    api.ask("POST", SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": [port]}})
    api.ask("GET", f"{PODS}/{LONG}")
    api.ask("GET", f"{PODS}?labelSelector={LONG}%20in%20({LONG})")
    api.ask("GET", f"{PODS}?labelSelector=a%20in%20({','.join(f'b{n}' for n in range(2_000))})")
    api.ask("GET", f"{PODS}?fieldSelector=metadata.name%3D{LONG}")
    api.ask("GET", PODS, accept=f"application/json;as={LONG}")
    api.ask("POST", PODS, pod("c"), user_agent=LONG)
    api.ask("POST", f"{PODS}?fieldManager={LONG}&fieldValidation={LONG}", pod("d"))

    assert cached_chars() <= max(before, 4_096)


# ---------------------------------------------------------------- lists of a pod


def test_constraints_and_claims_of_a_pod_are_compared_a_few_times() -> None:
    count = 2_000
    keys = [Compared(f"k{n}") for n in range(count)]
    constraints: list[Any] = [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"} for key in keys
    ]
    Compared.comparisons = 0

    assert not list(validate_spread(constraints, "spec"))
    assert Compared.comparisons < 20 * count
    twice = [*constraints, constraints[7]]
    assert [error.field for error in validate_spread(twice, "spec")] == [
        "spec[7].{topologyKey, whenUnsatisfiable}"
    ]


class Prefix(str):
    """A string that counts how often its beginning is compared."""

    __slots__ = ()
    looks = 0

    def startswith(self, *arguments: Any) -> bool:
        Prefix.looks += 1
        return str.startswith(self, *arguments)


def test_claims_of_a_container_are_not_compared_with_each_other() -> None:
    count = 2_000
    names = [Prefix(f"c{n}") for n in range(count)]
    claims = [{"name": name} for name in names]
    Prefix.looks = 0

    assert not list(validate_requirements({"claims": claims}, "r", claims=frozenset(names)))
    assert Prefix.looks < 20 * count
    again = [{"name": "a", "request": "b"}, {"name": "a"}, {"name": "a", "request": "c"}]
    errors = list(validate_requirements({"claims": again}, "r", claims=frozenset({"a"})))
    assert [error.field for error in errors] == ["r.claims[1]", "r.claims[2]"]


def test_errors_about_claims_list_the_names_of_the_pod_a_few_times() -> None:
    names = frozenset(f"c{n}" for n in range(2_000))
    claims = [{"name": f"d{n}"} for n in range(2_000)]

    errors = list(validate_requirements({"claims": claims}, "r", claims=names))

    assert len(errors) == 2_000
    assert "c0, c1, c10" in errors[0].body
    assert sum(len(error.body) for error in errors) < 2_000_000


def test_items_of_a_list_with_keys_are_compared_with_a_few_old_ones() -> None:
    count = 2_000
    schema = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
    old = [{"a": Compared(f"a{n}"), "b": n} for n in range(count)]
    Compared.comparisons = 0

    before_of = counterparts(schema, [*old, {"a": "a7", "b": "second"}, 5])
    before = [before_of({"a": Compared(f"a{n}")}) for n in reversed(range(count))]

    assert before == old[::-1]
    assert Compared.comparisons < 20 * count
    assert before_of({"a": "other"}) is before_of({}) is before_of(5) is ABSENT
    assert before_of({"a": ["no scalar"]}) is ABSENT


# ---------------------------------------------------------------- errors


def test_errors_that_no_status_can_have_are_not_computed() -> None:
    computed: list[int] = []

    def errors() -> Iterator[FieldError]:
        for number in range(100_000):
            computed.append(number)
            yield invalid(f"spec[{number}]", number, "wrong")

    assert [error.field for error in first_errors(errors())][-1] == "spec[499]"
    assert len(computed) == 500


def test_an_object_with_many_errors_has_the_first_ones_in_its_status() -> None:
    api = Api()
    owners = [{"apiVersion": "v1", "kind": "", "name": "a", "uid": "b"}] * 3_000
    document = config_map("a")
    document["metadata"]["ownerReferences"] = owners

    code, status = api.ask("POST", CONFIG_MAPS, document)

    causes = status["details"]["causes"]
    assert code == 422
    assert len(causes) == 500
    assert {cause["field"] for cause in causes} == {"metadata.ownerReferences.kind"}

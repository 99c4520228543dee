"""Plain values against structs: every fault is found, with its path."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.config import strict
from mooring.config.field_errors import FieldError
from mooring.config.types import (
    ClientConnection,
    Extender,
    KubeSchedulerConfiguration,
    LeaderElection,
    NodeAffinityArgs,
    PluginEntry,
    Profile,
)


def faults_of(value: Any, struct: type[Any]) -> list[FieldError]:
    found: list[FieldError] = []
    strict.checked(value, struct, (), found)
    return found


def built(value: Any, struct: type[Any]) -> Any:
    found: list[FieldError] = []
    plain = strict.checked(value, struct, (), found)
    assert found == []
    return strict.build(plain, struct)


def test_what_is_right_becomes_a_struct() -> None:
    value = {"leaderElect": False, "leaseDuration": "1m30s", "resourceName": "x"}
    expected = LeaderElection(leader_elect=False, lease_duration_s=90.0, resource_name="x")
    assert built(value, LeaderElection) == expected


def test_null_is_absent() -> None:
    assert built({"leaderElect": None, "retryPeriod": None}, LeaderElection) == LeaderElection()


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        ("leaderelect", "leaderElect"),
        ("LeaderElect", "leaderElect"),
        ("leaseDurations", "leaseDuration"),
        ("zzz", None),
    ],
)
def test_an_unknown_field_is_named_with_the_nearest_known(key: str, suggestion: str | None) -> None:
    expected = [FieldError((key,), "unknown field", None, suggestion)]
    assert faults_of({key: 1}, LeaderElection) == expected


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"leaderElect": "true"}, "must be a boolean"),
        ({"leaderElect": 1}, "must be a boolean"),
        ({"resourceName": 7}, "must be a string; put it in quotes"),
        ({"resourceName": True}, "must be a string; put it in quotes"),
        ({"resourceName": ["x"]}, "must be a string"),
        ({"leaseDuration": 15}, 'must be a duration such as "15s" or "1m30s"'),
        ({"leaseDuration": "15"}, 'is not a duration such as "15s" or "1m30s"'),
    ],
)
def test_wrong_types_of_leader_election(value: Any, problem: str) -> None:
    (error,) = faults_of(value, LeaderElection)
    assert (error.problem, error.value) == (problem, next(iter(value.values())))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"burst": 1.5}, "must be an integer"),
        ({"burst": True}, "must be an integer"),
        ({"burst": "1"}, "must be an integer"),
        ({"burst": 2**31}, "must be an integer from -2147483648 to 2147483647"),
        ({"qps": "fast"}, "must be a number"),
        ({"qps": True}, "must be a number"),
    ],
)
def test_wrong_numbers(value: Any, problem: str) -> None:
    (error,) = faults_of(value, ClientConnection)
    assert error.problem == problem


def test_a_whole_number_will_do_for_a_float() -> None:
    assert built({"qps": 20}, ClientConnection).qps == 20.0


@pytest.mark.parametrize("value", [[], "x", 1, True])
def test_a_struct_must_be_a_mapping(value: Any) -> None:
    assert faults_of(value, LeaderElection) == [FieldError((), "must be a mapping", value)]


def test_a_list_must_be_a_list() -> None:
    path = ("pluginConfig",)
    assert faults_of({"pluginConfig": {}}, Profile) == [FieldError(path, "must be a list", {})]


def test_what_is_required_must_be_there() -> None:
    assert faults_of({"weight": 1}, PluginEntry) == [FieldError(("name",), "is required")]
    assert faults_of({"name": None}, PluginEntry) == [FieldError(("name",), "is required")]


def test_all_faults_are_found_in_one_walk_with_full_paths() -> None:
    value = {
        "paralelism": 1,
        "clientConnection": {"qps": "x", "brust": 1},
        "profiles": [
            {},
            {"plugins": {"score": {"enabled": [{"name": "A"}, {"name": 1, "weigth": 2}]}}},
        ],
        "extenders": [{"httpTimeout": 5}],
    }
    entry = ("profiles", 1, "plugins", "score", "enabled", 1)
    assert [error.path for error in faults_of(value, KubeSchedulerConfiguration)] == [
        ("paralelism",),
        ("clientConnection", "qps"),
        ("clientConnection", "brust"),
        (*entry, "name"),
        (*entry, "weigth"),
        ("extenders", 0, "httpTimeout"),
    ]


def test_structs_of_other_packages_are_walked_alike() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    required = {"nodeSelectorTerms": [term]}
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    args = built({"addedAffinity": {field: required}}, NodeAffinityArgs)
    (condition,) = (
        (args.added_affinity.required_during_scheduling_ignored_during_execution)
        .node_selector_terms[0]
        .match_expressions
    )
    assert (condition.key, condition.operator, condition.values) == ("zone", "In", ("a",))
    term["matchExpressions"][0]["value"] = ["b"]
    (error,) = faults_of({"addedAffinity": {field: required}}, NodeAffinityArgs)
    path = ("addedAffinity", field, "nodeSelectorTerms", 0, "matchExpressions", 0, "value")
    assert (error.path, error.suggestion) == (path, "values")


def test_names_that_are_not_plain_camel_case() -> None:
    extender = built(
        {"enableHTTPS": True, "tlsConfig": {"caData": "eA=="}, "httpTimeout": "2s"}, Extender
    )
    assert (extender.enable_https, extender.http_timeout_s) == (True, 2.0)
    assert extender.tls_config.ca_data == "eA=="

"""Validation: texts and values of errors, all of which are reported.

Which files are refused, and at which places, is compared with upstream in ``test_config_golden``.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.config import default_configuration
from mooring.config.defaults import with_defaults
from mooring.config.field_errors import FieldError
from mooring.config.types import (
    ClientConnection,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    LeaderElection,
    PluginConfig,
    PluginEntry,
    Plugins,
    PluginSet,
    Profile,
)
from mooring.config.validation.configuration import REMOVED_PLUGINS, check

REMOVED = (
    'was invalid in version "v1" '
    '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'
)


def faults_of(**fields: Any) -> list[FieldError]:
    written = KubeSchedulerConfiguration(**fields)
    return check(with_defaults(written), written=written)


def of_profile(**fields: Any) -> list[FieldError]:
    return faults_of(profiles=(Profile(**fields),))


def of_extender(**fields: Any) -> list[FieldError]:
    return faults_of(extenders=(Extender(url_prefix="http://a", **fields),))


def test_the_defaults_are_good() -> None:
    assert check(default_configuration(), written=KubeSchedulerConfiguration()) == []


@pytest.mark.parametrize(
    ("fields", "path", "problem", "value"),
    [
        ({"parallelism": 0}, ("parallelism",), "should be an integer value greater than zero", 0),
        (
            {"percentage_of_nodes_to_score": -1},
            ("percentageOfNodesToScore",),
            "not in valid range [0-100]",
            -1,
        ),
        (
            {"pod_initial_backoff_seconds": 0},
            ("podInitialBackoffSeconds",),
            "must be greater than 0",
            0,
        ),
        (
            {"pod_initial_backoff_seconds": 11},
            ("podMaxBackoffSeconds",),
            "must be greater than or equal to PodInitialBackoffSeconds",
            10,
        ),
        (
            {"client_connection": ClientConnection(burst=-2)},
            ("clientConnection", "burst"),
            "must be non-negative",
            -2,
        ),
    ],
)
def test_single_fields(fields: dict[str, Any], path: Any, problem: str, value: Any) -> None:
    assert faults_of(**fields) == [FieldError(path, problem, value)]


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"lease_duration_s": 10.0}, ["leaseDuration"]),
        ({"lease_duration_s": -1.0}, ["leaseDuration", "leaseDuration"]),
        ({"renew_deadline_s": 2.4}, ["renewDeadline"]),
        ({"renew_deadline_s": 2.5}, []),
        ({"retry_period_s": -1.0}, ["retryPeriod"]),
        ({"resource_lock": "endpoints"}, ["resourceLock"]),
        (
            {"resource_lock": "endpoints", "lease_duration_s": 5.0},
            ["leaseDuration", "resourceLock"],
        ),
    ],
)
def test_leader_election(fields: dict[str, Any], names: list[str]) -> None:
    found = faults_of(leader_election=LeaderElection(**fields))
    assert [error.path for error in found] == [("leaderElection", name) for name in names]


def test_leader_election_that_is_off_may_say_anything() -> None:
    off = LeaderElection(leader_elect=False, lease_duration_s=-1.0, resource_lock="endpoints")
    assert faults_of(leader_election=off) == []


def test_profiles_need_different_names() -> None:
    first, second = Profile(scheduler_name="a"), Profile(scheduler_name="b")
    assert faults_of(profiles=(first, second)) == []
    assert faults_of(profiles=(first, second, first)) == [
        FieldError(("profiles", 2, "schedulerName"), "Duplicate value", "a")
    ]
    unnamed = [error.path for error in faults_of(profiles=(first, Profile()))]
    assert unnamed == [("profiles", 1, "schedulerName")]


@pytest.mark.parametrize("name", REMOVED_PLUGINS)
def test_removed_plugins_are_distinguished_from_unknown_ones(name: str) -> None:
    listed = PluginSet(enabled=(PluginEntry(name="Mine"), PluginEntry(name=name)))
    path = ("profiles", 0, "plugins", "preFilter", "enabled", 1)
    assert of_profile(plugins=Plugins(pre_filter=listed)) == [FieldError(path, REMOVED, name)]
    switched_off = PluginSet(disabled=(PluginEntry(name=name),))
    assert of_profile(plugins=Plugins(filter=switched_off)) == []
    (error,) = of_profile(plugin_config=(PluginConfig(name=name, args={}),))
    assert error == FieldError(("profiles", 0, "pluginConfig", 0), REMOVED, name)


def test_plugin_config_twice() -> None:
    mine = PluginConfig(name="Mine", args={"a": 1})
    path = ("profiles", 0, "pluginConfig", 1)
    assert of_profile(plugin_config=(mine, mine)) == [FieldError(path, "Duplicate value", "Mine")]


def queue_sort(*names: str) -> Plugins:
    return Plugins(queue_sort=PluginSet(enabled=tuple(PluginEntry(name=name) for name in names)))


def test_one_queue_is_sorted_in_one_way() -> None:
    first = Profile(scheduler_name="a", plugins=queue_sort("Mine"))
    second = replace(first, scheduler_name="b")
    assert faults_of(profiles=(first, second)) == []
    other = replace(second, plugins=queue_sort("Other"))
    (error,) = faults_of(profiles=(first, other))
    path = ("profiles", 1, "plugins", "queueSort")
    assert error == FieldError(path, "must be the same for all profiles")
    (error,) = of_profile(plugins=queue_sort("Mine", "Other"))
    assert error.problem == "only one queue sort plugin can be enabled"


def test_one_queue_is_sorted_with_the_same_arguments() -> None:
    def profile(name: str, args: Any) -> Profile:
        config = (PluginConfig(name="Mine", args=args),)
        return Profile(scheduler_name=name, plugins=queue_sort("Mine"), plugin_config=config)

    assert faults_of(profiles=(profile("a", {"x": 1}), profile("b", {"x": 1}))) == []
    (error,) = faults_of(profiles=(profile("a", {"x": 1}), profile("b", {"x": 2})))
    assert error.problem == "queueSort must be the same for all profiles"


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"prioritize_verb": "p", "weight": 1}, []),
        ({"prioritize_verb": "p"}, [("weight",)]),
        ({"weight": -5}, []),
        ({"enable_https": True}, []),
        ({"enable_https": True, "tls_config": ExtenderTLSConfig(insecure=True)}, []),
        ({"tls_config": ExtenderTLSConfig(key_data="%")}, [("tlsConfig", "keyData")]),
    ],
)
def test_extenders(fields: dict[str, Any], paths: list[tuple[str, ...]]) -> None:
    found = [error.path for error in of_extender(**fields)]
    assert found == [("extenders", 0, *path) for path in paths]


@pytest.mark.parametrize(
    ("names", "problems"),
    [
        (["example.com/gpu"], []),
        (["cpu"], ["is an invalid extended resource name"]),
        (["kubernetes.io/x"], ["is an invalid extended resource name"]),
        (["a.b/c", "a.b/c"], ["duplicate extender managed resource name"]),
    ],
)
def test_managed_resources(names: list[str], problems: list[str]) -> None:
    resources = tuple(ExtenderManagedResource(name=name) for name in names)
    assert [error.problem for error in of_extender(managed_resources=resources)] == problems


def test_managed_resources_and_bind_verbs_are_looked_at_together() -> None:
    one = Extender(
        bind_verb="b", managed_resources=(ExtenderManagedResource(name="example.com/gpu"),)
    )
    found = {error.path for error in faults_of(extenders=(one, one))}
    assert found == {("extenders",), ("extenders", 1, "managedResources", 0, "name")}


def test_all_faults_come_at_once() -> None:
    found = faults_of(
        parallelism=-1,
        percentage_of_nodes_to_score=500,
        profiles=(Profile(percentage_of_nodes_to_score=-1), Profile(scheduler_name="b")),
        extenders=(Extender(prioritize_verb="p"),),
    )
    assert len(found) == 5

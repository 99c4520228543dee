"""Errors of a Policy: line, path and value."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.config.legacy_policy import convert_policy
from mooring.errors import ConfigError, ConfigErrors
from tests.helpers.policies import policy

CURVE = "requestedToCapacityRatioArguments"


def errors(text: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        convert_policy(text, file="p")
    return [str(error).removeprefix("p: line 1: ") for error in caught.value.errors]


def labels(name: str, *keys: str, presence: bool = True) -> dict[str, Any]:
    argument = {"labelsPresence": {"labels": list(keys), "presence": presence}}
    return {"name": name, "argument": argument}


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (
            {"name": "PodFitsResource"},
            "name: unknown predicate, got 'PodFitsResource' (did you mean 'PodFitsResources'?)",
        ),
        (
            {"name": "podfitsresources"},
            "name: unknown predicate, got 'podfitsresources' (did you mean 'PodFitsResources'?)",
        ),
        # Documentation had these names, and no release did.
        (
            {"name": "PodFitsHost"},
            "name: unknown predicate, got 'PodFitsHost' (did you mean 'HostName'?)",
        ),
        (
            {"name": "MaxCSIVolumeCount"},
            "name: unknown predicate, got 'MaxCSIVolumeCount' (did you mean "
            "'MaxCSIVolumeCountPred'?)",
        ),
        ({"name": "Quite"}, "name: unknown predicate, got 'Quite'"),
        ({}, "name: unknown predicate, got ''"),
        (
            {"name": "LeastRequestedPriority"},
            "name: is a priority, not a predicate, got 'LeastRequestedPriority'",
        ),
        (
            {"name": "mine", "argument": {}},
            "argument: exactly 1 predicate argument is required: serviceAffinity or labelsPresence",
        ),
        (
            {"name": "mine", "argument": {"serviceAffinity": {}, "labelsPresence": {}}},
            "argument: exactly 1 predicate argument is required: serviceAffinity or "
            "labelsPresence, got ['serviceAffinity', 'labelsPresence']",
        ),
        (
            labels("mine", "-x"),
            "argument.labelsPresence.labels[0]: its name must have 1 to 63 letters, digits, '-', "
            "'_' or '.', with a letter or digit at both ends, got '-x'",
        ),
        (
            {"name": "mine", "argument": {"labelPresence": {}}},
            "argument.labelPresence: unknown field (did you mean 'labelsPresence'?)",
        ),
    ],
)
def test_a_bad_predicate(predicate: dict[str, Any], expected: str) -> None:
    assert errors(policy(predicates=[predicate])) == [f"predicates[0].{expected}"]


def test_a_label_cannot_be_present_and_absent() -> None:
    both = [labels("a", "x"), labels("b", "y", "x", presence=False)]
    assert errors(policy(predicates=both)) == [
        "predicates[1].argument.labelsPresence.labels[1]: the same label must be present and "
        "absent, got 'x'"
    ]


OVERFLOWN = "weight: should have a positive weight applied to it or it has overflown, got "


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        ({"name": "EqualPriority"}, OVERFLOWN + "0"),
        ({"name": "ImageLocalityPriority", "weight": 0}, OVERFLOWN + "0"),
        ({"name": "ImageLocalityPriority", "weight": -1}, OVERFLOWN + "-1"),
        ({"name": "ImageLocalityPriority", "weight": 2**31}, OVERFLOWN + "2147483648"),
        ({"name": "ImageLocalityPriority", "weight": 1.5}, "weight: must be an integer, got 1.5"),
        (
            {"name": "ImageLocality", "weight": 1},
            "name: unknown priority, got 'ImageLocality' (did you mean 'ImageLocalityPriority'?)",
        ),
        (
            {"name": "HostName", "weight": 1},
            "name: is a predicate, not a priority, got 'HostName'",
        ),
        (
            {"name": "RequestedToCapacityRatioPriority", "weight": 1},
            f"name: needs an argument: {CURVE}, got 'RequestedToCapacityRatioPriority'",
        ),
        (
            {"name": "mine", "weight": 1, "argument": {}},
            "argument: exactly 1 priority argument is required: serviceAntiAffinity, "
            f"labelPreference or {CURVE}",
        ),
        (
            {"name": "mine", "weight": 1, "argument": {CURVE: {}}},
            f"argument.{CURVE}.shape: at least one point must be specified",
        ),
        (
            {
                "name": "mine",
                "weight": 1,
                "argument": {CURVE: {"shape": [{"utilization": 10, "score": 11}]}},
            },
            f"argument.{CURVE}.shape[0].score: not in valid range [0, 10], got 11",
        ),
        (
            {
                "name": "mine",
                "weight": 1,
                "argument": {CURVE: {"shape": [{}], "resources": [{"name": "cpu", "weight": 101}]}},
            },
            f"argument.{CURVE}.resources[0].weight: resource weight of cpu not in valid range "
            "(0, 100], got 101",
        ),
    ],
)
def test_a_bad_priority(priority: dict[str, Any], expected: str) -> None:
    assert errors(policy(priorities=[priority])) == [f"priorities[0].{expected}"]


def test_priorities_of_one_kind_must_agree_on_the_weight() -> None:
    found = [
        {"name": "a", "weight": 1, "argument": {"labelPreference": {"label": "x"}}},
        {"name": "b", "weight": 2, "argument": {"serviceAntiAffinity": {"label": "x"}}},
        {"name": "c", "weight": 3, "argument": {"labelPreference": {"label": "y"}}},
    ]
    assert errors(policy(priorities=found)) == [
        'priorities[2].weight: has a different weight with "a", also of labelPreference, got 3'
    ]


def test_there_is_one_curve() -> None:
    argument = {CURVE: {"shape": [{"utilization": 0, "score": 0}]}}
    found = [{"name": name, "weight": 1, "argument": argument} for name in "ab"]
    assert errors(policy(priorities=found)) == [
        f'priorities[1].argument.{CURVE}: redeclares RequestedToCapacityRatio, from: "a"'
    ]


@pytest.mark.parametrize(
    ("extender", "expected"),
    [
        (
            {"prioritizeVerb": "p"},
            "weight: must have a positive weight applied to it, got 0",
        ),
        (
            {"httpTimeout": "5s"},
            "httpTimeout: must be an integer: nanoseconds, got '5s' (did you mean '5000000000'?)",
        ),
        ({"httpTimeout": "soon"}, "httpTimeout: must be an integer: nanoseconds, got 'soon'"),
        ({"httpTimeout": -1}, "httpTimeout: must be zero or positive, got -1"),
        ({"enableHttp": True}, "enableHttp: unknown field (did you mean 'enableHttps'?)"),
        (
            {"bindVerb": "b", "BindVerb": "c"},
            "BindVerb: this is bindVerb for the second time",
        ),
        (
            {"managedResources": [{"name": "cpu"}]},
            "managedResources[0].name: is an invalid extended resource name, got 'cpu'",
        ),
        ({"managedResources": [{}]}, "managedResources[0].name: is required"),
        (
            {"TLSConfig": {"Insecure": True, "CAFile": "x"}},
            "TLSConfig.Insecure: specifying a root certificates file with the insecure flag is "
            "not allowed",
        ),
        ({"tlsConfig": {"caData": "?"}}, "tlsConfig.caData: is not base64"),
    ],
)
def test_a_bad_extender(extender: dict[str, Any], expected: str) -> None:
    text = policy(extenders=[{"urlPrefix": "http://a", **extender}])
    assert errors(text) == [f"extenders[0].{expected}"]


def test_only_one_extender_binds() -> None:
    assert errors(policy(extenders=[{"bindVerb": "a"}, {"bindVerb": "b"}])) == [
        "extenders: only one extender can implement bind, got 'found 2 extenders implementing bind'"
    ]


@pytest.mark.parametrize("weight", [-1, 101])
def test_the_weight_of_required_affinity_has_a_range(weight: int) -> None:
    assert errors(policy(hardPodAffinitySymmetricWeight=weight)) == [
        f"hardPodAffinitySymmetricWeight: not in valid range [0-100], got {weight}"
    ]


def test_everything_wrong_is_reported_at_once_with_its_line() -> None:
    text = """apiVersion: v1
kind: Policy
predicates:
- name: HostNam
priorities:
- name: EqualPriority
  weight: -2
hardPodAffinitySymmetricWeight: 500
"""
    with pytest.raises(ConfigErrors) as caught:
        convert_policy(text, file="old.yaml")
    found = [(each.line, each.path, each.value, each.suggestion) for each in caught.value.errors]
    assert found == [
        (4, "predicates[0].name", "HostNam", "HostName"),
        (7, "priorities[0].weight", -2, None),
        (8, "hardPodAffinitySymmetricWeight", 500, None),
    ]
    assert str(caught.value).startswith("old.yaml: line 4: predicates[0].name: unknown")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("apiVersion: v1\nkind: Pod\n", "p: line 2: kind: must be Policy, got 'Pod'"),
        ("apiVersion: v2\nkind: Policy\n", "p: line 1: apiVersion: must be v1, got 'v2'"),
        ("kind: Policy\n", "p: line 1: apiVersion: must be v1"),
        ("- kind: Policy\n", "p: line 1: must be a Policy: a mapping, got [{'kind': 'Policy'}]"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
            "p: line 2: kind: is no Policy, so there is nothing to convert: `mooring config "
            "check` reads it, got 'KubeSchedulerConfiguration'",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\ndata: {policy.cfg: '{}'}\n",
            "p: line 2: kind: must be Policy: convert what stands in the ConfigMap under "
            "policy.cfg, got 'ConfigMap'",
        ),
        ("", "p: is empty; it must hold a Policy"),
        ("{", "p: document 1: line 2: is not YAML: did not find expected node content while"),
        ("a: 1\n---\nb: 2\n", "p: document 2: line 1: must hold one document only"),
        ("apiVersion: v1\nkind: Policy\npredicates: {}\n", "p: line 3: predicates: must be a list"),
        (
            "apiVersion: v1\nkind: Policy\npredicate: []\n",
            "p: line 3: predicate: unknown field (did you mean 'predicates'?)",
        ),
        (
            "apiVersion: v1\nkind: Policy\npredicates: []\npredicates: []\n",
            "p: document 1: line 4: predicates: duplicate key",
        ),
    ],
)
def test_what_is_no_policy(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert_policy(text, file="p")
    assert str(caught.value).startswith(expected)


def test_the_other_version_is_read_too() -> None:
    found = convert_policy("{apiVersion: kubescheduler.config.k8s.io/v1, kind: Policy}")
    assert list(found.document) == ["apiVersion", "kind"]

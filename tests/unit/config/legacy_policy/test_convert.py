"""A legacy Policy becomes a configuration that runs the same plugins."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.config import default_configuration
from mooring.config.legacy_policy import convert_policy
from mooring.config.legacy_policy.names import GONE_PREDICATES, PREDICATES
from tests.helpers.policies import (
    ALL_FILTERS,
    LATER_FILTERS,
    MANDATORY,
    args,
    converted,
    notes,
    policy,
    predicates,
    running,
)

# ---------------------------------------------------------------- whole files of old releases

#: What kube-scheduler's own test of compatibility has for each release: the names that a Policy
#: could say then, and the plugins that v1.22 made of them (pkg/scheduler/apis/config/testing/
#: compatibility_test.go). A release has all names of those before it, but for one of 1.0; what
#: came after 1.11 is together.
FIRST_PREDICATES = "MatchNodeSelector PodFitsResources PodFitsPorts NoDiskConflict"
FIRST_FILTERS = "NodePorts NodeAffinity NodeResourcesFit VolumeRestrictions"
NEW_PREDICATES = {
    "1.1": ("PodFitsHostPorts HostName", "NodeName"),
    "1.2": (
        "NoVolumeZoneConflict MaxEBSVolumeCount MaxGCEPDVolumeCount MaxAzureDiskVolumeCount",
        "VolumeZone EBSLimits GCEPDLimits AzureDiskLimits",
    ),
    "1.3": ("PodToleratesNodeTaints MatchInterPodAffinity", "InterPodAffinity"),
    "1.9": ("CheckVolumeBinding", "VolumeBinding"),
    "later": (
        "MaxCSIVolumeCountPred MaxCinderVolumeCount EvenPodsSpread",
        "NodeVolumeLimits CinderLimits PodTopologySpread",
    ),
}
LIMITS = {"EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits"}


def releases() -> list[tuple[str, list[str], set[str]]]:
    """Returns (release, predicates, filter plugins), with today's names."""
    names, filters = FIRST_PREDICATES.split(), set(FIRST_FILTERS.split())
    found = [("1.0", list(names), set(filters))]
    for release, (more_names, more_filters) in NEW_PREDICATES.items():
        names = [name for name in names if name != "PodFitsPorts"] + more_names.split()
        filters = filters | set(more_filters.split())
        today = {"NodeVolumeLimits" if name in LIMITS else name for name in filters}
        found.append((release, list(names), today))
    return found


@pytest.mark.parametrize(
    ("names", "filters"),
    [pytest.param(names, filters, id=release) for release, names, filters in releases()],
)
def test_the_predicates_of_every_release_become_their_plugins(
    names: list[str], filters: set[str]
) -> None:
    text = policy(predicates=predicates(*names), priorities=[])
    assert set(running(text)["filter"]) == filters | MANDATORY | LATER_FILTERS


# ---------------------------------------------------------------- predicates

#: What v1.22 made of each predicate; the volume limits are one plugin today.
FILTERS_OF = {
    "CheckNodeUnschedulable": "",
    "CheckVolumeBinding": "VolumeBinding",
    "EvenPodsSpread": "PodTopologySpread",
    "GeneralPredicates": "NodeResourcesFit NodeName NodePorts NodeAffinity",
    "HostName": "NodeName",
    "MatchInterPodAffinity": "InterPodAffinity",
    "MatchNodeSelector": "NodeAffinity",
    "MaxAzureDiskVolumeCount": "NodeVolumeLimits",
    "MaxCSIVolumeCountPred": "NodeVolumeLimits",
    "MaxCinderVolumeCount": "NodeVolumeLimits",
    "MaxEBSVolumeCount": "NodeVolumeLimits",
    "MaxGCEPDVolumeCount": "NodeVolumeLimits",
    "NoDiskConflict": "VolumeRestrictions",
    "NoVolumeZoneConflict": "VolumeZone",
    "PodFitsHostPorts": "NodePorts",
    "PodFitsPorts": "NodePorts",
    "PodFitsResources": "NodeResourcesFit",
    "PodToleratesNodeTaints": "",
}


@pytest.mark.parametrize(("name", "filters"), FILTERS_OF.items())
def test_a_predicate_becomes_its_plugins(name: str, filters: str) -> None:
    found = running(policy(predicates=predicates(name)))
    assert set(found["filter"]) == set(filters.split()) | MANDATORY | LATER_FILTERS
    # What does not filter does not prepare filtering either.
    assert set(found["pre_filter"]) <= set(found["filter"])


def test_no_predicate_is_forgotten() -> None:
    assert set(PREDICATES) == set(FILTERS_OF)
    assert not set(GONE_PREDICATES) & set(FILTERS_OF)


def test_an_empty_list_of_predicates_leaves_the_mandatory_ones() -> None:
    found = running(policy(predicates=[]))
    assert set(found["filter"]) == MANDATORY | LATER_FILTERS
    assert set(found["reserve"]) == set(found["pre_bind"]) == {"DynamicResources"}


def test_a_predicate_about_volumes_reserves_and_binds_them() -> None:
    found = running(policy(predicates=predicates("CheckVolumeBinding")))
    assert "VolumeBinding" in found["reserve"]
    assert "VolumeBinding" in found["pre_bind"]


@pytest.mark.parametrize("missing", [{}, {"predicates": None}])
def test_a_missing_list_of_predicates_means_the_defaults(missing: dict[str, Any]) -> None:
    text = policy(priorities=[], **missing)
    assert set(running(text)["filter"]) == ALL_FILTERS
    assert "filter" not in convert_policy(text).document["profiles"][0]["plugins"]


def test_the_default_predicates_written_out_are_the_defaults() -> None:
    names = (
        "NoVolumeZoneConflict MaxEBSVolumeCount MaxGCEPDVolumeCount MaxAzureDiskVolumeCount "
        "MaxCSIVolumeCountPred MatchInterPodAffinity NoDiskConflict GeneralPredicates "
        "PodToleratesNodeTaints CheckVolumeBinding CheckNodeUnschedulable EvenPodsSpread"
    )
    text = policy(predicates=predicates(*names.split()))
    assert converted(text) == default_configuration()


def test_a_predicate_twice_is_as_good_as_once() -> None:
    once = policy(predicates=predicates("HostName", "GeneralPredicates"))
    twice = policy(predicates=predicates("HostName", "GeneralPredicates", "HostName"))
    assert convert_policy(once).document == convert_policy(twice).document


def test_what_is_not_listed_is_reported() -> None:
    found = notes(policy(predicates=predicates("GeneralPredicates"), priorities=[]))
    assert found == [
        "line 1: predicates: as before, nothing is filtered by what is not listed: "
        "VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, PodTopologySpread, "
        "InterPodAffinity"
    ]


def test_labels_that_nodes_must_have_or_not_become_an_affinity_of_the_profile() -> None:
    text = policy(
        predicates=[
            {"name": "MatchNodeSelector"},
            {"name": "a", "argument": {"labelsPresence": {"labels": ["x", "y"], "presence": True}}},
            {"name": "b", "argument": {"labelsPresence": {"labels": ["z"]}}},
            {"name": "c", "argument": {"labelsPresence": {"labels": ["x"], "presence": True}}},
        ]
    )
    (term,) = args(text, "NodeAffinity")["addedAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert term == {
        "matchExpressions": [
            {"key": "x", "operator": "Exists"},
            {"key": "y", "operator": "Exists"},
            {"key": "z", "operator": "DoesNotExist"},
        ]
    }


def test_labels_switch_their_plugin_on() -> None:
    argument = {"labelsPresence": {"labels": ["x"], "presence": True}}
    text = policy(predicates=[{"name": "a", "argument": argument}])
    assert "NodeAffinity" in running(text)["filter"]
    assert any("sees to the pods' nodeSelector too" in note for note in notes(text))


def test_an_argument_goes_before_the_name_of_what_is_gone() -> None:
    argument = {"labelsPresence": {"labels": ["x"], "presence": True}}
    text = policy(predicates=[{"name": "CheckNodeLabelPresence", "argument": argument}])
    assert args(text, "NodeAffinity") is not None
    assert any("left the argument out under the name" in note for note in notes(text))


def test_an_argument_of_a_known_predicate_is_left_out() -> None:
    argument = {"labelsPresence": {"labels": ["x"], "presence": True}}
    text = policy(predicates=[{"name": "HostName", "argument": argument}])
    assert args(text, "NodeAffinity") is None
    assert any("HostName takes no argument" in note for note in notes(text))


@pytest.mark.parametrize("name", GONE_PREDICATES)
def test_a_predicate_that_is_gone_is_named(name: str) -> None:
    text = policy(predicates=predicates(name))
    assert set(running(text)["filter"]) == MANDATORY | LATER_FILTERS
    assert notes(text)[0].startswith(f"line 1: predicates[0]: {name} is gone: ")


# ---------------------------------------------------------------- the rest


@pytest.mark.parametrize(
    ("weight", "found"), [(0, None), (1, None), (10, {"hardPodAffinityWeight": 10})]
)
def test_the_weight_of_required_affinity(weight: int, found: dict[str, int] | None) -> None:
    assert args(policy(hardPodAffinitySymmetricWeight=weight), "InterPodAffinity") == found


def test_the_weight_of_required_affinity_counts_only_where_affinity_is_scored() -> None:
    text = policy(hardPodAffinitySymmetricWeight=10, priorities=[])
    assert args(text, "InterPodAffinity") is None
    assert notes(text) == [
        "line 1: hardPodAffinitySymmetricWeight: left out: without InterPodAffinityPriority it "
        "had no effect"
    ]


def test_checking_all_predicates_is_gone() -> None:
    (note,) = notes(policy(alwaysCheckAllPredicates=True, priorities=[]))
    assert note.startswith("line 1: alwaysCheckAllPredicates: gone: ")
    assert notes(policy(alwaysCheckAllPredicates=False, priorities=[])) == []


def test_notes_have_the_file_and_the_line() -> None:
    text = "apiVersion: v1\nkind: Policy\npriorities:\n- name: EqualPriority\n  weight: 1\n"
    (note,) = convert_policy(text, file="old.yaml").notes
    assert note.startswith("old.yaml: line 4: priorities[0]: EqualPriority is gone")


def test_a_file_that_says_nothing_is_the_default_configuration() -> None:
    assert converted(policy()) == default_configuration()
    assert "profiles" not in convert_policy(policy()).document

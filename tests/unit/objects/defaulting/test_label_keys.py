"""matchLabelKeys in selectors: what is merged, what must not be."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mooring.objects import LabelSelector, Pod
from mooring.objects.selectors import compile_label_selector
from tests.helpers import admitted

LABELS = {"app": "web", "rev": "a1"}


def merged(spec: dict[str, Any], labels: dict[str, str] | None = None, **metadata: Any) -> Pod:
    """Returns a new pod as stored; one with UID and creation time was stored before."""
    metadata["labels"] = LABELS if labels is None else labels
    return admitted.admitted_pod(admitted.pod(spec, **metadata))


def spread(**fields: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**constraint, **fields}]}


def near(**fields: Any) -> dict[str, Any]:
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **fields}]
    }
    return {"affinity": {"podAffinity": required}}


def selector_of_spread(found: Pod) -> LabelSelector | None:
    return found.spec.topology_spread_constraints[0].label_selector


def selector_of_near(found: Pod) -> LabelSelector | None:
    affinity = found.spec.affinity
    assert affinity is not None
    assert affinity.pod_affinity is not None
    (term,) = affinity.pod_affinity.required_during_scheduling_ignored_during_execution
    return term.label_selector


def conditions(selector: LabelSelector | None) -> list[tuple[str, str, tuple[str, ...]]]:
    assert selector is not None
    return [(each.key, each.operator, each.values) for each in selector.match_expressions]


def test_the_pods_own_value_goes_into_the_selector() -> None:
    spec = spread(labelSelector={"matchLabels": {"app": "web"}}, matchLabelKeys=["rev"])
    selector = selector_of_spread(merged(spec))
    assert conditions(selector) == [("rev", "In", ("a1",))]
    assert selector is not None
    assert selector.match_labels == {"app": "web"}


def test_match_comes_before_mismatch_and_after_what_is_written() -> None:
    written = {"matchExpressions": [{"key": "x", "operator": "Exists"}]}
    spec = near(labelSelector=written, matchLabelKeys=["rev"], mismatchLabelKeys=["app"])
    assert conditions(selector_of_near(merged(spec))) == [
        ("x", "Exists", ()),
        ("rev", "In", ("a1",)),
        ("app", "NotIn", ("web",)),
    ]


def test_keys_that_the_pod_lacks_are_left_out() -> None:
    spec = spread(labelSelector={}, matchLabelKeys=["none", "rev"])
    found = merged(spec)
    assert conditions(selector_of_spread(found)) == [("rev", "In", ("a1",))]


def test_no_selector_still_selects_nothing() -> None:
    for spec, selector in (
        (spread(matchLabelKeys=["rev"]), selector_of_spread),
        (near(matchLabelKeys=["rev"]), selector_of_near),
    ):
        assert selector(merged(spec)) is None


def test_the_keys_themselves_stay_written() -> None:
    spec = spread(labelSelector={}, matchLabelKeys=["rev"])
    (constraint,) = merged(spec).spec.topology_spread_constraints
    assert constraint.match_label_keys == ("rev",)


def test_a_stored_pod_gets_only_what_it_lacks() -> None:
    present = {"key": "rev", "operator": "In", "values": ["a1"]}
    spec = spread(labelSelector={"matchExpressions": [present]}, matchLabelKeys=["rev", "app"])
    found = merged(spec, uid="u", creationTimestamp="2026-01-01T00:00:00Z")
    assert conditions(selector_of_spread(found)) == [
        ("rev", "In", ("a1",)),
        ("app", "In", ("web",)),
    ]


KEYS = st.lists(st.sampled_from(["app", "rev", "tier", "none"]), unique=True, max_size=3)
VALUES = st.dictionaries(st.sampled_from(["app", "rev", "tier"]), st.sampled_from("xyz"))


@given(own=VALUES, other=VALUES, keys=KEYS, more=KEYS)
def test_merged_selectors_say_what_the_keys_mean(
    own: dict[str, str], other: dict[str, str], keys: list[str], more: list[str]
) -> None:
    mismatch = [key for key in more if key not in keys]
    spec = near(labelSelector={}, matchLabelKeys=keys, mismatchLabelKeys=mismatch)
    found = selector_of_near(merged(spec, own))
    # A pod is meant if it agrees in each key, and differs (or has no label) in each other one.
    expected = all(own[key] == other.get(key) for key in keys if key in own) and all(
        own[key] != other.get(key) for key in mismatch if key in own
    )
    assert compile_label_selector(found).matches(other) == expected

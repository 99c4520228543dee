"""Feature gates: upstream's rules and texts, and the values that mooring does not implement."""

from __future__ import annotations

import pytest

from mooring.component.feature_gates import FeatureGates, known_gates
from mooring.component.gate_support import DEFAULTS_MISSING, MISSING
from mooring.component.go_values import GoError
from mooring.component.version import BINARY, Version


def gates(*texts: str, **versions: tuple[str, ...]) -> FeatureGates:
    return FeatureGates.from_flags({"": texts} if texts else {}, **versions)


def problem(*texts: str, **versions: tuple[str, ...]) -> str:
    with pytest.raises(GoError) as caught:
        gates(*texts, **versions)
    return str(caught.value)


def test_the_gates_are_those_of_kube_scheduler() -> None:
    stages = [gate.at(BINARY).stage for gate in known_gates().values()]
    counts = {stage: stages.count(stage) for stage in set(stages)}
    assert counts == {"BETA": 100, "GA": 76, "ALPHA": 49, "DEPRECATED": 16}
    assert sum(gate.at(BINARY).is_locked for gate in known_gates().values()) == 76
    assert list(known_gates()) == sorted(known_gates())


def test_dependencies_are_gates() -> None:
    for gate in known_gates().values():
        assert set(gate.depends_on) <= set(known_gates()), gate.name


def test_without_flags_every_gate_has_its_default() -> None:
    default = FeatureGates()
    assert default.enabled("NodeDeclaredFeatures")
    assert not default.enabled("GangScheduling")
    assert default.changed == {}
    assert default.missing() == {}
    assert default.text == ""


def test_the_items_are_those_of_the_metric() -> None:
    items = {item.name: item for item in FeatureGates().items()}
    assert len(items) == 241
    assert items["AllAlpha"][1:] == ("ALPHA", False)
    assert items["SchedulerQueueingHints"][1:] == ("", True)
    assert items["AggregatedDiscoveryRemoveBetaType"][1:] == ("DEPRECATED", True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NoSuchGate=true", "unrecognized feature gate: NoSuchGate"),
        ("=true", "unrecognized feature gate: "),
        ("GangScheduling", "missing bool value for GangScheduling"),
        ("GangScheduling=yes", "invalid value of GangScheduling=yes, err: strconv.ParseBool: "
         'parsing "yes": invalid syntax'),
        ("SchedulerQueueingHints=false", "cannot set feature gate SchedulerQueueingHints to false, "
         "feature is locked to true"),
        ("GangScheduling=true", "GangScheduling is enabled, but depends on features that are "
         "disabled: [GenericWorkload]"),
    ],
)  # fmt: skip
def test_what_upstream_refuses_is_refused_with_its_text(text: str, expected: str) -> None:
    assert problem(text) == expected


def test_all_locked_gates_are_reported_at_once() -> None:
    expected = (
        "[cannot set feature gate SchedulerQueueingHints to false, feature is locked to true, "
        "cannot set feature gate SidecarContainers to false, feature is locked to true]"
    )
    assert problem("SchedulerQueueingHints=false,SidecarContainers=0") == expected


def test_the_component_is_kube() -> None:
    assert FeatureGates.from_flags({"kube": ("WatchList=false",)}).changed == {"WatchList": False}
    with pytest.raises(GoError, match="component not registered: foo"):
        FeatureGates.from_flags({"foo": ("WatchList=false",)})
    with pytest.raises(GoError, match="do not mix use"):
        FeatureGates.from_flags({"kube": ("WatchList=false",), "": ("WatchList=true",)})


def test_of_equal_names_the_last_counts() -> None:
    assert gates("WatchList=false", "WatchList=true").changed == {}
    assert gates("WatchList=true,WatchList=F").text == "WatchList=false"


def test_a_group_sets_the_gates_that_are_not_named() -> None:
    chosen = gates("AllBeta=false,NodeDeclaredFeatures=true")
    assert chosen.enabled("NodeDeclaredFeatures")
    assert not chosen.enabled("WatchList")
    assert chosen.enabled("SchedulerQueueingHints")
    assert gates("AllAlpha=true").enabled("StorageCapacityScoring")


def test_ga_and_deprecated_gates_are_warned_about() -> None:
    assert gates("WatchList=false").warnings == []
    (warning,) = gates("AllowServiceExternalIPs=true").warnings
    assert warning == (
        "Warning: setting GA feature gate. It will be removed in a future release.",
        "AllowServiceExternalIPs",
        True,
    )
    (warning,) = gates("AllowDNSOnlyNodeCSR=true").warnings
    assert warning[0].startswith("Warning: setting deprecated feature gate.")


def test_an_emulated_version_has_its_own_defaults() -> None:
    older = gates(emulated=("1.34",))
    assert older.emulation == Version(1, 34)
    assert older.min_compatibility == Version(1, 33)
    assert not older.enabled("NodeDeclaredFeatures")
    assert older.version_errors() == []


def test_a_gate_that_is_younger_than_the_version_cannot_be_set() -> None:
    assert problem("WorkloadAwarePreemption=true", emulated=("kube=1.35",)) == (
        "cannot set feature gate WorkloadAwarePreemption to true, feature is PreAlpha at emulated "
        "version 1.35, min compatibility version 1.34"
    )


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("kube=1.36.1",), "patch version not allowed, got: kube=1.36.1"),
        (("foo",), 'could not parse "foo" as version'),
        (("1",), 'illegal version string "1"'),
        (("bar=1.35",), "component not registered: bar"),
        (("1.35", "1.34"), "duplicate version flag, kube=1.35 and kube=1.34"),
    ],
)
def test_versions_that_cannot_be_parsed(texts: tuple[str, ...], expected: str) -> None:
    assert problem(emulated=texts) == expected


def test_versions_out_of_range() -> None:
    assert gates(emulated=("1.30",)).version_errors() == [
        "emulation version 1.30 is not between [1.33, 1.36.0]",
        "minCompatibilityVersion version 1.33 is not between [1.33, 1.30]",
    ]
    assert gates(emulated=("1.35",), min_compatibility=("1.36",)).version_errors() == [
        "minCompatibilityVersion version 1.36 is not between [1.33, 1.35]"
    ]


def test_values_that_mooring_does_not_implement_are_named_with_a_reason() -> None:
    chosen = gates("GenericWorkload=true,WatchList=false")
    assert chosen.missing() == {"GenericWorkload=true": MISSING["GenericWorkload", True]}
    assert chosen.missing_because_set() == chosen.missing()
    # A version that lacks a feature is only warned about.
    assert gates(emulated=("1.33",)).missing_because_set() == {}


def test_asynchronous_api_calls_are_accepted_with_a_note() -> None:
    # Kubernetes' own tests of preemption run with both values; nothing they observe differs.
    chosen = gates("SchedulerAsyncAPICalls=true")
    assert chosen.missing() == {}
    assert list(chosen.partial()) == ["SchedulerAsyncAPICalls=true"]


def test_a_gate_whose_fields_the_api_server_drops_can_be_switched_off() -> None:
    vertical = "InPlacePodLevelResourcesVerticalScaling=false"
    chosen = gates(f"PodLevelResources=false,{vertical}")
    assert chosen.missing() == {}
    assert sorted(chosen.partial()) == [vertical, "PodLevelResources=false"]


def test_only_values_that_are_no_defaults_are_refused() -> None:
    for name, value in MISSING:
        stage = known_gates()[name].at(BINARY)
        assert stage.default != value, name
        assert not stage.is_locked, name
    for name in DEFAULTS_MISSING:
        assert known_gates()[name].at(BINARY).default, name

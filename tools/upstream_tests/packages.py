"""The packages of Kubernetes' tests that concern a scheduler, and which of their tests apply."""

from __future__ import annotations

from typing import NamedTuple


class Exclusion(NamedTuple):
    """Tests that cannot run with another program.

    Attributes:
        tests: A pattern of names, as of ``go test -skip``.
        reason: What they need of the Go scheduler, or which gate.
    """

    tests: str
    reason: str


class Package(NamedTuple):
    """A package of tests.

    Attributes:
        name: Its path below ``test/integration``.
        excluded: Tests that do not apply; others decide by themselves, by the plugins they need.
        inert: Go plugins of the tests that change nothing in those that are run.
    """

    name: str
    excluded: tuple[Exclusion, ...] = ()
    inert: tuple[str, ...] = ()


_QUEUE = "makes the attempts of the Go scheduler by itself, and looks into its queue"
_GROUPS = "alpha gates GenericWorkload and GangScheduling"

PACKAGES = (
    Package("scheduler"),
    Package(
        "scheduler/batch",
        (Exclusion("/no_batching_(missing|empty)_sign", "compiles in Go plugins"),),
    ),
    Package("scheduler/bind", (Exclusion("TestDefaultBinder", "calls the Go plugin"),)),
    Package("scheduler/eventhandler"),
    Package("scheduler/extender"),
    Package(
        "scheduler/filters",
        (Exclusion("TestNodeDeclaredFeaturesFilter", "compiles in Go features of nodes"),),
    ),
    Package(
        "scheduler/nominated_node_name",
        (Exclusion("TestPreemptionAndNominatedNodeNameScenarios", _QUEUE),),
        ("NoNNNPostBindPlugin",),
    ),
    Package("scheduler/plugins"),
    Package(
        "scheduler/preemption",
        (
            Exclusion("TestPodGroupPreemption", _GROUPS),
            Exclusion("TestAsyncPreemption", _QUEUE),
            Exclusion(
                "TestPreemption$/preemption_with_(preFilter|filter|unresolvable)",
                "a Go plugin that counts its calls",
            ),
        ),
        ("filter-plugin",),
    ),
    Package("scheduler/preemption/misc"),
    Package(
        "scheduler/preemption/nominatednodename",
        (Exclusion("TestPreferNominatedNode", "replaces a function of the Go scheduler"),),
    ),
    Package(
        "scheduler/queueing",
        (
            Exclusion("TestSchedulingGates", _QUEUE),
            Exclusion("TestCustomResourceEnqueue", "compiles in a Go plugin"),
        ),
    ),
    Package("scheduler/queueing/queueinghint"),
    Package("scheduler/scoring"),
    Package(
        "scheduler/serving",
        (Exclusion("/structured_cbor_response$", "alpha gate CBORServingAndStorage"),),
    ),
    Package("scheduler/taint"),
    Package("volumescheduling"),
    Package("dra/default"),
    Package("dra/ga"),
    Package(
        "dra/all",
        (
            Exclusion("TestDRA/all/(PodGroup|WorkloadResourceClaims)", _GROUPS),
            Exclusion(
                "TestDRA/all/DRANodeAllocatableResources", "alpha gate DRANodeAllocatableResources"
            ),
        ),
    ),
)

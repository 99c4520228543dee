"""How a pod is to be spread: its own constraints, or else those that the profile has for it.

Source: pkg/scheduler/framework/plugins/podtopologyspread/common.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mooring.config.types import PodTopologySpreadArgs
from mooring.objects.pod import TopologySpreadConstraint
from mooring.objects.selectors import (
    Selector,
    compile_label_selector,
    selector_of,
    selector_of_labels,
)
from mooring.state import PodInfo
from mooring.state.kinds.workloads import Workloads

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

#: What to do with a pod that cannot be spread as it should: refuse the node, or prefer others.
DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"

HONOR: Final = "Honor"

#: How pods of a Service or of one owner are spread if nobody says anything.
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)


class Constraint(NamedTuple):
    """One constraint, ready to be applied; the selector is that of the pods to be spread.

    A node is left out of the count if the pod may not go there for its node affinity
    (``honors_affinity``) or for its taints (``honors_taints``).
    """

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


class Constraints:
    """Tells the constraints of a pod; made from the arguments of one profile's plugin."""

    def __init__(self, args: PodTopologySpreadArgs | None = None) -> None:
        args = args if args is not None else PodTopologySpreadArgs()
        self.is_system_defaulted = args.defaulting_type == "System"
        self.defaults = SYSTEM_DEFAULTS if self.is_system_defaulted else args.default_constraints

    def of(self, pod: PodInfo, action: str, workloads: Workloads) -> tuple[Constraint, ...]:
        """Returns the constraints of ``pod`` with this action, in order.

        Raises:
            SelectorError: if the selector of one of them cannot be compiled.
        """
        own = pod.spec.topology_spread_constraints
        if own:
            return own_constraints(own, pod.metadata.labels, action)
        wanted = [each for each in self.defaults if each.when_unsatisfiable == action]
        if not wanted:
            return ()
        selector = workloads.selector_for(pod)
        if selector.selects_everything:
            return ()  # neither a service nor an owner: there is nothing to spread among
        return tuple(_with_selector(each, selector) for each in wanted)

    def requires_all_keys(self, pod: PodInfo) -> bool:
        """Returns whether scoring passes over nodes without one of the topology keys.

        The system's defaults spread over hosts where there are no zones.
        """
        return bool(pod.spec.topology_spread_constraints) or not self.is_system_defaulted


def own_constraints(
    constraints: Iterable[TopologySpreadConstraint], labels: Mapping[str, str], action: str
) -> tuple[Constraint, ...]:
    """Returns those of a pod's own constraints that have this action, for a pod with these labels.

    Raises:
        SelectorError: if the selector of one of them cannot be compiled.
    """
    return tuple(
        _with_selector(each, _selector(each, labels))
        for each in constraints
        if each.when_unsatisfiable == action
    )


def _selector(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    """Returns the constraint's selector, with the values that the pod has for its matchLabelKeys.

    The API server has put them in already, unless the pod is older than that; twice is once.
    """
    selector = compile_label_selector(constraint.label_selector)
    keys = constraint.match_label_keys
    own = {key: labels[key] for key in keys if key in labels}
    if not own or selector.selects_nothing:
        return selector
    return selector_of((*selector_of_labels(own).requirements, *selector.requirements))


def _with_selector(constraint: TopologySpreadConstraint, selector: Selector) -> Constraint:
    affinity, taints = constraint.node_affinity_policy, constraint.node_taints_policy
    return Constraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        selector=selector,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_affinity=affinity is None or affinity == HONOR,
        honors_taints=taints == HONOR,
    )

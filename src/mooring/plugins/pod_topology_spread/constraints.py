"""The topology spread constraints of a pod: its own, or else the profile's default constraints.

Source: pkg/scheduler/framework/plugins/podtopologyspread/common.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

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

#: The values of whenUnsatisfiable.
DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"

HONOR: Final = "Honor"

#: The default constraints with defaultingType System, for pods of a Service or an owner.
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)


class Constraint(NamedTuple):
    """One constraint with its compiled selector.

    Nodes that the pod's node affinity excludes (``honors_affinity``) and nodes with untolerated
    taints (``honors_taints``) are not counted.
    """

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


class Constraints:
    """Computes the constraints of pods, from the plugin's arguments."""

    def __init__(
        self, args: PodTopologySpreadArgs | None = None, *, reads_match_label_keys: bool = True
    ) -> None:
        self._reads_match_label_keys = reads_match_label_keys
        args = args if args is not None else PodTopologySpreadArgs()
        self.is_system_defaulted = args.defaulting_type == "System"
        self.defaults = SYSTEM_DEFAULTS if self.is_system_defaulted else args.default_constraints
        self._defaults_of: dict[str, list[TopologySpreadConstraint]] = {}
        for item in self.defaults:
            self._defaults_of.setdefault(item.when_unsatisfiable, []).append(item)

    def of(self, pod: PodInfo, action: str, workloads: Workloads) -> tuple[Constraint, ...]:
        """Returns the constraints of ``pod`` with this action, in order.

        Raises:
            SelectorError: if the selector of one of them cannot be compiled.
        """
        own = pod.spec.topology_spread_constraints
        if own:
            if not self._reads_match_label_keys:
                own = tuple(replace(item, match_label_keys=()) for item in own)
            return own_constraints(own, pod.metadata.labels, action)
        defaults = self._defaults_of.get(action)
        if defaults is None:
            return ()
        selector = workloads.selector_for(pod)
        if selector.selects_everything:
            return ()  # neither a service nor an owner selects the pod
        return tuple(_with_selector(constraint, selector) for constraint in defaults)

    def requires_all_keys(self, pod: PodInfo) -> bool:
        """Returns True if scoring ignores nodes without one of the topology keys.

        It is False for the system defaults, which spread over hosts where there are no zones.
        """
        return bool(pod.spec.topology_spread_constraints) or not self.is_system_defaulted


def own_constraints(
    constraints: Iterable[TopologySpreadConstraint], labels: Mapping[str, str], action: str
) -> tuple[Constraint, ...]:
    """Returns a pod's own constraints with this action; ``labels`` are the pod's.

    Raises:
        SelectorError: if the selector of one of them cannot be compiled.
    """
    return tuple(
        _with_selector(constraint, _selector(constraint, labels))
        for constraint in constraints
        if constraint.when_unsatisfiable == action
    )


def _selector(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    """Returns the constraint's selector, with the pod's values of its matchLabelKeys.

    The API server has usually added them already; adding them twice makes no difference.
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

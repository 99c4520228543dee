"""Objects that no API server stores: selectors that cannot be compiled, classes without a mode.

kube-scheduler reads them all the same, if an older server or a client that writes to etcd has left
them. What follows for a pod is in the scalar plugins below, which ask whether a selector is valid
before they use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import Rng
from mooring.framework import Cycle, Reject, Status
from mooring.framework.status import Skip
from mooring.objects.meta import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelectorRequirement,
    key,
)
from mooring.objects.pod import Pod
from mooring.objects.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from mooring.state import PodInfo
from tests.plugins import spread_twin, volume_binding_twin
from tests.plugins.affinity_twin import AffinityTwin, Term
from tests.plugins.spread_twin import Rule, SpreadTwin
from tests.plugins.volume_binding_twin import BindingTwin
from tests.plugins.volume_limits_twin import Broken

#: Requirements that are refused, and the reasons of mooring.
INVALID: Final = (
    (("tier", "Same", ("1",)), "'Same' is not an operator of a label selector"),
    (("tier", "In", ()), "label 'tier': In needs at least one value"),
    (("tier", "NotIn", ()), "label 'tier': NotIn needs at least one value"),
    (("tier", "Exists", ("1",)), "label 'tier': Exists takes no values"),
    (("tier", "DoesNotExist", ("1",)), "label 'tier': DoesNotExist takes no values"),
)
REASONS: Final = dict(INVALID)
SELECTOR_PROBLEM: Final = "error creating internal label selector for claim"
#: Changes a selector.
Change = Callable[[Rng, LabelSelector | None], LabelSelector]
#: The sorts of terms of the scalar plugin, and their names in messages.
SORTS: Final = {
    "near": "requiredAffinityTerms",
    "far": "requiredAntiAffinityTerms",
    "preferred": "preferredAffinityTerms",
    "unpreferred": "preferredAntiAffinityTerms",
}


def reason_against(conditions: Any) -> str:
    """Returns why conditions of a selector are refused: the first one counts."""
    reasons = (REASONS.get((it[0], it[1], tuple(it[2])), "") for it in conditions or ())
    return next(filter(None, reasons), "")


def spoiled_selector(rng: Rng, selector: LabelSelector | None) -> LabelSelector:
    """Returns a selector with a requirement that is refused."""
    label, operator, values = rng.choice(INVALID)[0]
    more = LabelSelectorRequirement(key=label, operator=operator, values=values)
    selector = selector or LabelSelector()
    place = rng.randint(0, len(selector.match_expressions))
    before, after = selector.match_expressions[:place], selector.match_expressions[place:]
    return replace(selector, match_expressions=(*before, more, *after))


# -- pods -----------------------------------------------------------------------------------------


def two_values(rng: Rng, selector: LabelSelector | None) -> LabelSelector:
    """Returns a selector of two values of one label, and no others."""
    del rng, selector
    values = LabelSelectorRequirement(key="tier", operator="In", values=("1", "2"))
    return LabelSelector(match_expressions=(values,))


def spoiled_pod(rng: Rng, pod: Pod, change: Change = spoiled_selector) -> Pod:
    """Returns a pod in which a selector of a term or of a constraint is changed."""
    constraints = pod.spec.topology_spread_constraints
    if constraints:
        at = rng.randrange(len(constraints))
        selector = change(rng, constraints[at].label_selector)
        changed = [*constraints]
        changed[at] = replace(changed[at], label_selector=selector)
        return replace(pod, spec=replace(pod.spec, topology_spread_constraints=tuple(changed)))
    affinity: Any = pod.spec.affinity
    names = [name for name in ("pod_affinity", "pod_anti_affinity") if getattr(affinity, name, 0)]
    if not names:
        return pod
    name = rng.choice(names)
    spoiled = replace(affinity, **{name: _spoiled_terms(rng, getattr(affinity, name), change)})
    return replace(pod, spec=replace(pod.spec, affinity=spoiled))


def _spoiled_terms(rng: Rng, part: Any, change: Change) -> Any:
    """Returns the terms of one part, of which some are changed."""
    fields = {}
    for name in (
        "required_during_scheduling_ignored_during_execution",
        "preferred_during_scheduling_ignored_during_execution",
    ):
        terms = list(getattr(part, name))
        if terms and rng.random() < 0.6:
            at = rng.randrange(len(terms))
            is_weighted = name.startswith("preferred")
            term = terms[at].pod_affinity_term if is_weighted else terms[at]
            selector = rng.choice(("label_selector", "namespace_selector"))
            old = getattr(term, selector)
            term = replace(term, **{selector: change(rng, old)})
            terms[at] = replace(terms[at], pod_affinity_term=term) if is_weighted else term
        fields[name] = tuple(terms)
    return replace(part, **fields)


class SpoiledAffinityTwin(AffinityTwin):
    """InterPodAffinity: a sort of terms with a refused selector has none; the pod is rejected."""

    def pre_filter(self, cycle: Cycle) -> Status | Skip | None:  # type: ignore[override]
        """Rejects a pod with the reasons of all sorts."""
        reasons = [
            f"{name}: {reason}"
            for sort, name in SORTS.items()
            if (reason := self.reason(cycle.pod, sort))
        ]
        if reasons:
            text = reasons[0] if len(reasons) == 1 else f"[{', '.join(reasons)}]"
            return Reject(f"parsing pod: {text}", resolvable=False)
        return super().pre_filter(cycle)

    def reason(self, pod: PodInfo, sort: str) -> str:
        """Returns why a sort of terms is refused; "" = it is not."""
        for term in super().terms(pod, sort):
            for conditions in (term.conditions, term.namespace_conditions):
                if reason := reason_against(conditions):
                    return reason
        return ""

    def terms(self, pod: PodInfo, sort: str) -> list[Term]:
        """Returns the terms of a sort; none if one is refused."""
        return [] if self.reason(pod, sort) else super().terms(pod, sort)


class SpoiledSpreadTwin(SpreadTwin):
    """PodTopologySpread: an error, if a selector of a constraint is refused.

    Attributes:
        reads_keys: Whether matchLabelKeys count.
    """

    reads_keys = True

    def rules(self, pod: PodInfo, action: str) -> list[Rule]:
        """Returns the rules of a pod.

        Raises:
            Broken: a selector is refused.
        """
        if not self.reads_keys:
            own = pod.spec.topology_spread_constraints
            without = tuple(replace(it, match_label_keys=()) for it in own)
            spec = replace(pod.spec, topology_spread_constraints=without)
            pod = PodInfo(replace(pod.pod, spec=spec))
        rules = super().rules(pod, action)
        for rule in rules:
            if reason := reason_against(rule.conditions):
                raise Broken(reason)
        return rules


# -- volumes --------------------------------------------------------------------------------------


def spoiled_object(rng: Rng, obj: Any) -> Any:
    """Returns an object about volumes in which something is missing or refused."""
    if isinstance(obj, StorageClass):
        what = rng.random()
        if what < 0.3:
            missing = {"provisioner": ""} if what < 0.1 else {"volume_binding_mode": None}
            return replace(obj, **missing)
        return replace(obj, allowed_topologies=_spoiled_topologies(rng, obj))
    if isinstance(obj, PersistentVolumeClaim):
        selector = spoiled_selector(rng, obj.spec.selector)
        return replace(obj, spec=replace(obj.spec, selector=selector))
    if isinstance(obj, CSIStorageCapacity):
        return replace(obj, node_topology=spoiled_selector(rng, obj.node_topology))
    if isinstance(obj, PersistentVolume):
        return _spoiled_volume(rng, obj)
    return obj


def _spoiled_topologies(rng: Rng, storage_class: StorageClass) -> Any:
    """Returns the topologies of a class, of which one has no value or no label key."""
    terms = []
    for term in storage_class.allowed_topologies:
        rules = [
            replace(rule, values=()) if rng.random() < 0.5 else replace(rule, key="not a key")
            for rule in term.match_label_expressions
            if rng.random() < 0.8
        ]
        terms += [replace(term, match_label_expressions=tuple(rules)), term][: rng.choice((1, 2))]
    return tuple(terms)


def _spoiled_volume(rng: Rng, volume: PersistentVolume) -> PersistentVolume:
    """Returns a volume with a refused rule in its affinity."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return volume
    label, operator, values = rng.choice(INVALID)[0]
    rule = NodeSelectorRequirement(key=label, operator=operator, values=values)
    terms = [
        replace(term, match_expressions=(*term.match_expressions, rule))
        if rng.random() < 0.7
        else term
        for term in affinity.required.node_selector_terms
    ]
    required = replace(affinity.required, node_selector_terms=tuple(terms))
    spec = replace(volume.spec, node_affinity=replace(affinity, required=required))
    return replace(volume, spec=spec)


class SpoiledBindingTwin(BindingTwin):
    """VolumeBinding: a claim with a refused selector is an error, and other such rules hold not."""

    def smallest(self, claim: Any, node: Any, taken: set[str]) -> Any:
        """Returns the smallest volume for a claim.

        Raises:
            Broken: its selector is refused.
        """
        conditions = spread_twin.conditions_of(claim.spec.selector)
        if reason := reason_against(conditions):
            raise Broken(f"{SELECTOR_PROBLEM}: {key(claim)}: {reason}")
        return super().smallest(claim, node, taken)


def holds(condition: Any, labels: Any) -> bool:
    """Returns whether a rule about a node holds: one that is refused does not."""
    if reason_against([condition]):
        return False
    return bool(_HOLDS(condition, labels))


_HOLDS: Final = volume_binding_twin.holds
#: Functions of the scalar plugins that are replaced: module, name, function.
REPLACED: Final = ((volume_binding_twin, "holds", holds),)

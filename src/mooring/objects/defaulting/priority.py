"""The Priority admission plugin: resolves a priorityClassName to a priority.

Source: plugin/pkg/admission/priority/admission.go, pkg/apis/scheduling/v1/helpers.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final

from mooring.objects.types import Object

#: Above this only the two classes of the system may be.
HIGHEST_USER_PRIORITY: Final = 1_000_000_000
#: The preemption policy of a class that does not say otherwise.
PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"


class PriorityRefused(ValueError):
    """A pod names a class that does not exist, or contradicts its class.

    Attributes:
        field: The field of the pod's spec.
        value: Its value.
        suggestion: The nearest name of a class, if the name is unknown.
    """

    def __init__(self, message: str, field: str, value: Any, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.value = value
        self.suggestion = suggestion


def system_classes() -> list[Object]:
    """Returns the classes that every cluster has, made anew for each caller."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "system-node-critical"},
            "value": 2_000_001_000,
            "description": (
                "Used for system critical pods that must not be moved from their current node."
            ),
        },
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "system-cluster-critical"},
            "value": 2_000_000_000,
            "description": (
                "Used for system critical pods that must run in the cluster, but can be moved to "
                "another node if necessary."
            ),
        },
    ]


class PriorityClasses:
    """The priority classes of a cluster.

    Attributes:
        default: The class of pods that name none; None if the cluster has no such class.
    """

    def __init__(self, classes: Iterable[Object]) -> None:
        self._by_name = {
            priority_class["metadata"]["name"]: priority_class for priority_class in classes
        }
        marked = [
            priority_class
            for priority_class in self._by_name.values()
            if priority_class.get("globalDefault")
        ]
        # A race can make two default classes; the lower one counts.
        self.default = min(
            marked, key=lambda priority_class: int(priority_class.get("value", 0)), default=None
        )

    def apply(self, pod: Object) -> None:
        """Gives a pod the priority and the preemption policy of its class.

        Raises:
            PriorityRefused: No such class, or the pod contradicts it.
        """
        spec = pod["spec"]
        name = spec.get("priorityClassName", "")
        chosen = self._by_name.get(name) if name else self.default
        if name and chosen is None:
            near = get_close_matches(name, list(self._by_name), n=1)
            message = f"no PriorityClass with name {name} was found"
            raise PriorityRefused(message, "priorityClassName", name, near[0] if near else None)
        priority, policy = 0, PREEMPT_LOWER_PRIORITY
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
            priority = chosen.get("value", 0)
            policy = chosen.get("preemptionPolicy", PREEMPT_LOWER_PRIORITY)
        _set_computed(spec, "priority", priority, "integer value of priority")
        _set_computed(spec, "preemptionPolicy", policy, "string value of PreemptionPolicy")


def _set_computed(spec: Object, name: str, computed: Any, title: str) -> None:
    """Sets a field that the class decides; the pod may not say otherwise."""
    value = spec.get(name)
    if value is not None and value != computed:
        message = (
            f"the {title} ({value}) must not be provided in pod spec; priority admission "
            f"controller computed {computed} from the given PriorityClass name"
        )
        raise PriorityRefused(message, name, value)
    spec[name] = computed

"""From a priorityClassName to a number: what the Priority admission plugin does.

Source: plugin/pkg/admission/priority/admission.go, pkg/apis/scheduling/v1/helpers.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from msgspec.structs import replace

from mooring.errors import ConfigError
from mooring.objects.meta import ObjectMeta, PriorityClass, key
from mooring.objects.pod import Pod

#: Above this only the two classes of the system may be.
HIGHEST_USER_PRIORITY = 1_000_000_000

#: Classes that every cluster has.
SYSTEM_CLASSES = (
    PriorityClass(metadata=ObjectMeta(name="system-node-critical"), value=2_000_001_000),
    PriorityClass(metadata=ObjectMeta(name="system-cluster-critical"), value=2_000_000_000),
)

#: What a class does that does not say otherwise.
PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"

#: Priority of a pod without a class, in a cluster without a default class.
_NO_CLASS = PriorityClass(value=0)


class PriorityClasses:
    """The classes of a cluster, with the default one at hand."""

    def __init__(self, classes: Iterable[PriorityClass]) -> None:
        by_name = {each.metadata.name: each for each in (*SYSTEM_CLASSES, *classes)}
        self._by_name: Mapping[str, PriorityClass] = by_name
        defaults = [each for each in by_name.values() if each.global_default]
        # Two defaults can come to exist by a race; the lower one counts.
        self._default = min(defaults, key=lambda each: each.value, default=None)

    def applied_to(self, pod: Pod) -> Pod:
        """Returns the pod with the priority and the preemption policy of its class.

        *Differs:* a pod that names no class keeps a priority and a preemption policy of its own,
        since files for trying things out say ``priority: 100`` and no more; an API server would
        refuse it.

        Raises:
            ConfigError: There is no such class, or the pod contradicts it.
        """
        spec = pod.spec
        if not spec.priority_class_name and spec.priority is not None:
            return pod
        found = self._class_of(pod)
        if spec.priority is not None and spec.priority != found.value:
            problem = f"Pod {key(pod)}: its PriorityClass says {found.value}"
            raise ConfigError(problem, path="spec.priority", value=spec.priority)
        policy = found.preemption_policy or PREEMPT_LOWER_PRIORITY
        if found is _NO_CLASS:
            policy = spec.preemption_policy or policy
        if spec.preemption_policy not in (None, policy):
            problem = f"Pod {key(pod)}: its PriorityClass says {policy}"
            raise ConfigError(problem, path="spec.preemptionPolicy", value=spec.preemption_policy)
        return replace(
            pod,
            spec=replace(
                spec,
                priority=found.value,
                priority_class_name=found.metadata.name,
                preemption_policy=policy,
            ),
        )

    def _class_of(self, pod: Pod) -> PriorityClass:
        name = pod.spec.priority_class_name
        if not name:
            return self._default or _NO_CLASS
        found = self._by_name.get(name)
        if found is None:
            near = get_close_matches(name, list(self._by_name), n=1)
            raise ConfigError(
                f"Pod {key(pod)}: no PriorityClass has this name",
                path="spec.priorityClassName",
                value=name,
                suggestion=near[0] if near else None,
            )
        return found

"""The result of Reserve, Permit and the binding for a pod whose node was chosen.

The decision is carried out on the offline cluster. If the pod waits in Permit, the pods after it in
the queue are scheduled as well, since they may end its wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.simulation.driver import Driver
from mooring.simulation.outcome import Outcome


class Binding(NamedTuple):
    """The outcome of the binding cycle.

    Attributes:
        rejected_by: The plugins that rejected the pod; () = none did.
        is_bound: Whether the pod is bound in the end.
        lines: The outcome in words; () = there is nothing to say.
    """

    rejected_by: tuple[str, ...]
    is_bound: bool
    lines: tuple[str, ...]


def carry_out(driver: Driver, outcome: Outcome, later: Iterable[Pod]) -> Binding:
    """Runs Reserve, Permit and the binding of a decision with a node.

    Args:
        driver: The cluster, which changes.
        outcome: The decision.
        later: The pods after this one in the queue.
    """
    pod: Any = outcome.info.pod
    final = driver.apply(outcome)
    waiting = driver.handle.waiting.get(outcome.info.uid)
    lines = []
    if final.node is not None and waiting is not None:
        waits = waiting.remaining_s(driver.time.monotonic_s()).items()
        texts = [f"{plugin} (at most {wait_s:g} s)" for plugin, wait_s in waits]
        lines.append(f"It waits in Permit for {', '.join(texts)}.")
        for other in later:
            if key(other) != key(pod):
                driver.apply(driver.attempt(other))
        finals = {key(item.info.pod): item for item in driver.settle()}
        final = finals.get(key(pod), final)
        if final.node is not None:
            lines.append("The wait ended: the pod is bound.")
    if final.node is not None:
        return Binding((), is_bound=True, lines=tuple(lines))
    plugins = final.decision().unschedulable_plugins
    where = _points(driver, plugins, has_waited=waiting is not None)
    lines.append(f"{where} rejected the pod on {outcome.node}: {_reason(final)}")
    return Binding(plugins, is_bound=False, lines=tuple(lines))


def _points(driver: Driver, plugins: Iterable[str], *, has_waited: bool) -> str:
    """Returns the plugins with the extension point that rejected the pod."""
    texts = []
    for name in plugins:
        points = ["Permit"] if has_waited else list(_points_of(driver, name))
        texts.append(f"{name} ({' or '.join(points)})" if points else name)
    return ", ".join(texts) or "The binding"


def _points_of(driver: Driver, name: str) -> Iterable[str]:
    methods = {"Reserve": "reserve", "Permit": "permit"}
    for framework in driver.frameworks.values():
        for plugin in framework.profile.all_plugins():
            if plugin.name == name:
                return [point for point, method in methods.items() if hasattr(plugin, method)]
    return ()


def _reason(final: Outcome) -> str:
    """Returns the reasons of the rejection, or the message of the outcome."""
    rejections = final.decision().rejected.values()
    reasons = [reason for rejection in rejections for reason in rejection.reasons]
    return ", ".join(reasons) or final.message

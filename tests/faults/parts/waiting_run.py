"""Pods that wait in Permit, allowed and rejected by several plugins, while time passes.

Up to four plugins let a pod wait, also for longer than the limit of 15 minutes. They allow and
reject it, some of them twice or without having waited; it is a victim of preemption, or a deadline
passes. The plugins that still wait, the deadlines, the status, how often its end is reported, and
the pods that wait are those of a plain model.

Source: pkg/scheduler/framework/runtime/waiting_pods_map.go; framework.go (maxTimeout).
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from mooring.clock import seeded_random
from mooring.framework.waiting_pods import WaitingPod, WaitingPods
from mooring.state import PodInfo
from mooring.testing import make_pod

STEPS: Final = 60
PLUGINS: Final = ("P", "Q", "R", "S")
LIMIT_S: Final = 900.0
#: Seconds, and Go's text of them.
WAITS: Final = {
    0.0: "0s", 0.5: "500ms", 3.0: "3s", 60.0: "1m0s", 899.0: "14m59s", 900.0: "15m0s",
    901.0: "15m0s", 7200.0: "15m0s",
}  # fmt: skip
NEVER: Final = float("inf")


class Waiting:
    """The model of a pod: the plugins that wait, until when, and how it has ended."""

    def __init__(self, waits: dict[str, float], now_s: float) -> None:
        self.waits = waits
        self.ends_s = {plugin: now_s + min(wait, LIMIT_S) for plugin, wait in waits.items()}
        #: Code, reason and plugin; () = allowed, None = it waits.
        self.status: Any = None

    def end(self, status: Any) -> None:
        """Ends the wait, unless it has ended."""
        self.status = status if self.status is None else self.status

    def allow(self, plugin: str) -> None:
        """Lets a plugin wait no longer."""
        self.ends_s.pop(plugin, None)
        if not self.ends_s:
            self.end(())

    def expire(self, now_s: float) -> None:
        """Ends the wait if a deadline has passed."""
        if self.status is None and self.ends_s and min(self.ends_s.values()) <= now_s:
            plugin = min(self.ends_s, key=lambda name: self.ends_s[name])
            text = WAITS[self.waits[plugin]]
            reason = f"rejected due to timeout after waiting {text} at plugin {plugin}"
            self.end(("Unschedulable", (reason,), plugin))


class WaitingRun:
    """One run.

    Attributes:
        problems: Differences to the model.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        self._now_s = 0.0
        self._pods, self._models = WaitingPods(), dict[str, Waiting]()
        #: How often the end of each wait was reported.
        self._ended: Counter[str] = Counter()
        self._count = 0

    def run(self) -> None:
        """Makes all steps, and compares after each of them."""
        for _ in range(STEPS):
            if not self._models or self._rng.random() < 0.2:
                self._begin()
            else:
                self._step(self._rng.choice(list(self._models)))
            self._check()
            if self.problems:
                return

    def _begin(self) -> None:
        rng = self._rng
        self._count += 1
        uid = f"pod-{self._count}"
        names = rng.sample(PLUGINS, rng.randint(1, len(PLUGINS)))
        waits = {name: rng.choice(list(WAITS)) for name in names}
        waiting = WaitingPod(PodInfo(make_pod(uid, uid=uid)), "node", waits, self._now_s)
        waiting.on_settled = lambda it: self._ended.update([it.pod.uid])
        self._pods.add(waiting)
        self._models[uid] = Waiting(waits, self._now_s)

    def _step(self, uid: str) -> None:
        rng, model, waiting = self._rng, self._models[uid], self._pods.get(uid)
        assert waiting is not None
        plugin = rng.choice(PLUGINS)
        match rng.choice(("allow", "allow", "allow", "reject", "preempt", "time", "time", "end")):
            case "allow":
                waiting.allow(plugin)
                model.allow(plugin)
            case "reject":
                waiting.reject(plugin, "no")
                model.end(("Unschedulable", ("no",), plugin))
            case "preempt":
                was_waiting = model.status is None
                if waiting.preempt(plugin, "preempted") is not was_waiting:
                    self.problems.append(f"{uid} waited: {not was_waiting}")
                model.end(("Error", ("preempted",), plugin))
            case "time":
                self._now_s += rng.choice((0.0, 0.5, 3.0, 60.0, 840.0))
                self._pods.expire(self._now_s)
                for it in self._models.values():
                    it.expire(self._now_s)
            case "end":
                self._pods.remove(uid)
                del self._models[uid]

    def _check(self) -> None:
        """Compares all pods."""
        listed = [waiting.pod.uid for waiting in self._pods]
        if listed != list(self._models) or len(self._pods) != len(self._models):
            self.problems.append(f"{listed} wait, not {list(self._models)}")
            return
        for waiting in self._pods:
            uid, status = waiting.pod.uid, waiting.status
            model = self._models[uid]
            plain: Any = status
            if status:
                plain = status.code.value, status.reasons, status.plugin
            left = {it: max(0.0, at_s - self._now_s) for it, at_s in model.ends_s.items()}
            first_s = min(model.ends_s.values(), default=NEVER)
            actual = (
                waiting.node_name,
                plain,
                waiting.pending_plugins,
                waiting.remaining_s(self._now_s),
                waiting.deadline_s,
                self._ended[uid],
            )
            deadline_s = first_s if model.status is None else NEVER
            expected = (
                "node",
                model.status,
                list(left),
                left,
                deadline_s,
                model.status is not None,
            )
            if actual != expected:
                self.problems.append(f"{uid} of {model.waits}: {actual}, not {expected}")
        if self._pods.get("absent") is not None:
            self.problems.append("a pod waits that is not there")


def run_waiting(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a pod waits otherwise than the model.
    """
    run = WaitingRun(seed)
    run.run()
    assert not run.problems, run.problems[0]

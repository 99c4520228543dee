"""Checks of what follows from the configuration and the options of a scheduler.

Source: cmd/kube-scheduler/app/server.go (Setup, Run), pkg/scheduler/scheduler.go (New).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from mooring.apiserver import ApiServer
from mooring.apiserver.resources import BY_PATH
from mooring.clock import Rng
from mooring.metrics.registry import Metrics
from tests.faults.parts.wiring_plugin import ACTIVATED_S, REJECTED, Noting, Wired

DEVICES: Final = "/apis/resource.k8s.io/"
STORAGE: Final = "/apis/storage.k8s.io/"
DEFAULT: Final = "default-scheduler"
BIND_S: Final = 0.5
#: Pods that are created later, or never scheduled.
LATER: Final = ("foreign", "victim", "urgent")
#: A node is added so long after a pod was rejected.
EARLY_S: Final = 0.2
#: The queue looks once a second for pods whose backoff is over.
FLUSH_S: Final = 1.0 + 1e-6
LIVING: Final = "status.phase!=Succeeded,status.phase!=Failed"
#: Paths that a scheduler with all default plugins watches.
WATCHED: Final = frozenset(
    {
        *("/api/v1/" + it for it in ("namespaces", "nodes", "persistentvolumeclaims")),
        *("/api/v1/" + it for it in ("persistentvolumes", "pods", "replicationcontrollers")),
        *("/api/v1/services", "/apis/apps/v1/replicasets", "/apis/apps/v1/statefulsets"),
        "/apis/policy/v1/poddisruptionbudgets",
        *(f"{DEVICES}v1/{it}" for it in ("deviceclasses", "resourceclaims", "resourceslices")),
        *("/apis/storage.k8s.io/v1/" + it for it in ("csidrivers", "csinodes", "storageclasses")),
        *("/apis/storage.k8s.io/v1/" + it for it in ("csistoragecapacities", "volumeattachments")),
    }
)
#: A kind that the server does not have.
ABSENT: Final = "leasecandidates.v1beta1.coordination.k8s.io"
#: A kind that only a plugin needs -> its path.
NEEDS: Final = {
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    ABSENT: "/apis/coordination.k8s.io/v1beta1/leasecandidates",
}


class WiringChecks:
    """A configuration, and what the scheduler makes of it.

    Args:
        rng: Draws the configuration.

    Attributes:
        problems: What does not follow from the configuration.
    """

    _api: ApiServer
    _wire: Any
    _plugin: Wired

    def __init__(self, rng: Rng) -> None:
        self.problems: list[str] = []
        self._rng = rng
        self._pops_early = True
        #: Without options everything has its default.
        self._is_plain = rng.random() < 0.15
        self._draw(rng)
        self._preemptor_of = ""
        self._observer = Noting()
        self._metrics: Metrics | None = None
        #: Extender -> calls of its verbs.
        self._calls: Counter[tuple[str, str]] = Counter()
        #: Name of each pod -> its fate and its profile.
        self._pods: dict[str, tuple[str, str]] = {}

    def _draw(self, rng: Rng) -> None:
        """Draws the configuration and the options."""
        names = rng.sample((DEFAULT, "second", "third"), rng.choice((1, 2, 3)))
        self._profiles = [DEFAULT] if self._is_plain else names
        self._backoffs: tuple[float, float] = rng.choice(((1, 10), (2, 3), (3, 30), (4, 4)))
        self._queue_backoffs = rng.choice((None, (0.5, 0.75), (5.0, 7.0)))
        n_extenders = 0 if self._is_plain else rng.choice((0, 0, 1, 2))
        self._extenders = [
            {
                "urlPrefix": f"http://extender-{number}.example",
                "weight": 2,
                "nodeCacheCapable": rng.random() < 0.5,
                **{f"{verb}Verb": verb for verb in ("filter", "prioritize") if rng.random() < 0.7},
            }
            for number in range(n_extenders)
        ]
        for extender in self._extenders:
            if not {"filterVerb", "prioritizeVerb"} & extender.keys():
                extender["filterVerb"] = "filter"
        self._bindings_max = rng.choice((1, 2, 5))
        self._absent = rng.choice(("", "", "", "", "", DEVICES, DEVICES, STORAGE))
        self._need = ABSENT if rng.random() < 0.1 else "RuntimeClass"
        self._instance = rng.choice(("mooring", "host-1"))
        self._has_metrics = rng.random() < 0.5
        self._has_elector, self._delays = rng.random() < 0.4, rng.random() < 0.5
        shares = {"DRADeviceTaintRules": 0.15, "SchedulerPopFromBackoffQ": 0.5}
        self._gates = {it: rng.random() < n for it, n in shares.items() if rng.random() < 0.7}
        if self._is_plain:
            self._gates, self._instance, self._backoffs = {}, "mooring", (1, 10)
            self._queue_backoffs = None
        elif self._queue_backoffs is not None:
            self._backoffs = self._queue_backoffs
        else:
            self._pops_early = self._gates.get("SchedulerPopFromBackoffQ", True)

    def _check_leading(self, *, is_watching: bool) -> None:
        """Checks whether a candidate that does not lead watches already."""
        has_elector = self._has_elector and not self._is_plain
        if is_watching is (has_elector and self._delays):
            self.problems.append(f"before it leads it watches: {is_watching}")

    def _check_watched(self, *, is_synced: bool, waits: bool) -> None:
        """Compares the kinds that are watched, and whether all of them have been listed."""
        expected = {path: {""} for path in WATCHED}
        expected["/api/v1/pods"] = {LIVING}
        if self._gates.get("DRADeviceTaintRules"):
            expected[f"{DEVICES}v1beta2/devicetaintrules"] = {""}
        if not self._is_plain:
            expected[NEEDS[self._need]] = {""}
        if self._extenders:
            expected["/api/v1/pods"] |= {f"spec.nodeName=,{LIVING}"}
        real = dict(self._wire.watched)
        if real != expected:
            different = {
                path: (real.get(path), expected.get(path))
                for path in sorted(real.keys() | expected.keys())
                if real.get(path) != expected.get(path)
            }
            self.problems.append(f"watched, and to be watched: {different}")
        if is_synced is waits:
            self.problems.append(f"it has synced: {is_synced}; a kind is missing: {waits}")

    def _check_waiting_for_volume(self) -> None:
        """Checks that a pod that waits for an object holds up no other one."""
        waiting = {name for name, (fate, _) in self._pods.items() if fate in ("until", "rejected")}
        ours = {name for name, (_, profile) in self._pods.items() if profile in self._profiles}
        if not self._is_plain and (unbound := ours - waiting - self._placed().keys()):
            self.problems.append(f"{sorted(unbound)} are not bound, while others wait")

    def _placed(self) -> dict[str, str]:
        """Returns the node of each pod that is bound, on the server."""
        stored = self._api.store.collection(BY_PATH["", "v1", "pods"])
        objects = [it.object() for it in stored.in_order()]
        return {
            it["metadata"]["name"]: it["spec"]["nodeName"]
            for it in objects
            if it["spec"].get("nodeName") and "deletionTimestamp" not in it["metadata"]
        }

    def _check_pods(self) -> None:
        """Compares the ends of all pods, their attempts, and their events."""
        ours = {name for name, (_, profile) in self._pods.items() if profile in self._profiles}
        placed, due = self._placed(), ours - {"victim"}
        if placed.keys() != due:
            self.problems.append(f"bound are {sorted(placed)}, not {sorted(due)}")
        if not self._is_plain:
            self._check_attempts()
            self._check_bindings()
            if self._observer.bound_names != ours or not self._observer.has_all():
                self.problems.append(f"the observer has {self._observer.calls}")
        self._check_events()
        self._check_extenders()

    def _check_bindings(self) -> None:
        """Compares the number of bindings at once; with extenders each pod waits for a slot."""
        n_plain = [fate for fate, _ in self._pods.values()].count("plain") - len(LATER)
        n_due, n_real = min(self._bindings_max, n_plain), self._wire.bindings_max
        if self._extenders and n_real != n_due:
            self.problems.append(f"{n_real} bindings at once, not {n_due}")

    def _check_attempts(self) -> None:
        initial_s, longest_s = self._backoffs
        # Bindings that an attempt may have to wait for.
        late_s = BIND_S * sum(it in ("raises", "rejected") for it, _ in self._pods.values())
        for name, (fate, _) in self._pods.items():
            # An attempt begins anew at once if the cluster has changed while extenders answered.
            at_s = sorted(set(self._plugin.attempts.get(name, [])))
            waits_s = [b - a for a, b in pairwise(at_s)]
            last_s = initial_s + FLUSH_S + BIND_S
            if fate == "event":
                due_s = [EARLY_S if self._pops_early else initial_s]
                last_s = EARLY_S + 0.1 if self._pops_early else last_s
                is_due = len(waits_s) == 1 and due_s[0] <= waits_s[0] <= last_s
            elif fate == "claim":
                due_s = [initial_s]
                is_due = len(waits_s) == 1 and initial_s <= waits_s[0] <= last_s
            elif fate == "raises":
                due_s = [min(initial_s, longest_s), min(2 * initial_s, longest_s)]
                pairs = zip(waits_s, due_s, strict=False)
                is_due = len(waits_s) == 2 and all(b <= a <= b + FLUSH_S + late_s for a, b in pairs)
            elif fate == "rejected":
                began_s = self._plugin.began_s
                due_s = [ACTIVATED_S]
                is_due = len(at_s) == 2 and 0 <= at_s[1] - began_s - ACTIVATED_S < 3.0
            else:
                continue
            if not is_due:
                self.problems.append(f"{name}, {fate}, is tried at {at_s}, waits due: {due_s}")

    def _check_events(self) -> None:
        """Compares who is named in the events, and what plugins have reported."""
        stored = self._api.store.collection(BY_PATH["events.k8s.io", "v1", "events"])
        reasons: dict[str, set[str]] = defaultdict(set)
        leaders: list[tuple[str, str]] = []
        for event in (it.object() for it in stored.in_order()):
            name, reason = event["involvedObject"]["name"], event["reason"]
            if reason == "LeaderElection":
                leaders.append((event["source"]["component"], event["message"]))
                continue
            profile = self._preemptor_of if reason == "Preempted" else self._pods[name][1]
            who = event["reportingComponent"], event["reportingInstance"]
            if who != (profile, f"{profile}-{self._instance}"):
                self.problems.append(f"{reason} of {name} is by {who}, not by {profile}")
            reasons[name].add(reason)
        has_led = self._has_elector and not self._is_plain
        if leaders != [(self._profiles[0], "me became leader")] * has_led:
            self.problems.append(f"the events about the leader are {leaders}")
        for name, (fate, profile) in self._pods.items():
            expected = {"Scheduled"} if profile in self._profiles else set()
            if expected and not self._is_plain:
                expected.add("Wired")
            if fate in ("raises", *REJECTED) or name == "urgent":
                expected.add("FailedScheduling")
            if name == "victim":
                expected.add("Preempted")
            if reasons[name] != expected:
                self.problems.append(f"{name} has the events {reasons[name]}, not {expected}")

    def _check_extenders(self) -> None:
        expected = {
            (it["urlPrefix"], verb)
            for it in self._extenders
            for verb in ("filter", "prioritize")
            if f"{verb}Verb" in it
        }
        if set(self._calls) != expected:
            self.problems.append(f"extenders get {self._calls}, not {expected}")

    def _check_errors(self, real: Mapping[str, Mapping[tuple[str, str], int]]) -> None:
        """Compares the errors of plugins, by profile: one that raises elsewhere may do no harm."""
        for profile, errors in real.items():
            raising = ("raises", profile) in self._pods.values() and not self._is_plain
            if set(errors) != ({("Wired", "PreFilter")} if raising else set()):
                self.problems.append(f"plugins of {profile} raise: {errors}, raising is {raising}")

    def _check_metrics(self) -> None:
        if self._metrics is None:
            return
        text = self._metrics.expose()[0].decode()
        totals: Counter[str] = Counter()
        for name, (_, profile) in self._pods.items():
            totals[profile] += profile in self._profiles and bool(name)
        lines = [
            f'scheduler_schedule_attempts_total{{profile="{profile}",result="scheduled"}} {n}\n'
            for profile, n in totals.items()
            if n
        ]
        lines += ['scheduler_pending_pods{queue="active"} 0', "mooring_buffer_entries{"]
        lines += [
            f'extender_call_errors_total{{extender="{url}",verb="{verb}"}} 0'
            for url, verb in self._calls
        ]
        for line in lines:
            if line not in text:
                self.problems.append(f"the metrics lack {line}")
        resources = self._metrics.expose_resources()[0].decode()
        absent = [name for name in self._placed() if f'pod="{name}"' not in resources]
        if absent:
            self.problems.append(f"the metrics of resources lack {absent}")

"""Hints: who is asked about an event, what a plugin's answer means, and what if it fails."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mooring.clock import VirtualClock
from mooring.cluster_event import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
)
from mooring.errors import PluginError
from mooring.metrics.registry import Metrics
from mooring.queue.queued_pod import QueuedPod
from mooring.queue.queueing_hints import QueueingHints, RequeueStrategy
from tests.helpers.exposition import value
from tests.helpers.queues import (
    NODE_ADD,
    NODE_LABEL,
    NODE_TAINT,
    POD_GONE,
    PV_ADD,
    PV_UPDATE,
    QUEUE,
    SKIP,
    GatePlugin,
    PluginWithoutEvents,
    Refuser,
    Signer,
    closed,
    framework_of,
    on,
    pod,
)


def hints_of(*plugins: Any) -> QueueingHints:
    return QueueingHints({"default-scheduler": framework_of(*plugins)})


def refused(*by: str, pending: tuple[str, ...] = (), uid: str = "1") -> QueuedPod:
    waiting = QueuedPod(pod("pod1", uid=uid), 0.0)
    waiting.unschedulable_plugins, waiting.pending_plugins = frozenset(by), frozenset(pending)
    return waiting


def asked(hints: QueueingHints, event: ClusterEvent) -> list[str]:
    return [plugin for _, plugin in hints.registrations_for(event)]


class Counted:
    """A hint that counts how often it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.calls: list[tuple[str, Any, Any]] = []

    def __call__(self, unschedulable: Any, old: Any, new: Any) -> Any:
        self.calls.append((unschedulable.uid, old, new))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


# -- who is asked ---------------------------------------------------------------------------------


def test_a_plugin_is_asked_about_what_it_registered_for() -> None:
    hints = hints_of(Refuser("A", on(NODE_ADD)), Refuser("B", on(PV_ADD), on(NODE_LABEL)))

    assert asked(hints, NODE_ADD) == ["A"]
    assert asked(hints, NODE_LABEL) == ["B"]
    assert asked(hints, POD_GONE) == []


def test_a_plugin_without_events_is_asked_about_everything() -> None:
    hints = hints_of(PluginWithoutEvents("PluginWithoutEvents"))

    for event in (NODE_ADD, PV_UPDATE, POD_GONE):
        assert asked(hints, event) == ["PluginWithoutEvents"]
        assert hints.has_listeners(event)
    assert (
        hints.strategy(refused("PluginWithoutEvents"), POD_GONE, None, None)
        is RequeueStrategy.AFTER_BACKOFF
    )


@pytest.mark.parametrize("nothing", [(), None])
def test_a_plugin_that_registers_for_nothing_is_never_asked(nothing: Any) -> None:
    plugin = Refuser("Content")
    plugin.registrations = nothing
    hints = hints_of(plugin)

    assert not hints.has_listeners(NODE_ADD)
    assert hints.strategy(refused("Content"), NODE_ADD, None, None) is RequeueStrategy.SKIP


def test_a_plugin_that_hears_of_new_nodes_hears_of_lost_taints_too() -> None:
    hints = hints_of(Refuser("A", on(NODE_ADD, SKIP)))

    assert asked(hints, NODE_TAINT) == ["A"]
    # Without its hint: that one knows nothing of taints.
    assert hints.strategy(refused("A"), NODE_TAINT, None, None) is RequeueStrategy.AFTER_BACKOFF


@pytest.mark.parametrize(
    "wanted",
    [
        [on(NODE_LABEL)],
        [on(ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT), SKIP)],
        [on(NODE_ADD), on(NODE_TAINT, SKIP)],
        [on(ClusterEvent(EventResource.NODE, ActionType.ALL), SKIP)],
    ],
)
def test_one_that_does_not_or_looks_at_taints_itself_gets_no_more(
    wanted: list[ClusterEventWithHint],
) -> None:
    hints = hints_of(Refuser("A", *wanted))

    assert hints.strategy(refused("A"), NODE_TAINT, None, None) is RequeueStrategy.SKIP


def test_a_plugin_of_another_profile_is_not_asked() -> None:
    hook = Counted(QUEUE)
    hints = QueueingHints(
        {
            "default-scheduler": framework_of(Refuser("A", on(PV_ADD))),
            "other": framework_of(Refuser("A", on(NODE_LABEL, hook))),
        }
    )

    assert hints.strategy(refused("A"), NODE_LABEL, None, None) is RequeueStrategy.SKIP
    assert hook.calls == []


def test_plugins_that_refuse_at_no_point_of_deciding_are_not_registered() -> None:
    class Scorer:
        name = "Scorer"

        def score(self, cycle: Any, nodes: Any) -> Any:
            raise AssertionError

        def events(self) -> list[ClusterEventWithHint]:
            return [on(NODE_ADD)]

    assert not hints_of(Scorer()).has_listeners(NODE_ADD)
    assert hints_of(GatePlugin("Gate", closed, on(NODE_ADD))).has_listeners(NODE_ADD)


def test_it_knows_which_kinds_of_objects_anybody_wants_to_hear_of() -> None:
    hints = hints_of(Refuser("A", on(NODE_ADD)), Refuser("B", on(PV_ADD), on(NODE_LABEL)))

    assert hints.resources() >= {EventResource.NODE, EventResource.PERSISTENT_VOLUME}
    assert EventResource.ANY not in hints.resources()
    assert EventResource.ANY in hints_of(PluginWithoutEvents("PluginWithoutEvents")).resources()
    assert hints_of().resources() == frozenset()


def test_everything_that_happened_to_everything_is_of_interest() -> None:
    assert hints_of().has_listeners(UNSCHEDULABLE_TIMEOUT)
    assert not hints_of().has_listeners(NODE_ADD)


def test_a_plugin_that_cannot_say_what_it_wants_is_named() -> None:
    class Broken(PluginWithoutEvents):
        def events(self) -> Any:
            raise ZeroDivisionError

    with pytest.raises(PluginError, match='EventsToRegister plugin "Broken": ZeroDivisionError'):
        hints_of(Broken("Broken"))


def test_a_registration_that_is_none_is_reported_at_once() -> None:
    class Near(PluginWithoutEvents):
        def events(self) -> Any:
            return [NODE_ADD]

    with pytest.raises(PluginError, match="is no ClusterEventWithHint"):
        hints_of(Near("Near"))


@pytest.mark.parametrize("events", [5, True])
def test_registrations_that_are_no_list_are_reported_with_the_plugin(events: Any) -> None:
    class Wrong(PluginWithoutEvents):
        def events(self) -> Any:
            return events

    with pytest.raises(PluginError, match=f'EventsToRegister plugin "W": returned {events}, not'):
        hints_of(Wrong("W"))


# -- what it means --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "new_uid"), [(UNSCHEDULABLE_TIMEOUT, None), (FORCE_ACTIVATE, "1")]
)
def test_a_wildcard_moves_pods_whoever_refused_them(
    event: ClusterEvent, new_uid: str | None
) -> None:
    new = pod("pod1", uid=new_uid) if new_uid else None

    assert hints_of().strategy(refused("A"), event, None, new) is RequeueStrategy.AFTER_BACKOFF
    assert (
        hints_of().strategy(refused(pending=("A",)), event, None, new)
        is RequeueStrategy.AFTER_BACKOFF
    )


@pytest.mark.parametrize("target", [pod("other", uid="2"), object()])
def test_a_wildcard_for_something_else_moves_nothing(target: Any) -> None:
    assert hints_of().strategy(refused("A"), FORCE_ACTIVATE, None, target) is RequeueStrategy.SKIP


def test_a_pod_that_failed_with_an_error_is_tried_whatever_happened() -> None:
    assert hints_of().strategy(refused(), NODE_ADD, None, None) is RequeueStrategy.AFTER_BACKOFF


def test_the_hint_is_given_the_pod_and_both_versions_of_the_object() -> None:
    hook = Counted(SKIP)

    hints_of(Refuser("A", on(PV_UPDATE, hook))).strategy(refused("A"), PV_UPDATE, "old", "new")

    assert hook.calls == [("1", "old", "new")]


def test_a_registration_without_a_hint_is_recorded_as_a_call_that_requeues() -> None:
    metrics = Metrics(clock=VirtualClock())
    profiles = {"default-scheduler": framework_of(Refuser("A", on(NODE_ADD)))}
    hints = QueueingHints(profiles, metrics.scheduler)

    hints.strategy(refused("A"), NODE_ADD, None, None)

    name = "scheduler_queueing_hint_execution_duration_seconds_count"
    labels = {"plugin": "A", "event": "NodeAdd", "hint": "Queue"}
    assert value(metrics.expose()[0], name, **labels) == 1


def test_an_event_that_a_rejector_did_not_register_for_is_skipped() -> None:
    hook = Counted(QUEUE)
    hints = hints_of(Refuser("A", on(POD_GONE, hook)))

    assert hints.strategy(refused("A"), NODE_LABEL, None, None) is RequeueStrategy.SKIP
    assert hook.calls == []


def test_plugins_that_did_not_refuse_the_pod_are_not_asked() -> None:
    hook = Counted(QUEUE)
    hints = hints_of(
        Refuser("A", on(NODE_LABEL, SKIP)),
        Refuser("B", on(NODE_LABEL, SKIP)),
        Refuser("C", on(NODE_LABEL, hook)),
    )

    assert hints.strategy(refused("A", "B"), NODE_LABEL, None, None) is RequeueStrategy.SKIP
    assert hook.calls == []


def test_one_rejector_that_says_queue_is_enough() -> None:
    hints = hints_of(Refuser("A", on(PV_ADD, SKIP)), Refuser("B", on(PV_ADD, QUEUE)))

    assert hints.strategy(refused("A", "B"), PV_ADD, None, None) is RequeueStrategy.AFTER_BACKOFF


def test_one_registration_of_a_plugin_that_says_queue_is_enough() -> None:
    every_update = ClusterEvent(EventResource.NODE, ActionType.UPDATE)
    hints = hints_of(Refuser("A", on(NODE_LABEL, SKIP), on(every_update, QUEUE)))

    assert hints.strategy(refused("A"), NODE_LABEL, None, None) is RequeueStrategy.AFTER_BACKOFF


def test_a_registration_for_any_kind_is_asked_about_each() -> None:
    any_add = ClusterEvent(EventResource.ANY, ActionType.ADD)
    hints = hints_of(Refuser("A", on(any_add, QUEUE)))

    assert hints.strategy(refused("A"), PV_ADD, None, None) is RequeueStrategy.AFTER_BACKOFF
    assert hints.strategy(refused("A"), PV_UPDATE, None, None) is RequeueStrategy.SKIP


@pytest.mark.parametrize(
    ("pending_says", "other_says", "strategy"),
    [
        (QUEUE, QUEUE, RequeueStrategy.IMMEDIATELY),
        (QUEUE, SKIP, RequeueStrategy.IMMEDIATELY),
        (SKIP, QUEUE, RequeueStrategy.AFTER_BACKOFF),
        (SKIP, SKIP, RequeueStrategy.SKIP),
    ],
)
def test_what_a_pending_plugin_waited_for_needs_no_backoff(
    pending_says: Any, other_says: Any, strategy: RequeueStrategy
) -> None:
    hints = hints_of(
        Refuser("A", on(PV_ADD, other_says)),
        Refuser("P", on(PV_ADD, pending_says)),
        Refuser("Z", on(PV_ADD, other_says)),
    )

    assert hints.strategy(refused("A", "Z", pending=("P",)), PV_ADD, None, None) is strategy


# -- what if it fails -----------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [ValueError("no"), None, True, "Queue"])
def test_a_hint_that_fails_or_says_nonsense_counts_as_queue_and_is_logged_and_counted(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    framework = framework_of(Refuser("A", on(PV_ADD, Counted(answer))))
    hints = QueueingHints({"default-scheduler": framework})

    with caplog.at_level(logging.ERROR):
        assert hints.strategy(refused("A"), PV_ADD, None, None) is RequeueStrategy.AFTER_BACKOFF
    assert [record.message for record in caplog.records] == ["queueing hint failed"]
    assert framework.errors.statistics() == {("A", "QueueingHint"): 1}
    (framework,) = hints._profiles.values()
    assert framework.errors.statistics() == {("A", "QueueingHint"): 1}
    assert caplog.records[0].__dict__["plugin"] == "A"


# -- groups ---------------------------------------------------------------------------------------


def test_pods_that_a_plugin_reads_alike_are_one_group() -> None:
    hints = hints_of(Signer("S", on(PV_ADD, SKIP, pure=True)))
    one, twin = pod("one", labels={"app": "a"}), pod("two", labels={"app": "a"})

    assert hints.group("S", one) == hints.group("S", twin)
    assert hints.group("S", one) != hints.group("S", pod("three", labels={"app": "b"}))
    assert hints.group("S", pod("four", labels={"secret": ""})) == ("default-scheduler", None)


def test_without_pure_hints_nobody_asks_for_a_signature() -> None:
    hints = hints_of(Signer("S", on(PV_ADD, SKIP)))

    assert hints.group("S", pod("one")) == ("default-scheduler", None)


def test_a_pod_that_cannot_be_signed_is_in_no_group_and_that_is_logged_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Signer):
        def sign(self, pod: Any) -> Any:
            raise ZeroDivisionError

    framework = framework_of(Broken("S", on(PV_ADD, SKIP, pure=True)))
    hints = QueueingHints({"default-scheduler": framework})

    with caplog.at_level(logging.ERROR):
        assert hints.group("S", pod("one")) == ("default-scheduler", None)
    assert [record.message for record in caplog.records] == ["plugin failed to sign a pod"]
    assert [*framework.errors.statistics().values()] == [1]


@pytest.mark.parametrize(
    ("events", "hears_of_taints"),
    [
        ([NODE_ADD], True),
        ([NODE_LABEL], False),
        ([NODE_ADD, NODE_LABEL], True),
        ([NODE_LABEL, NODE_ADD], True),
        ([NODE_LABEL, PV_ADD], False),
        ([PV_ADD], False),
        ([NODE_ADD, NODE_TAINT], True),
    ],
)
def test_a_plugin_that_any_of_its_events_calls_for_new_nodes_hears_of_taints(
    events: list[ClusterEvent], hears_of_taints: bool
) -> None:
    hints = hints_of(Refuser("A", *(on(event, SKIP) for event in events)))

    assert asked(hints, NODE_TAINT) == (["A"] if hears_of_taints else [])
    expected = RequeueStrategy.SKIP
    if hears_of_taints and NODE_TAINT not in events:
        expected = RequeueStrategy.AFTER_BACKOFF  # it is registered without a hint
    assert hints.strategy(refused("A"), NODE_TAINT, None, None) is expected

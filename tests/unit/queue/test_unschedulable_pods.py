"""Unschedulable pods: those that an event requeues, their order, and calls of hints."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster_event import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
)
from mooring.queue.queued_pod import QueuedPod
from mooring.queue.queueing_hints import QueueingHints, RequeueStrategy
from mooring.queue.unschedulable_pods import UnschedulablePods
from tests.helpers.queues import (
    NODE_ADD,
    POD_GONE,
    PV_ADD,
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

EVERYTHING = ClusterEvent(EventResource.ANY, ActionType.ALL)


def parked_by(*plugins: Any) -> UnschedulablePods:
    return UnschedulablePods(QueueingHints({"default-scheduler": framework_of(*plugins)}))


def refused(
    name: str, *by: str, pending: tuple[str, ...] = (), gate: str = "", **fields: Any
) -> QueuedPod:
    entry = QueuedPod(pod(name, **fields), 0.0)
    entry.unschedulable_plugins, entry.pending_plugins = frozenset(by), frozenset(pending)
    entry.gating_plugin = gate
    return entry


def helped(unschedulable: UnschedulablePods, event: ClusterEvent, new: Any = None) -> list[str]:
    return [entry.uid for entry, _ in unschedulable.pods_to_requeue(event, None, new)]


class Asked:
    """A hint that notes for which pods it was asked."""

    def __init__(self, answer: QueueingHint = QUEUE) -> None:
        self.answer = answer
        self.pods: list[str] = []

    def __call__(self, unschedulable: Any, old: Any, new: Any) -> QueueingHint:
        self.pods.append(unschedulable.uid)
        return self.answer


def test_an_event_finds_the_pods_of_the_plugins_that_registered_for_it() -> None:
    unschedulable = parked_by(Refuser("Fit", on(NODE_ADD)), Refuser("Volume", on(PV_ADD)))
    for entry in (refused("a", "Fit"), refused("b", "Volume"), refused("c", "Volume", "Fit")):
        unschedulable.add(entry)

    assert helped(unschedulable, NODE_ADD) == ["a", "c"]
    assert helped(unschedulable, PV_ADD) == ["b", "c"]
    assert helped(unschedulable, POD_GONE) == []


def test_nobody_else_is_asked_about() -> None:
    fit, volume = Asked(), Asked()
    unschedulable = parked_by(
        Refuser("Fit", on(NODE_ADD, fit)), Refuser("Volume", on(PV_ADD, volume))
    )
    for number in range(5):
        unschedulable.add(refused(f"volume-{number}", "Volume"))
    unschedulable.add(refused("fit", "Fit"))

    unschedulable.pods_to_requeue(NODE_ADD, None, None)

    assert fit.pods == ["fit"]
    assert volume.pods == []


def test_pods_are_requeued_in_the_order_of_their_rejection() -> None:
    unschedulable = parked_by(
        Refuser("A", on(NODE_ADD)), Signer("B", on(NODE_ADD, QUEUE, pure=True))
    )
    for name in "edcba":
        unschedulable.add(refused(name, "A" if name in "ec" else "B", labels={"app": name}))

    assert helped(unschedulable, NODE_ADD) == list("edcba")
    assert [entry.uid for entry in unschedulable] == list("edcba")


def test_a_pod_rejected_again_keeps_its_position() -> None:
    unschedulable = parked_by(Refuser("A", on(NODE_ADD)))
    first = refused("first", "A")
    unschedulable.add(first)
    unschedulable.add(refused("second", "A"))
    unschedulable.add(first)

    assert helped(unschedulable, NODE_ADD) == ["first", "second"]
    assert [entry.uid for entry in unschedulable] == ["first", "second"]
    unschedulable.remove(first)
    unschedulable.add(first)
    assert helped(unschedulable, NODE_ADD) == ["second", "first"]


def test_a_pod_rejected_again_is_requeued_by_its_present_rejectors_only() -> None:
    unschedulable = parked_by(Refuser("Fit", on(NODE_ADD)), Refuser("Volume", on(PV_ADD)))
    entry = refused("a", "Fit")
    unschedulable.add(entry)
    entry.unschedulable_plugins = frozenset({"Volume"})
    unschedulable.add(entry)

    assert helped(unschedulable, NODE_ADD) == []
    assert helped(unschedulable, PV_ADD) == ["a"]
    assert len(unschedulable) == 1


def test_one_that_left_is_not_found_and_leaves_nothing_behind() -> None:
    unschedulable = parked_by(Refuser("Fit", on(NODE_ADD)), Refuser("Volume", on(PV_ADD)))
    entry = refused("a", "Fit", "Volume")
    unschedulable.add(entry)
    unschedulable.remove(entry)

    assert helped(unschedulable, NODE_ADD) == []
    assert helped(unschedulable, UNSCHEDULABLE_TIMEOUT) == []
    assert len(unschedulable) == 0
    assert unschedulable._groups == {}
    assert entry.groups == ()


def test_the_last_of_a_group_does_not_take_other_groups_with_it() -> None:
    unschedulable = parked_by(Signer("Fit", on(NODE_ADD, QUEUE, pure=True)))
    entries = [refused(name, "Fit", labels={"app": name}) for name in "ab"]
    for entry in entries:
        unschedulable.add(entry)
    unschedulable.remove(entries[0])

    assert helped(unschedulable, NODE_ADD) == ["b"]


def test_profiles_with_plugins_of_the_same_name_do_not_meet() -> None:
    one, two = Refuser("Fit", on(NODE_ADD)), Refuser("Fit", on(NODE_ADD, SKIP))
    unschedulable = UnschedulablePods(
        QueueingHints({"default-scheduler": framework_of(one), "other": framework_of(two)})
    )
    unschedulable.add(refused("a", "Fit"))
    unschedulable.add(refused("b", "Fit", scheduler_name="other"))

    assert helped(unschedulable, NODE_ADD) == ["a"]


def test_the_best_answer_of_several_rejectors_counts() -> None:
    unschedulable = parked_by(
        Refuser("A", on(PV_ADD)), Refuser("P", on(PV_ADD)), Refuser("Z", on(PV_ADD))
    )
    unschedulable.add(refused("both", "A", "Z", pending=("P",)))
    unschedulable.add(refused("refused", "A"))

    found = unschedulable.pods_to_requeue(PV_ADD, None, None)

    assert [strategy for _, strategy in found] == [
        RequeueStrategy.IMMEDIATELY,
        RequeueStrategy.AFTER_BACKOFF,
    ]


def test_a_wildcard_finds_all_but_those_behind_a_gate() -> None:
    keeper = GatePlugin("Gate", closed, on(PV_ADD))
    unschedulable = parked_by(keeper, Refuser("Fit", on(NODE_ADD)))
    unschedulable.add(refused("a", "Fit"))
    unschedulable.add(refused("b", "Unknown"))
    unschedulable.add(refused("gated", "Gate", gate="Gate"))

    assert helped(unschedulable, UNSCHEDULABLE_TIMEOUT) == ["a", "b"]
    assert helped(unschedulable, FORCE_ACTIVATE, pod("b")) == ["b"]


def test_behind_a_gate_only_the_keepers_events_are_heard() -> None:
    fit = Asked()
    unschedulable = parked_by(
        GatePlugin("Gate", closed, on(PV_ADD)), Refuser("Fit", on(NODE_ADD, fit))
    )
    unschedulable.add(refused("gated", "Gate", "Fit", gate="Gate"))

    assert helped(unschedulable, NODE_ADD) == []
    assert helped(unschedulable, PV_ADD) == ["gated"]


def test_every_plugin_that_refused_a_gated_pod_is_asked_once_the_keeper_listens() -> None:
    deaf_to_it = Asked(QueueingHint.SKIP)
    unschedulable = parked_by(
        GatePlugin("Gate", closed, on(PV_ADD, deaf_to_it)), Refuser("Fit", on(PV_ADD))
    )
    unschedulable.add(refused("gated", "Gate", "Fit", gate="Gate"))
    assert helped(unschedulable, PV_ADD) == ["gated"]


@pytest.mark.parametrize("keeper", [PluginWithoutEvents("Gate"), Refuser("Gate", on(EVERYTHING))])
def test_a_keeper_that_wants_to_hear_of_everything_hears_the_wildcard(keeper: Any) -> None:
    unschedulable = parked_by(keeper)
    entry = refused("gated", "Gate", gate="Gate")
    unschedulable.add(entry)

    assert unschedulable.accepts_event(entry, UNSCHEDULABLE_TIMEOUT)
    assert helped(unschedulable, UNSCHEDULABLE_TIMEOUT) == ["gated"]


def test_it_counts_those_behind_a_gate() -> None:
    unschedulable = parked_by(GatePlugin("Gate", closed))
    gated, other = refused("gated", "Gate", gate="Gate"), refused("other", "Gate")
    unschedulable.add(gated)
    unschedulable.add(other)
    assert (len(unschedulable), unschedulable.gated_count) == (2, 1)

    gated.gating_plugin = ""
    unschedulable.add(gated)
    assert (len(unschedulable), unschedulable.gated_count) == (2, 0)
    gated.gating_plugin = "Gate"
    unschedulable.add(gated)
    unschedulable.remove(gated)
    assert (len(unschedulable), unschedulable.gated_count) == (1, 0)


# -- hints asked once -----------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "found"), [(QUEUE, 5), (SKIP, 0)])
def test_a_pure_hint_is_asked_once_for_pods_that_are_alike(
    answer: QueueingHint, found: int
) -> None:
    hint = Asked(answer)
    unschedulable = parked_by(Signer("Fit", on(NODE_ADD, hint, pure=True)))
    for number in range(5):
        unschedulable.add(refused(f"pod-{number}", "Fit", labels={"app": "a"}))

    assert len(helped(unschedulable, NODE_ADD)) == found
    assert hint.pods == ["pod-0"]


def test_pods_that_are_not_alike_are_asked_about_each() -> None:
    hint = Asked()
    unschedulable = parked_by(Signer("Fit", on(NODE_ADD, hint, pure=True)))
    for name in "aba":
        unschedulable.add(refused(f"{name}-{len(unschedulable)}", "Fit", labels={"app": name}))

    assert helped(unschedulable, NODE_ADD) == ["a-0", "b-1", "a-2"]
    assert hint.pods == ["a-0", "b-1"]


@pytest.mark.parametrize(
    ("labels", "pure"), [({"secret": ""}, True), ({"app": "a"}, False), ({}, False)]
)
def test_without_a_signature_or_a_pure_hint_every_pod_is_asked_about(
    labels: dict[str, str], *, pure: bool
) -> None:
    hint = Asked()
    unschedulable = parked_by(Signer("Fit", on(NODE_ADD, hint, pure=pure)))
    for number in range(3):
        unschedulable.add(refused(f"pod-{number}", "Fit", labels=labels))

    assert len(helped(unschedulable, NODE_ADD)) == 3
    assert hint.pods == ["pod-0", "pod-1", "pod-2"]


def test_one_impure_hint_for_the_event_makes_all_of_them_so() -> None:
    pure, impure = Asked(SKIP), Asked(SKIP)
    unschedulable = parked_by(Signer("Fit", on(NODE_ADD, pure, pure=True), on(NODE_ADD, impure)))
    for number in range(3):
        unschedulable.add(refused(f"pod-{number}", "Fit", labels={"app": "a"}))

    assert helped(unschedulable, NODE_ADD) == []
    assert len(pure.pods) == len(impure.pods) == 3


def test_a_pod_that_a_hint_activates_does_not_disturb_the_others() -> None:
    unschedulable = parked_by(Refuser("Fit", on(NODE_ADD, lambda *_: leave())))
    entries = [refused(name, "Fit") for name in "abc"]
    for entry in entries:
        unschedulable.add(entry)

    def leave() -> QueueingHint:
        if len(unschedulable) == 3:
            unschedulable.remove(entries[1])
        return QUEUE

    assert set(helped(unschedulable, NODE_ADD)) >= {"a", "c"}


PLUGINS = [
    Signer("Pure", on(NODE_ADD, lambda p, o, n: _says(p, n), pure=True)),
    Signer("Impure", on(NODE_ADD, lambda p, o, n: _says(p, n)), on(PV_ADD)),
    Refuser("Always", on(NODE_ADD)),
    Refuser("Never", on(PV_ADD, SKIP)),
    PluginWithoutEvents("PluginWithoutEvents"),
]


def _says(unschedulable: Any, new: str) -> QueueingHint:
    return QUEUE if unschedulable.metadata.labels.get("app") == new else SKIP


POD = st.tuples(
    st.sampled_from(["a", "b", "secret"]),
    st.sets(st.sampled_from([plugin.name for plugin in PLUGINS]), min_size=1),
    st.sets(st.sampled_from([plugin.name for plugin in PLUGINS])),
)


@given(st.lists(POD, max_size=12), st.sampled_from([NODE_ADD, PV_ADD]), st.sampled_from("ab"))
def test_the_index_finds_what_asking_every_pod_would(
    pods: list[tuple[str, set[str], set[str]]], event: ClusterEvent, new: str
) -> None:
    hints = QueueingHints({"default-scheduler": framework_of(*PLUGINS)})
    unschedulable, entries = UnschedulablePods(hints), []
    for number, (app, by, pending) in enumerate(pods):
        labels = {"secret": "", "app": "a"} if app == "secret" else {"app": app}
        entry = refused(str(number), *sorted(by), pending=tuple(sorted(pending)), labels=labels)
        entries.append(entry)
        unschedulable.add(entry)

    walked = [(entry, hints.strategy(entry, event, None, new)) for entry in entries]

    expected = [(entry.uid, found) for entry, found in walked if found is not RequeueStrategy.SKIP]
    found = [
        (entry.uid, strategy) for entry, strategy in unschedulable.pods_to_requeue(event, None, new)
    ]
    assert found == expected


def test_behind_a_gate_a_pending_plugin_still_needs_no_backoff() -> None:
    unschedulable = parked_by(GatePlugin("Gate", closed, on(PV_ADD)), Refuser("P", on(PV_ADD)))
    unschedulable.add(refused("pending", "Gate", pending=("P",), gate="Gate"))
    unschedulable.add(refused("other", "Gate", pending=("Q",), gate="Gate"))

    found = unschedulable.pods_to_requeue(PV_ADD, None, None)

    assert [strategy for _, strategy in found] == [
        RequeueStrategy.IMMEDIATELY,
        RequeueStrategy.AFTER_BACKOFF,
    ]

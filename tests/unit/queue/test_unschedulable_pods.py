"""Parked pods: which of them an event finds, in which order, and how often hints are asked."""

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
from mooring.queue.queueing_hints import Hints, Strategy
from mooring.queue.unschedulable_pods import Parked
from tests.helpers.queues import (
    NODE_ADD,
    POD_GONE,
    PV_ADD,
    QUEUE,
    SKIP,
    Deaf,
    Keeper,
    Refuser,
    Signer,
    closed,
    framework_of,
    on,
    pod,
)

EVERYTHING = ClusterEvent(EventResource.ANY, ActionType.ALL)


def parked_by(*plugins: Any) -> Parked:
    return Parked(Hints({"default-scheduler": framework_of(*plugins)}))


def refused(
    name: str, *by: str, pending: tuple[str, ...] = (), gate: str = "", **fields: Any
) -> QueuedPod:
    entry = QueuedPod(pod(name, **fields), 0.0)
    entry.unschedulable_plugins, entry.pending_plugins = frozenset(by), frozenset(pending)
    entry.gating_plugin = gate
    return entry


def helped(parked: Parked, event: ClusterEvent, new: Any = None) -> list[str]:
    return [entry.uid for entry, _ in parked.helped_by(event, None, new)]


class Asked:
    """A hint that notes for which pods it was asked."""

    def __init__(self, answer: QueueingHint = QUEUE) -> None:
        self.answer = answer
        self.pods: list[str] = []

    def __call__(self, parked: Any, old: Any, new: Any) -> QueueingHint:
        self.pods.append(parked.uid)
        return self.answer


def test_an_event_finds_the_pods_of_the_plugins_that_registered_for_it() -> None:
    parked = parked_by(Refuser("Fit", on(NODE_ADD)), Refuser("Volume", on(PV_ADD)))
    for entry in (refused("a", "Fit"), refused("b", "Volume"), refused("c", "Volume", "Fit")):
        parked.add(entry)

    assert helped(parked, NODE_ADD) == ["a", "c"]
    assert helped(parked, PV_ADD) == ["b", "c"]
    assert helped(parked, POD_GONE) == []


def test_nobody_else_is_asked_about() -> None:
    fit, volume = Asked(), Asked()
    parked = parked_by(Refuser("Fit", on(NODE_ADD, fit)), Refuser("Volume", on(PV_ADD, volume)))
    for number in range(5):
        parked.add(refused(f"volume-{number}", "Volume"))
    parked.add(refused("fit", "Fit"))

    parked.helped_by(NODE_ADD, None, None)

    assert fit.pods == ["fit"]
    assert volume.pods == []


def test_they_are_found_in_the_order_in_which_they_were_parked() -> None:
    parked = parked_by(Refuser("A", on(NODE_ADD)), Signer("B", on(NODE_ADD, QUEUE, pure=True)))
    for name in "edcba":
        parked.add(refused(name, "A" if name in "ec" else "B", labels={"app": name}))

    assert helped(parked, NODE_ADD) == list("edcba")
    assert [entry.uid for entry in parked] == list("edcba")


def test_one_parked_anew_keeps_its_turn() -> None:
    parked = parked_by(Refuser("A", on(NODE_ADD)))
    first = refused("first", "A")
    parked.add(first)
    parked.add(refused("second", "A"))
    parked.add(first)

    assert helped(parked, NODE_ADD) == ["first", "second"]
    assert [entry.uid for entry in parked] == ["first", "second"]
    parked.remove(first)
    parked.add(first)
    assert helped(parked, NODE_ADD) == ["second", "first"]


def test_parked_anew_it_is_found_by_its_present_rejectors_only() -> None:
    parked = parked_by(Refuser("Fit", on(NODE_ADD)), Refuser("Volume", on(PV_ADD)))
    entry = refused("a", "Fit")
    parked.add(entry)
    entry.unschedulable_plugins = frozenset({"Volume"})
    parked.add(entry)

    assert helped(parked, NODE_ADD) == []
    assert helped(parked, PV_ADD) == ["a"]
    assert len(parked) == 1


def test_one_that_left_is_not_found_and_leaves_nothing_behind() -> None:
    parked = parked_by(Refuser("Fit", on(NODE_ADD)), Refuser("Volume", on(PV_ADD)))
    entry = refused("a", "Fit", "Volume")
    parked.add(entry)
    parked.remove(entry)

    assert helped(parked, NODE_ADD) == []
    assert helped(parked, UNSCHEDULABLE_TIMEOUT) == []
    assert len(parked) == 0
    assert parked._groups == {}
    assert entry.groups == ()


def test_the_last_of_a_group_does_not_take_other_groups_with_it() -> None:
    parked = parked_by(Signer("Fit", on(NODE_ADD, QUEUE, pure=True)))
    entries = [refused(name, "Fit", labels={"app": name}) for name in "ab"]
    for entry in entries:
        parked.add(entry)
    parked.remove(entries[0])

    assert helped(parked, NODE_ADD) == ["b"]


def test_profiles_with_plugins_of_the_same_name_do_not_meet() -> None:
    one, two = Refuser("Fit", on(NODE_ADD)), Refuser("Fit", on(NODE_ADD, SKIP))
    parked = Parked(Hints({"default-scheduler": framework_of(one), "other": framework_of(two)}))
    parked.add(refused("a", "Fit"))
    parked.add(refused("b", "Fit", scheduler_name="other"))

    assert helped(parked, NODE_ADD) == ["a"]


def test_the_best_answer_of_several_rejectors_counts() -> None:
    parked = parked_by(Refuser("A", on(PV_ADD)), Refuser("P", on(PV_ADD)), Refuser("Z", on(PV_ADD)))
    parked.add(refused("both", "A", "Z", pending=("P",)))
    parked.add(refused("refused", "A"))

    found = parked.helped_by(PV_ADD, None, None)

    assert [strategy for _, strategy in found] == [Strategy.IMMEDIATELY, Strategy.AFTER_BACKOFF]


def test_a_wildcard_finds_all_but_those_behind_a_gate() -> None:
    keeper = Keeper("Gate", closed, on(PV_ADD))
    parked = parked_by(keeper, Refuser("Fit", on(NODE_ADD)))
    parked.add(refused("a", "Fit"))
    parked.add(refused("b", "Unknown"))
    parked.add(refused("gated", "Gate", gate="Gate"))

    assert helped(parked, UNSCHEDULABLE_TIMEOUT) == ["a", "b"]
    assert helped(parked, FORCE_ACTIVATE, pod("b")) == ["b"]


def test_behind_a_gate_only_the_keepers_events_are_heard() -> None:
    fit = Asked()
    parked = parked_by(Keeper("Gate", closed, on(PV_ADD)), Refuser("Fit", on(NODE_ADD, fit)))
    parked.add(refused("gated", "Gate", "Fit", gate="Gate"))

    assert helped(parked, NODE_ADD) == []
    assert fit.pods == []
    assert helped(parked, PV_ADD) == ["gated"]


@pytest.mark.parametrize("keeper", [Deaf("Gate"), Refuser("Gate", on(EVERYTHING))])
def test_a_keeper_that_wants_to_hear_of_everything_hears_the_wildcard(keeper: Any) -> None:
    parked = parked_by(keeper)
    entry = refused("gated", "Gate", gate="Gate")
    parked.add(entry)

    assert parked.hears(entry, UNSCHEDULABLE_TIMEOUT)
    assert helped(parked, UNSCHEDULABLE_TIMEOUT) == ["gated"]


def test_it_counts_those_behind_a_gate() -> None:
    parked = parked_by(Keeper("Gate", closed))
    gated, other = refused("gated", "Gate", gate="Gate"), refused("other", "Gate")
    parked.add(gated)
    parked.add(other)
    assert (len(parked), parked.gated_count) == (2, 1)

    gated.gating_plugin = ""
    parked.add(gated)
    assert (len(parked), parked.gated_count) == (2, 0)
    gated.gating_plugin = "Gate"
    parked.add(gated)
    parked.remove(gated)
    assert (len(parked), parked.gated_count) == (1, 0)


# -- hints asked once -----------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "found"), [(QUEUE, 5), (SKIP, 0)])
def test_a_pure_hint_is_asked_once_for_pods_that_are_alike(
    answer: QueueingHint, found: int
) -> None:
    hint = Asked(answer)
    parked = parked_by(Signer("Fit", on(NODE_ADD, hint, pure=True)))
    for number in range(5):
        parked.add(refused(f"pod-{number}", "Fit", labels={"app": "a"}))

    assert len(helped(parked, NODE_ADD)) == found
    assert hint.pods == ["pod-0"]


def test_pods_that_are_not_alike_are_asked_about_each() -> None:
    hint = Asked()
    parked = parked_by(Signer("Fit", on(NODE_ADD, hint, pure=True)))
    for name in "aba":
        parked.add(refused(f"{name}-{len(parked)}", "Fit", labels={"app": name}))

    assert helped(parked, NODE_ADD) == ["a-0", "b-1", "a-2"]
    assert hint.pods == ["a-0", "b-1"]


@pytest.mark.parametrize(
    ("labels", "pure"), [({"secret": ""}, True), ({"app": "a"}, False), ({}, False)]
)
def test_without_a_signature_or_a_pure_hint_every_pod_is_asked_about(
    labels: dict[str, str], *, pure: bool
) -> None:
    hint = Asked()
    parked = parked_by(Signer("Fit", on(NODE_ADD, hint, pure=pure)))
    for number in range(3):
        parked.add(refused(f"pod-{number}", "Fit", labels=labels))

    assert len(helped(parked, NODE_ADD)) == 3
    assert hint.pods == ["pod-0", "pod-1", "pod-2"]


def test_one_impure_hint_for_the_event_makes_all_of_them_so() -> None:
    pure, impure = Asked(SKIP), Asked(SKIP)
    parked = parked_by(Signer("Fit", on(NODE_ADD, pure, pure=True), on(NODE_ADD, impure)))
    for number in range(3):
        parked.add(refused(f"pod-{number}", "Fit", labels={"app": "a"}))

    assert helped(parked, NODE_ADD) == []
    assert len(pure.pods) == len(impure.pods) == 3


def test_a_pod_that_a_hint_activates_does_not_disturb_the_others() -> None:
    parked = parked_by(Refuser("Fit", on(NODE_ADD, lambda *_: leave())))
    entries = [refused(name, "Fit") for name in "abc"]
    for entry in entries:
        parked.add(entry)

    def leave() -> QueueingHint:
        if len(parked) == 3:
            parked.remove(entries[1])
        return QUEUE

    assert set(helped(parked, NODE_ADD)) >= {"a", "c"}


PLUGINS = [
    Signer("Pure", on(NODE_ADD, lambda p, o, n: _says(p, n), pure=True)),
    Signer("Impure", on(NODE_ADD, lambda p, o, n: _says(p, n)), on(PV_ADD)),
    Refuser("Always", on(NODE_ADD)),
    Refuser("Never", on(PV_ADD, SKIP)),
    Deaf("Deaf"),
]


def _says(parked: Any, new: str) -> QueueingHint:
    return QUEUE if parked.metadata.labels.get("app") == new else SKIP


POD = st.tuples(
    st.sampled_from(["a", "b", "secret"]),
    st.sets(st.sampled_from([plugin.name for plugin in PLUGINS]), min_size=1),
    st.sets(st.sampled_from([plugin.name for plugin in PLUGINS])),
)


@given(st.lists(POD, max_size=12), st.sampled_from([NODE_ADD, PV_ADD]), st.sampled_from("ab"))
def test_the_index_finds_what_asking_every_pod_would(
    pods: list[tuple[str, set[str], set[str]]], event: ClusterEvent, new: str
) -> None:
    hints = Hints({"default-scheduler": framework_of(*PLUGINS)})
    parked, entries = Parked(hints), []
    for number, (app, by, pending) in enumerate(pods):
        labels = {"secret": "", "app": "a"} if app == "secret" else {"app": app}
        entry = refused(str(number), *sorted(by), pending=tuple(sorted(pending)), labels=labels)
        entries.append(entry)
        parked.add(entry)

    walked = [(entry, hints.strategy(entry, event, None, new)) for entry in entries]

    expected = [(entry.uid, found) for entry, found in walked if found is not Strategy.SKIP]
    found = [(entry.uid, strategy) for entry, strategy in parked.helped_by(event, None, new)]
    assert found == expected


def test_behind_a_gate_a_pending_plugin_still_needs_no_backoff() -> None:
    parked = parked_by(Keeper("Gate", closed, on(PV_ADD)), Refuser("P", on(PV_ADD)))
    parked.add(refused("pending", "Gate", pending=("P",), gate="Gate"))
    parked.add(refused("other", "Gate", pending=("Q",), gate="Gate"))

    found = parked.helped_by(PV_ADD, None, None)

    assert [strategy for _, strategy in found] == [Strategy.IMMEDIATELY, Strategy.AFTER_BACKOFF]

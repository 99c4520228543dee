"""Deciding without an API server: what one attempt says, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.config import loads
from mooring.errors import ConfigError, InvariantViolation
from mooring.framework import Reject, per_node
from mooring.framework.status import PostFilterResult
from mooring.objects.pod import Pod
from mooring.testing import make_node, make_pod
from tests.helpers.configurations import NO_POST_FILTER, in_vain
from tests.helpers.drivers import Scripted, driver, usage

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packer
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}]
      enabled: [{name: NodeResourcesFit, weight: 9}]
"""

TWO = [make_node("a", allocatable={"cpu": "2"}), make_node("b", allocatable={"cpu": "4"})]


def small(name: str = "p", **more: Any) -> Pod:
    return make_pod(name, requests={"cpu": "1"}, **more)


class MakesRoom:
    """A PostFilter with a prepared result."""

    name = "MakesRoom"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def post_filter(self, cycle: Any, diagnosis: Any) -> Any:
        self.asked.append(diagnosis.message)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


# ---------------------------------------------------------------- one attempt


def test_an_attempt_names_a_node_and_changes_nothing() -> None:
    found = driver(TWO)

    outcome = found.attempt(small())

    assert (outcome.result, outcome.node, outcome.message) == ("scheduled", "b", "")
    assert outcome.reasons == {}
    assert (usage(found, "b"), len(found.cache.pods)) == ((0, 0), 0)
    assert found.attempt(small()).node == "b"


def test_apply_binds_the_pod_where_the_attempt_said() -> None:
    found = driver(TWO)

    outcome = found.apply(found.attempt(small()))

    assert outcome.node == "b"
    assert usage(found, "b") == (1, 1000)
    assert found.cache.assumed_count() == 0
    assert found.settle() == []


def test_a_pod_that_fits_nowhere_says_why_in_kube_schedulers_words() -> None:
    found = driver([make_node("a", allocatable={"cpu": "1"}), make_node("b", unschedulable=True)])

    outcome = found.attempt(make_pod(requests={"cpu": "3"}))

    assert outcome.result == "unschedulable"
    assert outcome.message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. " + in_vain(2)
    )
    assert outcome.reasons == {"Insufficient cpu": 1, "node(s) were unschedulable": 1}
    assert found.apply(outcome) is outcome


def test_without_nodes_there_is_one_reason() -> None:
    outcome = driver([]).attempt(small())

    assert outcome.message == "no nodes available to schedule pods"
    assert outcome.reasons == {"no nodes available to schedule pods": 1}
    assert outcome.nominated == ""


def test_a_gated_pod_is_not_tried() -> None:
    found = driver(TWO)

    outcome = found.attempt(small(gates=["example.com/quota", "b"]), explain=True)

    assert outcome.result == "gated"
    assert outcome.node is None
    assert outcome.message == "waiting for scheduling gates: [example.com/quota b]"
    assert outcome.reasons == {outcome.message: 1}
    decision = outcome.decision()
    assert (decision.result, decision.unschedulable_plugins) == ("gated", ("SchedulingGates",))
    assert decision.reason is None
    assert found.next_start_index == 0


def test_a_scheduler_name_that_no_profile_has_is_an_error() -> None:
    outcome = driver(TWO).attempt(small(scheduler_name="somebody-else"))

    assert outcome.result == "error"
    assert outcome.message == 'no profile has the schedulerName "somebody-else"'
    assert outcome.decision().reason == "SchedulerError"


def test_no_scheduler_name_means_the_default_one() -> None:
    assert driver(TWO).attempt(small(scheduler_name="")).node == "b"


def test_each_profile_decides_with_its_own_plugins_and_weights() -> None:
    found = driver(TWO, config=loads(CONFIG))

    assert found.attempt(small()).node == "b"
    assert found.attempt(small(scheduler_name="packer")).node == "a"
    assert list(found.frameworks) == ["default-scheduler", "packer"]
    assert found.frameworks["packer"].weight("NodeResourcesFit") == 9
    assert found.weights["NodeResourcesFit"] == 1


def test_a_plugin_that_raises_makes_an_error_of_that_pod_alone() -> None:
    class Broken:
        name = "Broken"

        @per_node
        def filter(self, pod: Any, node: Any) -> None:
            if pod.metadata.name == "bad":
                raise ValueError("no such rack")

    found = driver(TWO, Broken())

    outcome = found.attempt(small("bad"), explain=True)

    assert outcome.result == "error"
    # With the place in the plugin's source: here the plugin is being developed.
    text, _, place = outcome.message.partition(" (")
    assert text == 'running "Broken" filter plugin: ValueError: no such rack'
    assert place.startswith(__file__)
    assert outcome.nominated == ""
    assert outcome.decision().reason == "SchedulerError"
    assert outcome.decision().message == outcome.message
    assert found.apply(outcome) is outcome
    assert found.attempt(small("good")).node == "b"


def test_a_decision_is_asked_for_before_the_cluster_changes() -> None:
    found = driver(TWO)
    explained, forgotten = found.attempt(small("p"), explain=True), found.attempt(small("q"))

    found.apply(explained)

    assert explained.decision().node == "b"
    with pytest.raises(InvariantViolation, match="must be built before the cluster state changes"):
        forgotten.decision()


# ---------------------------------------------------------------- making room


def failed_and_unresolvable() -> Pod:
    return make_pod("p", requests={"cpu": "9"})


REFUSED = "0/2 nodes are available: 2 Insufficient cpu."


@pytest.mark.parametrize(
    ("answer", "nominated", "message"),
    [
        (PostFilterResult(None, "a"), "a", REFUSED),
        (PostFilterResult(Reject("no victims"), ""), "", f"{REFUSED} no victims"),
        (PostFilterResult(Reject("not now"), None), None, f"{REFUSED} not now"),
        (
            RuntimeError("lost"),
            None,
            f'{REFUSED} running PostFilter plugin "MakesRoom": RuntimeError: lost',
        ),
    ],
)
def test_post_filter_nominates_and_adds_to_the_message(
    answer: Any, nominated: str | None, message: str
) -> None:
    plugin = MakesRoom(answer)

    outcome = driver(TWO, plugin, config=NO_POST_FILTER).attempt(failed_and_unresolvable())

    assert (outcome.result, outcome.nominated) == ("unschedulable", nominated)
    assert outcome.message == message
    assert plugin.asked == [REFUSED]


def test_without_post_filter_an_earlier_nomination_ends() -> None:
    assert driver(TWO, config=NO_POST_FILTER).attempt(failed_and_unresolvable()).nominated == ""


def test_no_room_is_made_for_a_pod_that_has_a_node_or_where_no_node_is() -> None:
    plugin = MakesRoom(PostFilterResult(None, "a"))

    assert driver(TWO, plugin).attempt(small()).nominated is None
    assert driver([], plugin).attempt(small()).nominated == ""
    assert plugin.asked == []


# ---------------------------------------------------------------- what a driver is made of


def test_a_node_order_that_follows_from_the_objects_is_taken() -> None:
    zones = [make_node("a", zone="x"), make_node("b", zone="x"), make_node("c", zone="y")]

    assert len(driver(zones, node_order=["a", "c", "b"]).nodes) == 3


@pytest.mark.parametrize(
    ("order", "told"),
    [
        (["b", "a"], "node_order[0]: does not follow from the objects, which give 'a', got 'b'"),
        (["a", "x"], "node_order[1]: does not follow from the objects, which give 'b', got 'x'"),
        (["a"], "node_order: there are 2 nodes, got 1"),
        (["a", "b", "c"], "node_order: there are 2 nodes, got 3"),
    ],
)
def test_a_node_order_that_does_not_follow_says_where(order: list[str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        driver(TWO, node_order=order)

    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("plugin", "told"),
    [
        (object(), "a plugin needs a name"),
        (Scripted("Mine", [], permt=None), "did you mean 'permit'"),
        (Scripted("NodeName", [], permit=None), "another plugin has this name"),
    ],
)
def test_an_object_that_is_no_plugin_is_refused_at_once(plugin: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        driver(TWO, plugin)


def test_chance_and_time_of_a_run_follow_from_its_seed() -> None:
    first, second = driver(TWO), driver(TWO)

    assert [first.handle.random() for _ in range(3)] == [second.handle.random() for _ in range(3)]
    assert first.handle.monotonic_s() == 0.0
    assert first.handle.snapshot.nodes is first.nodes

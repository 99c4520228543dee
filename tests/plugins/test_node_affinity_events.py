"""NodeAffinity's queueing hint: a node helps when it matches now and did not before."""

from __future__ import annotations

import pytest

from mooring.cluster_event import ActionType, QueueingHint
from mooring.objects.node import Node
from mooring.objects.selectors import SelectorError
from mooring.plugins import NodeAffinity
from mooring.state import PodInfo
from mooring.testing import make_node, make_pod
from tests.plugins.reference_plugins import hints
from tests.plugins.test_node_affinity import args_with, expression, pod_with, required, term

NODE_EVENT = ("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
SSD, HDD, NONE = (
    make_node("n", labels={"disk": "ssd"}),
    make_node("n", labels={"disk": "hdd"}),
    None,
)
WANTS_SSD = pod_with(required(term(expression("disk", "In", "ssd"))))


def test_it_registers_for_new_nodes_and_new_labels() -> None:
    assert list(hints(NodeAffinity())) == [NODE_EVENT]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (NONE, SSD, QueueingHint.QUEUE),
        (NONE, HDD, QueueingHint.SKIP),
        (HDD, SSD, QueueingHint.QUEUE),
        (SSD, SSD, QueueingHint.SKIP),
        (SSD, HDD, QueueingHint.SKIP),
        (HDD, HDD, QueueingHint.SKIP),
    ],
)
def test_a_node_helps_when_it_begins_to_match(
    old: Node | None, new: Node, expected: QueueingHint
) -> None:
    hint = hints(NodeAffinity())[NODE_EVENT]
    assert hint(PodInfo(WANTS_SSD), old, new) is expected
    by_selector = PodInfo(make_pod(node_selector={"disk": "ssd"}))
    assert hint(by_selector, old, new) is expected


def test_a_new_node_outside_the_added_affinity_does_not_help() -> None:
    added = args_with(required(term(expression("disk", "In", "hdd"))))
    assert (
        hints(NodeAffinity(added))[NODE_EVENT](PodInfo(WANTS_SSD), None, SSD) is QueueingHint.SKIP
    )


def test_a_node_that_only_now_meets_the_added_affinity_helps() -> None:
    """Upstream compares the pod's own affinity alone, and leaves this pod asleep."""
    added = args_with(required(term(expression("disk", "In", "ssd"))))
    hint = hints(NodeAffinity(added))[NODE_EVENT]
    assert hint(PodInfo(make_pod()), HDD, SSD) is QueueingHint.QUEUE
    assert hint(PodInfo(make_pod()), SSD, SSD) is QueueingHint.SKIP


def test_a_term_that_cannot_be_compiled_raises_unless_another_one_decides() -> None:
    """Raising counts as QUEUE: upstream reports such terms only if nothing else matched."""
    hint = hints(NodeAffinity())[NODE_EVENT]
    broken = term(expression("disk", "Near", "ssd"))
    with pytest.raises(SelectorError):
        hint(PodInfo(pod_with(required(broken))), None, SSD)
    good = term(expression("disk", "In", "ssd"))
    assert hint(PodInfo(pod_with(required(broken, good))), None, SSD) is QueueingHint.QUEUE
    elsewhere = pod_with(required(broken), node_selector={"disk": "tape"})
    assert hint(PodInfo(elsewhere), None, SSD) is QueueingHint.SKIP

"""Plugin tests of kube-scheduler, with our plugins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring import plugins
from mooring.cluster_event import ActionType, ClusterEventWithHint, QueueingHint
from mooring.config.types import InterPodAffinityArgs
from mooring.plugins import InterPodAffinity, PodTopologySpread
from mooring.state import PodInfo
from mooring.testing import Harness
from tests.plugins.upstream_tables import (
    Row,
    cluster,
    expected,
    read,
    read_all,
    rows,
    told,
    with_uid,
)

#: A label's value that no API server lets through: upstream explains it at length, we in our words.
UNREADABLE = "{{.bad-value.}}"


def harness(row: Row, plugin: Any) -> Harness:
    found = Harness(cluster(row), [plugin], cache_results=False)
    for kind, objects in row["others"].items():
        for each in read_all(objects, kind):
            found.cache.put_object(kind, each)
    return found


def resource_text(registered: ClusterEventWithHint) -> str:
    resource = registered.event.resource
    return resource if isinstance(resource, str) else resource.value


def registration(plugin: Any, kind: str, old: Any, new: Any) -> ClusterEventWithHint:
    """Returns what the plugin has registered for such an event."""
    action = ActionType.UPDATE
    if old is None or new is None:
        action = ActionType.ADD if old is None else ActionType.DELETE
    events: list[ClusterEventWithHint] = plugin.events()
    of_kind = [each for each in events if resource_text(each).split("/")[-1] == kind]
    found = [each for each in of_kind if each.event.action & action]
    assert found, f"{plugin.name} does not hear of {kind} {action}"
    return found[-1]


@pytest.mark.parametrize("row", rows("hints"))
def test_an_event_wakes_a_pod_as_it_does_upstream(row: Row) -> None:
    plugin = getattr(plugins, row["plugin"])()
    pod, old, new = (
        read(row["pod"], "Pod"),
        read(row["old"], row["kind"]),
        read(row["new"], row["kind"]),
    )

    found = registration(plugin, row["kind"], old, new)

    hint = QueueingHint.QUEUE if found.hint is None else found.hint(PodInfo(pod), old, new)
    assert hint.value == row["hint"]


@pytest.mark.parametrize("row", rows("filters"))
def test_pods_and_nodes_are_refused_as_they_are_upstream(row: Row) -> None:
    plugin = getattr(plugins, row["plugin"])()
    ours, pod = harness(row, plugin), read(with_uid(row["pod"]), "Pod")

    opened = ours.begin(pod)

    if row["pre_filter"] is not None:
        assert said_before(opened, plugin, row["pre_filter"]) == expected(row["pre_filter"])
        return
    assert opened.takes_part(plugin)
    statuses = ours.statuses(pod)
    assert [told(statuses[each["metadata"]["name"]]) for each in row["nodes"]] == [
        expected(each) for each in row["filter"]
    ]


def said_before(opened: Any, plugin: Any, wanted: Row) -> Any:
    """Returns the PreFilter status; with upstream's text for a value that cannot be parsed."""
    if opened.refusal is None:
        return ("Skip", []) if plugin.name in opened.cycle.skipped else None
    code, reasons = told(opened.refusal) or ("", [])
    if any(UNREADABLE in reason for reason in wanted["reasons"]):
        assert all(UNREADABLE in reason for reason in reasons)
        reasons = wanted["reasons"]
    return code, reasons


@pytest.mark.parametrize("row", rows("scores"))
def test_nodes_score_as_they_do_upstream(row: Row) -> None:
    args = InterPodAffinityArgs(
        hard_pod_affinity_weight=row["hard_weight"],
        ignore_preferred_terms_of_existing_pods=row["ignore"],
    )
    ours = harness(row, InterPodAffinity(args))

    found = ours.scores(read(with_uid(row["pod"]), "Pod"))

    assert (found or None) == row["scores"]


@pytest.mark.parametrize("row", rows("spread"))
def test_spread_constraints_refuse_the_nodes_that_they_refuse_upstream(row: Row) -> None:
    ours = Harness(cluster(row), [PodTopologySpread()], cache_results=False)

    statuses = ours.statuses(read(with_uid(row["pod"]), "Pod"))

    codes = {name: (told(status) or ("Success", []))[0] for name, status in statuses.items()}
    assert codes == {name: row["codes"].get(name, "Success") for name in codes}


@pytest.mark.parametrize("row", rows("spread_scores"))
def test_spread_constraints_score_as_they_do_upstream(row: Row) -> None:
    plugin = PodTopologySpread()
    nodes = [*row["nodes"], *row["failed"]]
    ours = harness({**row, "nodes": nodes}, plugin)
    cycle, view = ours.open(read(with_uid(row["pod"]), "Pod"))
    wanted = [view.names.index(each["metadata"]["name"]) for each in row["nodes"]]
    some = view.subset(np.array(wanted, dtype=np.intp))

    raw = ours.raw_scores_in(cycle, some, plugin)

    assert raw is not None
    scores = plugin.normalize(cycle, np.array(list(raw.values()), dtype=np.int64), some)
    assert dict(zip(some.names, scores.tolist(), strict=True)) == row["scores"]

"""Preemption with all plugins together: by ranks over all nodes at once, as one node at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.framework import Code, Placement
from mooring.objects.pod import Pod
from mooring.state import PodInfo, audit
from mooring.testing import Harness
from tests.helpers.volume_objects import put
from tests.plugins import preemption_worst_case as everything
from tests.plugins.preemption_clusters import Bench
from tests.plugins.preemption_twin import Answer, PreemptionTwin


class Twin(PreemptionTwin):
    """Knows of storage; a plugin that skipped the pod before stays out of it, as upstream."""

    def __init__(self, case: everything.Case, pods: Sequence[Pod], skipped: frozenset[str]) -> None:
        super().__init__(case.nodes, pods, case.budgets, everything.filters)
        self.storage = case.storage
        self.skipped = skipped

    def asked(self, pod: Pod, name: str, pods: list[Pod]) -> Sequence[str]:
        placed = [each for each in pods if each.spec.node_name]
        harness = Harness([*self.nodes, *placed], self.plugins(), cache_results=False)
        put(harness.cache, *self.storage)
        opened = harness.begin(pod)
        assert opened.refusal is None
        for plugin in harness.framework.filters:
            if plugin.name in self.skipped | opened.cycle.skipped:
                continue
            statuses = plugin.filter(opened.cycle, opened.view)
            code = int(statuses.codes[opened.view.names.index(name)])
            if code:
                return list(statuses.table[code - 1].reasons)
        return []


def bench_of(case: everything.Case, seed: int) -> Bench:
    bench = Bench([*case.nodes, *case.pods, *case.budgets], plugins=everything.filters(), seed=seed)
    put(bench.cache, *case.storage)
    return bench


def on_nodes(bench: Bench, pods: list[Pod]) -> list[Pod]:
    """Returns the pods in the order in which the scheduler has them on each node."""
    placed: list[PodInfo] = []
    for row in bench.cache.nodes.order.rows():
        placed += [each.info for each in bench.cache.pods.on_row(row)]
    known = {pod.metadata.uid: pod for pod in pods}
    return [known.pop(info.uid) for info in placed] + list(known.values())


def both(seed: int) -> tuple[Answer, Any, Bench] | None:
    """Returns what the twin says and what the plugin says; None = there is room already."""
    case = everything.case(seed)
    bench = bench_of(case, seed)
    if isinstance(bench.harness.diagnose(case.pod), Placement):
        return None
    cycle, diagnosis = bench.diagnosed(case.pod)
    names = bench.cache.nodes.names
    rows = diagnosis.rows_of(Code.UNSCHEDULABLE, bench.cache.nodes).tolist()
    twin = Twin(case, on_nodes(bench, case.pods), frozenset(cycle.skipped))
    expected = twin.answer(case.pod, [names[row] for row in rows])
    return expected, bench.plugin.post_filter(cycle, diagnosis), bench


@given(st.integers(0, 2**32))
@settings(max_examples=250, deadline=None)
def test_candidates_victims_and_words_are_those_of_the_twin(seed: int) -> None:
    found = both(seed)
    if found is None:
        return
    expected, result, bench = found

    assert audit(bench.cache) == []
    if not expected.candidates:
        assert result.status is not None
        assert result.status.message == expected.message
        return
    assert result.record is not None
    record = result.record()
    assert {
        name: (list(each.victims), each.pdb_violations) for name, each in record.candidates.items()
    } == expected.candidates
    assert list(record.acceptable) == expected.acceptable


def test_the_clusters_make_every_plugin_refuse_and_let_preemption_help() -> None:
    refused, helped = Counter[str](), 0
    for seed in range(300):
        case = everything.case(seed)
        bench = bench_of(case, seed)
        if isinstance(bench.harness.diagnose(case.pod), Placement):
            continue
        cycle, diagnosis = bench.diagnosed(case.pod)
        refused.update(diagnosis.unschedulable_plugins)
        helped += bool(bench.plugin.post_filter(cycle, diagnosis).victims)

    assert helped > 50
    assert {
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    } <= set(refused)

"""DefaultPreemption and its slow twin find the same candidates, victims and words."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.framework import Code, Placement
from mooring.objects.pod import Pod
from mooring.state import PodInfo, audit
from tests.plugins import preemption_clusters as clusters
from tests.plugins.preemption_twin import PreemptionTwin


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_candidates_victims_and_messages_are_those_of_the_twin(seed: int) -> None:
    case = clusters.case(seed)
    bench = clusters.Bench([*case.nodes, *case.pods, *case.budgets], seed=seed)
    if isinstance(bench.harness.diagnose(case.pod), Placement):
        return  # there is room already
    _, diagnosis = bench.diagnosed(case.pod)
    names = bench.cache.nodes.names
    rows = diagnosis.rows_of(Code.UNSCHEDULABLE, bench.cache.nodes).tolist()
    twin = PreemptionTwin(case.nodes, on_nodes(bench, case.pods), case.budgets, clusters.filters)

    expected = twin.answer(case.pod, [names[row] for row in rows])
    result = bench.preempt(case.pod)

    assert audit(bench.cache) == []
    if not expected.candidates:
        assert result.status is not None
        assert (result.status.message, result.node_name) == (expected.message, "")
        return
    assert (result.status, result.record is None) == (None, False)
    assert result.record is not None
    record = result.record()
    found = {
        name: (list(each.victims), each.pdb_violations) for name, each in record.candidates.items()
    }
    assert found == expected.candidates
    assert list(record.acceptable) == expected.acceptable
    node_name = result.node_name or ""
    assert node_name == record.nominated in expected.acceptable
    assert sorted(pod.key for pod in result.victims) == expected.candidates[node_name].victims
    in_order = sorted(result.victims, key=lambda pod: (-pod.priority, pod.start_s))
    assert list(result.victims) == in_order


def on_nodes(bench: clusters.Bench, pods: list[Pod]) -> list[Pod]:
    """Returns the pods in the order in which the scheduler has them on each node."""
    placed: list[PodInfo] = []
    for row in bench.cache.nodes.order.rows():
        placed += [each.info for each in bench.cache.pods.on_row(row)]
    known = {pod.metadata.uid: pod for pod in pods}
    return [known.pop(info.uid) for info in placed] + list(known.values())

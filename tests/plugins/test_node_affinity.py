"""NodeAffinity: what a pod insists on and prefers, and what its profile adds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.config.types import NodeAffinityArgs
from mooring.errors import ConfigError, PluginError
from mooring.framework import Code
from mooring.objects.pod import Pod
from mooring.plugins import NodeAffinity
from mooring.testing import Harness, check_conformance, make_node, make_pod
from mooring.testing.random_cluster import random_objects, random_pod
from tests.plugins.reference_plugins import SEED_BLOCKS, NodeAffinityTwin, assert_same

REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"

Document = dict[str, Any]

NODES = [
    make_node("a", labels={"disk": "ssd", "cores": "8"}),
    make_node("b", labels={"disk": "hdd", "cores": "16"}),
    make_node("c", labels={"cores": "many"}),
    make_node("d", labels={"disk": "", "cores": "0"}),
]


def expression(key: str, operator: str, *values: str) -> Document:
    return {"key": key, "operator": operator, "values": list(values)}


def term(*expressions: Document, fields: tuple[Document, ...] = ()) -> Document:
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


def named(*names: str, operator: str = "In") -> Document:
    """Returns a matchFields condition; the API server accepts one name, upstream's code several."""
    return expression("metadata.name", operator, *names)


def required(*terms: Document) -> Document:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}


def preferred(*terms: tuple[int, Document]) -> Document:
    listed = [{"weight": weight, "preference": wanted} for weight, wanted in terms]
    return {"preferredDuringSchedulingIgnoredDuringExecution": listed}


def pod_with(*affinities: Document, **more: Any) -> Pod:
    merged: Document = {}
    for affinity in affinities:
        merged |= affinity
    return make_pod(affinity={"nodeAffinity": merged}, **more)


def args_with(*affinities: Document) -> NodeAffinityArgs:
    affinity = pod_with(*affinities).spec.affinity
    assert affinity is not None
    return NodeAffinityArgs(added_affinity=affinity.node_affinity)


def feasible(pod: Pod, args: NodeAffinityArgs | None = None) -> str:
    """Returns the names of the nodes that will do, joined."""
    found = Harness(NODES, [NodeAffinity(args)]).reasons(pod)
    return "".join(name for name, reasons in found.items() if not reasons)


# ---------------------------------------------------------------- filter

#: (one condition, the nodes that meet it)
CONDITIONS: list[tuple[Document, str]] = [
    (expression("disk", "In", "ssd"), "a"),
    (expression("disk", "In", "ssd", "hdd"), "ab"),
    (expression("disk", "In", ""), "d"),
    (expression("disk", "NotIn", "ssd"), "bcd"),  # an absent label is not in
    (expression("disk", "NotIn", "ssd", ""), "bc"),
    (expression("disk", "Exists"), "abd"),
    (expression("disk", "DoesNotExist"), "c"),
    (expression("cores", "Gt", "8"), "b"),
    (expression("cores", "Gt", "7"), "ab"),
    (expression("cores", "Lt", "8"), "d"),
    (expression("cores", "Lt", "100"), "abd"),  # "many" is no number
    (expression("cores", "Lt", "1"), "d"),
    (expression("disk", "Lt", "5"), ""),  # neither are "" and "ssd"
    (expression("nobody", "Gt", "0"), ""),
]


@pytest.mark.parametrize(("condition", "nodes"), CONDITIONS, ids=str)
def test_operators(condition: Document, nodes: str) -> None:
    pod = pod_with(required(term(condition)))
    assert feasible(pod) == nodes
    assert_same(NodeAffinity(), NodeAffinityTwin(), NODES, pod)


def test_a_refusal_is_for_good() -> None:
    status = Harness(NODES, [NodeAffinity()]).statuses(make_pod(node_selector={"disk": "ssd"}))["b"]
    assert status is not None
    assert status.reasons == (REASON,)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_conditions_of_a_term_must_all_hold_and_one_term_is_enough() -> None:
    both = term(expression("disk", "Exists"), expression("cores", "Gt", "8"))
    assert feasible(pod_with(required(both))) == "b"
    assert feasible(pod_with(required(both, term(expression("disk", "In", "ssd"))))) == "ab"


def test_the_node_selector_is_anded_to_the_terms() -> None:
    wanted = required(term(expression("cores", "Gt", "0")))
    assert feasible(pod_with(wanted, node_selector={"disk": "hdd"})) == "b"
    assert feasible(make_pod(node_selector={"disk": "hdd", "cores": "8"})) == ""
    assert feasible(make_pod(node_selector={"disk": ""})) == "d"


def test_an_empty_term_matches_no_node() -> None:
    assert feasible(pod_with(required(term()))) == ""
    assert feasible(pod_with(required(term(), term(expression("disk", "In", "ssd"))))) == "a"


def test_no_term_at_all_matches_no_node() -> None:
    assert feasible(pod_with(required())) == ""


@pytest.mark.parametrize(
    "broken",
    [
        expression("disk", "Near", "ssd"),
        expression("cores", "Gt", "eight"),
        expression("cores", "Gt", "-4"),  # a number, but not a value that a label can have
        expression("cores", "Lt", "1", "2"),
        expression("disk", "In"),
        expression("disk", "Exists", "x"),
        expression("-bad-", "Exists"),
    ],
    ids=str,
)
def test_a_term_that_cannot_be_compiled_matches_nothing_and_spoils_nothing(
    broken: Document,
) -> None:
    assert feasible(pod_with(required(term(broken)))) == ""
    good = term(expression("disk", "In", "ssd"))
    assert feasible(pod_with(required(term(broken), good))) == "a"


# ---------------------------------------------------------------- fields, and narrowing


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        ((named("b"),), "b"),
        ((named("b", operator="NotIn"),), "acd"),
        ((named("B"),), ""),
        ((named("b", operator="Exists"),), ""),  # only In and NotIn, with one value
        ((named("a", "b"),), ""),
        ((expression("metadata.uid", "In", ""),), "abcd"),  # a field that nodes lack reads as ""
        ((expression("metadata.uid", "NotIn", ""),), ""),
    ],
    ids=str,
)
def test_fields(fields: tuple[Document, ...], nodes: str) -> None:
    assert feasible(pod_with(required(term(fields=fields)))) == nodes


#: (terms, the nodes that PreFilter leaves; None = all)
NARROWED: list[tuple[list[Document], str | None]] = [
    ([term(fields=(named("a"),))], "a"),
    ([term(fields=(named("a"),)), term(fields=(named("c"),))], "ac"),
    ([term(fields=(named("a"),)), term(expression("disk", "Exists"))], None),
    ([term(fields=(named("a", operator="NotIn"),))], None),
    ([term(fields=(named("a"),)), term()], None),
    ([term(fields=(named("a", "b"), named("b", "c")))], "b"),
    ([term(fields=(named("a"), named("b"))), term(fields=(named("d"),))], "d"),
    ([term(expression("disk", "Exists"), fields=(named("c"),))], "c"),
]


@pytest.mark.parametrize(("terms", "left"), NARROWED, ids=str)
def test_names_in_every_term_narrow_the_nodes(terms: list[Document], left: str | None) -> None:
    decision = Harness(NODES, [NodeAffinity()]).decide(pod_with(required(*terms))).decision
    text = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    left_out = [name for name, why in decision.rejected.items() if why.reasons == (text,)]
    expected = [] if left is None else [name for name in "abcd" if name not in left]
    assert left_out == expected


def test_names_of_nodes_that_are_gone_leave_no_node() -> None:
    found = Harness(NODES, [NodeAffinity()]).decide(pod_with(required(term(fields=(named("z"),)))))
    text = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    assert found.message == f"0/4 nodes are available: 4 {text}."


def test_fields_that_contradict_each_other_in_every_term_are_a_conflict() -> None:
    pod = pod_with(required(term(fields=(named("a"), named("b")))))
    found = Harness(NODES, [NodeAffinity()]).decide(pod)
    assert found.message == f"0/4 nodes are available: {CONFLICT}."
    assert found.decision.prefilter is not None
    assert found.decision.prefilter.code == "UnschedulableAndUnresolvable"


def test_a_narrowed_node_has_to_meet_the_rest_too() -> None:
    pod = pod_with(required(term(fields=(named("b"),))), node_selector={"disk": "ssd"})
    found = Harness(NODES, [NodeAffinity()]).decide(pod)
    left_out = "3 node(s) didn't satisfy plugin(s) [NodeAffinity]"
    assert found.message == f"0/4 nodes are available: 1 {REASON}, {left_out}."


@pytest.mark.parametrize(
    ("pod", "is_skipped"),
    [
        (make_pod(), True),
        (pod_with(preferred((1, term(expression("disk", "Exists"))))), True),
        (make_pod(node_selector={"disk": "ssd"}), False),
        (pod_with(required(term(expression("disk", "Exists")))), False),
        (pod_with(required()), False),
    ],
    ids=["nothing", "preferences", "selector", "terms", "no terms"],
)
def test_a_pod_without_requirements_is_not_filtered(pod: Pod, is_skipped: bool) -> None:
    cycle, _ = Harness(NODES, [NodeAffinity()]).open(pod)
    assert ("NodeAffinity" in cycle.skipped) == is_skipped


# ---------------------------------------------------------------- added affinity

SSD = required(term(expression("disk", "In", "ssd")))


def test_added_affinity_is_reported_first_and_filters_every_pod() -> None:
    harness = Harness(NODES, [NodeAffinity(args_with(SSD))])
    assert harness.reasons(make_pod()) == {"a": (), **dict.fromkeys("bcd", (ENFORCED,))}
    strict = make_pod(node_selector={"cores": "16"})
    assert harness.reasons(strict) == {"a": (REASON,), **dict.fromkeys("bcd", (ENFORCED,))}
    assert_same(NodeAffinity(args_with(SSD)), NodeAffinityTwin(args_with(SSD)), NODES, strict)


def test_names_in_the_added_affinity_do_not_narrow() -> None:
    args = args_with(required(term(fields=(named("b"),))))
    decision = Harness(NODES, [NodeAffinity(args)]).decide(make_pod()).decision
    assert decision.node == "b"
    assert {why.reasons for why in decision.rejected.values()} == {(ENFORCED,)}


def test_added_preferences_score_every_pod() -> None:
    args = args_with(preferred((5, term(expression("disk", "Exists")))))
    harness = Harness(NODES, [NodeAffinity(args)])
    assert harness.raw_scores(make_pod()) == {"a": 5, "b": 5, "c": 0, "d": 5}
    pod = pod_with(preferred((10, term(expression("disk", "In", "ssd")))))
    assert harness.raw_scores(pod) == {"a": 15, "b": 5, "c": 0, "d": 5}


@pytest.mark.parametrize(
    "affinity",
    [
        required(term(expression("disk", "Near", "ssd"))),
        preferred((1, term(expression("cores", "Gt", "x")))),
    ],
    ids=["required", "preferred"],
)
def test_added_affinity_that_cannot_be_compiled_is_an_error_of_the_configuration(
    affinity: Document,
) -> None:
    with pytest.raises(ConfigError) as caught:
        NodeAffinity(args_with(affinity))
    assert caught.value.path == "addedAffinity"


# ---------------------------------------------------------------- score


def test_the_score_is_the_sum_of_weights_scaled_to_the_highest() -> None:
    pod = pod_with(
        preferred(
            (30, term(expression("disk", "Exists"))),
            (60, term(expression("cores", "Gt", "8"))),
            (7, term(expression("disk", "In", "ssd"), expression("cores", "In", "8"))),
        )
    )
    harness = Harness(NODES, [NodeAffinity()])
    assert harness.raw_scores(pod) == {"a": 37, "b": 90, "c": 0, "d": 30}
    assert harness.scores(pod) == {"a": 41, "b": 100, "c": 0, "d": 33}


def test_preferences_that_match_nowhere_leave_every_node_at_0() -> None:
    pod = pod_with(preferred((100, term(expression("disk", "In", "tape")))))
    assert Harness(NODES, [NodeAffinity()]).scores(pod) == dict.fromkeys("abcd", 0)


def test_empty_and_weightless_preferences_count_nothing_but_are_not_skipped() -> None:
    pod = pod_with(preferred((50, term()), (0, term(expression("disk", "Near")))))
    assert Harness(NODES, [NodeAffinity()]).raw_scores(pod) == dict.fromkeys("abcd", 0)


def test_a_pod_without_preferences_is_not_scored() -> None:
    harness = Harness(NODES, [NodeAffinity()])
    assert harness.raw_scores(make_pod(node_selector={"disk": "ssd"})) is None


def test_a_preference_that_cannot_be_compiled_fails_the_attempt() -> None:
    pod = pod_with(preferred((1, term(expression("cores", "Gt", "x")))))
    with pytest.raises(PluginError, match="needs an integer"):
        Harness(NODES, [NodeAffinity()]).decide(pod)


# ---------------------------------------------------------------- the twin


def test_a_few_changed_nodes_among_many_values_are_judged_alone() -> None:
    harness = Harness([make_node(f"n{at}") for at in range(20)], [NodeAffinity()])
    hosts = expression("kubernetes.io/hostname", "In", "n3", "n7", "n9")
    pod = pod_with(required(term(hosts, expression("closed", "DoesNotExist"))))
    assert harness.decide(pod).decision.tied == ("n3", "n7", "n9")
    harness.cache.put_node(make_node("n7", labels={"closed": "yes"}))
    assert harness.decide(pod).decision.tied == ("n3", "n9")
    harness.cache.put_node(make_node("n3", labels={"kubernetes.io/hostname": "else"}))
    harness.cache.put_node(make_node("n4", labels={"kubernetes.io/hostname": "n3"}))
    assert harness.decide(pod).decision.tied == ("n4", "n9")


@given(st.integers(0, 2**32), st.booleans())
def test_it_equals_its_twin(seed: int, has_added: bool) -> None:
    rng = seeded_random(seed)
    objects = random_objects(rng, nodes=rng.choice((1, 4, 12)), pods=0)
    args = None
    while has_added and args is None:
        affinity = random_pod(rng, "source").spec.affinity
        args = NodeAffinityArgs(added_affinity=affinity.node_affinity) if affinity else None
    assert_same(NodeAffinity(args), NodeAffinityTwin(args), objects, random_pod(rng, "x"))


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 6))
def test_many_terms_that_repeat_each_other_equal_the_twin(
    seed: int, n_terms: int, n_values: int
) -> None:
    rng = seeded_random(seed)

    def condition() -> Document:
        operator = rng.choice(("In", "NotIn", "In", "Exists", "DoesNotExist", "Gt"))
        values = [str(rng.randrange(n_values)) for _ in range(rng.choice((1, 2, 5)))]
        if operator in ("Exists", "DoesNotExist"):
            values = []
        return expression(
            rng.choice("klm"), operator, *(values[:1] if operator == "Gt" else values)
        )

    def field() -> Document:
        return named(f"n{rng.randrange(14)}", operator=rng.choice(("In", "In", "NotIn")))

    def one() -> Document:
        fields = tuple(field() for _ in range(rng.choice((0, 0, 1, 1, 2))))
        return term(*(condition() for _ in range(rng.choice((0, 2, 3)))), fields=fields)

    # The twin does not narrow: one term, which holds nowhere, names no node.
    terms = [term(expression("nobody", "Exists")), *(one() for _ in range(n_terms))]
    terms += rng.choices(terms, k=n_terms)
    nodes = [
        make_node(f"n{at}", labels={key: str(rng.randrange(n_values)) for key in "klm"[: at % 4]})
        for at in range(12)
    ]
    weighted = [(rng.randrange(100), each) for each in terms]
    pod = pod_with(required(*terms), preferred(*weighted))
    assert_same(NodeAffinity(), NodeAffinityTwin(), nodes, pod)


def test_more_conditions_than_are_kept_are_judged_all_the_same() -> None:
    nodes = [make_node(f"n{at}", labels={"at": str(at)}) for at in range(600)]
    wanted = range(0, 600, 2)
    terms = [
        term(expression("at", "In", str(at), "no"), expression("x", "DoesNotExist"))
        for at in wanted
    ]
    decided = Harness(nodes, [NodeAffinity()]).decide(pod_with(required(*terms, *terms)))
    assert set(decided.decision.tied) == {f"n{at}" for at in wanted}


@pytest.mark.parametrize("seeds", SEED_BLOCKS, ids=str)
def test_it_keeps_the_contract(seeds: range) -> None:
    check_conformance(NodeAffinity(), reference=NodeAffinityTwin(), seeds=seeds)


def test_it_keeps_the_contract_with_an_added_affinity() -> None:
    args = args_with(SSD, preferred((3, term(expression("rack", "Exists")))))
    check_conformance(NodeAffinity(args), reference=NodeAffinityTwin(args), seeds=range(50))

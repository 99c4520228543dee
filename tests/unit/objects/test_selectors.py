"""Selectors: tables of the rules, and scalar twins on random input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.meta import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from mooring.objects.pod import Affinity, NodeAffinity, Pod, PodSpec, PreferredSchedulingTerm
from mooring.objects.selectors import (
    EVERYTHING,
    NOTHING,
    NodeTerm,
    SelectorError,
    compile_label_selector,
    compile_node_selector,
    compile_node_term,
    parse_int64,
    preferred_node_terms,
    required_node_affinity,
    requirement,
    selector_of,
    selector_of_labels,
)

KEYS = ["disk", "zone", "size"]
VALUES = ["", "1", "2", "10", "007", "ssd"]
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
SET_VALUES = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)
KEY = st.sampled_from(KEYS)


def in_label_selector(key: str, operator: str, values: list[str]) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=tuple(values))


def in_node_selector(key: str, operator: str, values: list[str]) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=tuple(values))


LABEL_CONDITIONS = st.one_of(
    st.builds(in_label_selector, KEY, st.sampled_from(["In", "NotIn"]), SET_VALUES),
    st.builds(in_label_selector, KEY, st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
)
NODE_CONDITIONS = st.one_of(
    st.builds(in_node_selector, KEY, st.sampled_from(["In", "NotIn"]), SET_VALUES),
    st.builds(in_node_selector, KEY, st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
    st.builds(
        in_node_selector,
        KEY,
        st.sampled_from(["Gt", "Lt"]),
        st.lists(st.sampled_from(["1", "2", "10"]), min_size=1, max_size=1),
    ),
)
FIELD_CONDITIONS = st.builds(
    in_node_selector,
    st.just("metadata.name"),
    st.sampled_from(["In", "NotIn"]),
    st.lists(st.sampled_from(["n1", "n2"]), min_size=1, max_size=1),
)
NODE_TERMS = st.builds(
    lambda expressions, fields: NodeSelectorTerm(
        match_expressions=tuple(expressions), match_fields=tuple(fields)
    ),
    st.lists(NODE_CONDITIONS, max_size=3),
    st.lists(FIELD_CONDITIONS, max_size=1),
)


def holds(
    asked: LabelSelectorRequirement | NodeSelectorRequirement, labels: dict[str, str]
) -> bool:
    """Returns the rules, one by one, as the API's documentation has them."""
    if asked.operator == "Exists":
        return asked.key in labels
    if asked.operator == "DoesNotExist":
        return asked.key not in labels
    if asked.operator == "NotIn":
        return asked.key not in labels or labels[asked.key] not in asked.values
    if asked.key not in labels:
        return False
    if asked.operator == "In":
        return labels[asked.key] in asked.values
    if not labels[asked.key].isdigit():
        return False
    difference = int(labels[asked.key]) - int(asked.values[0])
    return difference > 0 if asked.operator == "Gt" else difference < 0


@given(LABELS, st.lists(LABEL_CONDITIONS, max_size=4), LABELS)
def test_a_label_selector_selects_what_meets_every_condition(
    match_labels: dict[str, str], conditions: list[LabelSelectorRequirement], labels: dict[str, str]
) -> None:
    selector = LabelSelector(match_labels=match_labels, match_expressions=tuple(conditions))
    expected = all(labels.get(key) == value for key, value in match_labels.items()) and all(
        holds(condition, labels) for condition in conditions
    )
    assert compile_label_selector(selector).matches(labels) is expected


@given(st.lists(NODE_TERMS, max_size=3), LABELS, st.sampled_from(["n1", "n2", "n3"]))
def test_a_node_selector_selects_what_meets_one_of_its_terms(
    terms: list[NodeSelectorTerm], labels: dict[str, str], name: str
) -> None:
    fields = {"metadata.name": name}
    expected = any(
        (term.match_expressions or term.match_fields)
        and all(holds(condition, labels) for condition in term.match_expressions)
        and all(holds(condition, fields) for condition in term.match_fields)
        for term in terms
    )
    compiled = compile_node_selector(NodeSelector(node_selector_terms=tuple(terms)))
    assert compiled.matches(labels, name) is expected


@given(st.permutations([("a", ("1", "2")), ("b", ("3",)), ("a", ("2", "1")), ("c", ("4",))]))
def test_equal_selectors_are_one_key_whatever_their_order(
    conditions: list[tuple[str, tuple[str, ...]]],
) -> None:
    compiled = compile_label_selector(
        LabelSelector(
            match_expressions=tuple(
                LabelSelectorRequirement(key=key, operator="In", values=values)
                for key, values in conditions
            )
        )
    )
    plain = selector_of(
        [
            requirement("c", "In", ("4",)),
            requirement("a", "In", ("1", "2")),
            requirement("b", "In", ("3",)),
        ]
    )
    assert compiled == plain
    assert hash(compiled) == hash(plain)
    assert {compiled: "counter"}[plain] == "counter"


def test_match_labels_are_conditions_like_all_others() -> None:
    by_labels = compile_label_selector(LabelSelector(match_labels={"app": "web"}))
    by_expression = compile_label_selector(
        LabelSelector(match_expressions=(in_label_selector("app", "In", ["web"]),))
    )
    assert by_labels == by_expression == selector_of_labels({"app": "web"})


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert compile_label_selector(None) is NOTHING
    assert not NOTHING.matches({})
    assert not NOTHING.selects_everything
    assert compile_label_selector(LabelSelector()) is EVERYTHING
    assert EVERYTHING.matches({"any": "thing"})
    assert EVERYTHING.selects_everything
    assert NOTHING != EVERYTHING


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (in_label_selector("a", "Gt", ["1"]), "'Gt' is not an operator of a label selector"),
        (in_label_selector("a", "", []), "'' is not an operator"),
        (in_label_selector("a", "In", []), "In needs at least one value"),
        (in_label_selector("a", "Exists", ["x"]), "Exists takes no values"),
        (in_label_selector("-a", "Exists", []), "'-a' is not a label key"),
        (in_label_selector("a", "In", ["ok", "not ok"]), "'not ok' is not a label value"),
    ],
)
def test_a_bad_label_selector_says_what_is_wrong(
    condition: LabelSelectorRequirement, told: str
) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_label_selector(LabelSelector(match_expressions=(condition,)))
    assert told in str(caught.value)


def test_labels_of_a_service_are_not_checked() -> None:
    odd = selector_of_labels({"not a key": "not a value"})
    assert odd.matches({"not a key": "not a value"})
    assert not odd.matches({})
    assert selector_of_labels({}) == EVERYTHING


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (in_node_selector("a", "Gt", ["x"]), "needs an integer, not 'x'"),
        (in_node_selector("a", "Gt", ["1", "2"]), "exactly one value"),
        (in_node_selector("a", "Lt", [str(2**63)]), "needs an integer"),
        # It is an integer, but no label can have it.
        (in_node_selector("a", "Lt", ["-5"]), "'-5' is not a label value"),
        (in_node_selector("a", "Near", []), "'Near' is not an operator"),
    ],
)
def test_a_bad_term_selects_no_node_but_leaves_the_others_alone(
    condition: NodeSelectorRequirement, told: str
) -> None:
    bad = NodeSelectorTerm(match_expressions=(condition,))
    good = NodeSelectorTerm(match_expressions=(in_node_selector("disk", "In", ["ssd"]),))
    compiled = compile_node_selector(NodeSelector(node_selector_terms=(bad, good)))
    assert compiled.matches({"disk": "ssd"}, "n1")
    assert not compiled.matches({"a": "1"}, "n1")
    assert len(compiled.problems) == 1
    assert told in compiled.problems[0]


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (in_node_selector("metadata.name", "Exists", []), "'Exists' is not In or NotIn"),
        (in_node_selector("metadata.name", "In", ["a", "b"]), "exactly one value"),
        (in_node_selector("metadata.name", "NotIn", []), "exactly one value"),
    ],
)
def test_fields_take_in_and_not_in_with_one_value(
    condition: NodeSelectorRequirement, told: str
) -> None:
    compiled = compile_node_term(NodeSelectorTerm(match_fields=(condition,)))
    assert told in compiled.problem
    assert not compiled.matches({}, "a")


def test_a_field_that_nodes_do_not_have_reads_as_empty() -> None:
    for operator, expected in (("In", True), ("NotIn", False)):
        condition = in_node_selector("spec.unknown", operator, [""])
        term = compile_node_term(NodeSelectorTerm(match_fields=(condition,)))
        assert term.matches({}, "n1") is expected


@pytest.mark.parametrize("found", ["", "x", "1.5", " 2", "1_0", str(2**63), "2e3", "٣"])
def test_what_is_not_an_integer_is_neither_more_nor_less(found: str) -> None:
    assert not requirement("size", "Gt", ("0",)).matches_value(found)
    assert not requirement("size", "Lt", ("9",)).matches_value(found)


def test_integers_are_read_as_go_reads_them() -> None:
    assert parse_int64("+5") == 5
    assert parse_int64("-0007") == -7
    assert parse_int64(str(-(2**63))) == -(2**63)
    assert [parse_int64(text) for text in ("", "+", "0x1", str(2**63), "9" * 100)] == [None] * 5


def test_a_pod_insists_on_its_node_selector_and_on_its_affinity() -> None:
    zone = NodeSelectorTerm(match_expressions=(in_node_selector("zone", "In", ["1"]),))
    affinity = Affinity(
        node_affinity=NodeAffinity(
            required_during_scheduling_ignored_during_execution=NodeSelector(
                node_selector_terms=(NodeSelectorTerm(), zone)
            )
        )
    )
    pod = Pod(spec=PodSpec(node_selector={"disk": "ssd"}, affinity=affinity))
    required = required_node_affinity(pod)
    assert required.matches({"disk": "ssd", "zone": "1"}, "n1")
    assert not required.matches({"disk": "ssd"}, "n1")
    assert not required.matches({"zone": "1"}, "n1")
    assert not required.selects_everything
    assert required == required_node_affinity(pod)
    assert hash(required) == hash(required_node_affinity(pod))


def test_a_pod_without_wishes_may_be_anywhere() -> None:
    for affinity in (None, Affinity(), Affinity(node_affinity=NodeAffinity())):
        required = required_node_affinity(Pod(spec=PodSpec(affinity=affinity)))
        assert required.selects_everything
        assert required.matches({}, "n1")


@pytest.mark.parametrize("terms", [(), (NodeSelectorTerm(),)])
def test_an_affinity_without_conditions_selects_no_node(
    terms: tuple[NodeSelectorTerm, ...],
) -> None:
    affinity = NodeAffinity(
        required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=terms)
    )
    pod = Pod(spec=PodSpec(affinity=Affinity(node_affinity=affinity)))
    assert not required_node_affinity(pod).matches({"zone": "1"}, "n1")


def test_preferences_without_weight_or_conditions_are_left_out() -> None:
    ssd = NodeSelectorTerm(match_expressions=(in_node_selector("disk", "In", ["ssd"]),))
    bad = NodeSelectorTerm(match_expressions=(in_node_selector("disk", "Near", []),))
    found = preferred_node_terms(
        [
            PreferredSchedulingTerm(weight=5, preference=ssd),
            PreferredSchedulingTerm(weight=0, preference=bad),
            PreferredSchedulingTerm(weight=9, preference=NodeSelectorTerm()),
        ]
    )
    assert [(one.weight, one.term.matches({"disk": "ssd"}, "n1")) for one in found] == [(5, True)]
    assert isinstance(found[0].term, NodeTerm)


def test_a_bad_preference_is_an_error() -> None:
    bad = NodeSelectorTerm(match_expressions=(in_node_selector("disk", "Near", []),))
    with pytest.raises(SelectorError, match="'Near' is not an operator"):
        preferred_node_terms([PreferredSchedulingTerm(weight=1, preference=bad)])


@given(st.sets(st.text("ab", max_size=4), min_size=9), st.text("ab", max_size=4) | st.none())
def test_a_condition_with_many_values_says_what_one_with_few_says(
    values: set[str], value: str | None
) -> None:
    is_in = requirement("app", "In", tuple(values))
    is_out = requirement("app", "NotIn", tuple(values))

    assert is_in.matches_value(value) is (value in values)
    assert is_out.matches_value(value) is (value not in values)

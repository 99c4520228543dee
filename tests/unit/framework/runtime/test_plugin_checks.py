"""The check at load: every way to get a plugin's shape wrong, and what the message says."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.framework import check_plugin, per_node
from mooring.framework.interface import ASYNC_POINTS, COMPANIONS, EXTENSION_POINTS
from mooring.state.columns.change_log import Change


def made(name: Any = "Mine", **attributes: Any) -> Any:
    """Returns an object of a class with these attributes."""
    return type("Made", (), {"name": name, **attributes})()


def fault(plugin: Any, path: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        check_plugin(plugin, path=path)
    return str(caught.value)


def method_with(parameters: tuple[str, ...], *, is_async: bool) -> Any:
    """Returns a method with just these parameters."""
    scope: dict[str, Any] = {}
    prefix = "async " if is_async else ""
    exec(f"{prefix}def method({', '.join(('self', *parameters))}): ...", scope)
    return scope["method"]


ALL = {**EXTENSION_POINTS, **COMPANIONS}
PARTNERS = {
    "normalize": "score",
    "unreserve": "reserve",
    "reserve": "unreserve",
    "pre_bind_pre_flight": "pre_bind",
    "apply_deltas": "pre_filter",
    "filter_node": "filter",
    "score_node": "score",
}


def complete() -> dict[str, Any]:
    return {
        point: method_with(parameters, is_async=point in ASYNC_POINTS)
        for point, parameters in ALL.items()
    }


def test_a_plugin_with_every_method_is_given_back_itself() -> None:
    plugin = made(**complete())

    assert check_plugin(plugin) is plugin


@pytest.mark.parametrize("point", EXTENSION_POINTS)
def test_each_extension_point_makes_a_plugin_with_its_partner(point: str) -> None:
    methods = complete()
    needed = {point, *([PARTNERS[point]] if point in PARTNERS else [])}

    check_plugin(made(**{name: methods[name] for name in needed}))


@pytest.mark.parametrize("name", [None, "", 7])
def test_a_name_is_needed(name: Any) -> None:
    text = fault(made(name, filter=complete()["filter"]))

    assert text.startswith("a plugin needs a name (a non-empty str)")
    assert repr(name) in text or name is None


def test_an_object_without_any_extension_point_tells_what_it_has() -> None:
    text = fault(made(do=lambda self: None), path="--plugin")

    assert text == (
        "--plugin: plugin Mine: has no extension point; see mooring.framework.interface, got ['do']"
    )


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("pre_filtr", "pre_filter"),
        ("prefilter", "pre_filter"),
        ("postfilter", "post_filter"),
        ("filters", "filter"),
        ("scores", "score"),
        ("normalise", "normalize"),
        ("un_reserve", "unreserve"),
        ("prebind", "pre_bind"),
        ("pre_bind_preflight", "pre_bind_pre_flight"),
        ("add_pods", "add_pod"),
        ("event", "events"),
        ("signs", "sign"),
        ("pre_enque", "pre_enqueue"),
    ],
)
def test_a_near_miss_is_an_error_with_the_name_that_was_meant(typo: str, meant: str) -> None:
    methods = complete()
    plugin = made(post_bind=methods["post_bind"], **{typo: lambda self: None})

    assert fault(plugin) == (
        f"plugin Mine: unknown extension point, got {typo!r} (did you mean {meant!r}?)"
    )


@pytest.mark.parametrize("helper", ["weight_of", "_filters", "rack", "nodes"])
def test_other_methods_are_the_authors_own_business(helper: str) -> None:
    check_plugin(made(post_bind=complete()["post_bind"], **{helper: lambda self: None}))


def test_data_with_a_similar_name_is_no_method() -> None:
    check_plugin(made(post_bind=complete()["post_bind"], filters=("a", "b")))


@pytest.mark.parametrize("point", ["filter", "score"])
def test_pod_and_node_without_the_decorator_is_told_how_to_go_on(point: str) -> None:
    plugin = made(**{point: method_with(("pod", "node"), is_async=False)})

    assert fault(plugin) == (
        f"plugin Mine: {point}: takes (pod, node): decorate it with @per_node, "
        f"or write {point}(cycle, nodes)"
    )


def test_the_decorated_form_is_fine() -> None:
    def score(self: Any, pod: Any, node: Any) -> int:
        return 1

    check_plugin(made(score=per_node(score)))


@pytest.mark.parametrize("point", ALL)
def test_a_parameter_too_many_is_shown_beside_the_right_form(point: str) -> None:
    methods = complete()
    wrong = (*ALL[point], "surplus")
    methods[point] = method_with(wrong, is_async=point in ASYNC_POINTS)

    assert fault(made(**methods)) == (
        f"plugin Mine: {point}: must be {point}({', '.join(ALL[point])}), "
        f"got '{point}({', '.join(wrong)})'"
    )


@pytest.mark.parametrize("point", [point for point in ALL if ALL[point]])
def test_a_parameter_too_few_is_refused(point: str) -> None:
    methods = complete()
    methods[point] = method_with(ALL[point][:-1], is_async=point in ASYNC_POINTS)

    assert f"{point}: must be {point}({', '.join(ALL[point])})" in fault(made(**methods))


@pytest.mark.parametrize(
    "signature",
    ["state, node_infos", "*arguments", "cycle, *rest", "cycle, nodes, depth=1", "c, n, *, x=1"],
)
def test_what_can_be_called_with_two_arguments_will_do(signature: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def method(self, {signature}): ...", scope)

    check_plugin(made(filter=scope["method"]))


def test_a_required_keyword_cannot_be_given() -> None:
    def wrong(self: Any, cycle: Any, nodes: Any, *, depth: int) -> None: ...

    assert "must be filter(cycle, nodes)" in fault(made(filter=wrong))


@pytest.mark.parametrize("point", sorted(ASYNC_POINTS))
def test_points_that_may_wait_must_be_coroutines(point: str) -> None:
    methods = complete()
    methods[point] = method_with(ALL[point], is_async=False)

    assert fault(made(**methods)) == f"plugin Mine: {point}: must be async def"


@pytest.mark.parametrize("point", sorted(ALL.keys() - ASYNC_POINTS))
def test_points_that_decide_must_not_be_coroutines(point: str) -> None:
    methods = complete()
    methods[point] = method_with(ALL[point], is_async=True)

    assert fault(made(**methods)) == (
        f"plugin Mine: {point}: must not be async: the scheduling cycle never waits"
    )


@pytest.mark.parametrize(("method", "partner"), PARTNERS.items())
def test_a_method_without_its_partner_is_refused(method: str, partner: str) -> None:
    methods = {"permit": complete()["permit"], method: complete()[method]}

    assert fault(made(**methods)) == f"plugin Mine: needs {partner} beside {method}"


@pytest.mark.parametrize(("one", "other"), [("add_pod", "remove_pod"), ("remove_pod", "add_pod")])
def test_add_pod_and_remove_pod_come_together_and_with_pre_filter(one: str, other: str) -> None:
    methods = complete()
    alone = {"pre_filter": methods["pre_filter"], one: methods[one]}
    both = {"permit": methods["permit"], one: methods[one], other: methods[other]}

    assert fault(made(**alone)) == f"plugin Mine: needs {other} beside {one}"
    assert fault(made(**both)) == "plugin Mine: needs pre_filter beside add_pod"


def test_reads_alone_shares_nothing_so_sign_is_due() -> None:
    assert fault(made(filter=complete()["filter"], reads=1)) == (
        "plugin Mine: needs sign(pod) beside reads"
    )


def test_zeros_become_a_score_by_normalizing() -> None:
    methods = complete()
    scores = {"score": methods["score"], "normalized_zero": 100}
    both = {**scores, "normalize": methods["normalize"]}

    assert fault(made(**scores)) == "plugin Mine: needs normalize beside normalized_zero"
    for wrong in (101, -1, "100", True):
        told = fault(made(**{**both, "normalized_zero": wrong}))
        assert told.startswith("plugin Mine: normalized_zero must be a score, 0 to 100")
    check_plugin(made(**both))


def test_results_are_shared_by_amounts_only_if_no_other_column_is_read() -> None:
    usage = {"filter": complete()["filter"], "sign": complete()["sign"], "reads": Change.USAGE}

    check_plugin(made(**usage, amounts_only=True))
    check_plugin(made(**{**usage, "reads": Change.LABELS}, amounts_only=False))
    problem = "plugin Mine: amounts_only: needs reads beside it, of ALLOCATABLE and USAGE only"
    for wrong in (
        {"filter": usage["filter"]},
        {**usage, "reads": Change.USAGE | Change.PORTS},
        {**usage, "reads_other_nodes": Change.USAGE},
    ):
        assert fault(made(**wrong, amounts_only=True)).startswith(problem)
    assert "must be True or False, got 1" in fault(made(**usage, amounts_only=1))


def test_an_extension_point_that_is_no_method_is_refused() -> None:
    plugin = made(permit=complete()["permit"], filter="yes")

    assert fault(plugin) == "plugin Mine: filter: must be a method, got 'yes'"


@pytest.mark.parametrize("reads", [(), frozenset({"cpu"}), "cpu", None])
def test_reads_are_columns_of_nodes(reads: Any) -> None:
    class Reader:
        name = "Reader"

        def filter(self, cycle: Any, nodes: Any) -> Any: ...

        def sign(self, pod: Any) -> Any: ...

    Reader.reads = reads  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="reads: must be columns of nodes"):
        check_plugin(Reader())


@pytest.mark.parametrize("point", ["permit", "post_bind"])
def test_only_methods_for_several_nodes_are_told_apart_by_their_parameters(point: str) -> None:
    # Two parameters are right here, whatever their names.
    check_plugin(made(**{point: method_with(("pod", "node"), is_async=False)}))
    for of_nodes in ("filter", "score"):
        wrong = fault(made(**{of_nodes: method_with(("pod", "node"), is_async=False)}))
        assert "takes (pod, node): decorate it with @per_node" in wrong

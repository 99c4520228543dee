"""Budgets: which ones are about a pod, and how they follow the objects."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.objects.meta import LabelSelector, LabelSelectorRequirement
from mooring.state.cache import Cache
from mooring.state.kinds.budgets import LABEL_CLASSES_CACHED, Budgets
from tests.plugins.preemption_clusters import budget, budget_of

DB = frozenset({("app", "db")})


def names(budgets: Budgets, labels: frozenset[tuple[str, str]] = DB) -> list[str]:
    return [found.name for found in budgets.of("default", labels)]


def test_those_whose_selector_matches_are_found_in_the_pods_own_namespace() -> None:
    budgets = Budgets()
    budgets.put(budget("db", 1, app="db"))
    budgets.put(budget("web", 1, app="web"))
    budgets.put(
        budget_of(LabelSelector(match_labels={"app": "db"}), "elsewhere", namespace="other")
    )

    assert (names(budgets), len(budgets)) == (["default/db"], 3)
    assert names(budgets, frozenset({("app", "mail")})) == []
    assert budgets.of("nowhere", DB) == []


def test_a_pod_without_labels_has_none_whatever_they_select() -> None:
    absent = LabelSelectorRequirement(key="app", operator="DoesNotExist")
    budgets = Budgets()
    budgets.put(budget_of(LabelSelector(match_expressions=(absent,)), "others"))

    assert names(budgets, frozenset()) == []
    assert names(budgets, frozenset({("tier", "x")})) == ["default/others"]


def test_an_empty_selector_no_selector_and_a_bad_one_select_nobody() -> None:
    bad = LabelSelectorRequirement(key="app", operator="Perhaps", values=("db",))
    budgets = Budgets()
    for number, selector in enumerate(
        (LabelSelector(), None, LabelSelector(match_expressions=(bad,)))
    ):
        budgets.put(budget_of(selector, f"b-{number}"))

    assert names(budgets) == []


def test_what_is_allowed_and_who_is_disrupted_are_those_of_the_newest_version() -> None:
    budgets = Budgets()
    budgets.put(budget("b", 3, app="db"))
    assert names(budgets) == ["default/b"]

    budgets.put(budget("b", 1, app="db", disrupted=("web-0",)))

    (found,) = budgets.of("default", DB)
    assert (found.disruptions_allowed, found.disrupted_pods) == (1, frozenset({"web-0"}))


def test_another_selector_and_the_end_of_a_budget_are_seen() -> None:
    budgets = Budgets()
    budgets.put(budget("b", 1, app="db"))
    assert names(budgets) == ["default/b"]

    budgets.put(budget("b", 1, app="web"))
    assert names(budgets) == []
    budgets.put(budget("c", 1, app="db"))
    assert names(budgets) == ["default/c"]
    budgets.remove("PodDisruptionBudget", "default/c")
    budgets.remove("PodDisruptionBudget", "default/never-there")
    budgets.remove("PodDisruptionBudget", "other/never-there")
    assert (names(budgets), len(budgets)) == ([], 1)


def test_answers_for_kinds_of_pods_are_bounded() -> None:
    budgets = Budgets()
    budgets.put(budget("b", 1, app="db"))

    for number in range(LABEL_CLASSES_CACHED + 10):
        assert names(budgets, frozenset({("n", str(number))})) == []

    assert len(budgets._names_for) <= LABEL_CLASSES_CACHED
    assert names(budgets) == ["default/b"]


def test_the_cache_sends_them_their_objects() -> None:
    cache = Cache()
    found = budget("b", 1, app="db")
    cache.put_object("PodDisruptionBudget", found)
    cache.put_object("PodDisruptionBudget", replace(found, spec=budget("b", 1, app="x").spec))

    assert len(cache.snapshot().budgets) == 1
    assert names(cache.budgets) == []
    cache.remove_object("PodDisruptionBudget", "default/b")
    assert len(cache.budgets) == 0

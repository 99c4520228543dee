"""Namespaces: their labels, and which of them a selector means as they change."""

from __future__ import annotations

import pytest

from mooring.objects.selectors import Selector, requirement, selector_of
from mooring.state import audit
from mooring.state.cache import Cache
from mooring.state.kinds import namespaces as module
from tests.plugins.affinity_clusters import namespace

TEAM_A = selector_of([requirement("team", "In", ("a",))])
NO_TEAM = selector_of([requirement("team", "DoesNotExist")])


def cluster(**teams: str) -> Cache:
    cache = Cache()
    for name, team in teams.items():
        cache.put_object("Namespace", namespace(name, {"team": team} if team else {}))
    return cache


def test_an_unknown_namespace_has_no_labels() -> None:
    found = cluster(red="a").namespaces

    assert found.labels("red") == {"team": "a"}
    assert found.labels("blue") == {}
    assert len(found) == 1


def test_selectors_select_by_labels() -> None:
    found = cluster(red="a", blue="b", green="a", plain="").namespaces

    assert found.selected_by(TEAM_A) == {"red", "green"}
    assert found.selected_by(NO_TEAM) == {"plain"}
    assert found.selected_by(Selector()) == {"red", "blue", "green", "plain"}


def test_what_was_selected_follows_every_change() -> None:
    cache = cluster(red="a", blue="b")
    found = cache.namespaces
    assert found.selected_by(TEAM_A) == {"red"}

    cache.put_object("Namespace", namespace("blue", {"team": "a"}))
    assert found.selected_by(TEAM_A) == {"red", "blue"}
    cache.put_object("Namespace", namespace("red", {}))
    assert found.selected_by(TEAM_A) == {"blue"}
    cache.put_object("Namespace", namespace("new", {"team": "a"}))
    assert found.selected_by(TEAM_A) == {"blue", "new"}
    cache.remove_object("Namespace", "blue")
    assert found.selected_by(TEAM_A) == {"new"}
    cache.remove_object("Namespace", "never there")
    assert audit(cache) == []


def test_who_asks_again_gets_the_same_set_until_it_means_something_else() -> None:
    cache = cluster(red="a", blue="b")
    before = cache.namespaces.selected_by(TEAM_A)

    cache.put_object("Namespace", namespace("blue", {"team": "c"}))
    cache.put_object("Namespace", namespace("red", {"team": "a", "more": "x"}))

    assert cache.namespaces.selected_by(TEAM_A) is before


def test_selections_that_nobody_asks_for_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SELECTIONS_CACHED", 2)
    found = cluster(red="a").namespaces
    for selector in (TEAM_A, NO_TEAM, TEAM_A, Selector()):
        found.selected_by(selector)

    assert [selector for selector, _ in found.selections()] == [TEAM_A, Selector()]


def test_every_selection_forgets_a_namespace_that_is_removed_or_changed() -> None:
    cache = cluster(red="a", blue="b", plain="")
    there = cache.namespaces
    has_team = selector_of([requirement("team", "Exists")])
    selectors = (TEAM_A, NO_TEAM, has_team, Selector())
    for selector in selectors:
        there.selected_by(selector)

    cache.remove_object("Namespace", "red")
    cache.remove_object("Namespace", "red")
    assert [there.selected_by(selector) for selector in selectors] == [
        frozenset(),
        {"plain"},
        {"blue"},
        {"blue", "plain"},
    ]
    cache.put_object("Namespace", namespace("plain", {"team": "a"}))
    cache.put_object("Namespace", namespace("new", {}))
    assert [there.selected_by(selector) for selector in selectors] == [
        {"plain"},
        {"new"},
        {"blue", "plain"},
        {"blue", "plain", "new"},
    ]
    assert len(there.selections()) == 4
    assert audit(cache) == []

from __future__ import annotations

from urllib.parse import quote

import pytest

from mooring.apiserver.endpoints.listing import parse_token
from mooring.apiserver.errors import ApiStatusError
from tests.helpers.api import CONFIG_MAPS, PODS, Api, config_map, pod


def filled(count: int = 7, **options: int) -> Api:
    api = Api(**options)
    for number in range(count):
        api.post(CONFIG_MAPS, config_map(f"m{number}"))
    return api


def pages(api: Api, path: str, limit: int) -> list[list[str]]:
    items: list[list[str]] = []
    token = ""
    while True:
        page = api.get(f"{path}?limit={limit}&continue={quote(token)}")
        items.append([item["metadata"]["name"] for item in page["items"]])
        token = page["metadata"].get("continue", "")
        if not token:
            return items


@pytest.mark.parametrize("path", [CONFIG_MAPS, "/api/v1/configmaps"])
def test_pages_together_are_the_list(path: str) -> None:
    assert pages(filled(), path, 3) == [["m0", "m1", "m2"], ["m3", "m4", "m5"], ["m6"]]


def test_the_last_page_may_be_full() -> None:
    assert pages(filled(6), CONFIG_MAPS, 3) == [["m0", "m1", "m2"], ["m3", "m4", "m5"]]


def test_remaining_items_are_counted_without_selectors_only() -> None:
    api = filled()
    assert api.get(f"{CONFIG_MAPS}?limit=2")["metadata"]["remainingItemCount"] == 5
    selected = api.get(f"{CONFIG_MAPS}?limit=2&labelSelector=!x")["metadata"]
    assert "continue" in selected
    assert "remainingItemCount" not in selected


def test_later_pages_are_from_the_same_moment_as_the_first() -> None:
    api = filled()
    first = api.get(f"{CONFIG_MAPS}?limit=3")
    api.delete(f"{CONFIG_MAPS}/m4")
    api.post(CONFIG_MAPS, config_map("m35"))
    api.patch(f"{CONFIG_MAPS}/m5", {"data": {"new": "yes"}})
    token = quote(first["metadata"]["continue"])
    rest = api.get(f"{CONFIG_MAPS}?continue={token}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["m3", "m4", "m5", "m6"]
    assert "data" not in rest["items"][2]
    assert rest["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


def test_a_token_that_is_too_old_comes_with_a_new_one() -> None:
    api = filled(history_changes=4)
    token = api.get(f"{CONFIG_MAPS}?limit=3")["metadata"]["continue"]
    for number in range(8):
        api.post(CONFIG_MAPS, config_map(f"x{number}"))
    status, result = api.ask("GET", f"{CONFIG_MAPS}?limit=9&continue={quote(token)}")
    assert (status, result["reason"]) == (410, "Expired")
    assert result["message"].startswith("The provided continue parameter is too old")
    fresh = result["metadata"]["continue"]
    assert parse_token(fresh) == (-1, "m2\0")
    rest = api.get(f"{CONFIG_MAPS}?limit=4&continue={quote(fresh)}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["m3", "m4", "m5", "m6"]
    assert rest["metadata"]["resourceVersion"] == str(api.version)


def test_an_exact_version_lists_the_past() -> None:
    api = filled(2)
    then = api.version
    api.delete(f"{CONFIG_MAPS}/m0")
    exact = f"{CONFIG_MAPS}?resourceVersion={then}&resourceVersionMatch=Exact"
    response = api.get(exact)
    assert [item["metadata"]["name"] for item in response["items"]] == ["m0", "m1"]
    assert response["metadata"]["resourceVersion"] == str(then)
    newer = f"{CONFIG_MAPS}?resourceVersion={then}&resourceVersionMatch=NotOlderThan"
    assert api.names(newer) == ["m1"]
    # As of old: a version with a limit means that very version.
    assert api.names(f"{CONFIG_MAPS}?resourceVersion={then}&limit=9") == ["m0", "m1"]
    assert api.names(f"{CONFIG_MAPS}?resourceVersion={then}") == ["m1"]


def test_a_past_that_is_forgotten_is_gone() -> None:
    api = filled(12, history_changes=4)
    path = f"{CONFIG_MAPS}?resourceVersion=7&resourceVersionMatch=Exact"
    status, result = api.ask("GET", path)
    assert (status, result["reason"]) == (410, "Expired")
    assert result["message"] == "The resourceVersion for the provided list is too old."


@pytest.mark.parametrize(
    "token",
    [
        "!",
        "e30",  # {}
        "eyJ2IjoieCIsInJ2IjoxLCJzdGFydCI6Ii9hIn0",  # another format
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiIvYSJ9",  # version 0
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIifQ",  # no key
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvLi4vYSJ9",  # climbs out
        "W10",  # []
    ],
)
def test_tokens_that_are_none_are_refused(token: str) -> None:
    with pytest.raises(ApiStatusError) as error:
        parse_token(token)
    assert error.value.code == 400
    assert error.value.message.startswith("invalid continue token: continue key is not valid")


def test_pods_of_a_node_are_indexed() -> None:
    api = Api()
    api.bound("a", "n1")
    api.bound("b", "n2")
    api.post(PODS, pod("c"))
    api.patch(f"{PODS}/b/status", {"status": {"phase": "Succeeded"}})
    assert api.names("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1") == ["a"]
    assert api.names("/api/v1/pods?fieldSelector=spec.nodeName%3D") == ["c"]
    unfinished = "spec.nodeName%3Dn2,status.phase!%3DSucceeded"
    assert api.names(f"/api/v1/pods?fieldSelector={unfinished}") == []


def test_one_object_can_be_listed_by_its_name() -> None:
    api = filled(3)
    everywhere = "/api/v1/configmaps?fieldSelector=metadata.name%3Dm1"
    assert api.names(everywhere) == ["m1"]
    assert api.names(f"{everywhere},metadata.namespace%3Ddefault") == ["m1"]
    assert api.names(f"{everywhere},metadata.namespace%3Dother") == []
    assert api.names(f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Dnone") == []


@pytest.mark.parametrize(
    ("resource", "selector", "expected"),
    [
        ("nodes", "spec.unschedulable%3Dtrue", ["n1"]),
        ("nodes", "spec.unschedulable%3Dfalse", ["n2"]),
        ("namespaces", "status.phase%3DActive,metadata.name%3Ddefault", ["default"]),
        ("namespaces", "name%3Dkube-system", ["kube-system"]),
    ],
)
def test_fields_of_other_kinds(resource: str, selector: str, expected: list[str]) -> None:
    api = Api()
    api.post("/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {"unschedulable": True}})
    api.post("/api/v1/nodes", {"metadata": {"name": "n2"}})
    assert api.names(f"/api/v1/{resource}?fieldSelector={selector}") == expected

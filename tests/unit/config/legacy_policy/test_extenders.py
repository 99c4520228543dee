"""The extenders of a Policy in today's spelling, and its keys in any case."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.config import Extender
from mooring.config.legacy_policy import convert_policy
from mooring.config.types import ExtenderManagedResource, ExtenderTLSConfig
from tests.helpers.policies import converted, notes, policy

FULL = {
    "urlPrefix": "https://extender.example/",
    "filterVerb": "filter",
    "preemptVerb": "preempt",
    "prioritizeVerb": "prioritize",
    "weight": 5,
    "bindVerb": "bind",
    "enableHttps": True,
    "tlsConfig": {"serverName": "extender", "caFile": "/ca.pem", "certData": "Y2VydA=="},
    "httpTimeout": 1_500_000_000,
    "nodeCacheCapable": True,
    "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
    "ignorable": True,
}


def extenders(*given: dict[str, Any]) -> str:
    return policy(priorities=[], extenders=list(given))


def extender(**fields: Any) -> dict[str, Any]:
    """Returns what is written for an extender."""
    (found,) = convert_policy(extenders(fields)).document["extenders"]
    return dict(found)


def test_every_field_of_an_extender_is_taken_over() -> None:
    assert converted(extenders(FULL)).extenders == (
        Extender(
            url_prefix="https://extender.example/",
            filter_verb="filter",
            preempt_verb="preempt",
            prioritize_verb="prioritize",
            weight=5,
            bind_verb="bind",
            enable_https=True,
            tls_config=ExtenderTLSConfig(
                server_name="extender", ca_file="/ca.pem", cert_data="Y2VydA=="
            ),
            http_timeout_s=1.5,
            node_cache_capable=True,
            managed_resources=(
                ExtenderManagedResource(name="example.com/gpu", ignored_by_scheduler=True),
            ),
            ignorable=True,
        ),
    )
    assert notes(extenders(FULL)) == []


def test_extenders_stay_in_order() -> None:
    given = [{"urlPrefix": f"http://{name}"} for name in "cab"]
    assert [each.url_prefix for each in converted(extenders(*given)).extenders] == [
        "http://c",
        "http://a",
        "http://b",
    ]


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(1, "1ns"), (100_000_000, "100ms"), (5_000_000_000, "5s"), (90_000_000_000, "1m30s")],
)
def test_a_timeout_in_nanoseconds_becomes_a_duration(nanoseconds: int, text: str) -> None:
    assert extender(urlPrefix="http://a", httpTimeout=nanoseconds)["httpTimeout"] == text


@pytest.mark.parametrize("timeout", [{}, {"httpTimeout": 0}, {"httpTimeout": None}])
def test_no_timeout_is_the_default_of_five_seconds(timeout: dict[str, Any]) -> None:
    (found,) = converted(extenders({"urlPrefix": "http://a", **timeout})).extenders
    assert found.http_timeout_s == 5.0


def test_what_is_false_or_empty_is_not_written() -> None:
    given = {"filterVerb": "", "weight": 0, "enableHttps": False, "managedResources": []}
    assert extender(urlPrefix="http://a", **given) == {"urlPrefix": "http://a"}


@pytest.mark.parametrize("tls", [None, {}, {"serverName": "x"}])
def test_https_without_a_ca_trusts_everybody_and_says_so(tls: dict[str, str] | None) -> None:
    given = {"urlPrefix": "https://a", "enableHttps": True, "tlsConfig": tls}
    assert extender(**given)["tlsConfig"] == {**(tls or {}), "insecure": True}
    (note,) = notes(extenders(given))
    assert note.startswith("line 1: extenders[0]: HTTPS without a CA took every certificate")


@pytest.mark.parametrize("tls", [{"insecure": True}, {"caFile": "/ca"}, {"caData": "Y2E="}])
def test_https_that_says_whom_it_trusts_is_left_alone(tls: dict[str, Any]) -> None:
    given = {"urlPrefix": "https://a", "enableHttps": True, "tlsConfig": tls}
    assert extender(**given)["tlsConfig"] == tls
    assert notes(extenders(given)) == []


def test_a_resource_may_be_ignored_though_no_predicate_looks_at_resources() -> None:
    managed = [{"name": "example.com/a", "ignoredByScheduler": True}]
    given = {"urlPrefix": "http://a", "managedResources": managed}
    text = policy(predicates=[], priorities=[], extenders=[given])
    assert converted(text).extenders[0].managed_resources[0].ignored_by_scheduler


def test_the_first_releases_wrote_bind_verb_in_capitals() -> None:
    given = {
        "urlPrefix": "https://a",
        "BindVerb": "bind",
        "EnableHTTPS": True,
        "TLSConfig": {"Insecure": True, "CAFile": ""},
        "HTTPTimeout": 1,
    }
    (found,) = converted(extenders(given)).extenders
    assert found.bind_verb == "bind"
    assert found.enable_https
    assert found.tls_config == ExtenderTLSConfig(insecure=True)
    assert notes(extenders(given)) == []


def test_other_keys_are_read_in_any_case_with_a_note() -> None:
    text = json.dumps({"apiVersion": "v1", "Kind": "Policy", "Predicates": [{"Name": "HostName"}]})
    found = notes(text)
    assert found[:3] == [
        "line 1: Kind: read as kind; later kube-schedulers looked at the case and ignored it",
        "line 1: Predicates[0].Name: read as name; later kube-schedulers looked at the case and "
        "ignored it",
        "line 1: Predicates: read as predicates; later kube-schedulers looked at the case and "
        "ignored it",
    ]


@settings(max_examples=20)
@given(st.data())
def test_the_case_of_keys_never_matters_within_an_extender(data: st.DataObject) -> None:
    def any_case(value: Any) -> Any:
        if isinstance(value, list):
            return [any_case(each) for each in value]
        if not isinstance(value, dict):
            return value
        made = {}
        for key, each in value.items():
            flips = data.draw(st.lists(st.booleans(), min_size=len(key), max_size=len(key)))
            letters = zip(key, flips, strict=True)
            made["".join(c.swapcase() if flip else c for c, flip in letters)] = any_case(each)
        return made

    assert converted(extenders(any_case(FULL))) == converted(extenders(FULL))


def test_yaml_and_json_mean_the_same() -> None:
    text = """
apiVersion: v1
kind: Policy
priorities: []
extenders:
- urlPrefix: http://a
  filterVerb: filter
  httpTimeout: 2000000000
"""
    given = {"urlPrefix": "http://a", "filterVerb": "filter", "httpTimeout": 2_000_000_000}
    assert convert_policy(text).document == convert_policy(extenders(given)).document

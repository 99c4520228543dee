"""A scenario is a function (api, namespace): it asks, and asserts what any API server must answer.

It runs on both servers. Its assertions hold on each, and the notes of the two are equal.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.integration.contract.api import Api

Scenario = Callable[[Api, str], None]

#: In this order; the order of scenarios is that of their files.
SCENARIO_FILES = (
    "objects",
    "scheduling",
    "lists",
    "changes",
    "kinds",
    "pods",
    "managers",
    "subresources",
    "faults",
    "requests",
    "devices",
    "roles",
    "certificates",
    "accounts",
    "policies",
    "admission",
    "quotas",
    "services",
    "customs",
    "columns",
    "clients",
    "refusals",
    "rules",
    "filled",
    "warnings",
    "statuses",
    "addresses",
    "paths",
    "resize",
    "patches",
    "metadata",
    "components",
    "volumes",
    "sizes",
    "formats",
    "costs",
    "versions",
    "applies",
)
#: Name -> scenario.
SCENARIOS: dict[str, Scenario] = {}
#: The scenarios that need the feature gate DRADeviceTaintRules, on servers of their own.
GATED_SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    """Adds a scenario to the suite."""
    name = (
        f"{function.__module__.rpartition('.')[2].removeprefix('scenarios_')}-{function.__name__}"
    )
    assert name not in SCENARIOS
    SCENARIOS[name] = function
    return function


def gated_scenario(function: Scenario) -> Scenario:
    """Adds a scenario for the servers with the gate."""
    assert function.__name__ not in GATED_SCENARIOS
    GATED_SCENARIOS[function.__name__] = function
    return function


def pods(namespace: str, name: str = "", subresource: str = "") -> str:
    """Returns the path of a namespace's pods, of one of them, or of its subresource."""
    return path("api/v1", namespace, "pods", name, subresource)


def path(
    group_version: str, namespace: str, resource: str, name: str = "", subresource: str = ""
) -> str:
    """Returns the path of a resource; ``namespace`` is "" for those of the whole cluster."""
    within = f"/namespaces/{namespace}" if namespace else ""
    tail = "".join(f"/{part}" for part in (name, subresource) if part)
    return f"/{group_version}{within}/{resource}{tail}"

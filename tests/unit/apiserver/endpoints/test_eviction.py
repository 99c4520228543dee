"""Evictions: budgets that allow, forbid, and are used up. The rules are kube-apiserver's.

Source: pkg/registry/core/pod/storage/eviction.go (v1.36.3).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.api import PODS, Api, pod

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."
APP = {"app": "web"}


def running(api: Api, name: str, *, ready: bool = True, phase: str = "Running") -> None:
    """Creates a bound pod of the application."""
    api.post(PODS, pod(name, labels=APP, terminationGracePeriodSeconds=30))
    target = {"kind": "Node", "name": "n1"}
    api.post(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    api.patch(f"{PODS}/{name}/status", {"status": {"phase": phase, "conditions": conditions}})


def budget(api: Api, allowed: int = 1, name: str = "pdb", **status: Any) -> None:
    """Creates a budget for the application, with the status that a controller would write."""
    policy = status.pop("policy", None)
    spec: dict[str, Any] = {"selector": {"matchLabels": APP}, "minAvailable": 1}
    if policy:
        spec["unhealthyPodEvictionPolicy"] = policy
    api.post(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    full = {"observedGeneration": 1, "disruptionsAllowed": allowed, "expectedPods": 3, **status}
    full = {"currentHealthy": 3, "desiredHealthy": 2, **full}
    api.patch(f"{BUDGETS}/{name}/status", {"status": full})


def evict(api: Api, name: str, query: str = "", **fields: Any) -> tuple[int, Any]:
    body = {"metadata": {"name": name}, **fields}
    return api.ask("POST", f"{PODS}/{name}/eviction{query}", body)


def is_terminating(api: Api, name: str) -> bool:
    return "deletionTimestamp" in api.get(f"{PODS}/{name}")["metadata"]


def allowed_by(api: Api, name: str = "pdb") -> int:
    return int(api.get(f"{BUDGETS}/{name}")["status"]["disruptionsAllowed"])


def test_without_a_budget_a_pod_is_deleted_and_its_condition_says_why() -> None:
    api = Api()
    running(api, "a")

    assert evict(api, "a")[0] == 201

    stored = api.get(f"{PODS}/a")
    assert "deletionTimestamp" in stored["metadata"]
    [condition] = [
        each for each in stored["status"]["conditions"] if each["type"] == "DisruptionTarget"
    ]
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")


def test_each_eviction_uses_one_disruption_up_to_the_last() -> None:
    api = Api()
    for name in "abc":
        running(api, name)
    budget(api, allowed=2)

    assert [evict(api, name)[0] for name in "ab"] == [201, 201]
    status, answer = evict(api, "c")

    assert (status, answer["message"]) == (429, VIOLATION)
    assert "needs 2 healthy pods and has 3" not in str(answer)
    assert [is_terminating(api, name) for name in "abc"] == [True, True, False]
    stored = api.get(f"{BUDGETS}/pdb")["status"]
    assert stored["disruptionsAllowed"] == 0
    assert sorted(stored["disruptedPods"]) == ["a", "b"]
    [condition] = stored["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionAllowed",
        "False",
        "InsufficientPods",
    )


def test_a_budget_that_is_not_used_up_gets_no_condition() -> None:
    api = Api()
    running(api, "a")
    budget(api, allowed=2)

    evict(api, "a")

    assert "conditions" not in api.get(f"{BUDGETS}/pdb")["status"]


def test_the_time_of_a_condition_that_was_false_already_is_kept() -> None:
    api = Api()
    running(api, "a")
    before = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    budget(api, allowed=1, conditions=[before])

    evict(api, "a")

    [condition] = api.get(f"{BUDGETS}/pdb")["status"]["conditions"]
    assert condition["lastTransitionTime"] == "2020-01-01T00:00:00Z"


def test_pods_of_other_labels_do_not_use_the_budget() -> None:
    api = Api()
    api.bound("other")
    api.patch(f"{PODS}/other/status", {"status": {"phase": "Running"}})
    budget(api, allowed=0)

    assert evict(api, "other")[0] == 201
    assert allowed_by(api) == 0


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_a_pod_that_does_not_run_needs_no_budget(phase: str) -> None:
    api = Api()
    running(api, "a", phase=phase)
    budget(api, allowed=0)

    assert evict(api, "a")[0] == 201


def test_a_pod_that_terminates_already_uses_no_disruption() -> None:
    api = Api()
    running(api, "a")
    budget(api, allowed=1)
    api.delete(f"{PODS}/a")

    assert evict(api, "a")[0] == 201
    assert allowed_by(api) == 1


@pytest.mark.parametrize(
    ("ready", "policy", "healthy", "status"),
    [
        (True, None, 3, 429),
        # Not ready: it is no disruption as long as enough others are.
        (False, None, 2, 201),
        (False, None, 1, 429),
        (False, "AlwaysAllow", 1, 201),
        (True, "AlwaysAllow", 1, 429),
    ],
)
def test_a_pod_that_is_not_ready_may_leave_if_enough_others_are(
    policy: str | None, healthy: int, status: int, *, ready: bool
) -> None:
    api = Api()
    running(api, "a", ready=ready)
    budget(api, allowed=0, currentHealthy=healthy, desiredHealthy=2, policy=policy)

    assert evict(api, "a")[0] == status
    assert is_terminating(api, "a") == (status == 201)


def test_a_pod_that_is_not_ready_needs_the_budget_if_that_wants_none_healthy() -> None:
    api = Api()
    running(api, "a", ready=False)
    budget(api, allowed=0, currentHealthy=0, desiredHealthy=0)

    assert evict(api, "a")[0] == 429


def test_two_budgets_for_a_pod_are_an_error_of_the_server() -> None:
    api = Api()
    running(api, "a")
    budget(api, allowed=5, name="one")
    budget(api, allowed=5, name="two")

    status, answer = evict(api, "a")

    assert status == 500
    assert "more than one PodDisruptionBudget" in answer["message"]
    assert not is_terminating(api, "a")
    assert (allowed_by(api, "one"), allowed_by(api, "two")) == (5, 5)


def test_a_budget_that_the_controller_has_not_seen_yet_asks_to_wait() -> None:
    api = Api()
    running(api, "a")
    budget(api, allowed=5)
    api.patch(f"{BUDGETS}/pdb", {"spec": {"minAvailable": 2}})

    status, answer = evict(api, "a")

    assert (status, answer["details"]["retryAfterSeconds"]) == (429, 10)
    assert "still being processed" in answer["details"]["causes"][0]["message"]
    assert allowed_by(api) == 5


def test_a_budget_with_too_many_disrupted_pods_forbids() -> None:
    api = Api()
    running(api, "a")
    disrupted = {f"p{number}": "2026-01-01T00:00:00Z" for number in range(2001)}
    budget(api, allowed=5, disruptedPods=disrupted)

    assert evict(api, "a")[0] == 403


@pytest.mark.parametrize(
    ("status", "part"),
    [
        ({"currentHealthy": 2, "desiredHealthy": 2}, "needs 2 healthy pods and has 2 currently"),
        ({"currentHealthy": 1, "desiredHealthy": 2}, "needs 2 healthy pods and has 1 currently"),
        (
            {
                "conditions": [
                    {
                        "type": "DisruptionAllowed",
                        "status": "False",
                        "reason": "SyncFailed",
                        "message": "no scale",
                        "lastTransitionTime": "2020-01-01T00:00:00Z",
                    }
                ]
            },
            "failed sync: no scale",
        ),
    ],
)
def test_the_cause_of_a_refusal_is_in_the_details(status: dict[str, Any], part: str) -> None:
    api = Api()
    running(api, "a")
    budget(api, allowed=0, **status)

    code, answer = evict(api, "a")

    assert code == 429
    [cause] = answer["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert part in cause["message"]


def test_a_dry_run_evicts_nothing_and_uses_nothing() -> None:
    api = Api()
    running(api, "a")
    budget(api, allowed=1)

    assert evict(api, "a", "?dryRun=All")[0] == 201
    assert evict(api, "a", deleteOptions={"dryRun": ["All"]})[0] == 201

    assert not is_terminating(api, "a")
    assert allowed_by(api) == 1
    budget_status = api.get(f"{BUDGETS}/pdb")["status"]
    assert "disruptedPods" not in budget_status


def test_only_the_pod_with_the_uid_of_the_options_is_evicted() -> None:
    api = Api()
    running(api, "a")

    status, _ = evict(api, "a", deleteOptions={"preconditions": {"uid": "another"}})

    assert status == 409
    assert not is_terminating(api, "a")


def test_the_name_in_the_body_is_that_of_the_path() -> None:
    api = Api()
    running(api, "a")

    status, answer = api.ask("POST", f"{PODS}/a/eviction", {"metadata": {"name": "b"}})

    assert status == 400
    assert answer["message"] == "name in URL does not match name in Eviction object"
    body = {"metadata": {"name": "a", "namespace": "other"}}
    assert api.ask("POST", f"{PODS}/a/eviction", body)[0] == 400
    assert not is_terminating(api, "a")

from __future__ import annotations

from typing import Any

import pytest

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random
from tests.helpers.api import CONFIG_MAPS, MERGE, PODS, Api, Object, config_map, pod

REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
NAMESPACES = "/api/v1/namespaces"


def replica_set(name: str) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def owned(name: str, *owners: Object, **fields: object) -> Object:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    return config_map(name, metadata={"ownerReferences": references, **fields})


def exists(api: Api, path: str) -> bool:
    return api.ask("GET", path)[0] == 200


# ---------------------------------------------------------------------- grace periods


def test_a_bound_pod_goes_when_its_grace_period_is_over() -> None:
    api = Api()
    api.bound("a")
    response = api.delete(f"{PODS}/a")
    assert response["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    assert response["metadata"]["deletionGracePeriodSeconds"] == 30
    assert response["metadata"]["generation"] == 2
    api.clock.advance(29)
    assert api.server.tick() == 0
    assert exists(api, f"{PODS}/a")
    api.clock.advance(1)
    assert api.server.tick() == 1
    assert not exists(api, f"{PODS}/a")
    assert api.server.tick() == 0


def test_a_grace_period_that_begins_within_a_second_is_not_shorter() -> None:
    api = Api()
    api.bound("a")
    api.clock.advance(0.75)
    assert api.delete(f"{PODS}/a")["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    api.clock.advance(29.5)
    assert api.server.tick() == 0
    api.clock.advance(0.5)
    assert api.server.tick() == 1


def test_requests_find_what_is_due_already_gone() -> None:
    api = Api()
    api.bound("a")
    api.delete(f"{PODS}/a")
    assert api.server.deleter.due_s == api.clock.wall_s() + 30
    api.clock.advance(31)
    assert not exists(api, f"{PODS}/a")
    assert api.server.deleter.due_s is None


def test_a_grace_period_only_becomes_shorter() -> None:
    api = Api()
    api.bound("a")
    api.delete(f"{PODS}/a")
    assert api.delete(f"{PODS}/a?gracePeriodSeconds=60")["metadata"]["deletionTimestamp"].endswith(
        "00:30Z"
    )
    shorter = api.delete(f"{PODS}/a?gracePeriodSeconds=5")["metadata"]
    assert shorter["deletionTimestamp"].endswith("00:05Z")
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert shorter["generation"] == 2
    api.clock.advance(5)
    api.server.tick()
    assert not exists(api, f"{PODS}/a")
    api.clock.advance(30)
    assert api.server.tick() == 0


def test_a_grace_period_that_is_over_already_becomes_one_second() -> None:
    api = Api()
    api.bound("a")
    api.delete(f"{PODS}/a")
    api.clock.advance(20)
    response = api.delete(f"{PODS}/a?gracePeriodSeconds=10")["metadata"]
    assert response["deletionTimestamp"] == "2026-01-01T00:00:20Z"
    assert response["deletionGracePeriodSeconds"] == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_go_at_once(phase: str) -> None:
    api = Api()
    api.bound("a")
    api.patch(f"{PODS}/a/status", {"status": {"phase": phase}})
    api.delete(f"{PODS}/a")
    assert not exists(api, f"{PODS}/a")


def test_pods_on_no_node_go_at_once() -> None:
    api = Api()
    api.post(PODS, pod("a"))
    api.delete(f"{PODS}/a")
    assert not exists(api, f"{PODS}/a")


def test_instant_deletion_removes_pods_at_once() -> None:
    api = Api(instant_deletion=True)
    api.bound("a")
    api.delete(f"{PODS}/a")
    assert not exists(api, f"{PODS}/a")


def test_negative_grace_periods_are_one_second() -> None:
    api = Api()
    api.bound("a")
    response = api.delete(f"{PODS}/a?gracePeriodSeconds=-7")["metadata"]
    assert response["deletionGracePeriodSeconds"] == 1


def test_a_pod_made_anew_under_the_same_name_is_left_alone() -> None:
    api = Api()
    api.bound("a")
    api.delete(f"{PODS}/a")
    api.delete(f"{PODS}/a?gracePeriodSeconds=0")
    api.bound("a")
    api.clock.advance(60)
    assert api.server.tick() == 0
    assert exists(api, f"{PODS}/a")


def test_a_finalizer_keeps_a_pod_beyond_its_grace_period() -> None:
    api = Api()
    api.bound("a")
    api.patch(f"{PODS}/a", {"metadata": {"finalizers": ["a.b/c"]}})
    api.delete(f"{PODS}/a")
    api.clock.advance(30)
    api.server.tick()
    assert api.get(f"{PODS}/a")["metadata"]["deletionGracePeriodSeconds"] == 0
    api.patch(f"{PODS}/a", {"metadata": {"finalizers": None}})
    assert not exists(api, f"{PODS}/a")


def test_a_dry_run_deletes_nothing() -> None:
    api = Api()
    api.bound("a")
    before = api.version
    api.delete(f"{PODS}/a?dryRun=All")
    api.delete(f"{PODS}/a", {"dryRun": ["All"], "gracePeriodSeconds": 0})
    assert api.version == before
    assert "deletionTimestamp" not in api.get(f"{PODS}/a")["metadata"]


# ---------------------------------------------------------------------- finalizers


def test_the_last_finalizer_lets_the_object_go() -> None:
    api = Api()
    api.post(CONFIG_MAPS, config_map("cm", metadata={"finalizers": ["a.b/c", "d.e/f"]}))
    api.delete(f"{CONFIG_MAPS}/cm")
    api.patch(f"{CONFIG_MAPS}/cm", {"metadata": {"finalizers": ["d.e/f"]}})
    assert exists(api, f"{CONFIG_MAPS}/cm")
    status, result = api.ask(
        "PATCH", f"{CONFIG_MAPS}/cm", {"metadata": {"finalizers": ["x.y/z"]}}, content_type=MERGE
    )
    assert (status, result["reason"]) == (422, "Invalid")
    api.patch(f"{CONFIG_MAPS}/cm", {"metadata": {"finalizers": []}})
    assert not exists(api, f"{CONFIG_MAPS}/cm")


def test_deleting_a_collection_keeps_what_has_finalizers() -> None:
    api = Api()
    api.post(CONFIG_MAPS, config_map("a"))
    api.post(CONFIG_MAPS, config_map("b", metadata={"finalizers": ["a.b/c"]}))
    api.post(CONFIG_MAPS, config_map("c", metadata={"labels": {"keep": "me"}}))
    response = api.delete(f"{CONFIG_MAPS}?labelSelector=!keep")
    assert [item["metadata"]["name"] for item in response["items"]] == ["a", "b"]
    assert api.names(CONFIG_MAPS) == ["b", "c"]


# ---------------------------------------------------------------------- dependents


def test_dependents_go_with_their_owner() -> None:
    api = Api()
    owner = api.post(REPLICA_SETS, replica_set("rs"))
    api.post(CONFIG_MAPS, owned("child", owner))
    child = api.get(f"{CONFIG_MAPS}/child")
    child["apiVersion"], child["kind"] = "v1", "ConfigMap"
    api.post(CONFIG_MAPS, owned("grandchild", child))
    api.post(CONFIG_MAPS, config_map("stranger"))
    api.delete(f"{REPLICA_SETS}/rs")
    assert api.names(CONFIG_MAPS) == ["stranger"]


def test_dependents_of_several_owners_stay_with_the_others() -> None:
    api = Api()
    one, other = (api.post(REPLICA_SETS, replica_set(name)) for name in ("one", "other"))
    api.post(CONFIG_MAPS, owned("child", one, other))
    api.delete(f"{REPLICA_SETS}/one")
    owners = api.get(f"{CONFIG_MAPS}/child")["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["other"]
    api.delete(f"{REPLICA_SETS}/other")
    assert api.names(CONFIG_MAPS) == []


def test_orphans_stay_and_forget_their_owner() -> None:
    api = Api()
    owner = api.post(REPLICA_SETS, replica_set("rs"))
    api.post(CONFIG_MAPS, owned("child", owner))
    api.delete(f"{REPLICA_SETS}/rs", {"propagationPolicy": "Orphan"})
    assert not exists(api, f"{REPLICA_SETS}/rs")
    assert "ownerReferences" not in api.get(f"{CONFIG_MAPS}/child")["metadata"]


def test_an_owner_waits_in_the_foreground_for_its_dependents() -> None:
    api = Api()
    owner = api.post(REPLICA_SETS, replica_set("rs"))
    api.post(CONFIG_MAPS, owned("free", owner))
    api.post(CONFIG_MAPS, owned("held", owner, finalizers=["a.b/c"]))
    response = api.delete(f"{REPLICA_SETS}/rs", {"propagationPolicy": "Foreground"})
    assert response["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert api.names(CONFIG_MAPS) == ["held"]
    assert exists(api, f"{REPLICA_SETS}/rs")
    api.patch(f"{CONFIG_MAPS}/held", {"metadata": {"finalizers": None}})
    assert api.names(CONFIG_MAPS) == []
    assert not exists(api, f"{REPLICA_SETS}/rs")


def test_an_owner_without_dependents_does_not_wait() -> None:
    api = Api()
    api.post(REPLICA_SETS, replica_set("rs"))
    api.delete(f"{REPLICA_SETS}/rs", {"propagationPolicy": "Foreground"})
    assert not exists(api, f"{REPLICA_SETS}/rs")


def test_contradicting_policies_are_refused() -> None:
    api = Api()
    api.post(CONFIG_MAPS, config_map("cm"))
    body = {"propagationPolicy": "Orphan", "orphanDependents": True}
    status, result = api.ask("DELETE", f"{CONFIG_MAPS}/cm", body)
    assert status == 422
    assert "orphanDependents and deletionPropagation cannot be both set" in result["message"]


# ---------------------------------------------------------------------- namespaces


def test_a_deleted_namespace_is_emptied_and_goes() -> None:
    api = Api()
    api.post(NAMESPACES, {"metadata": {"name": "shop"}})
    api.post(f"{NAMESPACES}/shop/configmaps", config_map("cm"))
    api.post(f"{NAMESPACES}/shop/pods", pod("a"))
    response = api.delete(f"{NAMESPACES}/shop")
    assert response["status"]["phase"] == "Terminating"
    assert not exists(api, f"{NAMESPACES}/shop")
    assert api.names("/api/v1/configmaps") == []


def test_a_namespace_waits_for_what_is_left_in_it() -> None:
    api = Api()
    api.post(NAMESPACES, {"metadata": {"name": "shop"}})
    held = config_map("held", metadata={"finalizers": ["a.b/c"]})
    api.post(f"{NAMESPACES}/shop/configmaps", held)
    api.post(f"{NAMESPACES}/shop/pods", pod("a", nodeName="n1"))
    api.delete(f"{NAMESPACES}/shop")
    assert exists(api, f"{NAMESPACES}/shop")
    status, result = api.ask("POST", f"{NAMESPACES}/shop/configmaps", config_map("new"))
    assert (status, result["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    path = f"{NAMESPACES}/shop/configmaps/held"
    api.patch(path, {"metadata": {"finalizers": None}})
    assert exists(api, f"{NAMESPACES}/shop")
    api.clock.advance(30)
    api.server.tick()
    assert not exists(api, f"{NAMESPACES}/shop")


def test_a_snapshot_brings_pending_deletions_with_it() -> None:
    api = Api()
    api.post(NAMESPACES, {"metadata": {"name": "shop"}})
    api.post(f"{NAMESPACES}/shop/pods", pod("a", nodeName="n1"))
    api.bound("b")
    api.delete(f"{PODS}/b")
    api.delete(f"{NAMESPACES}/shop")
    other = ApiServer(VirtualClock(wall_s=api.clock.wall_s() + 10), seeded_random(2))
    other.load(api.server.snapshot())
    assert other.tick() == 0
    assert other.deleter.due_s == api.clock.wall_s() + 30
    other.clock.advance(20)  # type: ignore[attr-defined]
    assert other.tick() == 2
    names = {name.removesuffix(".rbac.authorization.k8s.io") for name in other.store.statistics()}
    roles = {"clusterrolebindings", "clusterroles", "rolebindings", "roles"}
    others = {"namespaces", "priorityclasses.scheduling.k8s.io", "serviceaccounts", "services"}
    addresses = {"ipaddresses.networking.k8s.io", "servicecidrs.networking.k8s.io"}
    assert names == others | roles | addresses
    assert other.store.statistics()["namespaces"] == 4


# ---------------------------------------------------------------------- long ways


def test_a_long_chain_of_owners_goes_as_a_whole() -> None:
    api = Api()
    first = owner = api.post(CONFIG_MAPS, config_map("m0"))
    for number in range(1, 1500):
        owner = api.post(CONFIG_MAPS, owned(f"m{number}", owner))
    api.delete(f"{CONFIG_MAPS}/{first['metadata']['name']}")
    assert api.names(CONFIG_MAPS) == []


def test_a_dependent_that_cannot_be_deleted_is_skipped() -> None:
    api = Api()
    owner = api.post(CONFIG_MAPS, config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    reference["uid"] = owner["metadata"]["uid"]
    change = {"metadata": {"ownerReferences": [reference]}}
    api.ask("PATCH", f"{NAMESPACES}/default", change, content_type=MERGE)
    api.post(CONFIG_MAPS, owned("other", owner))
    assert api.ask("DELETE", f"{CONFIG_MAPS}/owner")[0] == 200
    assert exists(api, f"{NAMESPACES}/default")
    assert not exists(api, f"{CONFIG_MAPS}/other")


def test_the_pods_of_a_job_are_orphaned_by_default() -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    spec = {**pod("x")["spec"], "restartPolicy": "Never"}
    for options, is_left in ((None, True), ({"propagationPolicy": "Background"}, False)):
        api = Api()
        job = api.post(jobs, {"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}})
        api.post(CONFIG_MAPS, owned("dependent", job))
        api.ask("DELETE", f"{jobs}/j", options)
        assert not exists(api, f"{jobs}/j")
        assert exists(api, f"{CONFIG_MAPS}/dependent") is is_left


def test_the_pods_of_a_namespace_go_first() -> None:
    """The conditions have the words of the namespace controller."""
    api = Api()
    api.post(NAMESPACES, {"metadata": {"name": "shop"}})
    maps, pods = f"{NAMESPACES}/shop/configmaps", f"{NAMESPACES}/shop/pods"
    api.post(maps, config_map("m"))
    body = pod("p")
    body["metadata"]["finalizers"] = ["example.com/wait"]
    api.post(pods, body)
    api.delete(f"{NAMESPACES}/shop")

    conditions = {each["type"]: each for each in namespace_status(api)["conditions"]}
    assert {name: each["status"] for name, each in conditions.items()} == {
        "NamespaceDeletionDiscoveryFailure": "False",
        "NamespaceDeletionGroupVersionParsingFailure": "False",
        "NamespaceDeletionContentFailure": "False",
        "NamespaceContentRemaining": "True",
        "NamespaceFinalizersRemaining": "True",
    }
    assert conditions["NamespaceContentRemaining"]["message"] == (
        "Some resources are remaining: configmaps. has 1 resource instances, "
        "pods. has 1 resource instances, serviceaccounts. has 1 resource instances"
    )
    assert conditions["NamespaceFinalizersRemaining"]["message"] == (
        "Some content in the namespace has finalizers remaining: "
        "example.com/wait in 1 resource instances"
    )
    assert api.names(maps) == ["m"]

    api.patch(f"{maps}/m", {"metadata": {"finalizers": ["example.com/map"]}})
    api.patch(f"{pods}/p", {"metadata": {"finalizers": None}})
    assert "deletionTimestamp" in api.get(f"{maps}/m")["metadata"]
    conditions = {each["type"]: each for each in namespace_status(api)["conditions"]}
    assert conditions["NamespaceContentRemaining"]["message"] == (
        "Some resources are remaining: configmaps. has 1 resource instances"
    )
    api.patch(f"{maps}/m", {"metadata": {"finalizers": None}})
    assert "shop" not in api.names(NAMESPACES)


def namespace_status(api: Api) -> Any:
    status = api.get(f"{NAMESPACES}/shop")["status"]
    assert status["phase"] == "Terminating"
    return status

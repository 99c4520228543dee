"""Roles and bindings: stored, validated, printed; what they allow, and who may write them."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import APPLY, MERGE, TABLE, Api
from tests.integration.contract.scenario import path, pods, scenario

RBAC = "rbac.authorization.k8s.io"
_GROUP = f"apis/{RBAC}/v1"
#: What the real server has in addition, for its tests.
_OWN = ("mooring", "system:mooring")
#: No controller of the real server fills these.
_AGGREGATED = ("admin", "edit", "view")


def role(name: str, *rules: dict[str, Any], kind: str = "Role", **more: Any) -> dict[str, Any]:
    """Returns a role."""
    metadata = {"name": name, **more.pop("metadata", {})}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": list(rules),
        **more,
    }


def rule(verbs: str, resources: str = "", group: str = "", **more: Any) -> dict[str, Any]:
    """Returns a rule; verbs and resources are separated by spaces."""
    found: dict[str, Any] = {"verbs": verbs.split()}
    if resources:
        found |= {"apiGroups": [group], "resources": resources.split()}
    return {**found, **more}


def binding(name: str, role_name: str, *subjects: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Returns a binding of a Role, or of a ClusterRole."""
    kind, of = more.get("kind", "RoleBinding"), more.get("of", "Role")
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"kind": of, "name": role_name},
        "subjects": list(subjects),
    }


def user(name: str) -> dict[str, Any]:
    """Returns the subject that is a user."""
    return {"kind": "User", "name": name}


def roles(namespace: str, name: str = "") -> str:
    """Returns the path of roles."""
    return path(_GROUP, namespace, "roles" if namespace else "clusterroles", name)


def bindings(namespace: str, name: str = "") -> str:
    """Returns the path of bindings."""
    resource = "rolebindings" if namespace else "clusterrolebindings"
    return path(_GROUP, namespace, resource, name)


def allow(api: Api, namespace: str, who: str, *rules: dict[str, Any]) -> None:
    """Gives a user a role of its own name in a namespace."""
    assert api.post(roles(namespace), role(who, *rules)).code == 201
    assert api.post(bindings(namespace), binding(who, who, user(who))).code == 201


@scenario
def the_bootstrap_policy_is_upstreams(api: Api, namespace: str) -> None:
    for resource in ("clusterroles", "clusterrolebindings"):
        listed = api.get(f"/{_GROUP}/{resource}").body["items"]
        api.notes.clear()  # other scenarios write roles of the cluster as well
        found = {
            item["metadata"]["name"]: item
            for item in listed
            if item["metadata"].get("labels", {}).get("kubernetes.io/bootstrapping")
        }
        assert {"cluster-admin", "system:basic-user", "system:discovery"} <= set(found)
        for name, item in found.items():
            kept = {key: item.get(key) for key in ("roleRef", "subjects", "aggregationRule")}
            rules = None if name in _AGGREGATED else item.get("rules")
            labels = item["metadata"]["labels"]
            api.note(resource, name, {**kept, "rules": rules, "labels": labels})
    for place in ("kube-system", "kube-public"):
        _note_policy(api, place, roles(place))
        _note_policy(api, place, bindings(place))


def _note_policy(api: Api, place: str, path_of_roles: str) -> None:
    items = api.get(path_of_roles).body["items"]
    api.notes.pop()
    for item in items:
        name = item["metadata"]["name"]
        if not name.removeprefix("system:").startswith(_OWN):
            kept = {key: item.get(key) for key in ("roleRef", "subjects", "rules")}
            api.note(place, name, kept)


@scenario
def roles_are_stored_with_defaults_and_columns(api: Api, namespace: str) -> None:
    reader = role(
        "reader", rule("get list", "pods pods/log"), rule("get", "nodes", resourceNames=["n"])
    )
    created = api.post(roles(namespace), reader)
    assert created.code == 201
    assert api.post(roles(namespace), reader).reason == "AlreadyExists"
    subjects = [user("ann"), {"kind": "Group", "name": "ops"}]
    subjects.append({"kind": "ServiceAccount", "name": "bot", "namespace": "kube-system"})
    bound = api.post(bindings(namespace), binding("readers", "reader", *subjects))
    assert bound.body["roleRef"]["apiGroup"] == RBAC
    assert bound.body["subjects"][0]["apiGroup"] == RBAC
    assert "apiGroup" not in bound.body["subjects"][2]
    for path_of in (roles, bindings):
        table = api.ask("GET", path_of(namespace), accept=TABLE).body
        assert len(table["rows"]) == 1
    cells = table["rows"][0]["cells"]
    assert cells[:2] == ["readers", "Role/reader"]
    assert cells[3:] == ["ann", "ops", "kube-system/bot"]
    changed = api.patch(roles(namespace, "reader"), {"rules": [rule("watch", "pods")]})
    assert changed.body["rules"][0]["verbs"] == ["watch"]
    applied = role("reader", rule("list", "pods"))
    conflict = api.patch(roles(namespace, "reader"), applied, APPLY, fieldManager="other")
    assert conflict.code == 409
    assert api.put(roles(namespace, "fresh"), role("fresh", rule("get", "pods"))).code == 201
    assert api.delete(roles(namespace, "reader")).body["status"] == "Success"


@scenario
def roles_of_the_cluster_are_stored(api: Api, namespace: str) -> None:
    paths = rule("get", nonResourceURLs=["/metrics", "/logs/*"])
    name = f"{namespace}:reader"  # a colon is no DNS name
    assert api.post(roles(""), role(name, paths, kind="ClusterRole")).code == 201
    bound = binding(name, name, user("ann"), kind="ClusterRoleBinding", of="ClusterRole")
    assert api.post(bindings(""), bound).code == 201
    assert api.ask("GET", bindings("", name), accept=TABLE).code == 200
    assert api.ask("GET", roles("", name), accept=TABLE).code == 200
    assert api.delete(bindings("", name)).code == 200
    assert api.delete(roles("", name)).code == 200


@scenario
def invalid_roles_are_refused(api: Api, namespace: str) -> None:
    both = rule("get", "pods", nonResourceURLs=["/x"])
    paths = rule("get", nonResourceURLs=["/x"])
    invalid: list[list[dict[str, Any]]] = [[{"verbs": []}], [rule("get")], [paths], [both]]
    for rules in invalid:
        assert api.post(roles(namespace), role("r", *rules)).code == 422
        cluster_role = role(f"{namespace}-r", *rules, kind="ClusterRole")
        api.post(roles(""), cluster_role, dryRun="All")
    for name in ("a/b", "..", "a%b"):
        assert api.post(roles(namespace), role(name, rule("get", "pods"))).code == 422
    empty = role(f"{namespace}-a", kind="ClusterRole", aggregationRule={})
    assert api.post(roles(""), empty).code == 422
    wrong = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    selected = {"clusterRoleSelectors": [wrong]}
    bad = role(f"{namespace}-a", kind="ClusterRole", aggregationRule=selected)
    assert api.post(roles(""), bad).code == 422


@scenario
def invalid_bindings_are_refused(api: Api, namespace: str) -> None:
    wrong: list[dict[str, Any]] = [
        {"kind": "Robot", "name": "x"},
        {"kind": "User", "name": ""},
        {"kind": "User", "name": "x", "apiGroup": "other"},
        {"kind": "ServiceAccount", "name": "X_"},
        {"kind": "ServiceAccount", "name": "x", "apiGroup": RBAC},
    ]
    for subject in wrong:
        assert api.post(bindings(namespace), binding("b", "r", subject)).code == 422
    assert api.post(bindings(namespace), binding("b", "r", of="Rule")).code == 422
    assert api.post(bindings(namespace), binding("b", "")).code == 422
    account = {"kind": "ServiceAccount", "name": "x"}
    of_cluster = binding("b", "r", account, kind="ClusterRoleBinding", of="Role")
    assert api.post(bindings(""), of_cluster).code == 422
    assert api.post(bindings(namespace), binding("b", "r", user("ann"))).code == 201
    other = api.put(bindings(namespace, "b"), binding("b", "other", user("ann")))
    assert other.code == 422


@scenario
def a_role_allows_its_verbs_and_resources(api: Api, namespace: str) -> None:
    who = f"ann-{namespace}"
    ann = api.acting_as(who)
    assert ann.get(pods(namespace)).code == 403
    some = rule("get update", "configmaps", resourceNames=["mine"])
    allow(api, namespace, who, rule("list", "pods"), rule("*", "*/status", "*"), some)
    assert api.eventually(lambda: ann.get(pods(namespace)), 200).code == 200
    assert ann.get(pods("")).code == 403
    assert ann.get(pods("default")).code == 403
    assert ann.get(pods(namespace, "p")).code == 403
    assert ann.get(pods(namespace, "p", "status")).code == 404
    maps = path("api/v1", namespace, "configmaps")
    assert ann.get(f"{maps}/mine").code == 404
    assert ann.get(f"{maps}/other").code == 403
    assert ann.get(maps).code == 403
    review = {"resourceAttributes": {"namespace": namespace, "verb": "list", "resource": "pods"}}
    _can(ann, review, allowed=True)
    review["resourceAttributes"]["verb"] = "watch"
    _can(ann, review, allowed=False)
    _can(ann, {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}, allowed=False)
    _can(ann, {"nonResourceAttributes": {"path": "/openapi/v3", "verb": "get"}}, allowed=True)


def _can(api: Api, spec: dict[str, Any], *, allowed: bool) -> None:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": spec,
    }
    answer = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    assert answer.body["status"]["allowed"] is allowed
    api.notes[-1] = ("review", answer.code, answer.body["status"])


@scenario
def groups_and_accounts_are_subjects(api: Api, namespace: str) -> None:
    assert api.post(roles(namespace), role("reader", rule("list", "pods"))).code == 201
    account = {"kind": "ServiceAccount", "name": "bot", "namespace": namespace}
    group = {"kind": "Group", "name": f"ops-{namespace}"}
    bound = binding("readers", "reader", group, account)
    assert api.post(bindings(namespace), bound).code == 201
    ops = api.acting_as("ann", f"ops-{namespace}")
    assert api.eventually(lambda: ops.get(pods(namespace)), 200).code == 200
    bot = api.acting_as(f"system:serviceaccount:{namespace}:bot")
    assert bot.get(pods(namespace)).code == 200
    reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    groups = bot.post(reviews, review).body["status"]["userInfo"]["groups"]
    assert f"system:serviceaccounts:{namespace}" in groups
    assert api.acting_as("ann", "other").get(pods(namespace)).code == 403


@scenario
def a_binding_of_a_missing_role_is_named(api: Api, namespace: str) -> None:
    who = f"ann-{namespace}"
    ann = api.acting_as(who)
    for name in ("one", "two"):
        assert api.post(bindings(namespace), binding(name, "none", user(who))).code == 201

    def refusal() -> Any:
        answer = ann.get(pods(namespace))
        has_reason = "RBAC" in answer.message
        return answer._replace(code=answer.code if has_reason else 0)

    refused = api.eventually(refusal, 403)
    assert refused.message.endswith('RBAC: role.rbac.authorization.k8s.io "none" not found')
    cluster = binding("three", "gone", user(who), of="ClusterRole")
    assert api.post(bindings(namespace), cluster).code == 201


@scenario
def nobody_grants_what_he_does_not_have(api: Api, namespace: str) -> None:
    who = f"ann-{namespace}"
    ann = api.acting_as(who)
    writing = rule("create patch", "roles rolebindings", RBAC)
    allow(api, namespace, who, writing, rule("get list", "pods"))
    own = role("own", rule("get", "pods"))
    assert api.eventually(lambda: ann.post(roles(namespace), own), 201).code == 201
    more = role(
        "more",
        rule("get watch delete", "pods"),
        rule("get", "secrets", resourceNames=["a", "b"]),
        rule("*", "deployments", "apps"),
    )
    refused = ann.post(roles(namespace), more)
    assert refused.code == 403
    assert "is attempting to grant RBAC permissions not currently held" in refused.message
    assert ann.patch(roles(namespace, "own"), {"rules": more["rules"]}).code == 403
    assert ann.patch(roles(namespace, "own"), {"metadata": {"labels": {"a": "b"}}}).code == 200
    assert ann.post(bindings(namespace), binding("b", "own", user("bob"))).code == 201
    assert api.post(roles(namespace), more).code == 201

    def bind() -> Any:
        return ann.post(bindings(namespace), binding("c", "more", user("bob")))

    assert api.eventually(bind, 403).code == 403
    assert ann.post(bindings(namespace), binding("c", "none", user("bob"))).code == 404
    admins = binding("c", "cluster-admin", user("bob"), of="ClusterRole")
    assert ann.post(bindings(namespace), admins).code == 403


@scenario
def bind_and_escalate_are_verbs(api: Api, namespace: str) -> None:
    who = f"ann-{namespace}"
    ann = api.acting_as(who)
    binding_rule = rule("bind", "clusterroles", RBAC, resourceNames=["view"])
    writing = rule("create", "roles rolebindings", RBAC)
    allow(api, namespace, who, writing, binding_rule, rule("escalate", "roles", RBAC))
    more = role("more", rule("*", "*", "*"))
    assert api.eventually(lambda: ann.post(roles(namespace), more), 201).code == 201
    viewers = binding("v", "view", user("bob"), of="ClusterRole")
    assert ann.post(bindings(namespace), viewers).code == 201
    editors = binding("e", "edit", user("bob"), of="ClusterRole")
    editors["roleRef"]["name"] = "system:node"
    assert ann.post(bindings(namespace), editors).code == 403


@scenario
def a_rules_review_lists_the_rules(api: Api, namespace: str) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    ann = api.acting_as(f"ann-{namespace}")
    answer = ann.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)
    status = answer.body["status"]
    # The order of upstream's rules is random.
    api.notes[-1] = ("rules", answer.code, sorted(map(str, status["resourceRules"])))
    api.note("paths", answer.code, sorted(map(str, status["nonResourceRules"])))
    assert len(status["resourceRules"]) == 2


@scenario
def impersonation_is_a_verb(api: Api, namespace: str) -> None:
    boss = f"boss-{namespace}"
    listing = rule("list", "pods")
    account = f"system:serviceaccount:{namespace}:bot"
    assert api.post(roles(namespace), role("bot", listing)).code == 201
    assert api.post(bindings(namespace), binding("bot", "bot", user(account))).code == 201
    assert api.acting_as(boss).get(pods(namespace)).code == 403
    answer = api.eventually(lambda: api.acting_as(account).get(pods(namespace)), 200)
    assert answer.code == 200


_POD_SPEC = {"containers": [{"name": "c", "image": "i"}]}


def _applied(api: Api, url: str, api_version: str, kind: str, **more: Any) -> int:
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "new"}, **more}
    return api.patch(url, body, APPLY, fieldManager="test").code


@scenario
def who_may_patch_or_update_creates_only_with_the_right_to_create(api: Api, namespace: str) -> None:
    who = f"eve-{namespace}"
    eve, group = api.acting_as(who), "coordination.k8s.io"
    allow(
        api,
        namespace,
        who,
        rule("patch", "pods configmaps"),
        rule("patch create", "secrets"),
        rule("create", "configmaps", resourceNames=["named"]),
        rule("update", "leases", group),
    )
    maps = path("api/v1", namespace, "configmaps")
    leases = path(f"apis/{group}/v1", namespace, "leases")
    url = path("api/v1", namespace, "secrets", "new")
    assert api.eventually(lambda: eve.patch(url, {}, MERGE), 404).code == 404
    assert _applied(eve, pods(namespace, "new"), "v1", "Pod", spec=_POD_SPEC) == 403
    assert _applied(eve, pods(namespace, "new"), "v1", "Pod", spec={}) == 422
    assert _applied(eve, f"{maps}/new", "v1", "ConfigMap") == 403
    assert _applied(eve, url, "v1", "Secret") == 201
    assert _applied(eve, url, "v1", "Secret", data={"a": "YQ=="}) == 200
    lease = {"apiVersion": f"{group}/v1", "kind": "Lease", "metadata": {"name": "new"}}
    assert eve.put(f"{leases}/new", lease).code == 403
    assert eve.put(f"{leases}/new", lease, dryRun="All").code == 403
    allow(api, namespace, f"{who}-2", rule("update create", "leases", group))
    other = api.acting_as(f"{who}-2")
    answer = api.eventually(lambda: other.put(f"{leases}/new", lease), 201)
    assert answer.code == 201
    named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "named"}}
    assert eve.patch(f"{maps}/named", named, APPLY, fieldManager="test").code == 201
    assert api.get(f"{maps}/new").code == 404


@scenario
def an_apply_to_a_part_of_a_missing_object_does_not_create_it(api: Api, namespace: str) -> None:
    for part in ("status", "ephemeralcontainers", "resize"):
        url = pods(namespace, "new", part)
        assert _applied(api, url, "v1", "Pod", spec=_POD_SPEC) == 404
    node = path("api/v1", "", "nodes", "new")
    assert _applied(api, f"{node}/status", "v1", "Node") == 404
    for group, resource, kind in (
        ("apps/v1", "deployments", "Deployment"),
        ("batch/v1", "jobs", "Job"),
        ("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        ("resource.k8s.io/v1", "resourceclaims", "ResourceClaim"),
    ):
        url = path(f"apis/{group}", namespace, resource, "new")
        assert _applied(api, f"{url}/status", group, kind) == 404
        assert api.get(url).code == 404
    for resource, kind in (
        ("persistentvolumeclaims", "PersistentVolumeClaim"),
        ("resourcequotas", "ResourceQuota"),
        ("replicationcontrollers", "ReplicationController"),
    ):
        url = path("api/v1", namespace, resource, "new")
        assert _applied(api, f"{url}/status", "v1", kind) == 404
        assert api.get(url).code == 404

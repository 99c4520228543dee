"""Webhook configurations, admission policies, and kinds that controllers and drivers keep.

The real server calls webhooks and evaluates policies: all that is stored here applies to a group
that does not exist.
"""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import TABLE, Api
from tests.integration.contract.objects import pod
from tests.integration.contract.scenario import path, pods, scenario
from tests.integration.contract.scenarios_policies import document

ADMISSION = "admissionregistration.k8s.io/v1"
VALIDATING_HOOKS = f"/apis/{ADMISSION}/validatingwebhookconfigurations"
MUTATING_HOOKS = f"/apis/{ADMISSION}/mutatingwebhookconfigurations"
VALIDATING = f"/apis/{ADMISSION}/validatingadmissionpolicies"
MUTATING = f"/apis/{ADMISSION}/mutatingadmissionpolicies"

_RULE = {
    "apiGroups": ["absent.example.com"],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["things", "things/status"],
}
_HOOK: dict[str, Any] = {
    "name": "check.example.com",
    "clientConfig": {"service": {"namespace": "a", "name": "b"}},
    "rules": [_RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
_POLICY: dict[str, Any] = {
    "matchConstraints": {"resourceRules": [_RULE]},
    "validations": [{"expression": "object.spec.replicas <= 5", "message": "too many"}],
}
_OPERATIONS = '[JSONPatch{op: "add", path: "/spec/a", value: 1}]'
_JSON_PATCH = {"patchType": "JSONPatch", "jsonPatch": {"expression": _OPERATIONS}}
_MUTATION: dict[str, Any] = {
    "matchConstraints": {"resourceRules": [_RULE]},
    "mutations": [_JSON_PATCH],
    "reinvocationPolicy": "Never",
}


def _refuse(api: Api, where: str, obj: dict[str, Any]) -> None:
    answer = api.post(where, obj)
    assert answer.code == 422, answer.message


def _store(api: Api, where: str, obj: dict[str, Any], change: dict[str, Any]) -> None:
    """Stores an object, changes and prints it, and deletes it."""
    name = obj["metadata"]["name"]
    created = api.post(where, obj)
    assert created.code == 201, created.message
    assert api.post(where, obj).code == 409
    assert api.patch(f"{where}/{name}", change).code == 200
    assert api.get(f"{where}/{name}").code == 200
    assert len(api.ask("GET", f"{where}/{name}", accept=TABLE).body["rows"]) == 1
    assert api.delete(f"{where}/{name}").code == 200
    assert api.get(f"{where}/{name}").code == 404


@scenario
def webhook_configurations_are_stored(api: Api, namespace: str) -> None:
    validating = document(
        "ValidatingWebhookConfiguration", ADMISSION, f"{namespace}-v", webhooks=[_HOOK]
    )
    url = {"url": "https://example.com/check"}
    change = {"webhooks": [{**_HOOK, "clientConfig": url, "failurePolicy": "Ignore"}]}
    _store(api, VALIDATING_HOOKS, validating, change)
    mutating = document(
        "MutatingWebhookConfiguration", ADMISSION, f"{namespace}-m", webhooks=[_HOOK]
    )
    _store(api, MUTATING_HOOKS, mutating, {"metadata": {"labels": {"a": "b"}}})
    empty = document("ValidatingWebhookConfiguration", ADMISSION, f"{namespace}-e")
    _store(api, VALIDATING_HOOKS, empty, {"webhooks": [_HOOK]})


@scenario
def invalid_webhooks_are_refused(api: Api, _namespace: str) -> None:
    service = {"namespace": "a", "name": "b"}
    wrong: list[dict[str, Any]] = [
        {"name": ""},
        {"name": "short.name"},
        {"name": "A_.example.com"},
        {"sideEffects": None},
        {"sideEffects": "Some"},
        {"admissionReviewVersions": []},
        {"admissionReviewVersions": ["v2", "v2", "V_"]},
        {"timeoutSeconds": 0},
        {"timeoutSeconds": 31},
        {"failurePolicy": "Maybe", "matchPolicy": "Near"},
        {"clientConfig": {}},
        {"clientConfig": {"url": "https://example.com", "service": service}},
        {"clientConfig": {"url": "http://user@example.com/a?b=c#d"}},
        {"clientConfig": {"url": "https:///path"}},
        {"clientConfig": {"service": {"namespace": "", "name": "", "port": 0}}},
        {"clientConfig": {"service": {**service, "name": ""}}},
        {"clientConfig": {"service": {**service, "path": "no"}}},
        {"rules": [{**_RULE, "operations": [3]}, {**_RULE, "scope": []}]},
        {"clientConfig": {"service": {**service, "path": "//"}}},
        {"clientConfig": {"service": {**service, "path": "/a//B_/"}}},
        {"rules": [{}]},
        {"rules": [{**_RULE, "operations": ["*", "CREATE", "READ"]}]},
        {"rules": [{**_RULE, "apiGroups": ["*", "a"], "apiVersions": ["*", ""]}]},
        {"rules": [{**_RULE, "resources": ["*", "pods", ""], "scope": "Nowhere"}]},
        {"rules": [{**_RULE, "resources": ["pods/*", "pods/status", "*/*"]}]},
        {"rules": [{**_RULE, "resources": ["*/scale", "a/scale"]}]},
        {"namespaceSelector": {"matchExpressions": [{"key": "a b", "operator": "Near"}]}},
        {"objectSelector": {"matchLabels": {"a": "b c"}}},
        {"matchConditions": [{"name": "", "expression": ""}]},
        {"matchConditions": [{"name": "a b", "expression": "1 +"}]},
        {"matchConditions": [{"name": "a", "expression": "true"}] * 2},
    ]
    for fields in wrong:
        hooks = [{**_HOOK, **fields}]
        for kind, where in (("Validating", VALIDATING_HOOKS), ("Mutating", MUTATING_HOOKS)):
            obj = document(f"{kind}WebhookConfiguration", ADMISSION, webhooks=hooks)
            assert api.post(where, obj).code in (400, 422), fields
    twice = document("ValidatingWebhookConfiguration", ADMISSION, webhooks=[_HOOK, _HOOK])
    _refuse(api, VALIDATING_HOOKS, twice)
    odd = [{**_HOOK, "reinvocationPolicy": "Often"}]
    _refuse(api, MUTATING_HOOKS, document("MutatingWebhookConfiguration", ADMISSION, webhooks=odd))


@scenario
def admission_policies_are_stored(api: Api, namespace: str) -> None:
    kind = {"apiVersion": "absent.example.com/v1", "kind": "Limit"}
    policy = document("ValidatingAdmissionPolicy", ADMISSION, f"{namespace}-v", spec=_POLICY)
    _store(api, VALIDATING, policy, {"spec": {"failurePolicy": "Ignore"}})
    mutation = document("MutatingAdmissionPolicy", ADMISSION, f"{namespace}-m", spec=_MUTATION)
    _store(api, MUTATING, mutation, {"spec": {"variables": [{"name": "a", "expression": "1"}]}})
    for number, reference in enumerate(
        (
            None,
            {"name": "p", "parameterNotFoundAction": "Deny"},
            {"name": "p", "namespace": "n", "parameterNotFoundAction": "Allow"},
        )
    ):
        spec = {"policyName": "p", "paramRef": reference, "validationActions": ["Deny"]}
        binding = document(
            "ValidatingAdmissionPolicyBinding", ADMISSION, f"{namespace}-b{number}", spec=spec
        )
        _store(api, f"{VALIDATING[:-3]}ybindings", binding, {"spec": {"matchResources": {}}})
    with_kind = document(
        "ValidatingAdmissionPolicy",
        ADMISSION,
        f"{namespace}-k",
        spec={**_POLICY, "paramKind": kind},
    )
    assert api.post(VALIDATING, with_kind, dryRun="All").code == 201


@scenario
def invalid_policies_are_refused(api: Api, _namespace: str) -> None:
    check = {"expression": "true"}
    wrong: list[dict[str, Any]] = [
        {"matchConstraints": None},
        {"matchConstraints": {}},
        {"matchConstraints": {"resourceRules": [{**_RULE, "resourceNames": ["a/b", "c", "c"]}]}},
        {"matchConstraints": {"matchPolicy": "Near", "resourceRules": [_RULE]}},
        {"failurePolicy": "Maybe"},
        {"paramKind": {}},
        {"paramKind": {"apiVersion": "a/b/c", "kind": "K_"}},
        {"paramKind": {"apiVersion": "A_/V_", "kind": "Kind"}},
        {"paramKind": {"apiVersion": "a/", "kind": "Kind"}},
        {"validations": []},
        {"validations": [{"expression": " "}]},
        {"validations": [{"expression": "1 +"}]},
        {"validations": [{**check, "message": " ", "messageExpression": " "}]},
        {"validations": [{**check, "message": "a\nb", "reason": "Odd"}]},
        {"variables": [{"name": "", "expression": ""}, {"name": "a-b", "expression": "1"}]},
        {"auditAnnotations": [{"key": "a b", "valueExpression": ""}]},
        {"auditAnnotations": [{"key": "a", "valueExpression": "'x'"}] * 2},
    ]
    for fields in wrong:
        spec = {**_POLICY, **fields}
        _refuse(api, VALIDATING, document("ValidatingAdmissionPolicy", ADMISSION, spec=spec))


@scenario
def expressions_of_policies_are_checked(api: Api, namespace: str) -> None:
    declared = (
        "type(object) == google.protobuf.Timestamp",
        "type(1) == int && type(object.a.b) == optional_type",
        "[1].all(x, x > 0) && [[1]].exists(y, y.exists(z, z == 1))",
        "[1].map(object, object).size() == 1 && oldObject == null && request.name != ''",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "variables.a == 1 && namespaceObject.metadata.name == ''",
        "sets.contains([1], [1]) && optional.of(1).hasValue() && lists.range(2).size() == 2",
        "authorizer.requestResource.check('get').reason() == strings.quote('a')",
        "ip.isCanonical('::1') && format.named('dns1123Label').value().validate('a') == null",
        "object.a + object.c == 2.0 && object[object.b] in [1, 2]",
    )
    for number, expression in enumerate(declared):
        spec = {
            **_POLICY,
            "variables": [{"name": "a", "expression": "1"}],
            "validations": [{"expression": expression}],
        }
        name = f"{namespace}-v{number}"
        policy = document("ValidatingAdmissionPolicy", ADMISSION, name, spec=spec)
        created = api.post(VALIDATING, policy, dryRun="All")
        assert created.code == 201, f"{expression}: {created.message}"
    undeclared = (
        "nothing",
        "object.a == nothing",
        "type(object) == google.protobuf.Nothing",
        "type(object) == protobuf.Timestamp",
        "[1].all(x, x > 0) && x",
        "[1].all(x, y > 0)",
        "[x].all(x, x > 0)",
        "a && b && [c].exists(d, e)",
        "nothing.greatest(1, 2) == 2",
        "object.nothing.f(other)",
        "Object.a.b == {'k': wrong}.k",
        "math.greatest(1, 2) == 2",
        "object.a.nothing(1)",
        "nothing(object)",
        "1 + 'a' == 2",
        "size(1) == 1",
        "object.a + 1 == 2.0",
        "'a' && true",
        "authorizer.a == 1",
        "authorizer.check('get').allowed()",
        "'a'.matches('[')",
        "jsonpatch.escapeKey('/') == 'a'",
        "Object{} == null",
    )
    for expression in undeclared:
        spec = {**_POLICY, "validations": [{"expression": expression}]}
        _refuse(api, VALIDATING, document("ValidatingAdmissionPolicy", ADMISSION, spec=spec))


#: Variables, an expression of a validation and whether it has the type of one.
_TYPED: list[tuple[dict[str, str], str, bool]] = [
    ({}, "object.spec.isFine", False),
    ({}, "1", False),
    ({}, "null", False),
    ({}, "[true]", False),
    ({}, "has(object.a) ? true : object.b", False),
    ({}, "request.kind.group == '' && request.requestResource.resource == ''", True),
    ({}, "request.kind.resource == ''", False),
    ({}, "request.uid == ''", False),
    ({}, "request.object == null", False),
    ({}, "request.dryRun", True),
    ({}, "request.dryRun == 'yes'", False),
    ({}, "request.options.anything.at == 1", True),
    ({}, "request.options.force", False),
    ({}, "'a' in request.userInfo.groups && request.userInfo.extra['a'].size() == 1", True),
    ({}, "request.userInfo.extra.a.b == ''", False),
    ({}, "request.?subResource.orValue('') == '' && has(request.namespace)", True),
    ({}, "has(request.nothing)", False),
    ({}, "namespaceObject.metadata.labels['a'] == 'b'", True),
    ({}, "namespaceObject.metadata.labels.a == 1", False),
    ({}, "namespaceObject.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z')", True),
    ({}, "namespaceObject.metadata.uid == ''", False),
    ({}, "namespaceObject.metadata.managedFields == []", False),
    ({}, "namespaceObject.status.conditions.all(c, c.type == c.status)", True),
    ({}, "namespaceObject.status.conditions.all(c, c.kind == '')", False),
    ({}, "namespaceObject.spec.finalizers == ['kubernetes']", True),
    ({}, "namespaceObject == null", True),
    ({}, "request == object", True),
    ({}, "type(object) == timestamp", False),
    ({"a": "type(object) == google.protobuf.Any"}, "variables.a", False),
    ({}, "variables == null", False),
    ({}, "variables.a == 1", False),
    ({}, "params.a == 1", False),
    ({"a": "1"}, "variables.a == 1", True),
    ({"a": "1"}, "variables.a == 'b'", False),
    ({"a": "1"}, "variables.b == 1", False),
    ({"a": "object.a"}, "variables.a == 1 && variables.a == 'b'", True),
    ({"a": "object.a"}, "variables.a", False),
    ({"a": "true", "b": "variables.a ? [1] : [2]"}, "variables.b[0] == 1 && variables.a", True),
    ({"a": "[1]", "b": "{'k': [variables.a]}"}, "variables.b.k[0][0] == '1'", False),
    ({"a": "request.userInfo"}, "variables.a.anything == 1", True),
    ({"a": "request.userInfo.groups"}, "variables.a.all(g, g == 1)", False),
    ({"a": "variables.b", "b": "1"}, "true", False),
    ({"a": "nothing"}, "variables.a == 1", False),
    ({"a": "variables.a"}, "true", False),
    ({"a": "null"}, "variables.a == null", True),
    ({"a": "duration('1s')"}, "variables.a < duration('2s')", True),
    ({"a": "quantity('1')"}, "variables.a.anything", False),
    ({"a": "quantity('1')"}, "variables.a.isGreaterThan(quantity('2'))", True),
    ({"a": "optional.of(1)"}, "variables.a.value() == 1", True),
    ({"a": "type(1)"}, "variables.a == int", True),
]


@scenario
def expressions_of_policies_have_types(api: Api, _namespace: str) -> None:
    codes = []
    for variables, expression, _ in _TYPED:
        spec = {
            **_POLICY,
            "validations": [{"expression": expression}],
            "variables": [{"name": name, "expression": it} for name, it in variables.items()],
        }
        policy = document("ValidatingAdmissionPolicy", ADMISSION, "typed", spec=spec)
        codes.append((variables, expression, api.post(VALIDATING, policy, dryRun="All").code))
    assert codes == [(*parts, 201 if is_valid else 422) for *parts, is_valid in _TYPED]


@scenario
def other_expressions_of_policies_have_types_as_well(api: Api, _namespace: str) -> None:
    """Covers match conditions, messages and annotations, with a kind of parameters and without."""
    parameters = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
    with_params = {**parameters, "validations": [{"expression": "params.data.a == 'b'"}]}
    variable = {"variables": [{"name": "a", "expression": "'x'"}]}

    def condition(text: str) -> dict[str, Any]:
        return {"matchConditions": [{"name": "a", "expression": text}]}

    def message(text: str) -> dict[str, Any]:
        return {"validations": [{"expression": "true", "messageExpression": text}]}

    def annotation(text: str) -> dict[str, Any]:
        return {"auditAnnotations": [{"key": "a", "valueExpression": text}]}

    valid: list[dict[str, Any]] = [
        with_params,
        condition("request.name == ''"),
        {**parameters, **condition("params == null")},
        message("'a' + string(object.b)"),
        {**parameters, **message("params.data.a + string(1)")},
        {**variable, **message("variables.a")},
        annotation("null"),
        annotation("'a'"),
        {**variable, **annotation("variables.a + 'b'")},
    ]
    invalid: list[dict[str, Any]] = [
        {**with_params, "paramKind": None},
        condition("object.a"),
        condition("'a'"),
        condition("params == null"),
        {**variable, **condition("variables.a == ''")},
        message("object.b"),
        message("1"),
        message("authorizer.group('').resource('pods').check('get').reason()"),
        message("params.data.a + 'a'"),
        annotation("object.a"),
        annotation("1"),
        annotation("object.a ? 'a' : null"),
    ]
    for number, fields in enumerate((*valid, *invalid)):
        spec = {**_POLICY, **fields}
        policy = document("ValidatingAdmissionPolicy", ADMISSION, "typed", spec=spec)
        answer = api.post(VALIDATING, policy, dryRun="All")
        assert answer.code == (201 if number < len(valid) else 422), f"{fields}: {answer.message}"
    hook = {**_HOOK, "matchConditions": [{"name": "a", "expression": "object.a"}]}
    body = document("ValidatingWebhookConfiguration", ADMISSION, "typed", webhooks=[hook])
    _refuse(api, f"/apis/{ADMISSION}/validatingwebhookconfigurations", body)


@scenario
def expressions_of_mutations_have_declared_variables(api: Api, namespace: str) -> None:
    declared = (
        f"type(object) == google.protobuf.Timestamp ? {_OPERATIONS} : []",
        '[JSONPatch{op: "remove", path: "/a/" + jsonpatch.escapeKey(object.b)}]',
        '[1].map(x, JSONPatch{op: "test", path: "/a", value: x})',
    )
    undeclared = (
        '[JSONPatch{op: nothing, path: "/a"}]',
        "type(object) == google.protobuf.Nothing ? [JSONPatch{}] : []",
        '[x].map(x, JSONPatch{op: "test", path: "/a", value: x})',
    )
    for number, expression in enumerate((*declared, *undeclared)):
        patch = {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
        spec = {**_MUTATION, "mutations": [patch]}
        policy = document("MutatingAdmissionPolicy", ADMISSION, f"{namespace}-{number}", spec=spec)
        answer = api.post(MUTATING, policy, dryRun="All")
        expected = 201 if expression in declared else 422
        assert answer.code == expected, f"{expression}: {answer.message}"


#: Expressions of patches and of configurations to apply, and whether they are valid.
_PATCHES: list[tuple[str, bool]] = [
    ("[]", False),
    ("[JSONPatch{}]", True),
    ("[JSONPatch{op: 'add', path: '/a', value: [1, 'a']}]", False),
    ("[JSONPatch{op: 'add', path: '/a', from: '/b', value: {'a': Object{}}}]", True),
    ("[JSONPatch{op: 1}]", False),
    ("[JSONPatch{path: object.a}]", True),
    ("[JSONPatch{path: ['a']}]", False),
    ("[JSONPatch{?path: object.?a}]", True),
    ("[JSONPatch{?path: optional.of(1)}]", False),
    ("[JSONPatch{?path: 'a'}]", False),
    ("JSONPatch{}", False),
    ("[JSONPatch{}, JSONPatch{}] + (has(object.a) ? [JSONPatch{}] : [])", True),
    ("object.a ? [JSONPatch{}] : []", True),
    ("object.a ? [JSONPatch{}] : [1]", False),
    ("[JSONPatch{}, Object{}]", False),
    ("object.a.map(x, JSONPatch{path: x})", True),
    ("object.a", False),
    ("[JSONPatch{path: JSONPatch{path: '/a'}.path}]", True),
    ("[JSONPatch{path: JSONPatch{value: 1}.value}]", True),
    ("[JSONPatch{value: variables.a}]", False),
    ("[JSONPatch{path: jsonpatch.escapeKey('/')}]", True),
    ("[JSONPatch{path: jsonpatch.escapeKey(1)}]", False),
    ("[JSONPatch{path: jsonpatch.nothing('/')}]", False),
    ("[Nothing{}]", False),
    ("[request{}]", False),
    ("[JSONPatch{value: type(Object{}) == Object}]", False),
    ("[JSONPatch{value: type(Object{}) == Object.spec.a}]", False),
]
_APPLIED: list[tuple[str, bool]] = [
    ("Object{}", True),
    ("Object{spec: Object.spec{replicas: 3, list: [Object.spec.list{a: 'x'}]}}", True),
    ("Object{spec: {'a': 1}}", True),
    ("Object.spec{}", False),
    ("object", False),
    ("has(object.a) ? Object{} : Object{a: 1}", True),
    ("has(object.a) ? Object{} : null", True),
    ("Object{a: Object{b: 1}.b.c}", True),
    ("Object{a: nothing}", False),
    ("Object{?a: object.?b, ?c: optional.none()}", True),
    ("Object{?a: 1}", False),
    ("Object", False),
    ("JSONPatch{}", False),
]


@scenario
def expressions_of_mutations_have_types(api: Api, _namespace: str) -> None:
    codes = []
    kinds = (
        ("JSONPatch", "jsonPatch", _PATCHES),
        ("ApplyConfiguration", "applyConfiguration", _APPLIED),
    )
    for kind, field, expressions in kinds:
        for expression, _ in expressions:
            mutation = {"patchType": kind, field: {"expression": expression}}
            spec = {**_MUTATION, "mutations": [mutation]}
            policy = document("MutatingAdmissionPolicy", ADMISSION, "typed", spec=spec)
            codes.append((expression, api.post(MUTATING, policy, dryRun="All").code == 201))
    assert codes == [*_PATCHES, *_APPLIED]


@scenario
def invalid_mutations_are_refused(api: Api, _namespace: str) -> None:
    apply = {"expression": "Object{}"}
    deletes = {**_RULE, "operations": ["DELETE"]}
    wrong: list[dict[str, Any]] = [
        {"mutations": []},
        {"mutations": [{}]},
        {"mutations": [{"patchType": "Odd"}]},
        {"mutations": [{"patchType": "JSONPatch"}]},
        {"mutations": [{"patchType": "ApplyConfiguration"}]},
        {"mutations": [{**_JSON_PATCH, "applyConfiguration": apply}]},
        {"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": ""}}]},
        {"reinvocationPolicy": ""},
        {"reinvocationPolicy": "Often"},
        {"matchConstraints": {"resourceRules": [deletes]}},
    ]
    for fields in wrong:
        spec = {**_MUTATION, **fields}
        _refuse(api, MUTATING, document("MutatingAdmissionPolicy", ADMISSION, spec=spec))


@scenario
def invalid_bindings_are_refused(api: Api, _namespace: str) -> None:
    deny = {"parameterNotFoundAction": "Deny"}
    base = {"policyName": "p", "validationActions": ["Deny"]}
    wrong: list[dict[str, Any]] = [
        {"policyName": ""},
        {"policyName": "A_"},
        {"validationActions": []},
        {"validationActions": ["Deny", "Warn", "Warn", "Odd"]},
        {"paramRef": {}},
        {"paramRef": {"name": "a/b", "selector": {}, "parameterNotFoundAction": "Odd"}},
        {"paramRef": {**deny, "selector": {"matchLabels": {"a": "b c"}}}},
        {"matchResources": {"resourceRules": [{}]}},
    ]
    where = f"/apis/{ADMISSION}/validatingadmissionpolicybindings"
    for fields in wrong:
        obj = document("ValidatingAdmissionPolicyBinding", ADMISSION, spec={**base, **fields})
        _refuse(api, where, obj)
    deletes = {"resourceRules": [{**_RULE, "operations": ["DELETE"]}]}
    spec = {"policyName": "p", "matchResources": deletes}
    where = f"/apis/{ADMISSION}/mutatingadmissionpolicybindings"
    _refuse(api, where, document("MutatingAdmissionPolicyBinding", ADMISSION, spec=spec))


@scenario
def revisions_are_stored(api: Api, namespace: str) -> None:
    revisions = path("apis/apps/v1", namespace, "controllerrevisions")
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": "d",
        "uid": "1",
        "controller": True,
    }
    obj = document("ControllerRevision", "apps/v1", data={"spec": {"a": 1}}, revision=3)
    obj["metadata"]["ownerReferences"] = [owner]
    assert api.post(revisions, obj, dryRun="All").code == 201
    del obj["metadata"]["ownerReferences"]
    assert api.post(revisions, obj).code == 201
    assert api.put(f"{revisions}/x", {**obj, "revision": 4}).code == 200
    assert api.put(f"{revisions}/x", {**obj, "revision": -1, "data": {"b": 2}}).code == 422
    assert len(api.ask("GET", revisions, accept=TABLE).body["rows"]) == 1
    for content in ({}, {"data": None}, {"data": 3}, {"data": {}, "revision": -1}):
        _refuse(api, revisions, document("ControllerRevision", "apps/v1", "y", **content))


@scenario
def pod_templates_are_stored(api: Api, namespace: str) -> None:
    templates = path("api/v1", namespace, "podtemplates")
    containers = [{"name": "a", "image": "b"}, {"name": "c", "image": "d:1"}]
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": containers}}
    obj = document("PodTemplate", "v1", template=template)
    assert api.post(templates, obj).code == 201
    change = {"template": {"metadata": {"labels": {"x": "z"}}}}
    assert api.patch(f"{templates}/x", change).body["metadata"]["generation"] == 2
    assert len(api.ask("GET", templates, accept=TABLE).body["rows"]) == 1
    _refuse(api, templates, document("PodTemplate", "v1", "y"))
    assert api.delete(f"{templates}/x").code == 200


@scenario
def classes_of_volume_attributes_are_stored(api: Api, namespace: str) -> None:
    classes = "/apis/storage.k8s.io/v1/volumeattributesclasses"
    storage = "storage.k8s.io/v1"
    content = {"driverName": "Disk.example.com", "parameters": {"iops": "5"}}
    obj = document("VolumeAttributesClass", storage, namespace, **content)
    assert api.post(classes, obj).code == 201
    assert api.patch(f"{classes}/{namespace}", {"parameters": {"iops": "6"}}).code == 422
    assert api.patch(f"{classes}/{namespace}", {"driverName": "a"}).code == 422
    assert api.patch(f"{classes}/{namespace}", {"metadata": {"labels": {"a": "b"}}}).code == 200
    table = api.ask("GET", f"{classes}/{namespace}", accept=TABLE)
    assert table.body["rows"][0]["cells"][1] == "Disk.example.com"
    for wrong in ({}, {"driverName": "a b"}, {**content, "parameters": {}}):
        _refuse(api, classes, document("VolumeAttributesClass", storage, "y", **wrong))


@scenario
def storage_that_is_used_is_protected(api: Api, namespace: str) -> None:
    """Objects that are in use stay until a controller or a client removes their finalizer."""
    claims = path("api/v1", namespace, "persistentvolumeclaims")
    volumes = path("api/v1", "", "persistentvolumes")
    classes = path("apis/storage.k8s.io/v1", "", "volumeattributesclasses")
    name = f"used-{namespace}"
    attributes_class: dict[str, Any] = {"metadata": {"name": name}, "parameters": {"iops": "1"}}
    attributes_class["driverName"] = "d.example.com"
    assert api.post(classes, attributes_class).code == 201
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"]}
    of_claim = {**spec, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name}
    of_claim |= {"volumeAttributesClassName": name, "storageClassName": ""}
    metadata = {"name": "used", "finalizers": ["example.com/mine"]}
    claim = api.post(claims, {"metadata": metadata, "spec": of_claim})
    assert claim.body["metadata"]["finalizers"] == [
        "example.com/mine",
        "kubernetes.io/pvc-protection",
    ]
    reference = {"namespace": namespace, "name": "used", "uid": claim.body["metadata"]["uid"]}
    of_volume = {**spec, "capacity": {"storage": "1Gi"}, "claimRef": reference}
    of_volume["csi"] = {"driver": "d.example.com", "volumeHandle": "v"}
    assert api.post(volumes, {"metadata": {"name": name}, "spec": of_volume}).code == 201
    assert api.patch(f"{volumes}/{name}/status", {"status": {"phase": "Bound"}}).code == 200
    mounted = [{"name": "data", "persistentVolumeClaim": {"claimName": "used"}}]
    user = pod("user", nodeName="absent", volumes=mounted)
    assert api.post(pods(namespace), user).code == 201
    used = ((claims, "used"), (volumes, name), (classes, name))
    for url, own_name in used:
        for _ in range(2):
            answer = api.delete(f"{url}/{own_name}")
            assert answer.code == 200
            assert answer.body["metadata"]["finalizers"]
            assert api.get(f"{url}/{own_name}").code == 200
        api.ask("GET", f"{url}/{own_name}", accept=TABLE)
    for url, own_name in reversed(used):
        changed = api.patch(f"{url}/{own_name}", {"metadata": {"finalizers": None}})
        assert changed.code == 200
        assert api.get(f"{url}/{own_name}").code == 404

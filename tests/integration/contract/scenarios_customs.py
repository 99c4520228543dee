"""CustomResourceDefinitions, and the objects of the resources that they add.

The real server establishes a definition in the background, so a scenario waits until it serves the
resource; what it reads meanwhile is not noted.
"""

from __future__ import annotations

import time
from typing import Any

from tests.integration.contract.api import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    TABLE,
    Api,
    Watch,
)
from tests.integration.contract.scenario import path, scenario
from tests.integration.contract.scenarios_roles import allow, rule

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "contract.example.com"
_WAIT_S_MAX = 20.0
_SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "note": {"type": "string", "nullable": True},
        "share": {"type": "number"},
        "port": {"x-kubernetes-int-or-string": True},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "count": {"type": "integer", "default": 1},
                },
            },
        },
    },
}
_STATUS = {
    "type": "object",
    "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}},
}


def definition(plural: str, *, group: str = GROUP, **version: Any) -> dict[str, Any]:
    """Returns a definition of one version."""
    kind = plural[:-1].capitalize()
    schema = {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


def install(api: Api, body: dict[str, Any]) -> None:
    """Creates a definition, and waits until its resource is served."""
    name, spec = body["metadata"]["name"], body["spec"]
    answer = api.post(DEFINITIONS, body)
    assert answer.code == 201, answer.body["message"]
    notes = list(api.notes)
    end = time.monotonic() + _WAIT_S_MAX
    root = f"/apis/{spec['group']}/{spec['versions'][0]['name']}"
    url = f"{root}/{spec['names']['plural']}"
    while time.monotonic() < end:
        conditions = api.get(f"{DEFINITIONS}/{name}").body["status"].get("conditions") or ()
        is_established = any(
            (c["type"], c["status"]) == ("Established", "True") for c in conditions
        )
        if is_established and api.get(url).code == api.get(root).code == 200:
            break
        time.sleep(0.05)
    else:
        raise AssertionError(f"{url} is not served")
    api.notes[:] = notes


def remove(api: Api, plural: str, group: str = GROUP) -> None:
    """Deletes a definition, and waits until it is gone."""
    name = f"{plural}.{group}"
    notes = list(api.notes)
    api.delete(f"{DEFINITIONS}/{name}")
    end = time.monotonic() + _WAIT_S_MAX
    while api.get(f"{DEFINITIONS}/{name}").code != 404:
        assert time.monotonic() < end, f"{name} is not deleted"
        time.sleep(0.05)
    api.notes[:] = notes


def custom(kind: str, name: str, spec: Any = None, **more: Any) -> dict[str, Any]:
    """Returns a custom object."""
    spec = {"size": 1} if spec is None else spec
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
        **more,
    }


@scenario
def objects_are_created_changed_and_deleted(api: Api, namespace: str) -> None:
    install(api, definition("plains"))
    try:
        plains = path(f"apis/{GROUP}/v1", namespace, "plains")
        assert api.post(plains, custom("Plain", "a", {"size": 2, "extra": 1})).code == 201
        created = api.get(f"{plains}/a").body
        assert created["spec"] == {"size": 2, "color": "red"}
        assert created["metadata"]["generation"] == 1
        assert api.post(plains, custom("Plain", "a")).code == 409
        assert api.put(f"{plains}/a", custom("Plain", "a", {"size": 3})).code == 422
        assert api.patch(f"{plains}/a", {"spec": {"size": 3}}, MERGE).code == 200
        add = [{"op": "add", "path": "/spec/note", "value": "n"}]
        assert api.patch(f"{plains}/a", add, JSON_PATCH).code == 200
        assert api.patch(f"{plains}/a", {"spec": {"size": 3}}, STRATEGIC).code == 415
        assert api.get(f"{plains}/a").body["metadata"]["generation"] == 3
        api.get(plains)
        assert api.get(f"{plains}/b").code == 404
        assert api.delete(f"{plains}/a").code == 200
        assert api.get(plains).body["items"] == []
    finally:
        remove(api, "plains")


@scenario
def values_are_validated(api: Api, namespace: str) -> None:
    install(api, definition("checks"))
    try:
        checks = path(f"apis/{GROUP}/v1", namespace, "checks")
        for spec in (
            {},
            {"size": 0},
            {"size": 10},
            {"size": "1"},
            {"size": 1, "color": "green"},
            {"size": 1, "code": "A1"},
            {"size": 1, "code": "a"},
            {"size": 1, "code": "abcdef"},
            {"size": 1, "tags": ["a", "b", "c"]},
            {"size": 1, "tags": [1]},
            {"size": 1, "share": "x"},
            {"size": 1, "port": True},
            {"size": 1, "labels": {"a": 1}},
            {"size": 1, "parts": [{"name": "a"}, {"name": "a"}]},
            {"size": 1, "parts": [{"count": 1}]},
        ):
            assert api.post(checks, custom("Check", "a", spec)).code == 422, spec
        valid = {"size": 1, "note": None, "port": "http", "free": {"x": {"y": None}}, "code": None}
        created = api.post(checks, custom("Check", "a", valid))
        assert created.code == 201
        assert created.body["spec"]["note"] is None
        assert "code" not in created.body["spec"]
    finally:
        remove(api, "checks")


@scenario
def unknown_fields_are_refused_if_strict(api: Api, namespace: str) -> None:
    install(api, definition("stricts"))
    try:
        stricts = path(f"apis/{GROUP}/v1", namespace, "stricts")
        body = custom("Strict", "a", {"size": 1, "extra": 1, "parts": [{"name": "a", "b": 1}]})
        assert api.post(stricts, body, fieldValidation="Strict").code == 400
        answer = api.post(stricts, body, fieldValidation="Warn")
        assert answer.code == 201
        assert answer.body["spec"]["parts"] == [{"name": "a", "count": 1}]
    finally:
        remove(api, "stricts")


@scenario
def status_and_scale_are_subresources(api: Api, namespace: str) -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}
    install(api, definition("scaleds", subresources={"status": {}, "scale": scale}))
    try:
        scaleds = path(f"apis/{GROUP}/v1", namespace, "scaleds")
        body = custom("Scaled", "a", {"size": 2}, status={"replicas": 1})
        assert "status" not in api.post(scaleds, body).body
        status = {"status": {"replicas": 2, "phase": "Up"}, "spec": {"size": 5}}
        changed = api.patch(f"{scaleds}/a/status", status, MERGE)
        assert changed.body["status"]["phase"] == "Up"
        assert changed.body["spec"]["size"] == 2
        assert changed.body["metadata"]["generation"] == 1
        assert api.patch(f"{scaleds}/a/status", {"status": {"replicas": "x"}}, MERGE).code == 422
        assert api.get(f"{scaleds}/a/scale").body["spec"]["replicas"] == 2
        assert api.patch(f"{scaleds}/a/scale", {"spec": {"replicas": 4}}, MERGE).code == 200
        assert api.get(f"{scaleds}/a").body["spec"]["size"] == 4
    finally:
        remove(api, "scaleds")


@scenario
def tables_have_the_columns_of_the_definition(api: Api, namespace: str) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        {"name": "Share", "type": "number", "jsonPath": ".spec.share", "format": "float"},
        {"name": "Count", "type": "integer", "jsonPath": '.spec.parts[?(@.name=="b")].count'},
        {"name": "Tags", "type": "string", "jsonPath": ".spec.tags"},
    ]
    install(api, definition("tableds", additionalPrinterColumns=columns))
    try:
        tableds = path(f"apis/{GROUP}/v1", namespace, "tableds")
        spec = {"size": 1, "share": 1.5, "parts": [{"name": "b", "count": 7}], "tags": ["x", "y"]}
        api.post(tableds, custom("Tabled", "a", spec))
        answer = api.ask("GET", tableds, accept=TABLE)
        assert answer.body["rows"][0]["cells"][:5] == ["a", 1, "red", 1.5, 7]
    finally:
        remove(api, "tableds")


@scenario
def a_manager_applies_a_custom_object(api: Api, namespace: str) -> None:
    install(api, definition("applieds"))
    try:
        url = path(f"apis/{GROUP}/v1", namespace, "applieds", "a")
        body = custom(
            "Applied", "a", {"size": 1, "parts": [{"name": "x"}], "free": {"k": {"v": 1}}}
        )
        assert api.patch(url, body, APPLY, fieldManager="one").code == 201
        other = custom("Applied", "a", {"size": 1, "parts": [{"name": "y", "count": 2}]})
        assert api.patch(url, other, APPLY, fieldManager="two").code == 200
        assert [p["name"] for p in api.get(url).body["spec"]["parts"]] == ["x", "y"]
        conflict = custom("Applied", "a", {"size": 2})
        assert api.patch(url, conflict, APPLY, fieldManager="two").code == 409
        assert api.patch(url, conflict, APPLY, fieldManager="two", force="true").code == 200
        assert [p["name"] for p in api.get(url).body["spec"]["parts"]] == ["x"]
    finally:
        remove(api, "applieds")


@scenario
def fields_of_the_definition_select_objects(api: Api, namespace: str) -> None:
    install(api, definition("selects", selectableFields=[{"jsonPath": ".spec.color"}]))
    try:
        selects = path(f"apis/{GROUP}/v1", namespace, "selects")
        api.post(selects, custom("Select", "a", {"size": 1, "color": "blue"}))
        api.post(selects, custom("Select", "b", {"size": 1}))
        blue = api.get(selects, fieldSelector="spec.color=blue").body
        assert [item["metadata"]["name"] for item in blue["items"]] == ["a"]
        assert api.get(selects, fieldSelector="spec.size=1").code == 400
        assert api.get(selects, fieldSelector="metadata.name=b").code == 200
    finally:
        remove(api, "selects")


@scenario
def definitions_are_validated(api: Api, namespace: str) -> None:
    del namespace

    def create(change: Any, **version: Any) -> None:
        body = definition("refuseds", **version)
        change(body)
        assert api.post(DEFINITIONS, body).code == 422

    def schema(**parts: Any) -> dict[str, Any]:
        return {"openAPIV3Schema": {"type": "object", **parts}}

    create(lambda body: body["metadata"].update(name="other.example.com"))
    create(lambda body: body["spec"].update(scope="World"))
    create(lambda body: body["spec"]["names"].update(kind="Re fused"))
    create(lambda body: body["spec"]["names"].update(listKind="Refused"))
    create(lambda _: None, storage=False)
    create(lambda _: None, schema=None)
    create(lambda _: None, schema={"openAPIV3Schema": {}})
    refused: list[dict[str, Any]] = [
        {"a": {}},
        {"a": {"type": "text"}},
        {"a": {"type": "array"}},
        {"a": {"type": "string", "uniqueItems": True}},
        {"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": False}},
        {"a": {"type": "integer", "default": "x"}},
        {"a": {"type": "string", "pattern": "["}},
        {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
    ]
    for properties in refused:
        create(lambda _: None, schema=schema(properties=properties))
    columns = [
        {"name": "x", "type": "text", "jsonPath": ".spec"},
        {"name": "x", "type": "string", "jsonPath": "spec", "format": "ipv4"},
        {"name": "", "type": "", "jsonPath": ""},
    ]
    for column in columns:
        create(lambda _: None, additionalPrinterColumns=[column])


@scenario
def discovery_has_the_resource(api: Api, namespace: str) -> None:
    del namespace
    group = "listed.example.com"  # of its own: discovery lags behind other scenarios
    body = definition("listeds", group=group, subresources={"status": {}})
    body["spec"]["names"].update(shortNames=["ld"], categories=["all"], singular="listed")
    install(api, body)
    try:
        api.get(f"/apis/{group}/v1")
        api.get(f"/apis/{group}")
        listed = api.get(f"{DEFINITIONS}/listeds.{group}").body
        assert listed["status"]["acceptedNames"]["shortNames"] == ["ld"]
    finally:
        remove(api, "listeds", group)


@scenario
def objects_are_served_in_each_version(api: Api, namespace: str) -> None:
    body = definition("doubles")
    old = {**body["spec"]["versions"][0], "name": "v1beta1", "storage": False}
    body["spec"]["versions"].append(old)
    install(api, body)
    try:
        doubles = path(f"apis/{GROUP}/v1", namespace, "doubles")
        betas = path(f"apis/{GROUP}/v1beta1", namespace, "doubles")
        api.post(doubles, custom("Double", "a"))
        assert api.get(f"{betas}/a").body["apiVersion"] == f"{GROUP}/v1beta1"
        beta = {**custom("Double", "b"), "apiVersion": f"{GROUP}/v1beta1"}
        assert api.post(betas, beta).code == 201
        assert api.get(f"{doubles}/b").body["apiVersion"] == f"{GROUP}/v1"
        assert len(api.get(betas).body["items"]) == 2
    finally:
        remove(api, "doubles")


@scenario
def a_finalizer_delays_the_deletion(api: Api, namespace: str) -> None:
    install(api, definition("helds"))
    try:
        helds = path(f"apis/{GROUP}/v1", namespace, "helds")
        body = custom("Held", "a")
        body["metadata"]["finalizers"] = ["example.com/hold"]
        api.post(helds, body)
        assert api.delete(f"{helds}/a").body["metadata"]["deletionTimestamp"]
        assert api.get(f"{helds}/a").code == 200
        assert api.patch(f"{helds}/a", {"metadata": {"finalizers": None}}, MERGE).code == 200
        assert api.get(f"{helds}/a").code == 404
        api.post(helds, custom("Held", "b", {"size": 1}))
        api.delete(helds)
        assert api.get(helds).body["items"] == []
    finally:
        remove(api, "helds")


@scenario
def a_watch_sees_custom_objects(api: Api, namespace: str) -> None:
    install(api, definition("seens"))
    try:
        seens = path(f"apis/{GROUP}/v1", namespace, "seens")
        with api.watch(seens) as watch:
            api.post(seens, custom("Seen", "a"))
            api.patch(f"{seens}/a", {"spec": {"size": 2}}, MERGE)
            api.delete(f"{seens}/a")
            kinds = [kind for kind, _ in watch.take(3)]
        assert kinds == ["ADDED", "MODIFIED", "DELETED"]
    finally:
        remove(api, "seens")


@scenario
def deleting_a_definition_deletes_its_objects(api: Api, namespace: str) -> None:
    install(api, definition("gones"))
    gones = path(f"apis/{GROUP}/v1", namespace, "gones")
    assert api.post(gones, custom("Gone", "a")).code == 201
    remove(api, "gones")
    install(api, definition("gones"))
    assert api.get(gones).body["items"] == []
    remove(api, "gones")


@scenario
def deleting_a_definition_ends_the_watches_of_its_objects(api: Api, namespace: str) -> None:
    install(api, definition("endings"))
    endings = path(f"apis/{GROUP}/v1", namespace, "endings")
    assert api.post(endings, custom("Ending", "a")).code == 201
    with api.watch(endings) as watch:
        assert watch.take(1) == [("ADDED", "a")]
        remove(api, "endings")
        assert watch.take(1) == [("DELETED", "a")]
        assert has_ended(watch)
    assert api.get(endings).code == 404


@scenario
def changing_a_definition_ends_the_watches_of_its_objects(api: Api, namespace: str) -> None:
    install(api, definition("turnings"))
    turnings = path(f"apis/{GROUP}/v1", namespace, "turnings")
    try:
        with api.watch(turnings) as watch:
            names = {"spec": {"names": {"shortNames": ["tu"]}}}
            assert api.patch(f"{DEFINITIONS}/turnings.{GROUP}", names, MERGE).code == 200
            assert has_ended(watch)
    finally:
        remove(api, "turnings")


def has_ended(watch: Watch) -> bool:
    """Returns whether the server ends a watch, without a further event."""
    try:
        watch.next()
    except EOFError:
        return True
    return False


@scenario
def a_role_allows_custom_resources(api: Api, namespace: str) -> None:
    group = "roles.contract.example.com"
    install(api, definition("guardeds", group=group))
    guardeds = path(f"apis/{group}/v1", namespace, "guardeds")
    who = f"keeper-of-{namespace}"
    keeper = api.acting_as(who)
    body = {
        "apiVersion": f"{group}/v1",
        "kind": "Guarded",
        "metadata": {"name": "a"},
        "spec": {"size": 1},
    }
    try:
        assert keeper.get(guardeds).code == 403
        rules = rule("get list watch", "guardeds", group), rule("create", "guardeds/status", group)
        allow(api, namespace, who, *rules)
        api.eventually(lambda: keeper.get(guardeds), 200)
        assert keeper.post(guardeds, body).code == 403
        assert api.post(guardeds, body).code == 201
        assert keeper.get(f"{guardeds}/a").code == 200
        assert keeper.delete(f"{guardeds}/a").code == 403
        assert keeper.put(f"{guardeds}/a/status", body).code == 403
        assert keeper.get(f"/apis/{group}/v1/guardeds").code == 403, "of all namespaces"
        with keeper.watch(guardeds) as watch:
            assert watch.take(1) == [("ADDED", "a")]
    finally:
        remove(api, "guardeds", group)


@scenario
def a_definition_is_changed(api: Api, namespace: str) -> None:
    install(api, definition("changeds"))
    try:
        url = f"{DEFINITIONS}/changeds.{GROUP}"
        assert api.patch(url, {"spec": {"scope": "Cluster"}}, MERGE).code == 422
        assert api.patch(url, {"spec": {"names": {"kind": "Other"}}}, MERGE).code == 422
        added = {"metadata": {"labels": {"a": "b"}}}
        assert api.patch(url, added, MERGE).body["metadata"]["generation"] == 1
        assert api.get(path(f"apis/{GROUP}/v1", namespace, "changeds")).code == 200
    finally:
        remove(api, "changeds")


@scenario
def conversions_are_validated(api: Api, namespace: str) -> None:
    """Requires a webhook's configuration and review versions, and refuses them without one."""
    service = {"name": "webhook", "namespace": "system"}
    complete = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    conversions: list[dict[str, Any]] = [
        {"strategy": "Sometimes"},
        {"strategy": "Webhook"},
        {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1", "v1"]}},
        {"strategy": "Webhook", "webhook": {**complete, "conversionReviewVersions": ["v2"]}},
        {"strategy": "Webhook", "webhook": {**complete, "clientConfig": {}}},
        {"strategy": "None", "webhook": complete},
    ]
    for conversion in conversions:
        body = definition("converts")
        body["spec"]["conversion"] = conversion
        api.post(DEFINITIONS, body)


@scenario
def selectable_fields_are_scalars_of_the_schema(api: Api, namespace: str) -> None:
    del namespace
    refused = (".a[?(@.b==1)]", ".spec.tags[0]", ".spec.absent", ".spec.", "spec", ".spec.tags")
    for number, text in enumerate((*refused, ".spec.labels.a.b", ".metadata.name", "..", "")):
        body = definition(f"selectables{number}s", selectableFields=[{"jsonPath": text}])
        assert api.post(DEFINITIONS, body).code == 422
    twice = [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.color"}]
    assert api.post(DEFINITIONS, definition("twices", selectableFields=twice)).code == 422
    many = {f"f{number}": {"type": "string"} for number in range(9)}
    schema = {"openAPIV3Schema": {"type": "object", "properties": many}}
    fields = [{"jsonPath": f".{name}"} for name in many]
    body = definition("manys", schema=schema, selectableFields=fields)
    assert api.post(DEFINITIONS, body).code == 422


@scenario
def schemas_of_additional_properties_are_decoded(api: Api, namespace: str) -> None:
    del namespace
    refused: tuple[Any, ...] = (
        {"type": "string", "maxLength": []},
        {"type": "object", "additionalProperties": {"minimum": "1"}},
        "true",
        7,
        [],
    )
    for number, additional in enumerate(refused):
        part = {"type": "object", "properties": {"a": {"additionalProperties": additional}}}
        body = definition(f"decodeds{number}s", schema={"openAPIV3Schema": part})
        assert api.post(DEFINITIONS, body).code == 400


@scenario
def objects_inside_custom_objects_have_names(api: Api, namespace: str) -> None:
    preserved = {"x-kubernetes-preserve-unknown-fields": True}
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, **preserved}
    spec = {
        "type": "object",
        "properties": {"one": embedded, "many": {"type": "array", "items": embedded}},
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    install(api, definition("embeddeds", schema=schema))
    try:
        url = path(f"apis/{GROUP}/v1", namespace, "embeddeds")
        pod = {"apiVersion": "v1", "kind": "Pod"}
        for wrong in (
            {"kind": "Pod"},
            {**pod, "apiVersion": ""},
            {**pod, "apiVersion": "a/b/c"},
            {**pod, "kind": "P d"},
            {**pod, "metadata": {"name": "a/b"}},
            {**pod, "metadata": {"labels": {"a": "/"}}},
            {**pod, "metadata": {"namespace": "A"}},
        ):
            assert api.post(url, custom("Embedded", "a", {"one": wrong})).code == 422
        assert api.post(url, custom("Embedded", "a", {"many": [pod, {}]})).code == 422
        for untyped in ({**pod, "apiVersion": {}}, {**pod, "kind": 7}, {**pod, "metadata": 7}):
            assert api.post(url, custom("Embedded", "a", {"many": [untyped]})).code == 400
        right = {**pod, "metadata": {"generateName": "a-", "finalizers": ["x"]}}
        assert api.post(url, custom("Embedded", "a", {"many": [right]})).code == 201
    finally:
        remove(api, "embeddeds")


@scenario
def values_of_another_type_are_refused(api: Api, namespace: str) -> None:
    install(api, definition("typeds"))
    try:
        url = path(f"apis/{GROUP}/v1", namespace, "typeds")
        assert api.post(url, custom("Typed", "b")).code == 201
        for wrong in ({"parts": [7]}, {"parts": 7}, {"labels": "a"}, {"labels": [1]}):
            assert api.post(url, custom("Typed", "a", {"size": 1, **wrong})).code == 422
            assert api.patch(f"{url}/b", {"spec": wrong}, MERGE).code == 422
        assert api.post(url, custom("Typed", "a", [1])).code == 422
    finally:
        remove(api, "typeds")


@scenario
def a_driver_is_stored_without_fields_of_disabled_gates(api: Api, namespace: str) -> None:
    url = "/apis/storage.k8s.io/v1/csidrivers"
    driver = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": namespace},
        "spec": {"preventPodSchedulingIfMissing": True},
    }
    try:
        created = api.post(url, driver)
        assert "preventPodSchedulingIfMissing" not in created.body["spec"]
        patched = api.patch(f"{url}/{namespace}", {"spec": driver["spec"]}, MERGE)
        assert "preventPodSchedulingIfMissing" not in patched.body["spec"]
    finally:
        api.delete(f"{url}/{namespace}")

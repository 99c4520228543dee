"""The forms of requests and answers: methods, shapes, bad bodies, versions, patches, limits."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import APPLY, JSON_PATCH, MERGE, STRATEGIC, TABLE, Api
from tests.integration.contract.objects import config_map, pod
from tests.integration.contract.scenario import path, pods, scenario

PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIALS = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def maps(namespace: str, name: str = "") -> str:
    return path("api/v1", namespace, "configmaps", name)


@scenario
def other_methods_are_refused_or_not_looked_at(api: Api, ns: str) -> None:
    del ns
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        for url in ("/version", "/api", "/api/v1", "/apis/apps/v1"):
            refused = api.ask(method, url)
            assert (refused.code, refused.reason) == (405, "MethodNotAllowed")
        assert api.ask(method, "/healthz").body == "ok"
        assert api.ask(method, "/apis").code == api.ask(method, "/apis/apps").code == 200
    api.notes.clear()


@scenario
def answers_are_for_one_client_only(api: Api, ns: str) -> None:
    for answer in (api.get(maps(ns)), api.get(maps(ns, "none")), api.get("/version")):
        assert answer.headers["cache-control"] == "no-cache, private"
    api.notes.clear()


@scenario
def metadata_alone_comes_as_objects_or_lists(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one", a="1"))
    one = api.ask("GET", maps(ns, "one"), accept=PARTIAL)
    many = api.ask("GET", maps(ns), accept=PARTIALS)
    none = api.ask("GET", maps(ns), accept=PARTIALS, labelSelector="a=b")
    crossed = api.ask("GET", maps(ns), accept=PARTIAL)
    across = api.ask("GET", maps(ns, "one"), accept=PARTIALS)

    assert one.body.keys() == {"kind", "apiVersion", "metadata"}
    assert many.body["items"][0]["metadata"]["name"] == "one"
    assert none.body["items"] is None
    assert (crossed.code, across.code) == (406, 406)
    assert crossed.message.endswith("but the requested object is a list (*core.ConfigMapList)")
    assert across.message.endswith("is not a list (*core.ConfigMap)")


@scenario
def tables_and_metadata_come_in_watches(api: Api, ns: str) -> None:
    version = api.post(maps(ns), config_map("one", a="1")).body["metadata"]["resourceVersion"]
    api.delete(maps(ns, "one"))
    with api.watch(maps(ns), accept=TABLE, resourceVersion=version) as watch:
        kind, table = watch.next()
        assert (kind, table["kind"]) == ("DELETED", "Table")
        assert table["rows"][0]["cells"][0] == "one"
    with api.watch(maps(ns), accept=PARTIAL, resourceVersion=version) as watch:
        kind, found = watch.next()
        assert (kind, found["kind"]) == ("DELETED", "PartialObjectMetadata")


@scenario
def bodies_that_cannot_be_read(api: Api, ns: str) -> None:
    for body, said in (
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b"[]", "cannot unmarshal array into Go value"),
        (b'"x"', "cannot unmarshal string into Go value"),
        (b'{"kind":1}', "cannot unmarshal number into Go struct field .kind of type string"),
        (b'{"a":1}}', "invalid character '}' after top-level value"),
        (b"\xff\xfe", "invalid character 'ÿ' looking for beginning of value"),
        (b'{"x":NaN}', "invalid character 'N' looking for beginning of value"),
        (b"// c", "invalid character '/' looking for beginning of value"),
    ):
        answer = api.ask("POST", maps(ns), body)
        assert (answer.code, said in answer.message) == (400, True), answer.message


@scenario
def a_body_of_null_is_an_object_without_anything(api: Api, ns: str) -> None:
    answer = api.ask("POST", maps(ns), b"null")

    assert answer.code == 422
    assert answer.message.endswith(
        "metadata.name: Required value: name or generateName is required"
    )


@scenario
def texts_that_are_no_utf8_are_mended(api: Api, ns: str) -> None:
    made = api.ask("POST", maps(ns), b'{"metadata":{"name":"odd"},"data":{"a":"x\xff"}}')

    assert made.body["data"] == {"a": "x\ufffd"}


@scenario
def who_is_refused_is_warned_too(api: Api, ns: str) -> None:
    answer = api.ask("POST", maps(ns), b'{"metadata":{},"Metadata":{"name":"d"}}')

    assert answer.code == 422
    assert answer.headers["warning"] == '299 - "unknown field \\"Metadata\\""'


@scenario
def one_object_can_be_asked_for_at_a_version(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one", a="1"))
    fine = api.get(maps(ns, "one"), resourceVersion="1")
    broken = api.get(maps(ns, "one"), resourceVersion="x")

    assert fine.code == 200
    assert broken.code == 500
    assert "strconv.ParseUint" in broken.message


@scenario
def any_version_will_do_comes_without_pages(api: Api, ns: str) -> None:
    for name in ("a", "b", "c"):
        api.post(maps(ns), config_map(name))
    whole = api.get(maps(ns), limit="2", resourceVersion="0")
    page = api.get(maps(ns), limit="2")

    assert len(whole.body["items"]) == 3
    assert "continue" not in whole.body["metadata"]
    assert page.body["metadata"]["remainingItemCount"] == 1


@scenario
def a_broken_token_is_no_page(api: Api, ns: str) -> None:
    for token, place in (("x", 0), ("a!b=", 1), ("abcde", 4)):
        answer = api.get(maps(ns), **{"limit": "1", "continue": token})
        said = f"illegal base64 data at input byte {place}"
        assert (answer.code, said in answer.message) == (400, True), answer.message


@scenario
def patches_that_cannot_be_read(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    lead = "error decoding patch: "
    for how, body, said in (
        (STRATEGIC, b"{bad", "invalid character 'b' looking for beginning of object key string"),
        (MERGE, b"{bad", f"{lead}invalid character 'b' looking for beginning of object key string"),
        (STRATEGIC, b"[]", "json: cannot unmarshal array into Go value of type map[string]inter"),
        (STRATEGIC, b"", "unexpected end of JSON input"),
        (MERGE, b"null", "Invalid JSON Patch"),
        (APPLY, b"[]", "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: "),
    ):
        query = {"fieldManager": "me"} if how == APPLY else {}
        answer = api.patch(pods(ns, "p"), body, how, **query)
        assert answer.code == 400
        assert answer.message.startswith(said)
    for how in (STRATEGIC, JSON_PATCH):
        assert api.patch(pods(ns, "p"), b"null", how).code == 200


@scenario
def a_strategic_patch_says_what_does_not_fit(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))

    def said(patch: Any) -> str:
        answer = api.patch(pods(ns, "p"), patch, STRATEGIC)
        assert answer.code == 422
        return answer.message.rpartition('": ')[2] if '": ' in answer.message else answer.message

    spec = "terminationGracePeriodSeconds"
    assert said({"metadata": {"labels": {"x": 1}}}) == "cannot convert int64 to string"
    assert said({"metadata": {"labels": ["x"]}}) == "cannot restore map from slice"
    assert said({"spec": {"containers": "x"}}) == "cannot restore slice from string"
    assert said({"spec": {spec: 1.5}}) == "cannot convert float64 to int64"
    assert said({"spec": {spec: "x"}}) == "unrecognized type: int64"
    assert said({"spec": {"hostNetwork": "x"}}) == "unrecognized type: bool"


@scenario
def a_strategic_patch_does_not_change_the_kind(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    for patch in ({"kind": "Foo"}, {"apiVersion": "v9"}):
        answer = api.patch(pods(ns, "p"), patch, STRATEGIC)
        assert (answer.code, answer.body["kind"]) == (200, "Pod")


@scenario
def an_object_must_keep_its_name(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one"))
    nameless = config_map("one")
    del nameless["metadata"]["name"]
    text = "the name of the object (one based on URL) was undeterminable: name must be provided"

    assert api.put(maps(ns, "one"), nameless).message == text
    assert api.patch(maps(ns, "one"), {"metadata": None}).message == text
    other = api.patch(maps(ns, "one"), {"metadata": {"name": "two"}})
    assert other.message == "the name of the object (two) does not match the name on the URL (one)"


@scenario
def options_of_a_deletion_are_read_strictly(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one"))
    for body, said in (
        (b"[]", "couldn't get version/kind; json parse error: json: cannot unmarshal array"),
        (b'{"kind":"Foo"}', 'no kind "Foo" is registered for version "meta.k8s.io/v1"'),
        (b'{"gracePeriodSeconds":"x"}', "json: cannot unmarshal string into Go struct field Dele"),
    ):
        answer = api.ask("DELETE", maps(ns, "one"), body)
        assert (answer.code, answer.message.startswith(said)) == (400, True), answer.message
    assert api.get(maps(ns, "one")).code == 200


@scenario
def every_verb_can_be_tried(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one", a="1"))
    tried = (
        api.post(maps(ns), config_map("two"), dryRun="All"),
        api.put(maps(ns, "one"), config_map("one", a="2"), dryRun="All"),
        api.patch(maps(ns, "one"), {"data": {"a": "3"}}, dryRun="All"),
        api.patch(maps(ns, "new"), config_map("new"), APPLY, fieldManager="me", dryRun="All"),
        api.delete(maps(ns, "one"), dryRun="All"),
        api.delete(maps(ns), dryRun="All"),
    )
    assert [answer.code for answer in tried] == [201, 200, 200, 201, 200, 200]
    refused = api.post(maps(ns), config_map("two"), dryRun="Some")
    found = api.get(maps(ns))

    assert refused.code == 422
    assert [(each["metadata"]["name"], each["data"]) for each in found.body["items"]] == [
        ("one", {"a": "1"})
    ]
    api.notes.clear()  # an UID of what is not stored may come again


@scenario
def a_path_names_one_thing(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one"))
    for url in ("/apis//v1/secrets", f"//api/v1/namespaces/{ns}", f"/api/v1//namespaces/{ns}"):
        assert api.get(url).code == 404
    assert api.get(f"{maps(ns)}/").code == api.get(maps(ns)).code == 200
    api.notes.clear()


@scenario
def long_selectors_are_read(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one"))
    values = ",".join(f"value-{number:05}" for number in range(5000))
    found = api.get(maps(ns), labelSelector=f"app in ({values})")

    assert found.code == 200
    assert found.body["items"] == []
    api.notes.clear()


@scenario
def a_pod_that_is_there_has_no_such_part(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))

    assert api.get(pods(ns, "none", "log")).code == 404
    assert api.get(pods(ns, "p", "nosuch")).code == 404


@scenario
def what_is_applied_must_say_what_it_is(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one", a="1"))
    shapes: tuple[Any, ...] = (["v1"], 1, 1.5, True, None, {"a": "b"}, [], {}, "")

    def refused(name: str, **fields: Any) -> str:
        wanted = {**config_map(name, a="1"), **fields}
        answer = api.patch(maps(ns, name), wanted, APPLY, fieldManager="me")
        assert (answer.code, answer.reason) == (400, "BadRequest")
        return answer.message

    lead = "invalid object type: "
    for name in ("one", "none"):
        for shape in shapes:
            assert refused(name, apiVersion=shape) == f"{lead}/, Kind=ConfigMap"
            assert refused(name, kind=shape) == f"{lead}/v1, Kind="
            assert refused(name, apiVersion=shape, kind=shape) == f"{lead}/, Kind="
        assert refused(name, apiVersion="a/b/c") == f"{lead}/, Kind="
        for count in (0, 1):
            metadata = {"name": "other", "managedFields": [{}] * count}
            said = refused(name, metadata=metadata, data=[])
            assert said == "metadata.managedFields must be nil"


@scenario
def the_metadata_of_what_is_applied_is_read_like_the_rest(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one", a="1"))

    def applied(name: str, metadata: Any, **fields: Any) -> Any:
        wanted = {**config_map(name, a="1"), "metadata": metadata, **fields}
        return api.patch(maps(ns, name), wanted, APPLY, fieldManager="me", force="true")

    lead = "failed to create typed patch object"
    for name in ("one", "none"):
        for metadata, where, problem in (
            ("x", "/", ".metadata: expected map, got &{x}"),
            ([], "/", ".metadata: expected map, got &{[]}"),
            ({"name": 1}, "/", ".metadata.name: expected string, got &value"),
            ({"name": "x", "namespace": 1}, "/x", ".metadata.namespace: expected string, got"),
            ({"name": "x", "labels": 1}, "/x", ".metadata.labels: expected map, got &{1}"),
        ):
            answer = applied(name, metadata)
            assert answer.code == 500
            assert answer.message.startswith(f"{lead} ({where}; /v1, Kind=ConfigMap): {problem}")
        assert applied(name, {"name": "x"}).message.startswith("the name of the object (x) does")
        assert applied(name, {"name": None}).message.endswith("name must be provided")
    # Who changes what is there need not say its name again.
    for nameless in ({}, None, {"labels": {"a": "b"}}):
        assert applied("one", nameless).code == 200
        assert applied("none", nameless).message.endswith("name must be provided")


@scenario
def the_metadata_of_a_review_is_read_even_if_nobody_needs_it(api: Api, ns: str) -> None:
    for group, kind, spec in (
        ("authentication", "TokenReview", {"token": "x"}),
        ("authentication", "SelfSubjectReview", {}),
        ("authorization", "SelfSubjectRulesReview", {"namespace": ns}),
        ("authorization", "SubjectAccessReview", {"user": "u"}),
        ("authorization", "SelfSubjectAccessReview", {"nonResourceAttributes": {"path": "/"}}),
    ):
        version = f"{group}.k8s.io/v1"
        for metadata, word in (([], "array"), ([{}], "array"), ("x", "string"), (1, "number")):
            named: dict[str, Any] = {"kind": kind, "metadata": metadata}
            named |= {"apiVersion": version, "spec": spec}
            answer = api.post(f"/apis/{version}/{kind.lower()}s", named)
            assert (answer.code, answer.reason) == (400, "BadRequest")
            assert answer.message == (
                f'{kind} in version "v1" cannot be handled as a {kind}: json: cannot unmarshal '
                f"{word} into Go struct field {kind}.metadata of type v1.ObjectMeta"
            )


@scenario
def a_review_has_the_fields_of_its_manager(api: Api, ns: str) -> None:
    about = {"verb": "get", "resource": "pods"}
    subject = {"user": "system:admin", "groups": ["a"], "extra": {"x": ["y"]}}
    specs: dict[str, dict[str, Any]] = {
        "subjectaccessreviews": {**subject, "resourceAttributes": about},
        "selfsubjectaccessreviews": {"nonResourceAttributes": {"path": "/", "verb": "get"}},
        "localsubjectaccessreviews": {
            "user": "u",
            "resourceAttributes": {"namespace": ns, **about},
        },
    }
    for name, spec in specs.items():
        local = ns if name.startswith("local") else ""
        url = path("apis/authorization.k8s.io/v1", local, name)
        answer = api.post(url, {"spec": spec, "metadata": {}}, fieldManager="me")
        [entry] = answer.body["metadata"]["managedFields"]
        assert (entry["manager"], entry["operation"]) == ("me", "Update")
        assert set(entry["fieldsV1"]["f:spec"]) == {f"f:{field}" for field in spec}
        del answer.body["status"]  # the servers have other rules
    token = {
        "kind": "TokenReview",
        "apiVersion": "authentication.k8s.io/v1",
        "spec": {"token": "x"},
    }
    answer = api.post("/apis/authentication.k8s.io/v1/tokenreviews", token)
    assert answer.body["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {"f:token": {}}}
    del answer.body["status"]


@scenario
def requests_are_counted(api: Api, namespace: str) -> None:
    maps = path("api/v1", namespace, "configmaps")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    assert api.post(maps, body).code == 201
    assert api.get(maps).code == 200
    assert api.patch(f"{maps}/m", {"data": {"a": "b"}}).code == 200
    text = str(api.get("/metrics").body)
    api.notes.pop()  # the counts of all other scenarios
    start = 'apiserver_request_total{code="%s",component="apiserver",dry_run="",group="",'
    rest = 'resource="configmaps",scope="%s",subresource="",verb="%s",version="v1"}'
    for code, scope, verb in ((201, "resource", "POST"), (200, "namespace", "LIST")):
        assert f"{start % code}{rest % (scope, verb)}" in text
    assert f"{start % 200}{rest % ('resource', 'PATCH')}" in text

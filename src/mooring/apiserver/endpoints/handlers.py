"""What a method does at a path: get, list, create, update, patch, delete, and the subresources.

Source: k8s.io/apiserver pkg/endpoints/handlers; k8s.io/kubernetes pkg/registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver.endpoints.body import Expected, decode_yaml, json_kind, media_type_of, typed
from mooring.apiserver.endpoints.listing import check_read_version, list_page
from mooring.apiserver.endpoints.request import (
    SUCCESS,
    Answer,
    Request,
    answered,
    check_name,
    decoded_patch,
    expected_object,
    read_body,
    read_delete_options,
    renderer_for,
)
from mooring.apiserver.endpoints.subresources import Subresources
from mooring.apiserver.errors import (
    Refused,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    method_not_allowed,
    no_such_path,
    not_found,
)
from mooring.apiserver.patch.apply import apply
from mooring.apiserver.patch.apply_errors import find_apply_faults
from mooring.apiserver.patch.managed_fields import Author
from mooring.apiserver.patch.patch import APPLY_PATCH, PATCH_TYPES, STRATEGIC_PATCH, patched
from mooring.apiserver.patch.strategic_merge import conversion_problem, go_text
from mooring.apiserver.registry.delete_options import DeleteOptions, options_of
from mooring.apiserver.registry.deletion import Deleter
from mooring.apiserver.registry.strategies import strategy_of
from mooring.apiserver.resources import BINDINGS, struct_of
from mooring.apiserver.schema.event_conversion import is_view, to_core, to_view
from mooring.apiserver.storage.selection import Selection, selection_of
from mooring.apiserver.storage.stored_object import Stored

if TYPE_CHECKING:
    from mooring.apiserver.endpoints.query import WriteOptions
    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object

_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "POST": "create", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


class Verbs:
    """Answers requests about resources."""

    def __init__(self, registry: Registry, deleter: Deleter) -> None:
        self._registry = registry
        self._deleter = deleter
        self._subresources = Subresources(registry, deleter)
        self._answers: Mapping[str, Callable[[Request], Answer]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    def answer(self, request: Request) -> Answer:
        """Returns the answer to a request.

        Raises:
            Refused: It is refused.
        """
        place = request.place
        if place.subresource:
            return self._answer_part(request)
        if place.resource is BINDINGS:
            return self._bind(request)
        verbs = _VERBS if place.name else _COLLECTION_VERBS
        verb = verbs.get(request.method, "")
        if verb not in place.resource.verbs or (place.name and verb == "create"):
            raise method_not_allowed()
        if place.resource.namespaced and not place.namespace and verb != "list":
            raise method_not_allowed()
        return self._answers[verb](request)

    def _bind(self, request: Request) -> Answer:
        if request.place.name or not request.place.namespace:
            raise no_such_path()
        if request.method != "POST":
            raise method_not_allowed()
        return self._subresources.bind_by_name(request)

    def _answer_part(self, request: Request) -> Answer:
        place = request.place
        part = place.resource.subresource(place.subresource)
        if part is None:
            self._subresources.refuse_unserved(request)
            raise no_such_path()
        verb = _VERBS.get(request.method, "")
        if verb not in part.verbs:
            raise method_not_allowed()
        special = self._subresources.answers.get(place.subresource)
        if special is not None:
            return special(request)
        if verb == "get":
            return self._get(request)
        return self._update(request) if verb == "update" else self._patch(request)

    # ------------------------------------------------------------------ reading

    def _get(self, request: Request) -> Answer:
        renderer = renderer_for(request, self._registry.clock.wall_s())
        check_read_version(self._registry.store.version, request.query.text("resourceVersion"))
        return answered(request, 200, renderer.one(self._registry.get(request.target)))

    def _list(self, request: Request) -> Answer:
        renderer = renderer_for(request, self._registry.clock.wall_s())
        options = request.query.list_options()
        page = list_page(self._registry.store, _selection(request), options)
        return answered(request, 200, renderer.many(page.objects, page.metadata))

    # ------------------------------------------------------------------ writing

    def _create(self, request: Request) -> Answer:
        renderer = renderer_for(request, self._registry.clock.wall_s())
        options = request.query.write_options("CreateOptions", request.headers)
        found = read_body(request, expected_object(request), options)
        stored = self._registry.create(
            request.target, found, manager=options.manager, dry_run=options.is_dry
        )
        return answered(request, 201, renderer.one(stored))

    def _update(self, request: Request) -> Answer:
        renderer = renderer_for(request, self._registry.clock.wall_s())
        options = request.query.write_options("UpdateOptions", request.headers)
        found = read_body(request, expected_object(request), options)
        check_name(request, found)
        stored, created = self._change(
            request, lambda _: found, options, uid=found["metadata"].get("uid", "")
        )
        return answered(request, 201 if created else 200, renderer.one(stored))

    def _change(
        self,
        request: Request,
        change: Callable[[Object | None], Object],
        options: WriteOptions,
        *,
        uid: str = "",
        creates: bool = False,
    ) -> tuple[Stored | Object, bool]:
        target = request.target
        collection = self._registry.collection(target.resource)
        before = collection.get(target.key)
        stored, created = self._registry.update(
            target,
            change,
            author=self._author(request, options),
            part=request.place.subresource,
            creates=creates,
            uid=uid,
            dry_run=options.is_dry,
        )
        if before is not None and collection.get(target.key) is None:
            self._deleter.after_removal(target.namespace, before)
        return stored, created

    def _author(self, request: Request, options: WriteOptions) -> Author:
        place = request.place
        return Author(options.manager, place.resource, place.subresource, self._registry.now())

    def _patch(self, request: Request) -> Answer:
        media_type = media_type_of(request.headers)
        if media_type not in PATCH_TYPES:
            raise Refused(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        renderer = renderer_for(request, self._registry.clock.wall_s())
        is_apply = media_type == APPLY_PATCH
        options = request.query.write_options("PatchOptions", request.headers, is_apply=is_apply)
        change = self._applied if is_apply else self._patched
        stored, created = self._change(
            request,
            lambda present: change(request, media_type, present, options),
            options,
            creates=is_apply,
        )
        return answered(request, 201 if created else 200, renderer.one(stored))

    def _patched(
        self, request: Request, media_type: str, present: Object | None, options: WriteOptions
    ) -> Object:
        if present is None:
            # Also of the kinds that a PUT creates.
            raise not_found(request.place.resource, request.target.name)
        patch = decoded_patch(request, media_type)
        shown = to_view(present) if is_view(request.place.resource) else present
        type_name = struct_of(request.place.resource)
        raw = patched(media_type, shown, patch, type_name)
        found = self._typed_patch(request, raw, patch, media_type, options)
        check_name(request, found)
        return to_core(found) if is_view(request.place.resource) else found

    def _typed_patch(
        self, request: Request, raw: Object, patch: Any, media_type: str, options: WriteOptions
    ) -> Object:
        try:
            return typed(raw, expected_object(request), options.validation, request.warnings)
        except Refused as refusal:
            problem = refusal.message.partition(f"as a {request.place.resource.kind}: ")[2]
            if media_type == STRATEGIC_PATCH:
                shown = go_text(patch)
                problem = conversion_problem(raw, struct_of(request.place.resource)) or problem
            else:
                shown = msgspec.json.encode(raw).decode()
            fault = invalid("patch", shown, problem or refusal.message)
            raise invalid_object("", "", [fault]) from None

    def _applied(
        self, request: Request, media_type: str, present: Object | None, options: WriteOptions
    ) -> Object:
        del media_type
        try:
            wanted = decode_yaml(request.body)
        except ValueError as why:
            raise bad_request(f"error decoding YAML: {why}") from why
        self._check_applied(request, wanted, present)
        is_viewed = is_view(request.place.resource)
        found = apply(
            to_view(present) if is_viewed and present is not None else present,
            wanted,
            self._author(request, options),
            force=bool(request.query.flag("force")),
        )
        applied = typed(found, expected_object(request), options.validation, request.warnings)
        return to_core(applied) if is_viewed else applied

    def _check_applied(self, request: Request, wanted: Any, present: Object | None) -> None:
        resource = request.place.resource
        named = wanted if isinstance(wanted, dict) else {}
        api_version, kind = _text(named, "apiVersion"), _text(named, "kind")
        if wanted is not None and not isinstance(wanted, dict):
            problem = f"json: cannot unmarshal {json_kind(wanted)} into Go value of type "
            lead = "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            raise bad_request(f"{lead}{problem}map[string]interface {{}}")
        if (api_version, kind) != (resource.api_version, resource.kind):
            group, _, version = api_version.rpartition("/")
            if "/" in group:  # upstream forgets the kind as well
                group = version = kind = ""
            raise bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
        metadata = named.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        if isinstance(metadata.get("managedFields"), list):
            raise bad_request("metadata.managedFields must be nil")
        problems = find_apply_faults(struct_of(resource), named)
        if problems:
            name = f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}"
            lead = f"({name}; {_kind_text(resource)})"
            said = problems[0] if len(problems) == 1 else "errors:\n  " + "\n  ".join(problems)
            raise Refused(500, "", f"failed to create typed patch object {lead}: {said}")
        # What is there has its name already, whether or not it is said again.
        live = {"name": request.place.name} if present is not None else {}
        check_name(request, {"metadata": {**live, **metadata}})
        version = metadata.get("resourceVersion", "")
        if version and (present is None or version != present["metadata"]["resourceVersion"]):
            why = "the object has been modified; please apply your changes to the latest version"
            name = request.place.name
            raise conflict(resource.group, resource.name, name, f"{why} and try again")

    # ------------------------------------------------------------------ deleting

    def _delete_options(self, request: Request) -> DeleteOptions:
        if not request.body:
            return options_of(request.query.delete_options())
        expected = Expected("meta.DeleteOptions", "v1", "DeleteOptions")
        found = read_delete_options(request, expected)
        return options_of(found)

    def _delete(self, request: Request) -> Answer:
        renderer = renderer_for(request, self._registry.clock.wall_s())
        options = self._delete_options(request)
        last, is_gone = self._deleter.delete(request.target, options)
        strategy = strategy_of(request.place.resource)
        if strategy.returns_deleted or not is_gone:
            return answered(request, 200, renderer.one(last))
        found = last.object() if isinstance(last, Stored) else last
        resource = request.place.resource
        details = {
            "name": found["metadata"]["name"],
            "group": resource.group,
            "kind": resource.name,
            "uid": found["metadata"]["uid"],
        }
        details = {key: value for key, value in details.items() if value}
        return answered(request, 200, msgspec.json.encode({**SUCCESS, "details": details}))

    def _delete_collection(self, request: Request) -> Answer:
        renderer = renderer_for(request, self._registry.clock.wall_s())
        page = list_page(self._registry.store, _selection(request), request.query.list_options())
        options = self._delete_options(request)
        self._deleter.delete_each(request.place.resource, page.objects, options)
        return answered(request, 200, renderer.many(page.objects, page.metadata))


def _selection(request: Request) -> Selection:
    query = request.query
    return selection_of(
        request.place.resource,
        request.place.namespace,
        labels=query.text("labelSelector"),
        fields=query.text("fieldSelector"),
    )


def _text(found: Object, name: str) -> str:
    """A text, as upstream takes it out of what nobody has looked at yet: "" for other values."""
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _kind_text(resource: Resource) -> str:
    return f"{resource.group}/{resource.version}, Kind={resource.kind}"

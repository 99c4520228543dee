"""Handlers of resource requests: get, list, create, update, patch, delete, and subresources.

Source: k8s.io/apiserver pkg/endpoints/handlers; k8s.io/kubernetes pkg/registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from mooring.apiserver.auth.authentication import identity_in
from mooring.apiserver.auth.authorization import Attributes
from mooring.apiserver.auth.certificate_requests import check_signer, set_requester
from mooring.apiserver.auth.claim_status import claim_status_errors
from mooring.apiserver.auth.escalation import check_escalation
from mooring.apiserver.auth.rbac import GROUP as RBAC_GROUP
from mooring.apiserver.custom.definition import ignored_parts
from mooring.apiserver.endpoints.body import (
    Expected,
    check_yaml,
    convert_object,
    media_type_of,
)
from mooring.apiserver.endpoints.listing import check_read_version, list_page, list_page_steps
from mooring.apiserver.endpoints.request import (
    SUCCESS,
    HttpResponse,
    Request,
    check_name,
    convert_patched,
    decode_applied,
    decode_patch,
    expected_object,
    json_response,
    no_typed_object,
    read_body,
    read_delete_options,
    renderer_for,
)
from mooring.apiserver.endpoints.steps import Steps
from mooring.apiserver.errors import (
    ApiStatusError,
    FieldError,
    method_not_allowed,
    no_such_path,
    unsupported_media_type,
)
from mooring.apiserver.patch.apply import apply
from mooring.apiserver.patch.apply_errors import find_apply_errors
from mooring.apiserver.patch.managed_fields import FieldManager
from mooring.apiserver.patch.patch import (
    APPLY_PATCH,
    PATCH_TYPES,
    STRATEGIC_PATCH,
    apply_patch,
)
from mooring.apiserver.registry.delete_options import DeleteOptions, options_of
from mooring.apiserver.registry.deletion import Deleter
from mooring.apiserver.registry.registry import absent
from mooring.apiserver.registry.strategies import strategy_of
from mooring.apiserver.resources import BINDINGS, CERTIFICATE_REQUESTS, DEFINITIONS, struct_of
from mooring.apiserver.schema.event_conversion import is_view, to_served, to_stored
from mooring.apiserver.storage.selection import Selection, selection_of
from mooring.apiserver.storage.stored_object import Stored
from mooring.apiserver.warnings import (
    has_status_warnings,
    has_update_warnings,
    warnings_before,
    warnings_of,
    warnings_of_status,
)

if TYPE_CHECKING:
    from mooring.apiserver.auth.rbac import Authorizer
    from mooring.apiserver.endpoints.query import WriteOptions
    from mooring.apiserver.endpoints.subresources import Subresources
    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object

_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "POST": "create", "DELETE": "delete"}
#: Groups with resources for whose changes a client needs more than the permission to write them.
_CHECKED_GROUPS = (RBAC_GROUP, CERTIFICATE_REQUESTS.group)
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


class ResourceHandlers:
    """Handles requests for resources."""

    def __init__(
        self,
        registry: Registry,
        deleter: Deleter,
        *,
        authorizer: Authorizer,
        subresources: Subresources,
    ) -> None:
        self._registry = registry
        self._authorizer = authorizer
        self._deleter = deleter
        self._subresources = subresources
        self._by_verb: Mapping[str, Callable[[Request], HttpResponse | Steps[HttpResponse]]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    def handle(self, request: Request) -> HttpResponse | Steps[HttpResponse]:
        """Returns the response to a request, or of a list the steps to it.

        Raises:
            ApiStatusError: The request failed.
        """
        path = request.path
        if path.subresource:
            return self._handle_subresource(request)
        if path.resource is BINDINGS:
            return self._bind_by_name(request)
        verb = (_VERBS if path.name else _COLLECTION_VERBS).get(request.method, "")
        lacks_namespace = path.resource.namespaced and not path.namespace and verb != "list"
        if verb not in path.resource.verbs or (path.name and verb == "create") or lacks_namespace:
            raise method_not_allowed()
        return self._by_verb[verb](request)

    def _bind_by_name(self, request: Request) -> HttpResponse:
        if request.path.name or not request.path.namespace:
            raise no_such_path()
        if request.method != "POST":
            raise method_not_allowed()
        return self._subresources.bind_by_name(request)

    def _handle_subresource(self, request: Request) -> HttpResponse:
        path = request.path
        subresource = path.resource.subresource(path.subresource)
        if subresource is None:
            return self._subresources.handle_kubelet_subresource(request)
        verb = _VERBS.get(request.method, "")
        if verb not in subresource.verbs:
            raise method_not_allowed()
        handler = self._subresources.handlers.get(path.subresource)
        if handler is not None:
            return handler(request)
        if verb == "get":
            return self._get(request)
        return self._update(request) if verb == "update" else self._patch(request)

    # ------------------------------------------------------------------ reading

    def _get(self, request: Request) -> HttpResponse:
        renderer = renderer_for(request, self._registry.clock.wall_s())
        check_read_version(self._registry.store.version, request.query.text("resourceVersion"))
        return json_response(
            request, 200, renderer.render_object(self._registry.get(request.target))
        )

    def _list(self, request: Request) -> Steps[HttpResponse]:
        renderer = renderer_for(request, self._registry.clock.wall_s())
        options, store = request.query.list_options(), self._registry.store
        page = yield from list_page_steps(store, _selection(request), options)
        body = yield from renderer.render_list_steps(page.objects, page.metadata)
        return json_response(request, 200, body)

    # ------------------------------------------------------------------ writing

    def _create(self, request: Request) -> HttpResponse:
        renderer = renderer_for(request, self._registry.clock.wall_s())
        options = request.query.write_options("CreateOptions", request.headers)
        obj = read_body(request, expected_object(request), options)
        self._check_escalation(request, obj, None)
        _set_requester(request, obj)
        request.warnings += warnings_before(request.path.resource, obj)
        target, manager = request.target, options.manager
        stored = self._registry.create(target, obj, manager=manager, dry_run=options.is_dry)
        _warn(request, obj, None)
        return json_response(request, 201, renderer.render_object(stored))

    def _update(self, request: Request) -> HttpResponse:
        renderer = renderer_for(request, self._registry.clock.wall_s())
        options = request.query.write_options("UpdateOptions", request.headers)
        obj = read_body(request, expected_object(request), options)
        check_name(request, obj)
        uid = obj["metadata"].get("uid", "")
        stored, created = self._change(request, lambda _: obj, options, uid=uid)
        return json_response(request, 201 if created else 200, renderer.render_object(stored))

    def _change(
        self,
        request: Request,
        change: Callable[[Object | None], Object],
        options: WriteOptions,
        *,
        uid: str = "",
        create_if_missing: bool = False,
    ) -> tuple[Stored | Object, bool]:
        target = request.target
        collection = self._registry.collection(target.resource)
        before = collection.get(target.key)

        def checked_change(present: Object | None) -> Object:
            # The change may modify its argument.
            old = before.object() if before is not None else None
            new = change(present)
            self._check_escalation(request, new, old)
            if old is None:
                _set_requester(request, new)
            return new

        stored, created = self._registry.update(
            target,
            checked_change if target.resource.group in _CHECKED_GROUPS else change,
            writer=self._field_manager(request, options),
            subresource=request.path.subresource,
            create_if_missing=create_if_missing,
            uid=uid,
            dry_run=options.is_dry,
            authorize=partial(_field_errors, self._authorizer, request),
            authorize_create=partial(_authorize_create, self._authorizer, request),
        )
        if before is not None and collection.get(target.key) is None:
            self._deleter.on_removed(target.namespace, before)
        _warn(request, stored, None if created else before)
        return stored, created

    def _check_escalation(self, request: Request, new: Object, old: Object | None) -> None:
        """Checks that the client may grant what a role or binding grants.

        Raises:
            ApiStatusError: 403, 404.
        """
        identity = identity_in(request.headers)
        check_escalation(self._authorizer, identity, request.target, new, old)

    def _field_manager(self, request: Request, options: WriteOptions) -> FieldManager:
        path = request.path
        return FieldManager(options.manager, path.resource, path.subresource, self._registry.now())

    def _patch(self, request: Request) -> HttpResponse:
        media_type = media_type_of(request.headers)
        if media_type == STRATEGIC_PATCH and request.path.resource.custom is not None:
            raise unsupported_media_type([name for name in PATCH_TYPES if name != STRATEGIC_PATCH])
        if media_type not in PATCH_TYPES:
            raise ApiStatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        renderer = renderer_for(request, self._registry.clock.wall_s())
        is_apply = media_type == APPLY_PATCH
        options = request.query.write_options("PatchOptions", request.headers, is_apply=is_apply)
        change = self._server_side_apply if is_apply else self._apply_patch
        stored, created = self._change(
            request,
            lambda present: change(request, media_type, present, options),
            options,
            create_if_missing=is_apply,
        )
        return json_response(request, 201 if created else 200, renderer.render_object(stored))

    def _apply_patch(
        self, request: Request, media_type: str, present: Object | None, options: WriteOptions
    ) -> Object:
        if present is None:
            # Also for the kinds that a PUT creates.
            raise absent(request.target)
        patch = decode_patch(request, media_type)
        resource = request.path.resource
        original = to_served(resource, present) if is_view(resource) else present
        patched = apply_patch(media_type, original, patch, struct_of(resource))
        expected = expected_object(request)
        obj = convert_patched(request, expected, patched, patch, options)
        check_name(request, obj)
        return to_stored(resource, obj) if is_view(resource) else obj

    def _server_side_apply(
        self, request: Request, media_type: str, present: Object | None, options: WriteOptions
    ) -> Object:
        del media_type
        resource = request.path.resource
        config, problems = decode_applied(request, resource, present)
        live = present
        if present is not None and is_view(resource):
            live = to_served(resource, present)
        if resource.custom is not None and live is not None:
            _check_live(resource, live)
        merged = apply(
            live,
            config,
            self._field_manager(request, options),
            force=bool(request.query.flag("force")),
        )
        check_yaml(problems, options.validation, request.warnings)
        obj = convert_object(
            merged,
            expected_object(request),
            options.validation,
            request.warnings,
            drops_nulls=False,
        )
        check_name(request, obj)
        return to_stored(resource, obj) if is_view(resource) else obj

    # ------------------------------------------------------------------ deleting

    def _delete_options(self, request: Request) -> DeleteOptions:
        if not request.body:
            return options_of(request.query.delete_options())
        expected = Expected("meta.DeleteOptions", "v1", "DeleteOptions")
        return options_of(read_delete_options(request, expected))

    def _delete(self, request: Request) -> HttpResponse:
        renderer = renderer_for(request, self._registry.clock.wall_s())
        options = self._delete_options(request)
        last, is_removed = self._deleter.delete(request.target, options)
        if strategy_of(request.path.resource).returns_deleted or not is_removed:
            return json_response(request, 200, renderer.render_object(last))
        obj = last.object() if isinstance(last, Stored) else last
        resource = request.path.resource
        details = {
            "name": obj["metadata"]["name"],
            "group": resource.group,
            "kind": resource.name,
            "uid": obj["metadata"]["uid"],
        }
        details = {key: value for key, value in details.items() if value}
        return json_response(request, 200, msgspec.json.encode({**SUCCESS, "details": details}))

    def _delete_collection(self, request: Request) -> HttpResponse:
        renderer = renderer_for(request, self._registry.clock.wall_s())
        page = list_page(self._registry.store, _selection(request), request.query.list_options())
        options = self._delete_options(request)
        self._deleter.delete_all(request.path.resource, page.objects, options)
        return json_response(request, 200, renderer.render_list(page.objects, page.metadata))


def _authorize_create(authorizer: Authorizer, request: Request) -> None:
    """Checks that the client of an update or a patch may create its object.

    Raises:
        ApiStatusError: 403.
    """
    path = request.path
    resource, subresource = path.resource, path.subresource
    attributes = Attributes(
        "create", "", resource.group, resource.name, subresource, path.namespace, path.name
    )
    authorizer.check(identity_in(request.headers), attributes)


def _warn(request: Request, stored: Stored | Object, before: Stored | None) -> None:
    """Adds the warnings of a stored object, and of what this server does not do with it."""
    resource = request.path.resource
    is_definition = resource is DEFINITIONS
    if request.path.subresource == "status" and has_status_warnings(resource):
        new = stored if isinstance(stored, dict) else stored.object()
        request.warnings += warnings_of_status(resource, new)
    if request.path.subresource or not (
        is_definition or before is None or has_update_warnings(resource)
    ):
        return
    new = stored if isinstance(stored, dict) else stored.object()
    old = None if before is None else before.object()
    request.warnings += ignored_parts(new) if is_definition else warnings_of(resource, new, old)


def _field_errors(
    authorizer: Authorizer, request: Request, new: Object, old: Object
) -> Iterator[FieldError]:
    """Yields the errors of fields that the client of an allowed request may not change."""
    path = request.path
    if path.resource.name == "resourceclaims" and path.subresource == "status":
        identity, verb = identity_in(request.headers), _VERBS[request.method]
        yield from claim_status_errors(authorizer, identity, verb, path.namespace, new, old)
    elif path.resource is CERTIFICATE_REQUESTS and path.subresource:
        # As upstream, a permission is missing only for what is valid.
        rules = strategy_of(path.resource).subresources[path.subresource]
        if not any(rules.validate(new, old)):
            check_signer(authorizer, identity_in(request.headers), path.subresource, new, old)


def _set_requester(request: Request, obj: Object) -> None:
    if request.path.resource is CERTIFICATE_REQUESTS:
        set_requester(obj, identity_in(request.headers))


def _check_live(resource: Resource, live: Object) -> None:
    """Checks that a custom object fits its schema, which may have changed since it was stored."""
    metadata = {
        name: live["metadata"][name] for name in live["metadata"] if name != "managedFields"
    }
    problems = [
        problem
        for problem in find_apply_errors(struct_of(resource), {**live, "metadata": metadata})
        if ": duplicate entries for key " not in problem
    ]
    if problems:
        raise no_typed_object("live", resource, live, problems)


def _selection(request: Request) -> Selection:
    query = request.query
    return selection_of(
        request.path.resource,
        request.path.namespace,
        labels=query.text("labelSelector"),
        fields=query.text("fieldSelector"),
    )

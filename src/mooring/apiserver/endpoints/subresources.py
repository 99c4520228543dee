"""Subresources with handlers of their own: binding, eviction, scale.

Source: pkg/registry/core/pod/storage, pkg/registry/apps/*/storage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from mooring.apiserver.endpoints.binding import bind
from mooring.apiserver.endpoints.body import (
    Expected,
    check_yaml,
    convert_object,
    media_type_of,
)
from mooring.apiserver.endpoints.eviction import evict
from mooring.apiserver.endpoints.pod_logs import pod_log
from mooring.apiserver.endpoints.request import (
    SUCCESS,
    HttpResponse,
    Request,
    check_name,
    convert_patched,
    decode_applied,
    decode_patch,
    json_response,
    read_body,
    renderer_for,
)
from mooring.apiserver.endpoints.scale import apply_scale, check_replicas, check_scale, scale_of
from mooring.apiserver.endpoints.token_request import TOKEN_REQUESTS, request_token
from mooring.apiserver.errors import ApiStatusError, bad_request, no_such_path
from mooring.apiserver.patch.apply import apply
from mooring.apiserver.patch.managed_fields import FieldManager, track_create, track_update
from mooring.apiserver.patch.patch import APPLY_PATCH, PATCH_TYPES, apply_patch
from mooring.apiserver.patch.scale_fields import (
    SCALES,
    entries_of_scale,
    entries_of_workload,
    replica_paths,
)
from mooring.apiserver.registry.registry import Target, check_namespace
from mooring.apiserver.resources import resource_named, struct_of_subresource
from mooring.apiserver.schema.event_conversion import as_of_today
from mooring.apiserver.storage.stored_object import Stored

if TYPE_CHECKING:
    from mooring.apiserver.auth.account_tokens import AccountTokens
    from mooring.apiserver.endpoints.query import WriteOptions
    from mooring.apiserver.registry.deletion import Deleter
    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.types import Object


_PODS = resource_named("", "pods")
_SCALE = Expected("autoscaling.Scale", "autoscaling/v1", "Scale")
_CREATED = msgspec.json.encode({**SUCCESS, "code": 201})
_KUBELET_SUBRESOURCES = ("attach", "exec", "log", "portforward", "proxy")


class Subresources:
    """Handles requests for these subresources.

    Args:
        registry: The objects.
        deleter: For evictions.
        tokens: Of service accounts.
        with_kubelets: Whether kubelets are simulated, so that pods have logs.
    """

    def __init__(
        self, registry: Registry, deleter: Deleter, tokens: AccountTokens, *, with_kubelets: bool
    ) -> None:
        self._registry = registry
        self._with_kubelets = with_kubelets
        self._tokens = tokens
        self._deleter = deleter
        #: Name -> handler; all other subresources are parts of the object itself.
        self.handlers: Mapping[str, Callable[[Request], HttpResponse]] = {
            "binding": self._bind,
            "eviction": self._evict,
            "scale": self._scale,
            "token": self._request_token,
        }

    def _read_subresource_body(self, request: Request) -> tuple[Object, WriteOptions]:
        path = request.path
        subresource = path.resource.subresource(path.subresource)
        assert subresource is not None
        group = subresource.group or path.resource.group
        api_version = f"{group}/{subresource.version}" if group else "v1"
        expected = Expected(
            struct_of_subresource(path.resource, subresource), api_version, subresource.kind
        )
        options = request.query.write_options("CreateOptions", request.headers)
        return read_body(request, expected, options), options

    def _bind(self, request: Request) -> HttpResponse:
        binding, options = self._read_subresource_body(request)
        bind(self._registry, request.target, binding, dry_run=options.is_dry)
        return json_response(request, 201, _CREATED)

    def bind_by_name(self, request: Request) -> HttpResponse:
        """Binds a pod that the Binding names, not the URL: the legacy ``bindings`` resource.

        Raises:
            ApiStatusError: 400, 404, 409, 500.
        """
        expected = Expected("core.Binding", "v1", "Binding")
        options = request.query.write_options("CreateOptions", request.headers)
        binding = read_body(request, expected, options)
        check_namespace(request.target, binding["metadata"])
        name = binding["metadata"].get("name", "")
        if not name:
            raise bad_request("Name parameter required.")
        target = Target(_PODS, request.path.namespace, name)
        bind(self._registry, target, binding, dry_run=options.is_dry)
        return json_response(request, 201, _CREATED)

    def handle_kubelet_subresource(self, request: Request) -> HttpResponse:
        """Handles a pod's subresource that upstream forwards to the kubelet.

        Raises:
            ApiStatusError: 400, 404, 422, 501.
        """
        path = request.path
        if path.resource is not _PODS or path.subresource not in _KUBELET_SUBRESOURCES:
            raise no_such_path()
        pod = self._registry.get(request.target).object()
        if self._with_kubelets and path.subresource == "log" and request.method == "GET":
            return 200, {"content-type": "text/plain"}, pod_log(pod, request.query)
        reason = "no kubelet runs the pods of this server"
        if self._with_kubelets:
            reason = "kubelets are simulated, and nothing runs in containers"
        text = f"pods/{path.subresource} is not served: {reason}"
        raise ApiStatusError(501, "NotImplemented", text, {})

    def _evict(self, request: Request) -> HttpResponse:
        eviction, options = self._read_subresource_body(request)
        evict(self._registry, self._deleter, request.target, eviction, options.dry_run)
        return json_response(request, 201, _CREATED)

    def _request_token(self, request: Request) -> HttpResponse:
        body, options = self._read_subresource_body(request)
        writer = FieldManager(options.manager, TOKEN_REQUESTS, "token", self._registry.now())
        track_create(body, writer)
        answer = request_token(self._registry, self._tokens, request.target, body)
        return json_response(request, 201, msgspec.json.encode(answer))

    def _scale(self, request: Request) -> HttpResponse:
        resource = request.path.resource
        custom = resource.custom
        present = as_of_today(resource, self._registry.get(request.target).object())
        renderer = renderer_for(request, self._registry.clock.wall_s())
        if request.method == "GET":
            check_replicas(present, custom)
            return json_response(
                request, 200, renderer.render_subresource(scale_of(present, custom))
            )
        paths = replica_paths(resource)
        entries = present["metadata"].get("managedFields", [])
        before = scale_of(present, custom)
        before["metadata"]["managedFields"] = entries_of_scale(entries, paths)
        scale, options = self._written_scale(request, before)
        check_name(request, scale)
        check_namespace(request.target, scale["metadata"])
        check_scale(scale, present, request.target, is_patch=request.method == "PATCH")
        scale_entries = scale["metadata"].get("managedFields", [])

        def change(obj: Object | None) -> Object:
            assert obj is not None
            scaled = apply_scale(as_of_today(resource, obj), scale, custom=custom)
            version = resource.api_version
            tracked = entries_of_workload(entries, scale_entries, paths, version)
            scaled["metadata"]["managedFields"] = tracked
            return scaled

        author = FieldManager(options.manager, resource, "scale", self._registry.now())
        stored, _ = self._registry.update(
            request.target, change, writer=author, is_tracked=True, dry_run=options.is_dry
        )
        obj = stored.object() if isinstance(stored, Stored) else stored
        return json_response(request, 200, renderer.render_subresource(scale_of(obj, custom)))

    def _written_scale(self, request: Request, before: Object) -> tuple[Object, WriteOptions]:
        """Returns the Scale that a client writes, with its managedFields."""
        now = self._registry.now()
        if request.method == "PUT":
            scale, options = self._read_subresource_body(request)
            track_update(scale, before, FieldManager(options.manager, SCALES, "scale", now))
            return scale, options
        media_type = media_type_of(request.headers)
        if media_type not in PATCH_TYPES:
            raise ApiStatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        is_apply = media_type == APPLY_PATCH
        options = request.query.write_options("PatchOptions", request.headers, is_apply=is_apply)
        writer = FieldManager(options.manager, SCALES, "scale", now)
        if is_apply:
            config, problems = decode_applied(request, SCALES, before)
            is_forced = bool(request.query.flag("force"))
            applied = apply(before, config, writer, force=is_forced)
            check_yaml(problems, options.validation, request.warnings)
            scale = convert_object(applied, _SCALE, options.validation, request.warnings)
            return scale, options
        patch = decode_patch(request, media_type)
        raw = apply_patch(media_type, before, patch, _SCALE.type_name)
        scale = convert_patched(request, _SCALE, raw, patch, options)
        track_update(scale, before, writer)
        return scale, options

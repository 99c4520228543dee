"""Subresources that are more than a part of the object: binding, eviction, scale.

Source: pkg/registry/core/pod/storage, pkg/registry/apps/*/storage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from mooring.apiserver.endpoints.binding import bind
from mooring.apiserver.endpoints.body import Expected, media_type_of, typed
from mooring.apiserver.endpoints.eviction import evict
from mooring.apiserver.endpoints.request import (
    SUCCESS,
    Answer,
    Request,
    answered,
    decoded_patch,
    read_body,
    renderer_for,
)
from mooring.apiserver.endpoints.scale import scale_of, scaled
from mooring.apiserver.errors import Refused, bad_request
from mooring.apiserver.patch.managed_fields import Author
from mooring.apiserver.patch.patch import APPLY_PATCH, PATCH_TYPES, patched
from mooring.apiserver.registry.registry import Target, check_namespace
from mooring.apiserver.resources import resource_named, struct_of_part
from mooring.apiserver.storage.stored_object import Stored

if TYPE_CHECKING:
    from mooring.apiserver.endpoints.query import WriteOptions
    from mooring.apiserver.registry.deletion import Deleter
    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.types import Object


_PODS = resource_named("", "pods")
_CREATED = msgspec.json.encode({**SUCCESS, "code": 201})
_KUBELETS_PARTS = ("attach", "exec", "log", "portforward", "proxy")


class Subresources:
    """Answers requests about them."""

    def __init__(self, registry: Registry, deleter: Deleter) -> None:
        self._registry = registry
        self._deleter = deleter
        #: Name -> what answers; all others are parts of the object itself.
        self.answers: Mapping[str, Callable[[Request], Answer]] = {
            "binding": self._bind,
            "eviction": self._evict,
            "scale": self._scale,
        }

    def _special_body(self, request: Request) -> tuple[Object, WriteOptions]:
        place = request.place
        part = place.resource.subresource(place.subresource)
        assert part is not None
        group = part.group or place.resource.group
        api_version = f"{group}/{part.version}" if group else "v1"
        expected = Expected(struct_of_part(place.resource, part), api_version, part.kind)
        options = request.query.write_options("CreateOptions", request.headers)
        return read_body(request, expected, options), options

    def _bind(self, request: Request) -> Answer:
        binding, options = self._special_body(request)
        bind(self._registry, request.target, binding, dry_run=options.is_dry)
        return answered(request, 201, _CREATED)

    def bind_by_name(self, request: Request) -> Answer:
        """Returns the old way to bind: the pod's name stands in the Binding, not in the URL.

        Raises:
            Refused: 400, 404, 409, 500.
        """
        expected = Expected("core.Binding", "v1", "Binding")
        options = request.query.write_options("CreateOptions", request.headers)
        binding = read_body(request, expected, options)
        check_namespace(request.target, binding["metadata"])
        name = binding["metadata"].get("name", "")
        if not name:
            raise bad_request("Name parameter required.")
        target = Target(_PODS, request.place.namespace, name)
        bind(self._registry, target, binding, dry_run=options.is_dry)
        return answered(request, 201, _CREATED)

    def refuse_unserved(self, request: Request) -> None:
        """Says why a part of a pod is not served that upstream has the kubelet answer for.

        Raises:
            Refused: 404, 501.
        """
        place = request.place
        if place.resource is not _PODS or place.subresource not in _KUBELETS_PARTS:
            return
        self._registry.get(request.target)
        text = f"pods/{place.subresource} is not served: no kubelet runs the pods of this server"
        raise Refused(501, "NotImplemented", text, {})

    def _evict(self, request: Request) -> Answer:
        eviction, options = self._special_body(request)
        evict(self._registry, self._deleter, request.target, eviction, options.dry_run)
        return answered(request, 201, _CREATED)

    def _scale(self, request: Request) -> Answer:
        present = self._registry.get(request.target).object()
        renderer = renderer_for(request, self._registry.clock.wall_s())
        if request.method == "GET":
            return answered(request, 200, renderer.one(scale_of(present)))
        if request.method == "PUT":
            scale, options = self._special_body(request)
        else:
            media_type = media_type_of(request.headers)
            if media_type not in PATCH_TYPES or media_type == APPLY_PATCH:
                raise Refused(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
            options = request.query.write_options("PatchOptions", request.headers)
            patch = decoded_patch(request, media_type)
            raw = patched(media_type, scale_of(present), patch, "autoscaling.Scale")
            expected = Expected("autoscaling.Scale", "autoscaling/v1", "Scale")
            scale = typed(raw, expected, options.validation, request.warnings)
        name = request.place.name

        def change(found: Object | None) -> Object:
            assert found is not None
            return scaled(found, scale, name=name)

        author = Author(options.manager, request.place.resource, "scale", self._registry.now())
        stored, _ = self._registry.update(
            request.target, change, author=author, dry_run=options.is_dry
        )
        found = stored.object() if isinstance(stored, Stored) else stored
        return answered(request, 200, renderer.one(scale_of(found)))

"""``ApiServer``: handles requests in process; sockets and authentication are in ``http_server``.

::

    method, path, query, headers, body
      ├── /api, /apis, /openapi, /version ...      discovery, openapi
      ├── a review                                 reviews
      ├── a watch                                  watch_stream
      ├── a component's status                     component_status
      └── a resource                               handlers ── registry, deletion, listing ── store

Tests and the simulator call it in process; ``http_server`` calls it for sockets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver.auth.account_tokens import AccountTokens
from mooring.apiserver.auth.authentication import Tokens, identity_in
from mooring.apiserver.auth.rbac import Authorizer
from mooring.apiserver.endpoints import (
    discovery,
    negotiation,
    openapi,
    protobuf,
    request_metrics,
    reviews,
)
from mooring.apiserver.endpoints.body import decode_json, media_type_of
from mooring.apiserver.endpoints.component_status import HealthChecks, wait_for_statuses
from mooring.apiserver.endpoints.deprecated_watch import as_collection_watch
from mooring.apiserver.endpoints.handlers import ResourceHandlers
from mooring.apiserver.endpoints.health import health_of
from mooring.apiserver.endpoints.query import Query
from mooring.apiserver.endpoints.request import HttpResponse, Request, warning_header
from mooring.apiserver.endpoints.steps import Steps, wait_for_steps
from mooring.apiserver.endpoints.subresources import Subresources
from mooring.apiserver.endpoints.usage import GROUP as USAGE_GROUP
from mooring.apiserver.endpoints.usage import USAGE_RESOURCES, read_usage
from mooring.apiserver.endpoints.watch_stream import stream
from mooring.apiserver.errors import (
    ApiStatusError,
    bad_request,
    entity_too_large,
    method_not_allowed,
    no_such_path,
)
from mooring.apiserver.patch.managed_fields import FieldManager
from mooring.apiserver.registry.bootstrap import create_defaults
from mooring.apiserver.registry.controllers.controllers import Controllers
from mooring.apiserver.registry.controllers.default_accounts import DefaultAccounts
from mooring.apiserver.registry.controllers.endpoint_slices import EndpointSlices
from mooring.apiserver.registry.controllers.event_expiry import EVENT_TTL_S, EventExpiry, Expiry
from mooring.apiserver.registry.controllers.quota_status import QuotaStatus
from mooring.apiserver.registry.controllers.role_aggregation import RoleAggregation
from mooring.apiserver.registry.controllers.root_certificates import RootCertificates
from mooring.apiserver.registry.controllers.service_ranges import ServiceRanges
from mooring.apiserver.registry.controllers.storage_protection import StorageProtection
from mooring.apiserver.registry.definitions import Definitions
from mooring.apiserver.registry.deletion import Deleter
from mooring.apiserver.registry.registry import Registry, Target, check_namespace
from mooring.apiserver.resources import (
    BINDINGS,
    BY_PATH,
    COMPONENT_STATUSES,
    GATED_BY_PATH,
    ResourcePath,
    custom_resource_at,
    resource_at,
)
from mooring.apiserver.storage.history import HISTORY_CHANGES
from mooring.apiserver.storage.long_writes import wait_and_run
from mooring.apiserver.storage.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mooring.clock import Clock, Rng

#: As kube-apiserver: twice what etcd stores, since a request may carry more.
BODY_BYTES_MAX = 3 * 1024 * 1024
JSON_HEADERS = {"content-type": "application/json"}
_TEXT_HEADERS = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
#: Status, headers, and the body or its chunks.
Response = tuple[int, dict[str, str], "bytes | AsyncIterator[bytes]"]
_Answer = Response | Steps[HttpResponse] | Awaitable[HttpResponse]
_NO_CHECKS: HealthChecks = MappingProxyType({})
_GROUP_VERSIONS = frozenset((group, version) for group, version, _ in BY_PATH)


class ApiServer:
    """A Kubernetes API server in memory.

    Example:
        >>> import asyncio
        >>> from mooring.clock import VirtualClock, seeded_random
        >>> server = ApiServer(VirtualClock(), seeded_random(0))
        >>> response = asyncio.run(server.handle("GET", "/api/v1/namespaces/default", [], {}, b""))
        >>> response[0]
        200
    """

    def __init__(
        self,
        clock: Clock,
        rng: Rng,
        *,
        tokens: Tokens | None = None,
        instant_deletion: bool = False,
        history_changes: int = HISTORY_CHANGES,
        with_kubelets: bool = False,
        with_taint_rules: bool = False,
        event_ttl_s: float = EVENT_TTL_S,
        health_checks: HealthChecks = _NO_CHECKS,
    ) -> None:
        """Starts with the objects that every cluster has: namespaces, priority classes.

        Args:
            clock: For timestamps and grace periods.
            rng: For UIDs, generated names and the length of watches.
            tokens: The tokens that TokenReviews accept.
            instant_deletion: True to delete bound pods at once, without a grace period.
            history_changes: Number of changes per resource that watches can go back.
            with_kubelets: True if kubelets are simulated: metrics.k8s.io has the requests of
                running pods as their usage, and pods have logs.
            with_taint_rules: True to serve DeviceTaintRules, as with DRADeviceTaintRules.
            event_ttl_s: Events are removed so many seconds after their last write.
            health_checks: Of the scheduler and the controller manager, for ComponentStatuses.
        """
        self.clock = clock
        self.rng = rng
        self.tokens = tokens if tokens is not None else Tokens()
        self.store = Store(changes_max=history_changes)
        self.registry = Registry(self.store, clock=clock, rng=rng)
        self.deleter = Deleter(self.registry, is_instant=instant_deletion)
        events = EventExpiry(self.registry, self.deleter, ttl_s=event_ttl_s)
        self.authorizer = Authorizer(self.store)
        account_tokens = AccountTokens(self.store, clock=clock, rng=rng)
        self.tokens.accept_from(account_tokens.credential_of)
        self._handlers = ResourceHandlers(
            self.registry,
            self.deleter,
            authorizer=self.authorizer,
            subresources=Subresources(
                self.registry, self.deleter, account_tokens, with_kubelets=with_kubelets
            ),
        )
        self._metrics = request_metrics.RequestMetrics()
        self._health_checks = health_checks
        self._usage = USAGE_RESOURCES if with_kubelets else {}
        self._gated = GATED_BY_PATH if with_taint_rules else {}
        self._root_certificates = RootCertificates(self.registry)
        self._controllers = Controllers(
            self.deleter.garbage,
            RoleAggregation(self.registry),
            DefaultAccounts(self.registry),
            self._root_certificates,
            EndpointSlices(self.registry),
            Definitions(self.registry, self.deleter),
            QuotaStatus(self.registry),
            ServiceRanges(self.registry, self.deleter),
            StorageProtection(self.registry, self.deleter),
            events,  # it notes when Events are written
        )
        self._expiry = Expiry(self.registry, self.deleter, events, self._controllers)
        self._create_defaults()
        self._controllers.run()

    def allow_threads(self) -> None:
        """Lets long writes run in threads, which a virtual event loop does not have."""
        self.store.writes.has_threads = True

    async def handle(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes,
    ) -> tuple[int, dict[str, str], bytes | AsyncIterator[bytes]]:
        """Handles a request; the body of a watch's response is a stream.

        Args:
            method: "GET", "POST" ...
            path: Decoded, without query.
            query: Names and values, decoded.
            headers: With lower-case names.
            body: As sent.
        """
        if path == request_metrics.PATH and method == "GET":
            text = self._metrics.text(self.store)
            return 200, {"content-type": request_metrics.CONTENT_TYPE}, text
        try:
            path, query = as_collection_watch(method, path, query, self._resource_at)
            work = partial(self._handle, method, path, query, headers, body)
            target = self._resource_at(path)
            answer = await wait_and_run(self.store, work, method, target or path, body)
            response = await _wait_for(answer)
        except ApiStatusError as error:
            response = error_response(error)
        except RecursionError:
            response = error_response(bad_request("exceeded max depth"))
        target = self._resource_at(path)
        if target is not None:
            self._metrics.count(method, target, query, headers, response[0])
        return response

    def publish_authority(self, certificate: bytes) -> None:
        """Publishes the certificate (PEM) with which clients verify this server."""
        self._root_certificates.publish(certificate.decode("ascii"))
        self._controllers.run()

    def tick(self) -> int:
        """Deletes pods whose grace period has expired, and old Events; returns their number."""
        return self._expiry.run()

    def snapshot(self) -> bytes:
        """Returns all objects, for ``load``."""
        return self.store.snapshot()

    def load(self, data: bytes) -> None:
        """Replaces all objects by those of a snapshot; open watches become invalid.

        Raises:
            SnapshotError: It is no snapshot that can be served; then nothing is changed.
        """
        with self.store.loaded(data):
            self._create_defaults()
            self._controllers.run()
            self.deleter.resume()

    def _handle(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes,
    ) -> _Answer:
        if len(body) > BODY_BYTES_MAX:
            raise entity_too_large(f"limit is {BODY_BYTES_MAX}")
        target, parameters = self._resource_at(path), Query(query)
        is_watch = bool(
            target is not None and method == "GET" and not target.name and parameters.flag("watch")
        )
        if not is_watch:
            parameters.check_timeout()
        if target is None:
            return self._non_resource_path(method, path, query, headers)
        if target.resource.group == USAGE_GROUP:
            usage = read_usage(method, target, parameters, self.registry)
            return 200, dict(JSON_HEADERS), msgspec.json.encode(usage)
        request = Request(method, target, parameters, headers, body)
        if target.resource is COMPONENT_STATUSES:
            return wait_for_statuses(request, self._health_checks, self.clock.wall_s())
        if not target.resource.is_stored and target.resource is not BINDINGS:
            return self._review(method, target, headers, body, parameters)
        if target.resource.warning:
            request.warnings.append(target.resource.warning)
        self.tick()
        if is_watch:
            head = dict(JSON_HEADERS)
            return 200, head, stream(self.store, request, clock=self.clock, rng=self.rng)
        try:
            response = self._handlers.handle(request)
        except ApiStatusError as error:
            error.warnings = request.warnings
            raise
        if isinstance(response, Generator):
            return _with_warnings(response, request)
        self._controllers.run()
        return response

    def _resource_at(self, path: str) -> ResourcePath | None:
        return (
            resource_at(path)
            or custom_resource_at(path, self.store.custom)
            or custom_resource_at(path, self._usage)
            or custom_resource_at(path, self._gated)
        )

    def _create_defaults(self) -> None:
        create_defaults(self.registry, with_taint_rules=bool(self._gated))

    def _non_resource_path(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
    ) -> HttpResponse:
        health = health_of(path, query)
        if health is not None:
            return 200, dict(_TEXT_HEADERS), health
        added = (*self.store.custom.values(), *self._gated.values())
        more = (*added, *self._usage.values())
        response = discovery.respond(path, headers, more) or openapi.respond(
            path, headers, query, added
        )
        if response is not None:
            if method != "GET" and discovery.is_get_only(path):
                raise method_not_allowed()
            return response.status, dict(response.headers), response.body
        parts = path.strip("/").split("/")
        group_version = (
            ("", parts[1]) if parts[0] == "api" and len(parts) > 1 else tuple(parts[1:3])
        )
        is_custom = any((r.group, r.version) == group_version for r in more)
        if group_version not in _GROUP_VERSIONS and not is_custom:
            return 404, dict(_TEXT_HEADERS), b"404 page not found\n"
        raise no_such_path()

    def _review(
        self,
        method: str,
        target: ResourcePath,
        headers: Mapping[str, str],
        body: bytes,
        parameters: Query,
    ) -> HttpResponse:
        if target.name:
            raise no_such_path()
        if method != "POST":
            raise method_not_allowed()
        negotiation.requested_shape(headers.get("accept", ""), ())
        if media_type_of(headers) == "application/vnd.kubernetes.protobuf":
            review: Any = protobuf.to_json(body, target.resource)
        else:
            try:
                review = decode_json(body)
            except ValueError as error:
                raise bad_request(str(error)) from error
        if not isinstance(review, dict):
            raise bad_request(f"a {target.resource.kind} is needed")
        if target.resource.namespaced and isinstance(review.get("metadata") or {}, dict):
            review["metadata"] = dict(review.get("metadata") or {})
            check_namespace(Target(*target[:3]), review["metadata"])
        manager = parameters.write_options("CreateOptions", headers).manager
        reviewed = reviews.review(
            target.resource,
            review,
            identity_in(headers),
            tokens=self.tokens,
            authorizer=self.authorizer,
            writer=FieldManager(manager, target.resource, "", self.registry.now()),
        )
        return 201, dict(JSON_HEADERS), msgspec.json.encode(reviewed)


async def _wait_for(answer: _Answer) -> Response:
    """Returns the response, of a list after its steps."""
    if isinstance(answer, Generator):
        answer = wait_for_steps(answer)
    return await answer if isinstance(answer, Awaitable) else answer


def _with_warnings(steps: Steps[HttpResponse], request: Request) -> Steps[HttpResponse]:
    """Adds the warnings of the request to the error of a list."""
    try:
        return (yield from steps)
    except ApiStatusError as error:
        error.warnings = request.warnings
        raise


def error_response(error: ApiStatusError) -> HttpResponse:
    """Returns the response for an error: its Status."""
    headers = {**JSON_HEADERS, **warning_header(error.warnings)}
    if error.retry_after_s:
        headers["retry-after"] = str(error.retry_after_s)
    return error.code, headers, msgspec.json.encode(error.status())

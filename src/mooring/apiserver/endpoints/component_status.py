"""ComponentStatuses: the health of the scheduler, the controller manager and the store.

They are computed for each request, cannot be written or watched, and have no resourceVersion. The
store is a part of this server. The other two are healthy if a check says so; without a check,
nothing listens at their ports.

Source: k8s.io/kubernetes pkg/registry/core/componentstatus/rest.go,
pkg/registry/core/rest/storage_core.go.
Differs: lists have a fixed order; upstream's order is random.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from mooring.apiserver.endpoints.request import HttpResponse, Request, json_response, renderer_for
from mooring.apiserver.errors import ApiStatusError, method_not_allowed, no_such_path, quoted
from mooring.apiserver.resources import COMPONENT_STATUSES
from mooring.apiserver.storage.selection import selection_of
from mooring.apiserver.storage.stored_object import Stored

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

CONTROLLER_MANAGER: Final = "controller-manager"
SCHEDULER: Final = "scheduler"
_STORE: Final = "etcd-0"
#: Component -> the port of its ``/healthz``, on the loopback interface.
HEALTH_PORTS: Final = MappingProxyType({CONTROLLER_MANAGER: 10257, SCHEDULER: 10259})
_NAMES: Final = (CONTROLLER_MANAGER, SCHEDULER, _STORE)


class ComponentHealth(NamedTuple):
    """The result of a check.

    Attributes:
        is_healthy: True if the component is healthy.
        message: The body of its ``/healthz``, or why it did not respond.
    """

    is_healthy: bool
    message: str


#: Component -> its check.
HealthChecks = Mapping[str, Callable[[], Awaitable[ComponentHealth]]]
HEALTHY: Final = ComponentHealth(is_healthy=True, message="ok")


def health_url(component: str) -> str:
    """Returns the URL of a component's ``/healthz``."""
    return f"https://127.0.0.1:{HEALTH_PORTS[component]}/healthz"


def not_listening(component: str) -> ComponentHealth:
    """Returns the health of a component that does not run."""
    port = HEALTH_PORTS[component]
    problem = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    return ComponentHealth(
        is_healthy=False, message=f"Get {quoted(health_url(component))}: {problem}"
    )


async def wait_for_statuses(request: Request, checks: HealthChecks, now_s: float) -> HttpResponse:
    """Returns the response to a request for ComponentStatuses; ``now_s``: wall clock.

    Raises:
        ApiStatusError: 400, 404, 405, 406 or 422.
    """
    if request.path.subresource:
        raise no_such_path()
    if request.method != "GET":
        raise method_not_allowed()
    request.warnings.append(COMPONENT_STATUSES.warning)
    try:
        wait = _wait_for_one if request.path.name else _wait_for_list
        return json_response(request, 200, await wait(request, checks, now_s))
    except ApiStatusError as error:
        error.warnings = request.warnings
        raise


async def _wait_for_one(request: Request, checks: HealthChecks, now_s: float) -> bytes:
    renderer, name = renderer_for(request, now_s), request.path.name
    if name not in _NAMES:
        kind = COMPONENT_STATUSES.singular
        details = {"name": name, "kind": kind}
        raise ApiStatusError(404, "NotFound", f"{kind} {quoted(name)} not found", details)
    return renderer.render_object(await _wait_for_status(name, checks))


async def _wait_for_list(request: Request, checks: HealthChecks, now_s: float) -> bytes:
    renderer, query = renderer_for(request, now_s), request.query
    selection = selection_of(
        COMPONENT_STATUSES,
        "",
        labels=query.text("labelSelector"),
        fields=query.text("fieldSelector"),
    )
    # Limit and version are validated and have no effect, as upstream.
    if query.list_options().is_watch:
        name = COMPONENT_STATUSES.name
        problem = f"watch is not supported on resources of kind {quoted(name)}"
        raise ApiStatusError(405, "MethodNotAllowed", problem, {"kind": name})
    statuses = [await _wait_for_status(name, checks) for name in _NAMES]
    return renderer.render_list([item for item in statuses if selection.matches(item)], {})


async def _wait_for_status(name: str, checks: HealthChecks) -> _Computed:
    if name == _STORE:
        health = HEALTHY
    else:
        health = await checks[name]() if name in checks else not_listening(name)
    condition = {
        "type": "Healthy",
        "status": "True" if health.is_healthy else "False",
        **({"message": health.message} if health.message else {}),
    }
    return _Computed(name, {"metadata": {"name": name}, "conditions": [condition]})


class _Computed(Stored):
    """An object that is not stored: it has no resourceVersion."""

    __slots__ = ("_content",)

    def __init__(self, name: str, content: Object) -> None:
        super().__init__(b"", name, 0, b"", None)
        self._content = content

    def encoded(self) -> bytes:
        """Returns the whole object as JSON."""
        resource = COMPONENT_STATUSES
        head = {"kind": resource.kind, "apiVersion": resource.api_version}
        return msgspec.json.encode({**head, **self._content})

    def item(self) -> bytes:
        """Returns the object as an item of a list: without kind and apiVersion."""
        return msgspec.json.encode(self._content)

"""Logs of pods whose kubelets are simulated: one line, since no program runs in a container.

What is checked, and in which words a request is refused, is as upstream.

Source: pkg/registry/core/pod/strategy.go (LogLocation, validateContainer),
pkg/apis/core/validation/validation.go (ValidatePodLogOptions), pkg/kubelet/kubelet_pods.go
(validateContainerLogStatus).
Differs: ``follow`` ends at once, and ``sinceSeconds`` and ``sinceTime`` are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mooring.apiserver.errors import FieldError, bad_request, invalid, invalid_object, quoted

if TYPE_CHECKING:
    from mooring.apiserver.endpoints.query import Query
    from mooring.apiserver.types import Object

LINE: Final = "mooring simulates this container: no program runs in it, and it writes no logs\n"

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def pod_log(pod: Object, query: Query) -> bytes:
    """Returns the log of a container.

    Args:
        pod: The pod.
        query: The options of the request.

    Raises:
        ApiStatusError: 400, the container has no log; 422, an option is invalid.
    """
    name = pod["metadata"]["name"]
    errors = list(_option_errors(query))
    if errors:
        raise invalid_object("PodLogOptions", name, errors)
    container = _container(pod, query.text("container"))
    if not pod["spec"].get("nodeName"):
        return b""
    started_at = _started_at(pod, container, is_previous=bool(query.flag("previous")))
    text = f"{started_at} {LINE}" if query.flag("timestamps") else LINE
    if query.number("tailLines") == 0:
        text = ""
    return text.encode()[: query.number("limitBytes")]


def _option_errors(query: Query) -> Iterator[FieldError]:
    lines, length = query.number("tailLines"), query.number("limitBytes")
    if lines is not None and lines < 0:
        yield invalid("tailLines", lines, "must be greater than or equal to 0")
    if length is not None and length < 1:
        yield invalid("limitBytes", length, "must be greater than 0")


def _container(pod: Object, name: str) -> str:
    """Returns the name of the container, by default that of the only one."""
    spec, pod_name = pod["spec"], pod["metadata"]["name"]
    names = [item["name"] for field in _CONTAINERS for item in spec.get(field) or ()]
    if name:
        if name not in names:
            raise bad_request(f"container {name} is not valid for pod {pod_name}")
        return name
    if len(spec["containers"]) == 1:
        only: str = spec["containers"][0]["name"]
        return only
    choice = f"choose one of: [{' '.join(names)}]"
    raise bad_request(f"a container name must be specified for pod {pod_name}, {choice}")


def _started_at(pod: Object, container: str, *, is_previous: bool) -> str:
    """Returns when the program started whose log is read.

    Raises:
        ApiStatusError: 400, it has not started.
    """
    text = f"container {quoted(container)} in pod {quoted(pod['metadata']['name'])}"
    statuses = [item for field in _STATUSES for item in pod["status"].get(field) or ()]
    status = next((item for item in statuses if item["name"] == container), None)
    if status is None:
        raise bad_request(f"{text} is not available")
    state, previous = status.get("state") or {}, (status.get("lastState") or {}).get("terminated")
    if is_previous and not previous:
        raise bad_request(f"previous terminated {text} not found")
    current = state.get("running") or state.get("terminated")
    program = previous if is_previous else current or previous
    if not program:
        reason = (state.get("waiting") or {}).get("reason", "")
        raise bad_request(f"{text} is waiting to start: {reason}")
    started_at: str = program.get("startedAt") or ""
    return started_at

"""Warnings about the containers of a pod: ports, variables, and fractions of bytes.

Source: pkg/api/pod/warnings.go (warningsForPodSpecAndMeta).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from mooring.apiserver.errors import quoted
from mooring.apiserver.types import Object

#: A container and its field.
Container = tuple[str, Object]

#: The resources of which a thousandth makes no sense.
_WHOLE = ("memory", "ephemeral-storage")
#: The suffixes of canonical quantities that are no whole numbers.
_FRACTIONS = ("m", "u", "n")


def containers_of(spec: Object, field: str) -> list[Container]:
    """Returns the containers of a pod with their fields, init containers first."""
    return [
        (f"{field}.{kind}[{number}]", container)
        for kind in ("initContainers", "containers", "ephemeralContainers")
        for number, container in enumerate(spec.get(kind) or ())
    ]


def fraction_warning(amounts: Object, resource: str, field: str) -> Iterator[str]:
    """Yields the warning of a resource that has a fraction of a byte."""
    text = amounts.get(resource)
    if text and str(text).endswith(_FRACTIONS):
        value = quoted(str(text))
        yield f"{field}[{resource}]: fractional byte value {value} is invalid, must be an integer"


def resource_warnings(container: Object, field: str) -> Iterator[str]:
    """Yields the warnings of the resources of a container."""
    resources = container.get("resources")
    if not resources:
        return
    for resource in _WHOLE:
        for kind in ("limits", "requests"):
            amounts = resources.get(kind)
            if amounts and resource in amounts:
                yield from fraction_warning(amounts, resource, f"{field}.resources.{kind}")


def variable_warnings(container: Object, field: str) -> Iterator[str]:
    """Yields the warnings of environment variables that are set twice."""
    variables = container.get("env") or ()
    if len(variables) <= 1:
        return
    names: set[str] = set()
    for number, variable in enumerate(variables):
        name = variable.get("name", "")
        reference, value = f"$({name})", variable.get("value", "")
        appends = reference in value and value != reference and "valueFrom" not in variable
        if name in names and not appends:
            yield (
                f"{field}.env[{number}]: hides previous definition of {quoted(name)}, which may be "
                "dropped when using apply"
            )
        names.add(name)


def port_warnings(containers: Sequence[Container]) -> Iterator[str]:
    """Yields the warnings of ports that overlap or have one name."""
    ports = [
        (f"{field}.ports[{number}]", port)
        for field, container in containers
        for number, port in enumerate(container.get("ports") or ())
    ]
    if len(ports) <= 1 and not any("hostIP" in port for _, port in ports):
        return
    before: dict[tuple[Any, Any], list[tuple[str, Object]]] = defaultdict(list)
    for field, port in ports:
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{field}: hostIP set without hostPort: {_go_port(port)}"
        others = before[port.get("containerPort"), port.get("protocol")]
        for other_field, other in others:
            if problem := _overlap(port, other):
                yield f"{field}: {problem} with {other_field}"
        others.append((field, port))
    named: dict[str, str] = {}
    for field, port in ports:
        name = port.get("name", "")
        if name in named:
            other_field = named[name]
            yield (
                f"{field}: duplicate port name {quoted(name)} with {other_field}, services and "
                f"probes that select ports by name will use {other_field}"
            )
        elif name:
            named[name] = field


def _overlap(port: Object, other: Object) -> str:
    """Returns how two ports of one number and protocol overlap; "" = they do not."""
    host_ports = port.get("hostPort", 0), other.get("hostPort", 0)
    addresses = port.get("hostIP", ""), other.get("hostIP", "")
    has_one_port = host_ports[0] == host_ports[1]
    if has_one_port and addresses[0] == addresses[1]:
        return "duplicate port definition"
    if not all(host_ports):
        return "overlapping port definition"
    if has_one_port and not all(addresses):
        return "dangerously ambiguous port definition"
    return ""


def _go_port(port: Object) -> str:
    """Returns a port as Go prints a struct."""
    fields = ("name", "hostPort", "containerPort", "protocol", "hostIP")
    values = (port.get(field, 0 if field.endswith("Port") else "") for field in fields)
    labels = ("Name", "HostPort", "ContainerPort", "Protocol", "HostIP")
    return (
        "{"
        + " ".join(f"{label}:{value}" for label, value in zip(labels, values, strict=True))
        + "}"
    )

"""The pages /configz, /flagz and /statusz.

/flagz and /statusz are text for people, or an object of config.k8s.io if the client names one in
its Accept header. What separates names from values in the text is drawn at random, as in
kube-scheduler, so that no program relies on it.

Source: k8s.io/apiserver pkg/server/{statusz,flagz}, k8s.io/component-base configz.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from mooring.clock import Clock, Rng, rfc3339
from mooring.objects.go_text import go_json
from mooring.serving import negotiation
from mooring.serving.messages import (
    NOSNIFF,
    TEXT,
    Handler,
    Reply,
    ServingRequest,
    encode_object,
    is_pretty,
    status_object,
    status_reply,
)

COMPONENT: Final = "kube-scheduler"
GROUP: Final = "config.k8s.io"
#: Version -> whether it is deprecated.
API_VERSIONS: Final = {"v1alpha1": True, "v1beta1": False}
DELIMITERS: Final = (":", ": ", "=", " ")
MEDIA_TYPES: Final = (negotiation.JSON, negotiation.YAML, negotiation.PLAIN)

_HEADER: Final = (
    "\n{component} {page}\n"
    "Warning: This endpoint is not meant to be machine parseable, "
    "has no formatting compatibility guarantees and is for debugging purposes only.\n"
)


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions in /statusz.

    Attributes:
        language: Of the interpreter; the page calls it the Go version.
        binary: Of Kubernetes: "1.36.3".
        emulation: The emulated minor version: "1.36"; "" = none.
    """

    language: str
    binary: str
    emulation: str = ""


@dataclass(frozen=True, slots=True)
class _Page:
    """A page with a text and an object; ``fields`` are those of the object."""

    name: str
    kind: str
    text: Callable[[], str]
    fields: Callable[[], Mapping[str, Any]]

    async def reply(self, request: ServingRequest) -> Reply:
        accept = request.headers.get("Accept", "").strip()
        choice = None
        if accept:
            choice = negotiation.choose(accept, MEDIA_TYPES, self._is_allowed)
            if choice is None:
                accepted = ", ".join(MEDIA_TYPES)
                message = f"only the following media types are accepted: {accepted}"
                return status_reply(
                    request, status_object(406, "NotAcceptable", message), MEDIA_TYPES[:2]
                )
        if choice is None or choice.media_type == negotiation.PLAIN:
            return Reply(
                200, self.text().encode("utf-8", "surrogateescape"), {"Content-Type": TEXT}
            )
        return self._object(request, choice)

    def _object(self, request: ServingRequest, choice: negotiation.Choice) -> Reply:
        version = choice.parameters["v"]
        headers = {"Content-Type": f"{choice.media_type};g={GROUP};v={version};as={self.kind}"}
        if API_VERSIONS[version]:
            headers["Warning"] = (
                f'299 - "This version of the {self.name} endpoint is deprecated. '
                'Please use a newer version."'
            )
        value = {
            "kind": self.kind,
            "apiVersion": f"{GROUP}/{version}",
            "metadata": {"name": COMPONENT},
            **self.fields(),
        }
        pretty = is_pretty(request, choice)
        return Reply(200, encode_object(value, choice.media_type, pretty=pretty), headers)

    def _is_allowed(self, media_type: str, parameters: Mapping[str, str]) -> bool:
        target = {name: parameters[name] for name in ("as", "g", "v") if name in parameters}
        if parameters.get("stream") or parameters.get("sv"):
            return False
        if media_type == negotiation.PLAIN:
            return not target
        kinds = ({"as": self.kind, "g": GROUP, "v": version} for version in API_VERSIONS)
        return any(target == kind for kind in kinds)


def statusz(versions: Versions, paths: Sequence[str], clock: Clock, rng: Rng) -> Handler:
    """Returns the handler of /statusz.

    Args:
        versions: See ``Versions``.
        paths: All listed paths of the server; their first segments are shown.
        clock: For the time since now, the start.
        rng: Draws the delimiter of each text.
    """
    started_s, started_monotonic_s = clock.wall_s(), clock.monotonic_s()
    segments = sorted({"/" + path.split("/")[1] for path in paths if path.strip("/")})

    def uptime_s() -> int:
        return max(0, int(clock.monotonic_s() - started_monotonic_s))

    def text() -> str:
        delimiter = rng.choice(DELIMITERS)
        started = datetime.fromtimestamp(started_s, UTC)
        seconds = uptime_s()
        hours, minutes = divmod(seconds // 60, 60)
        entries = [
            ("Started", f"{started:%a %b} {started.day:2} {started:%H:%M:%S UTC %Y}"),
            ("Up", f"{hours} hr {minutes:02d} min {seconds % 60:02d} sec"),
            ("Go version", versions.language),
            ("Binary version", versions.binary),
            ("Emulation version", versions.emulation),
            ("Paths", " ".join(segments)),
        ]
        lines = [
            f"{name}{delimiter} {html.escape(value)}\n" if value else "\n"
            for name, value in entries
        ]
        return _header("statusz") + "\n" + "".join(lines)

    def fields() -> Mapping[str, Any]:
        values: dict[str, Any] = {
            "startTime": rfc3339(started_s),
            "uptimeSeconds": uptime_s(),
            "goVersion": versions.language,
            "binaryVersion": versions.binary,
        }
        if versions.emulation:
            values["emulationVersion"] = versions.emulation
        return {**values, "paths": segments}

    return _Page("statusz", "Statusz", text, fields).reply


def flagz(flags: Mapping[str, str], rng: Rng) -> Handler:
    """Returns the handler of /flagz.

    Args:
        flags: Name and value of every flag.
        rng: Draws the delimiter, once.
    """
    delimiter = rng.choice(DELIMITERS)
    ordered = dict(sorted(flags.items()))
    lines = [f"{name}{delimiter}{value}\n" for name, value in ordered.items()]
    content = _header("flagz") + "".join(lines)
    fields = {"flags": ordered} if ordered else {}
    return _Page("flagz", "Flagz", lambda: content, lambda: fields).reply


def configz(configuration: Callable[[], Mapping[str, Any]]) -> Handler:
    """Returns the handler of /configz.

    Args:
        configuration: Returns the completed configuration, with kind and apiVersion.
    """

    async def handle(_: ServingRequest) -> Reply:
        document = dict(configuration())
        first = {name: document.pop(name) for name in ("kind", "apiVersion") if name in document}
        body = go_json({"componentconfig": _whole({**first, **document})}).encode()
        return Reply(200, body, {"Content-Type": negotiation.JSON, **NOSNIFF})

    return handle


def _header(page: str) -> str:
    return _HEADER.format(component=COMPONENT, page=page)


def _whole(value: Any) -> Any:
    """Returns the value with whole numbers as integers: Go writes 50.0 as 50."""
    if isinstance(value, Mapping):
        return {name: _whole(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value

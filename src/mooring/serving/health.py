"""Health checks by name, and the replies of /healthz, /livez and /readyz.

Source: k8s.io/apiserver pkg/server/healthz/healthz.go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from mooring.objects.go_text import go_quote
from mooring.serving.messages import NOSNIFF, Handler, Reply, ServingRequest, http_error

#: Returns None if all is well, or else the reason.
Check = Callable[[], str | None]
#: Returns what is worth knowing although the check passes; "" = nothing.
Remark = Callable[[], str]
#: Called with (name of the check, endpoint such as "readyz", whether it passed).
ResultObserver = Callable[[str, str, bool], None]

ENDPOINTS: Final = ("healthz", "livez", "readyz")

_log = logging.getLogger(__name__)


def healthy() -> str | None:
    """Passes always: the check ``ping``."""
    return None


def _ignore(_name: str, _endpoint: str, _passed: bool) -> None:
    """Ignores a result."""


class HealthChecks:
    """The checks of each endpoint, in the order in which they were added.

    An endpoint without checks has the check ``ping``.

    Args:
        on_result: Called after each evaluation of a check by its endpoint.

    Example:
        >>> checks = HealthChecks()
        >>> checks.add(["readyz"], "sched-handler-sync", lambda: "not synchronized")
        >>> [name for name, _ in checks.of("readyz")], [name for name, _ in checks.of("livez")]
        (['sched-handler-sync'], ['ping'])
    """

    def __init__(self, on_result: ResultObserver = _ignore) -> None:
        self._checks: dict[str, dict[str, Check]] = {endpoint: {} for endpoint in ENDPOINTS}
        self._remarks: dict[str, Remark] = {"ping": lambda: ""}
        self._on_result = on_result

    def add(
        self,
        endpoints: Iterable[str],
        name: str,
        check: Check,
        *,
        remark: Remark = lambda: "",
    ) -> None:
        """Adds a check to ``healthz``, ``livez`` or ``readyz``.

        Args:
            endpoints: The endpoints.
            name: Of the check.
            check: Returns None if it passes.
            remark: Follows "ok" if it passes. The endpoint is public: no names of pods.

        Raises:
            ValueError: there is no such endpoint, or it has a check with this name.
        """
        for endpoint in endpoints:
            if endpoint not in self._checks:
                raise ValueError(f"no endpoint {endpoint!r}: one of {', '.join(ENDPOINTS)}")
            if name in self._checks[endpoint]:
                raise ValueError(f"{endpoint} already has a check {name!r}")
            self._checks[endpoint][name] = check
        self._remarks[name] = remark

    def of(self, endpoint: str) -> list[tuple[str, Check]]:
        """Returns the checks of an endpoint."""
        return list(self._checks[endpoint].items()) or [("ping", healthy)]

    def routes(self) -> dict[str, Handler]:
        """Returns the handlers by path: of each endpoint, and of each of its checks."""
        handlers: dict[str, Handler] = {}
        for endpoint in ENDPOINTS:
            handlers[f"/{endpoint}"] = self._endpoint_handler(endpoint)
            for name, check in self.of(endpoint):
                handlers[f"/{endpoint}/{name}"] = _check_handler(check)
        return handlers

    def _endpoint_handler(self, endpoint: str) -> Handler:
        async def handle(request: ServingRequest) -> Reply:
            return self._reply(endpoint, request)

        return handle

    def _reply(self, endpoint: str, request: ServingRequest) -> Reply:
        excluded = set(request.values("exclude"))
        unknown = set(excluded)
        lines, failed, reasons = [], [], []
        for name, check in self.of(endpoint):
            if name in excluded:
                unknown.discard(name)
                lines.append(f"[+]{name} excluded: ok")
                continue
            reason = check()
            self._on_result(name, endpoint, reason is None)
            if reason is None:
                lines.append(f"[+]{name} ok {self._remarks[name]()}".rstrip())
                continue
            # The endpoint is public: who wants the reason needs the right to read the check.
            lines.append(f"[-]{name} failed: reason withheld")
            failed.append(name)
            reasons.append(f"[-]{name} failed: {reason}")
        if unknown:
            names = ",".join(map(go_quote, sorted(unknown)))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if failed:
            text = "\n".join([f"{','.join(failed)} check failed: {endpoint}", *reasons])
            # A probe a second would fill the log of a scheduler that starts.
            _log.debug("%s", text, extra={"v": 2, "bare": True})
            return http_error("\n".join([*lines, f"{endpoint} check failed"]), 500)
        if not request.values("verbose"):
            return Reply.text("ok", headers=NOSNIFF)
        return Reply.text("\n".join([*lines, f"{endpoint} check passed", ""]), headers=NOSNIFF)


def _check_handler(check: Check) -> Handler:
    async def handle(_: ServingRequest) -> Reply:
        reason = check()
        if reason is not None:
            return http_error(f"internal server error: {reason}", 500)
        return Reply.text("ok")

    return handle

"""Probes of the scheduler and the controller manager that run beside this server.

As kube-apiserver, they request ``/healthz`` at the default ports of the loopback interface, and do
not verify certificates: a component may have made its own.

Source: k8s.io/kubernetes pkg/registry/core/componentstatus/validator.go, pkg/probe/http/http.go.
Differs: redirects are not followed, and count as failures.
"""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from typing import Final

from mooring.apiserver.endpoints.component_status import (
    HEALTH_PORTS,
    ComponentHealth,
    HealthChecks,
    health_url,
    not_listening,
)

#: As upstream.
_TIMEOUT_S: Final = 20.0
#: As upstream; longer responses are cut.
_BODY_BYTES_MAX: Final = 10 * 1024
_HEAD_BYTES_MAX: Final = 16 * 1024


def health_probes() -> HealthChecks:
    """Returns the probes of all components, for an API server that has sockets."""
    return {name: partial(wait_for_probe, name, port) for name, port in HEALTH_PORTS.items()}


async def wait_for_probe(component: str, port: int) -> ComponentHealth:
    """Requests a component's ``/healthz``.

    Args:
        component: Its name, for messages.
        port: On the loopback interface.
    """
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            status, body = await _wait_for_response(port)
    except ConnectionRefusedError:
        return not_listening(component)
    except TimeoutError:
        return _failed(component, "context deadline exceeded")
    except (OSError, ValueError, EOFError) as error:
        return _failed(component, str(error) or type(error).__name__)
    if not 200 <= status < 300:
        return ComponentHealth(
            is_healthy=False, message=f"HTTP probe failed with statuscode: {status}"
        )
    return ComponentHealth(is_healthy=True, message=body)


def _failed(component: str, problem: str) -> ComponentHealth:
    return ComponentHealth(is_healthy=False, message=f'Get "{health_url(component)}": {problem}')


async def _wait_for_response(port: int) -> tuple[int, str]:
    """Returns status and body of ``/healthz``.

    Raises:
        OSError, EOFError: There is no response.
        ValueError: It is no HTTP response.
    """
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, limit=_HEAD_BYTES_MAX
    )
    try:
        # HTTP/1.0: the body ends with the connection.
        writer.write(b"GET /healthz HTTP/1.0\r\nhost: 127.0.0.1:%d\r\n\r\n" % port)
        await writer.drain()
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError as error:
            raise ValueError("the head of the response is too long") from error
        fields = head.split(b" ", 2)
        if len(fields) < 3 or not fields[1].isdigit():
            raise ValueError("malformed HTTP response")
        body = b""
        while len(body) < _BODY_BYTES_MAX and (data := await reader.read(_BODY_BYTES_MAX)):
            body += data
        return int(fields[1]), body[:_BODY_BYTES_MAX].decode(errors="replace")
    finally:
        writer.close()

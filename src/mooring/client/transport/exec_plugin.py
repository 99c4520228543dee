"""Credentials from a program: the ``exec`` of a kubeconfig's user.

The program is run without a shell and without input, for a limited time; it prints an
ExecCredential with a token or a certificate.

Source: client-go's plugin/pkg/client/auth/exec/exec.go, client.authentication.k8s.io/v1.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from mooring.client.transport.kubeconfig import ExecPlugin
from mooring.errors import Unreachable

PLUGIN_S_MAX: Final = 60.0

#: Limit of a plugin's output; a certificate chain with its key is 10 kB.
PRINTED_BYTES_MAX: Final = 1 << 20

CHUNK_BYTES: Final = 1 << 16

#: Limit of a plugin's standard error in our error.
MESSAGE_LENGTH_MAX: Final = 500


@dataclass(frozen=True)
class ExecCredential:
    """The credentials of a plugin: a token, a certificate with its key, or both.

    Attributes:
        token: For the Authorization header.
        certificate: PEM.
        key: PEM.
        expires_at_s: Seconds since 1970; None if they do not expire.
    """

    token: str | None = field(default=None, repr=False)
    certificate: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    expires_at_s: float | None = None


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


async def run_plugin(
    plugin: ExecPlugin, *, environment: Mapping[str, str], deadline_s: float = PLUGIN_S_MAX
) -> ExecCredential:
    """Runs the program and decodes its output.

    Raises:
        Unreachable: it is missing, fails, takes too long, or prints something else. The message
        contains its standard error, never its standard output.
    """
    spec: dict[str, object] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    variables = {
        **environment,
        **plugin.environment,
        "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
    }
    printed = await _printed(plugin, variables, deadline_s)
    try:
        answer = msgspec.json.decode(printed, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreachable(f"{plugin.command} printed no ExecCredential: {error}") from None
    return _credential(plugin, answer)


async def _printed(plugin: ExecPlugin, variables: dict[str, str], deadline_s: float) -> bytes:
    command = plugin.command
    try:
        process = await asyncio.create_subprocess_exec(
            command,
            *plugin.arguments,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            env=variables,
            # Its own process group: its children are killed with it.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        problem = getattr(error, "strerror", None) or str(error)
        raise Unreachable(f"{command} cannot be run: {problem}{hint}") from error
    has_ended = False
    try:
        async with asyncio.timeout(deadline_s), asyncio.TaskGroup() as tasks:
            assert process.stdout is not None
            assert process.stderr is not None
            printed = tasks.create_task(_beginning(process.stdout, PRINTED_BYTES_MAX))
            error_output = tasks.create_task(_end(process.stderr, MESSAGE_LENGTH_MAX))
            await process.wait()
        has_ended = True
    except TimeoutError as error:
        raise Unreachable(f"{command} did not end within {deadline_s:g} s") from error
    finally:
        if not has_ended:
            await _kill(process)
    if process.returncode:
        text = error_output.result().decode("utf-8", "replace").strip()
        problem = f"{command} failed with exit code {process.returncode}: {text}"
        raise Unreachable(problem.rstrip(": "))
    if len(printed.result()) > PRINTED_BYTES_MAX:
        raise Unreachable(f"{command} printed more than {PRINTED_BYTES_MAX} bytes")
    return printed.result()


async def _kill(process: Process) -> None:
    """Kills the program and its children, and closes its pipes."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A process that left the group may still have the other ends open.
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
    await process.wait()


async def _beginning(stream: asyncio.StreamReader, bytes_max: int) -> bytes:
    """Returns the first bytes_max + 1 bytes of a stream; reads it to its end."""
    output = b""
    while chunk := await stream.read(CHUNK_BYTES):
        output += chunk[: bytes_max + 1 - len(output)]
    return output


async def _end(stream: asyncio.StreamReader, bytes_max: int) -> bytes:
    """Returns the last bytes of a stream; reads it to its end."""
    output = b""
    while chunk := await stream.read(CHUNK_BYTES):
        output = (output + chunk)[-bytes_max:]
    return output


def _credential(plugin: ExecPlugin, answer: _Answer) -> ExecCredential:
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        printed = f"{answer.api_version} {answer.kind}"
        raise Unreachable(f"{plugin.command} printed {printed}, not {plugin.api_version}")
    status = answer.status
    if status is None or not (status.token or status.client_certificate_data):
        raise Unreachable(f"{plugin.command} gave neither a token nor a certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise Unreachable(f"{plugin.command} must give a certificate together with its key")
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        raise Unreachable(f"{plugin.command} gave an expirationTimestamp without a time zone")
    return ExecCredential(
        token=status.token,
        certificate=(status.client_certificate_data or "").encode() or None,
        key=(status.client_key_data or "").encode() or None,
        expires_at_s=expires.timestamp() if expires is not None else None,
    )

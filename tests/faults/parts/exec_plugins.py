"""Programs that print credentials: what they get, and what their output means.

Source: client-go's plugin/pkg/client/auth/exec/exec.go, client.authentication.k8s.io/v1.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.client.transport import exec_plugin
from mooring.client.transport.exec_plugin import (
    MESSAGE_LENGTH_MAX,
    ExecCredential,
    run_plugin,
)
from mooring.client.transport.kubeconfig import ExecPlugin
from mooring.clock import Rng
from mooring.errors import Unreachable

V1: Final = "client.authentication.k8s.io/v1"
RUNS: Final = 3
#: The limit of the output that a run sets.
PRINTED_BYTES_MAX: Final = 300
#: The exit code of a program that has printed more than a pipe takes before its error.
LONG_OUTPUT: Final = 7
#: Prints what it has been given.
SCRIPT: Final = """
printf "%s" "$ANSWER"
[ $CODE != 7 ] || head -c 70000 /dev/zero | tr "\\0" . >&2
printf "%s" "$KUBERNETES_EXEC_INFO$1$2" >&2
exit $CODE
"""
#: Never ends, and has a child that has the pipe open.
HANGING: Final = """
exec 3>"$FIFO"
sleep 20 &
sleep 20
"""
HANGS_S: Final = 0.1
#: In so many runs a program hangs.
HANGING_SHARE: Final = 0.3
#: What was killed has closed its files so soon; milliseconds.
KILLED_MS: Final = 10_000
TIMES: Final = (None, "2030-01-01T00:00:00Z", "2030-01-01T00:00:00+02:00")
#: What is wrong with an answer, and what the error says.
FLAWS: Final[tuple[tuple[dict[str, Any], str], ...]] = (
    ({"kind": "Secret"}, f"printed {V1} Secret, not {V1}"),
    ({"apiVersion": "v2"}, f"printed v2 ExecCredential, not {V1}"),
    ({"kind": 5}, "printed no ExecCredential"),
    ({"status": None}, "gave neither a token nor a certificate"),
    ({"status": {}}, "gave neither a token nor a certificate"),
    ({"status": {"clientKeyData": "k"}}, "gave neither a token nor a certificate"),
    ({"status": {"token": "a", "clientKeyData": "k"}}, "a certificate together with its key"),
    ({"status": {"clientCertificateData": "c"}}, "a certificate together with its key"),
    (
        {"status": {"token": "a", "expirationTimestamp": "2030-01-01T00:00:00"}},
        "gave an expirationTimestamp without a time zone",
    ),
)


def plugin_problems(rng: Rng) -> list[str]:
    """Returns the differences in some runs of programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exec_plugin, "PRINTED_BYTES_MAX", PRINTED_BYTES_MAX)
        return asyncio.run(_problems(rng))


async def _problems(rng: Rng) -> list[str]:
    problems = []
    for _ in range(RUNS):
        status: dict[str, Any] = {"token": "abc"} if rng.random() < 0.7 else {}
        if not status or rng.random() < 0.3:
            status |= {"clientCertificateData": "cert", "clientKeyData": "key"}
        expires = rng.choice(TIMES)
        if expires is not None:
            status["expirationTimestamp"] = expires
        answer: dict[str, Any] = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
        expected: Any = ExecCredential(
            token=status.get("token"),
            certificate=b"cert" if "clientKeyData" in status else None,
            key=b"key" if "clientKeyData" in status else None,
            expires_at_s=None if expires is None else datetime.fromisoformat(expires).timestamp(),
        )
        code = 0
        draw = rng.random()
        if draw < 0.4:
            flaw, expected = rng.choice(FLAWS)
            answer |= flaw
        elif draw < 0.5:
            length = len(json.dumps(answer | {"more": ""}))
            n_more = rng.choice((0, 1))
            answer["more"] = "." * (PRINTED_BYTES_MAX - length + n_more)
            if n_more:
                expected = f"printed more than {PRINTED_BYTES_MAX} bytes"
        elif draw < 0.7:
            code = rng.choice((1, 7))
            expected = f"failed with exit code {code}: "
        problems += await _compared(rng, answer, code, expected)
    if rng.random() < HANGING_SHARE:
        problems += await _hang()
    return problems


async def _hang() -> list[str]:
    """Checks that a program that does not end is killed with its children."""
    with tempfile.TemporaryDirectory() as folder:
        fifo = Path(folder) / "fifo"
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        plugin = ExecPlugin("sh", ("-c", HANGING), {"FIFO": str(fifo)}, V1, "", None)
        try:
            await run_plugin(plugin, environment={"PATH": "/usr/bin:/bin"}, deadline_s=HANGS_S)
        except Unreachable as error:
            problem = str(error)
        else:
            problem = "it ended"
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        has_started = bool(poll.poll(0)) or _has_writer(reader)
        is_killed = not has_started or bool(poll.poll(KILLED_MS))
        os.close(reader)
    text = f"sh did not end within {HANGS_S:g} s"
    if problem != text or not is_killed:
        return [f"a program that hangs: {problem}, its children are killed: {is_killed}"]
    return []


def _has_writer(reader: int) -> bool:
    """Returns whether a process has the other end of a pipe open."""
    try:
        os.read(reader, 1)
    except BlockingIOError:
        return True
    return False


async def _compared(rng: Rng, answer: dict[str, Any], code: int, expected: Any) -> list[str]:
    cluster = rng.choice((None, {"server": "https://a"}))
    command = rng.choice(("sh", "sh", "sh", "/absent/program"))
    arguments = rng.choice((("x",), ("x", "y")))
    plugin = ExecPlugin(
        command=command,
        arguments=("-c", SCRIPT, "script", *arguments),
        environment={"CODE": str(code), "ANSWER": json.dumps(answer)},
        api_version=V1,
        install_hint=rng.choice(("", "get it")),
        cluster=cluster,
    )
    try:
        real: Any = await run_plugin(
            plugin, environment={"PATH": "/usr/bin:/bin", "CODE": "99"}, deadline_s=30.0
        )
    except Unreachable as error:
        real = str(error)
    if command != "sh":
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        expected = f"{command} cannot be run: No such file or directory{hint}"
    elif code:
        spec = {"interactive": False} | ({} if cluster is None else {"cluster": cluster})
        info = {"apiVersion": V1, "kind": "ExecCredential", "spec": spec}
        text = json.dumps(info, separators=(",", ":"))
        error_output = "." * (70_000 if code == LONG_OUTPUT else 0) + text + "".join(arguments)
        expected = f"sh {expected}{error_output[-MESSAGE_LENGTH_MAX:]}"
    if isinstance(expected, str):
        is_same = isinstance(real, str) and (expected in real if not code else expected == real)
        return [] if is_same else [f"{answer}: {real!r}, not {expected!r}"]
    return [] if real == expected else [f"{answer}: {real!r}, not {expected!r}"]

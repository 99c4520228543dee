"""The server that the client's benchmark talks to, in a process of its own: pods by the thousand.

It knows three requests: a watch (as many events as asked for, each in a TLS record and chunk of its
own, as kube-apiserver flushes them), a list by pages, and a binding. What it says is made before.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bench.objects import running_pod

PAGE = 500

DONE = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


def write_certificate(folder: Path) -> None:
    """A certificate for 127.0.0.1 that signed itself: ``tls.crt``, with ``tls.key``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=3650))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "tls.crt").write_bytes(certificate.public_bytes(pem))
    text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "tls.key").write_bytes(text)


def one_pod(number: int) -> bytes:
    """A pod of 2.8 kB as kube-apiserver sends it: one container, and managedFields."""
    document = json.loads(running_pod(number))
    spec, status = document["spec"], document["status"]
    spec["containers"] = spec["containers"][:1]
    status["containerStatuses"] = status["containerStatuses"][:1]
    # As it came from the API server of our tests: the official client refuses a status without.
    for container in status["containerStatuses"]:
        container.setdefault("imageID", "images.example/web@sha256:0123")
    status["conditions"] = status["conditions"][1:]
    document["metadata"]["managedFields"] = [
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-11-20T10:11:12Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:tier": {}}}},
        }
    ]
    return json.dumps(document, separators=(",", ":")).encode()


def event(number: int) -> bytes:
    """The line of the pod ``number``, each with a version and name of its own."""
    return b'{"type":"MODIFIED","object":' + one_pod(number) + b"}\n"


def page(number: int, pages: int) -> bytes:
    """Page ``number`` of a list."""
    first = number * PAGE
    token = f'"continue":"{number + 1}",' if number + 1 < pages else ""
    head = f'{{"kind":"PodList","apiVersion":"v1","metadata":{{{token}"resourceVersion":"9999999"}}'
    items = b",".join(one_pod(first + index) for index in range(PAGE))
    return head.encode() + b',"items":[' + items + b"]}"


def chunk(text: bytes) -> bytes:
    """A piece of a chunked answer."""
    return f"{len(text):x}\r\n".encode() + text + b"\r\n"


def body_length(head: bytes) -> int:
    """What Content-Length says; 0 without one."""
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


class Server:
    """Answers from memory."""

    def __init__(self, objects: int) -> None:
        self._pages = [page(number, objects // PAGE) for number in range(objects // PAGE)]
        self._events = [chunk(event(number)) for number in range(objects)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = body_length(head)
                await reader.readexactly(length)
                url = urlsplit(head.split(b" ", 2)[1].decode())
                await self._answer(writer, {k: v[0] for k, v in parse_qs(url.query).items()})
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, query: dict[str, str]) -> None:
        kind = b"content-type: application/json\r\n"
        if "watch" in query:
            writer.write(b"HTTP/1.1 200 OK\r\n" + kind + b"transfer-encoding: chunked\r\n\r\n")
            for text in self._events[: int(query["labelSelector"].rpartition("=")[2])]:
                writer.write(text)
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        else:
            is_list = "limit" in query
            body = self._pages[int(query.get("continue", 0))] if is_list else DONE
            status = b"200 OK" if is_list else b"201 Created"
            length = f"content-length: {len(body)}\r\n\r\n".encode()
            writer.write(b"HTTP/1.1 " + status + b"\r\n" + kind + length + body)
        await writer.drain()


async def main(folder: Path, objects: int) -> None:
    """Say the port on standard output, then serve until the standard input ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    made = Server(objects)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))

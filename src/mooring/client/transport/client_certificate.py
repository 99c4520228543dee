"""Loads a client certificate and its key into a TLS context; no HTTP library is imported."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from mooring.errors import ConfigError


def load_pair(context: ssl.SSLContext, certificate: bytes | Path, key: bytes | Path | None) -> None:
    """Loads the client certificate of new connections.

    Raises:
        ConfigError: it is invalid, or does not match the key. The context is as before.
    """
    if key is None:
        raise ConfigError("there is a client certificate without a key", path="client-key")
    with _file(read_pem(certificate)) as certificate_path, _file(read_pem(key)) as key_path:
        try:
            # Elsewhere first: a pair that does not fit takes the one of the context away.
            for loading in (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), context):
                loading.load_cert_chain(certificate_path, key_path, password=_no_password)
        except ssl.SSLError as error:
            raise ConfigError(f"cannot be used: {error}", path="client-certificate") from error


def _no_password() -> str:
    """Raises instead of a password prompt, for which there may be no terminal."""
    raise ConfigError("needs a password; give a key without one", path="client-key")


def _file(content: bytes) -> AbstractContextManager[str]:
    """Returns a temporary file for APIs that only load files, in memory if possible."""
    return _in_memory(content) if hasattr(os, "memfd_create") else _on_disk(content)


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    with open(os.memfd_create("mooring"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


@contextmanager
def _on_disk(content: bytes) -> Iterator[str]:
    """Returns a private temporary file on disk, deleted after use."""
    with tempfile.NamedTemporaryFile(prefix="mooring-") as file:
        file.write(content)
        file.flush()
        yield file.name


def read_pem(content: bytes | Path) -> bytes:
    """Returns the content of a file, or the content itself.

    Raises:
        ConfigError: the file cannot be read.
    """
    if isinstance(content, bytes):
        return content
    try:
        return content.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(content)) from error
    except ValueError as error:  # no file can have this name: it has a null character
        raise ConfigError(f"cannot be read: {error}", value=str(content)) from error

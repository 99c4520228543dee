"""Health of the server: ``/healthz``, ``/livez``, ``/readyz``, and their single checks.

A server that answers is healthy, so every check passes. The checks are those of upstream that have
a meaning here: ``etcd`` is the store. With ``verbose`` they are listed.

Source: k8s.io/apiserver pkg/server/healthz/healthz.go (handleRootHealth).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

ROOTS: Final = ("/healthz", "/livez", "/readyz")
_CHECKS: Final = ("ping", "log", "etcd")
PATHS: Final = (*ROOTS, *(f"{root}/{check}" for root in ROOTS for check in _CHECKS))


def health_of(path: str, query: Sequence[tuple[str, str]]) -> bytes | None:
    """Returns the text about the server's health; None for other paths.

    Example:
        >>> health_of("/livez/ping", [])
        b'ok'
        >>> print(health_of("/livez", [("verbose", ""), ("exclude", "log")]).decode())
        [+]ping ok
        [+]log excluded: ok
        [+]etcd ok
        livez check passed
        <BLANKLINE>
    """
    if path not in PATHS:
        return None
    if path not in ROOTS or not any(name == "verbose" for name, _ in query):
        return b"ok"
    excluded = {value for name, value in query if name == "exclude"}
    return "".join(f"{line}\n" for line in _lines(path[1:], excluded)).encode()


def _lines(root: str, excluded: set[str]) -> Iterator[str]:
    for check in _CHECKS:
        yield f"[+]{check} {'excluded: ' if check in excluded else ''}ok"
    unknown = ", ".join(f'"{name}"' for name in sorted(excluded.difference(_CHECKS)))
    if unknown:
        yield f"warn: some health checks cannot be excluded: no matches for {unknown}"
    yield f"{root} check passed"

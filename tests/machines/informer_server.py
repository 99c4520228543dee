"""A server for informers that is a plain history of events, and the lines that it sends."""

from __future__ import annotations

import json
from typing import Any

from mooring.objects.kinds import kind_named

KIND = kind_named("Pod")


def pod(name: str, uid: str, version: int, *, is_readable: bool) -> dict[str, Any]:
    namespace, own = name.split("/")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": own,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": str(version),
        },
        "spec": {"priority": 0 if is_readable else "high"},
    }


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


def bookmark(version: int, *, ends_list: bool = False) -> bytes:
    notes = {"k8s.io/initial-events-end": "true"} if ends_list else {}
    metadata = {"resourceVersion": str(version), "annotations": notes}
    return line("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def status(code: int, reason: str) -> bytes:
    return line("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": "no"})


class Server:
    """A server with a history of events, whose oldest may be dropped."""

    def __init__(self) -> None:
        self.version = 10
        self.kept_from = 0
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.objects: dict[str, dict[str, Any]] = {}
        self.born = 0

    def put(self, name: str, *, is_new: bool, is_readable: bool, gap: int) -> None:
        self.version += gap
        old = self.objects.get(name)
        if old is not None and is_new:
            self.delete(name, gap=1)
            old = None
            self.version += 1
        if old is None:
            self.born += 1
        uid = f"u{self.born}" if old is None else old["metadata"]["uid"]
        obj = pod(name, uid, self.version, is_readable=is_readable)
        self.objects[name] = obj
        self.history.append((self.version, "MODIFIED" if old else "ADDED", obj))

    def delete(self, name: str, *, gap: int) -> None:
        old = self.objects.pop(name, None)
        if old is None:
            return
        self.version += gap
        last = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
        self.history.append((self.version, "DELETED", last))

    def at(self, version: int) -> dict[str, dict[str, Any]]:
        """Returns what was there when ``version`` was the newest."""
        found: dict[str, dict[str, Any]] = {}
        for at, kind, obj in self.history:
            name = "{namespace}/{name}".format(**obj["metadata"])
            if at <= version:
                found[name] = obj
                if kind == "DELETED":
                    del found[name]
        return found

    def after(self, version: int) -> list[bytes]:
        return [line(kind, obj) for at, kind, obj in self.history if at > version]

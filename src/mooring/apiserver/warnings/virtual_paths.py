"""Warnings about files of one volume that hide each other.

Source: pkg/api/pod/warnings.go (warningsForOverlappingVirtualPaths).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from mooring.apiserver.errors import quoted
from mooring.apiserver.types import Object


class _File(NamedTuple):
    """A path in a volume, and the source of a projected one."""

    path: str
    source: str = ""

    def __str__(self) -> str:
        return f"{quoted(self.path)} ({self.source})" if self.source else quoted(self.path)


def overlap_warnings(volumes: Iterable[Object]) -> Iterator[str]:
    """Yields the warnings of the volumes of a pod."""
    for volume in volumes:
        name = quoted(volume.get("name", ""))
        for source, description in _sources(volume):
            files = _files(source.get("items"))
            for overlap in _overlaps(files):
                yield f"volume {name} ({description}): overlapping paths: {overlap}"
        if "projected" not in volume:
            continue
        projected: list[_File] = []
        for source in volume["projected"].get("sources") or ():
            if not source:
                yield f"volume {name} (Projected) has no sources provided"
            projected += _projected_files(source)
        for overlap in _overlaps(projected):
            yield f"volume {name} (Projected): overlapping paths: {overlap}"


def _sources(volume: Object) -> Iterator[tuple[Object, str]]:
    """Yields the parts of a volume that list files, and how messages name them."""
    if source := volume.get("configMap"):
        yield source, f"ConfigMap {quoted(source.get('name', ''))}"
    if source := volume.get("secret"):
        yield source, f"Secret {quoted(source.get('secretName', ''))}"
    if source := volume.get("downwardAPI"):
        yield source, "DownwardAPI"


def _projected_files(source: Object) -> list[_File]:
    """Returns the files of one source of a projected volume."""
    if part := source.get("configMap"):
        return _files(part.get("items"), f"ConfigMap {quoted(part.get('name', ''))}")
    if part := source.get("secret"):
        return _files(part.get("items"), f"Secret {quoted(part.get('name', ''))}")
    if part := source.get("downwardAPI"):
        return _files(part.get("items"), "DownwardAPI")
    if part := source.get("serviceAccountToken"):
        return [_File(_trimmed(part.get("path", "")), "ServiceAccountToken")]
    if part := source.get("clusterTrustBundle"):
        name = quoted(part.get("name") or part.get("signerName", ""))
        return [_File(_trimmed(part.get("path", "")), f"ClusterTrustBundle {name}")]
    part = source.get("podCertificate") or {}
    named = (
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    )
    return [_File(_trimmed(part[field]), text) for field, text in named if part.get(field)]


def _files(items: Any, source: str = "") -> list[_File]:
    return [_File(_trimmed(item.get("path", "")), source) for item in items or ()]


def _trimmed(path: str) -> str:
    return path.rstrip("/")


def _overlaps(files: Iterable[_File]) -> Iterator[str]:
    """Yields each pair of which one is, or contains, the other."""
    named = [file for file in files if file.path]
    for number, file in enumerate(named):
        folder = f"{file.path}/"
        for other in named[:number]:
            other_folder = f"{other.path}/"
            if folder.startswith(other_folder) or other_folder.startswith(folder):
                yield f"{file} with {other}"

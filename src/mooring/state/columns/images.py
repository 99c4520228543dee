"""The images on the nodes, with their sizes and the number of nodes that have each."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.objects.node import ContainerImage


class ImageState:
    """One image name in the cluster.

    ``size_bytes`` is the size reported by the first node with the image, as upstream; ``rows`` are
    the rows of the nodes that have it (dict = ordered set).
    """

    __slots__ = ("rows", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.rows: dict[int, None] = {}


class ImageTable:
    """Image name -> ImageState, for every image on at least one node.

    Source: pkg/scheduler/backend/cache/cache.go (addNodeImageStates, removeNodeImageStates).
    Differs: upstream's snapshot keeps a stale node count for nodes that have not changed since;
    here the count is always current.
    """

    __slots__ = ("_of_row", "_states")

    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}
        self._of_row: dict[int, tuple[str, ...]] = {}

    def get(self, name: str) -> ImageState | None:
        """Returns the state of image ``name``; None if no node has it."""
        return self._states.get(name)

    def names(self, row: int) -> tuple[str, ...]:
        """Returns the names of the images on the node of ``row``."""
        return self._of_row.get(row, ())

    def items(self) -> list[tuple[str, ImageState]]:
        """Returns every image with its state, for the audit."""
        return list(self._states.items())

    def put(self, row: int, images: Iterable[ContainerImage]) -> bool:
        """Sets the images of the node of ``row``.

        Returns whether a name, or the size of a name, changed.
        """
        before = self._sizes(row)
        for name in self._of_row.pop(row, ()):
            state = self._states[name]
            del state.rows[row]
            if not state.rows:
                del self._states[name]
        sizes: dict[str, int] = {}
        for image in images:
            for name in image.names:
                sizes.setdefault(name, image.size_bytes)
        for name, size_bytes in sizes.items():
            self._states.setdefault(name, ImageState(size_bytes)).rows[row] = None
        if sizes:
            self._of_row[row] = tuple(sizes)
        return before != self._sizes(row)

    def _sizes(self, row: int) -> dict[str, int]:
        """Returns image name -> size in bytes, of the images on ``row``."""
        return {name: self._states[name].size_bytes for name in self.names(row)}

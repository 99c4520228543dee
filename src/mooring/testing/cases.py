"""One plugin, one cluster, one pod: what the conformance kit tries, and how it tells a fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from mooring.errors import PluginError
from mooring.objects.node import Node
from mooring.objects.pod import Pod


class Case(NamedTuple):
    """What is tried; ``origin`` tells where it came from: "seed 7"."""

    plugin: Any
    objects: list[Node | Pod]
    pod: Pod
    origin: str

    @property
    def where(self) -> str:
        """Plugin, seed and pod, as every message begins."""
        return f"plugin {self.plugin.name}, {self.origin}, pod {self.pod.metadata.name}"

    def expect(self, holds: bool, fault: str) -> None:
        """Raises if the plugin does not keep its word.

        Raises:
            AssertionError: naming plugin, seed, pod and ``fault``.
        """
        if not holds:
            raise AssertionError(f"{self.where}: {fault}")

    @contextmanager
    def blaming(self) -> Iterator[None]:
        """What goes wrong inside is the plugin's fault.

        Raises:
            AssertionError: in place of a PluginError.
        """
        try:
            yield
        except PluginError as error:
            raise AssertionError(f"{self.where}: {error}") from error


def first_difference(names: Sequence[str], left: Sequence[Any], right: Sequence[Any]) -> str | None:
    """The first node on which two lists of answers differ, in words; None if they are equal."""
    for name, one, other in zip(names, left, right, strict=True):
        if one != other:
            return f"of {name} {one}, and {other}"
    return None

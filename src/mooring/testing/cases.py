"""A case of the conformance checks: a plugin, a cluster and a pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from mooring.errors import PluginError
from mooring.objects.meta import KubernetesObject
from mooring.objects.pod import Pod


class Case(NamedTuple):
    """The input of a check; ``origin`` names its source: "seed 7"."""

    plugin: Any
    objects: Sequence[KubernetesObject]
    pod: Pod
    origin: str

    @property
    def where(self) -> str:
        """Plugin, seed and pod: the beginning of every message."""
        return f"plugin {self.plugin.name}, {self.origin}, pod {self.pod.metadata.name}"

    def expect(self, condition: bool, fault: str) -> None:
        """Raises if a condition does not hold.

        Raises:
            AssertionError: with plugin, seed, pod and ``fault``.
        """
        if not condition:
            raise AssertionError(f"{self.where}: {fault}")

    @contextmanager
    def plugin_errors_as_failures(self) -> Iterator[None]:
        """Converts errors of the plugin into failures of the check.

        Raises:
            AssertionError: in place of a PluginError.
        """
        try:
            yield
        except PluginError as error:
            raise AssertionError(f"{self.where}: {error}") from error


def first_difference(names: Sequence[str], left: Sequence[Any], right: Sequence[Any]) -> str | None:
    """Returns a text on the first node where two lists differ; None if they are equal."""
    for name, left_item, right_item in zip(names, left, right, strict=True):
        if left_item != right_item:
            return f"of {name} {left_item}, and {right_item}"
    return None

"""What the plugins that share their answers read of a pod.

Most pods are replicas: they differ in name, UID, versions and times, and plugins are told not to
read those for their answers. So pods that are the same in all else are signed once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.state.tables.pods import PodInfo

#: Pods of so many kinds are remembered, none of which takes more bytes than this: 16 MiB at most.
KINDS_MAX: Final = 2048
KIND_BYTES_MAX: Final = 8 << 10


class Signature:
    """The fragments of the plugins that share; equal ones are one object, and so quick to find."""

    __slots__ = ("cached_plugins", "fragments")

    def __init__(self, fragments: Mapping[str, Hashable]) -> None:
        self.fragments = fragments
        #: The names of the plugins that share their answers for such pods.
        self.cached_plugins = frozenset(fragments)


class Signatures:
    """The signatures that the plugins ``cacheable`` of a profile have given."""

    def __init__(self, cacheable: Sequence[Any]) -> None:
        self._cacheable = cacheable
        self._of_kind: dict[bytes, Signature] = {}
        self._by_fragments: dict[Hashable, Signature] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def of(self, pod: PodInfo, call: Callable[..., Any]) -> Signature:
        """Returns the pod's signature; ``call`` calls a plugin (``Framework.call``)."""
        if pod.signature is not None and pod.signature[0] is self:
            noted: Signature = pod.signature[1]
            return noted
        kind = self._encode(_kind_of(pod)) if self._cacheable else b""
        found = self._of_kind.get(kind)
        if found is None:
            if len(self._of_kind) >= KINDS_MAX or len(self._by_fragments) >= KINDS_MAX:
                self._of_kind.clear()
                self._by_fragments.clear()
            found = self._signed(pod, call)
            if len(kind) <= KIND_BYTES_MAX:
                self._of_kind[kind] = found
        pod.signature = (self, found)
        return found

    def _signed(self, pod: PodInfo, call: Callable[..., Any]) -> Signature:
        fragments = {}
        for plugin in self._cacheable:
            fragment = call(plugin, "Sign", plugin.sign, pod)
            if fragment is not None:
                fragments[plugin.name] = fragment
        signature = Signature(fragments)
        return self._by_fragments.setdefault(tuple(fragments.items()), signature)


def _kind_of(pod: PodInfo) -> tuple[Any, ...]:
    """Returns all of a pod but what only it can have."""
    own = pod.metadata
    return (
        pod.spec,
        pod.status,
        own.generate_name,
        own.namespace,
        own.labels,
        own.annotations,
        own.owner_references,
        own.finalizers,
    )

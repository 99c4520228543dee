"""Signatures of pods: what the cacheable plugins read of a pod.

Most pods are replicas: they differ only in name, UID, versions and times, which cacheable plugins
must not read. So pods that are equal in everything else are signed once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import is_
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mooring.errors import PluginError
from mooring.objects.pod import (
    PersistentVolumeClaimVolume,
    PodResourceClaim,
    PodSpec,
    PodStatus,
    Volume,
)
from mooring.state.tables.pods import PodInfo

#: Limits of the cache: the number of templates, and the bytes of one; 16 MiB together.
TEMPLATES_MAX: Final = 2048
TEMPLATE_BYTES_MAX: Final = 8 << 10


class Signature:
    """The fragments of the cacheable plugins; equal signatures are one object."""

    __slots__ = ("cached_plugins", "fragments", "idle_plugins", "idle_states")

    def __init__(self, fragments: Mapping[str, Hashable], idle: Sequence[Any] = ()) -> None:
        self.fragments = fragments
        #: The names of the plugins that do not apply to such pods.
        self.idle_plugins = frozenset(plugin.name for plugin in idle)
        #: The states of those of them that have one.
        self.idle_states = {
            plugin.name: plugin.idle_state for plugin in idle if hasattr(plugin, "idle_state")
        }
        #: The names of the plugins whose results are cached for such pods.
        self.cached_plugins = frozenset(fragments)


class Signatures:
    """A cache of the pods' signatures.

    Args:
        cacheable: The plugins of a profile whose results can be cached.
        selective: The plugins with ``applies_to``.
    """

    def __init__(self, cacheable: Sequence[Any], selective: Sequence[Any] = ()) -> None:
        self._cacheable = cacheable
        self._selective = selective
        self._has_plugins = bool(cacheable or selective)
        self._with_claim_names = any(
            getattr(plugin, "signs_claim_names", True) for plugin in cacheable
        )
        self._by_template: dict[bytes, Signature] = {}
        self._by_fragments: dict[Hashable, Signature] = {}
        self._encode = msgspec.msgpack.Encoder().encode
        #: The fields of the last pod that was encoded, and its signature: pods that are copies of
        #: one object, as in simulations, share their fields.
        self._last_fields: tuple[Any, ...] = ()
        self._last_signature: Signature | None = None

    def of(self, pod: PodInfo, call: Callable[..., Any]) -> Signature:
        """Returns the pod's signature; ``call`` calls a plugin (``Framework.call``)."""
        if pod.signature is not None and pod.signature[0] is self:
            cached: Signature = pod.signature[1]
            return cached
        fields: tuple[Any, ...] = ()
        template = b""
        if self._has_plugins:
            spec, status = pod.spec, pod.status
            if not self._with_claim_names and (spec.volumes or spec.resource_claims):
                spec, status = _without_claim_names(spec, status)
            fields = _template_of(pod, spec, status)
            last = self._last_signature
            if last is not None and all(map(is_, fields, self._last_fields)):
                pod.signature = (self, last)
                return last
            template = self._encode(fields)
        signature = self._by_template.get(template)
        if signature is None:
            self._clear_if_full()
            signature = self._sign(pod, call)
            if len(template) <= TEMPLATE_BYTES_MAX:
                self._by_template[template] = signature
        self._last_fields, self._last_signature = fields, signature
        pod.signature = (self, signature)
        return signature

    def _clear_if_full(self) -> None:
        """Clears what has reached its limit.

        Signatures outlive their templates: results are cached by signature, and would be computed
        again, while those of the old signatures still take memory.
        """
        if len(self._by_template) >= TEMPLATES_MAX or len(self._by_fragments) >= TEMPLATES_MAX:
            self._by_template.clear()
        if len(self._by_fragments) >= TEMPLATES_MAX:
            self._by_fragments.clear()

    def _sign(self, pod: PodInfo, call: Callable[..., Any]) -> Signature:
        fragments = {}
        for plugin in self._cacheable:
            fragment = sign(plugin, pod, call)
            if fragment is not None:
                fragments[plugin.name] = fragment
        idle = [
            plugin
            for plugin in self._selective
            if not call(plugin, "AppliesTo", plugin.applies_to, pod)
        ]
        signature = Signature(fragments, idle)
        key = (signature.idle_plugins, *fragments.items())
        return self._by_fragments.setdefault(key, signature)


def sign(plugin: Any, pod: PodInfo, call: Callable[..., Any]) -> Hashable | None:
    """Returns the plugin's fragment of the pod's signature; ``call`` as in ``Signatures.of``.

    Raises:
        PluginError: the plugin fails, or returns what is not hashable.
    """
    fragment: Hashable | None = call(plugin, "Sign", plugin.sign, pod)
    try:
        hash(fragment)
    except TypeError:
        problem = f"returned {fragment!r}, which is not hashable"
        raise PluginError(plugin.name, "Sign", problem) from None  # its location says nothing
    return fragment


def _template_of(pod: PodInfo, spec: PodSpec, status: PodStatus) -> tuple[Any, ...]:
    """Returns all fields of a pod that its replicas have in common."""
    metadata = pod.metadata
    return (
        spec,
        status,
        metadata.generate_name,
        metadata.namespace,
        metadata.labels,
        metadata.annotations,
        metadata.owner_references,
        metadata.finalizers,
    )


def _without_claim_names(spec: PodSpec, status: PodStatus) -> tuple[PodSpec, PodStatus]:
    """Returns spec and status without the names of volumes and claims.

    They differ among replicas: the volume with the token of a service account has a random name,
    and a StatefulSet gives each pod claims of its own.
    """
    volumes = tuple(
        replace(volume, name="", persistent_volume_claim=_without_name(volume))
        for volume in spec.volumes
    )
    claims = (PodResourceClaim(),) * len(spec.resource_claims)
    if status.resource_claim_statuses:
        status = replace(status, resource_claim_statuses=())
    return replace(spec, volumes=volumes, resource_claims=claims), status


def _without_name(volume: Volume) -> PersistentVolumeClaimVolume | None:
    """Returns the claim of a volume without its name; None = the volume is no claim."""
    claim = volume.persistent_volume_claim
    return None if claim is None else replace(claim, claim_name="")

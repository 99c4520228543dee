"""Notes about the parts of the input that are ignored, so that none is ignored silently."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import msgspec

from mooring.objects.counts import counted
from mooring.objects.kinds import GATED_KINDS, KINDS

if TYPE_CHECKING:
    from mooring.config import KubeSchedulerConfiguration

#: How similar a misspelt kind is to the kind that was meant: NodePools are no Nodes.
NEAR: Final = 0.8

#: Kinds that an API server applies to new pods; a dump has pods to which they were applied.
ADMISSION_KINDS: Final = frozenset({"LimitRange", "ResourceQuota"})

NO_EXTENDERS: Final = "extenders are not called offline"


def without_extenders(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Returns the configuration without extenders; their managed resources stay ignored."""
    from mooring.config import with_ignored_resources

    return msgspec.structs.replace(with_ignored_resources(config), extenders=())


def notes(
    config: KubeSchedulerConfiguration | None,
    skipped: Mapping[str, int] | None = None,
    *,
    is_offline: bool = True,
) -> list[str]:
    """Returns one sentence for each part of the input that is ignored.

    Args:
        config: As loaded; None = all defaults.
        skipped: Kind -> number of its objects that were ignored when files were read.
        is_offline: True if no extender is called.
    """
    texts = []
    if is_offline and config is not None and config.extenders:
        texts.append(NO_EXTENDERS)
    skipped = skipped or {}
    gated = {kind: count for kind, count in skipped.items() if kind in GATED_KINDS}
    if gated:
        for kind, count in gated.items():
            gate = GATED_KINDS[kind]
            texts.append(f"ignored, since the feature gate {gate} is off: {counted(count, kind)}")
    admission = {kind: count for kind, count in skipped.items() if kind in ADMISSION_KINDS}
    if admission:
        why = "an API server applies them to new pods, as in mooring start"
        texts.append(f"ignored, since {why}: {_counts(admission)}")
    named = {*gated, *admission}
    if others := {kind: count for kind, count in skipped.items() if kind not in named}:
        texts.append(f"ignored, since no scheduler reads these kinds: {_counts(others)}")
    return texts


def _counts(skipped: Mapping[str, int]) -> str:
    return ", ".join(f"{counted(count, kind)}{_meant(kind)}" for kind, count in skipped.items())


def _meant(kind: str) -> str:
    """Returns a question if the name is almost that of a kind that is read."""
    from mooring.objects.files.reader import WORKLOADS

    names = {name.lower(): name for name in (*KINDS, *(name for _, name in WORKLOADS))}
    near = get_close_matches(kind.lower(), names, n=1, cutoff=NEAR)
    return f" (did you mean {names[near[0]]}?)" if near and kind != names[near[0]] else ""

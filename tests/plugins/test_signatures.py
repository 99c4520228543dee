"""Tests the signatures of the default plugins, for pods that differ in names alone."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.clock import VirtualClock, seeded_random
from mooring.config import default_configuration
from mooring.scheduler.profiles import load_profiles
from mooring.simulation.offline import OfflineHandle
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_pod


def default_plugins() -> dict[str, Any]:
    clock = VirtualClock()
    handle = OfflineHandle(Cache(), clock, seeded_random(0))
    profiles = load_profiles(
        default_configuration(), handle, clock=clock, waiting=handle.waiting, plugins=()
    )
    return {plugin.name: plugin for plugin in profiles["default-scheduler"].profile.all_plugins()}


PLUGINS = default_plugins()


def replica(number: int, volume: dict[str, Any]) -> PodInfo:
    names = {"claimName": f"data-{number}"}
    volume = {kind: names if kind == "persistentVolumeClaim" else volume[kind] for kind in volume}
    return PodInfo(
        make_pod(
            f"web-{number}",
            requests={"cpu": "1"},
            spec={"volumes": [{"name": f"volume-{number}", **volume}]},
        )
    )


VOLUMES = [
    {"persistentVolumeClaim": {}},
    {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    {"projected": {"sources": []}},
    {"gcePersistentDisk": {"pdName": "disk"}},
    {"image": {"reference": "models:1"}},
]


@pytest.mark.parametrize("volume", VOLUMES, ids=lambda volume: next(iter(volume)))
@pytest.mark.parametrize(
    "name", [name for name, plugin in PLUGINS.items() if hasattr(plugin, "reads")]
)
def test_cached_plugins_do_not_read_the_names_of_volumes(name: str, volume: dict[str, Any]) -> None:
    plugin = PLUGINS[name]

    assert plugin.signs_claim_names is False
    assert plugin.sign(replica(1, volume)) == plugin.sign(replica(2, volume))


@pytest.mark.parametrize(
    ("volume", "applicable"),
    [
        (VOLUMES[0], {"NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"}),
        (VOLUMES[1], {"NodeVolumeLimits", "VolumeBinding"}),
        (VOLUMES[2], set()),
        (VOLUMES[3], {"NodeVolumeLimits", "VolumeRestrictions"}),
        (VOLUMES[4], set()),
    ],
    ids=lambda value: next(iter(value), "none") if isinstance(value, dict) else "",
)
def test_volume_plugins_apply_to_pods_with_such_volumes(
    volume: dict[str, Any], applicable: set[str]
) -> None:
    pod = replica(1, volume)
    selective = {name for name, plugin in PLUGINS.items() if hasattr(plugin, "applies_to")}

    of_volumes = {"NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"}
    assert selective == {*of_volumes, "DynamicResources"}
    assert {name for name in selective if PLUGINS[name].applies_to(pod)} == applicable

"""A driver from what was given on the command line, and a refusal that says where it was wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.errors import ConfigError
from mooring.recordings.format import Recording, read_recording
from mooring.simulation.build import configuration_of, driver_of, make_driver
from tests.helpers.paths import PARITY_DATA

DATA = PARITY_DATA
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: mine
"""


def recording(**changes: Any) -> Recording:
    return msgspec.structs.replace(read_recording(DATA / "resources-1.json.gz"), **changes)


def test_a_driver_holds_the_nodes_of_the_recording_in_its_order() -> None:
    given = recording()
    driver = driver_of(given, config=None)
    names = [driver.nodes.names[row] for row in driver.nodes.order.rows()]
    assert names == list(given.node_order)


@pytest.mark.parametrize("path", sorted(DATA.glob("*-9.json.gz")), ids=lambda p: p.name[:12])
def test_the_order_of_nodes_of_every_family_follows_from_its_objects(path: Path) -> None:
    given = read_recording(path)
    driver = driver_of(given, config=None)
    assert len(driver.nodes) == len(given.node_order)


def test_an_order_of_nodes_that_does_not_follow_from_the_objects_is_refused() -> None:
    given = recording()
    turned = tuple(reversed(given.node_order))
    with pytest.raises(ConfigError) as caught:
        driver_of(recording(node_order=turned), config=None)
    assert "node_order" in str(caught.value)


def test_without_a_configuration_the_default_one_counts() -> None:
    assert configuration_of(recording()) is None
    assert "default-scheduler" in make_driver([]).frameworks


def test_a_file_s_configuration_replaces_the_recorded_one(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    profiles = read_recording(DATA / "profiles-1.json.gz")
    config = configuration_of(profiles, config_file=str(file))
    assert config is not None
    assert [profile.scheduler_name for profile in config.profiles] == ["mine"]


@pytest.mark.parametrize("path", sorted(DATA.glob("profiles-*.json.gz")), ids=lambda p: p.name[:11])
def test_every_recorded_configuration_can_be_used(path: Path) -> None:
    given = read_recording(path)
    assert given.config is not None
    config = configuration_of(given)
    assert config is not None
    named = {profile.get("schedulerName") for profile in given.config["profiles"]}
    assert {profile.scheduler_name for profile in config.profiles} == named


def test_a_bad_recorded_configuration_is_refused_with_the_file() -> None:
    bad = recording(config={"kind": "KubeSchedulerConfiguration", "apiVersion": "v0"})
    with pytest.raises(ConfigError) as caught:
        configuration_of(bad, file="a.json")
    assert str(caught.value).startswith("a.json: ")


def test_a_bad_object_is_refused_with_file_and_place() -> None:
    given = recording()
    objects = ({"kind": "Node", "metadata": {"name": []}}, *given.objects)
    with pytest.raises(ConfigError) as caught:
        driver_of(recording(objects=objects), config=None, file="a.json")
    assert str(caught.value).startswith("a.json: objects[0].metadata.name: ")


@pytest.mark.parametrize(
    "text", ["", "module", ":X", "module:", "no.such.module:X", "json:Nothing"]
)
def test_a_plugin_that_cannot_be_loaded_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        make_driver([], plugins=[text])

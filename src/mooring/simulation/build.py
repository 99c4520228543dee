"""Builds a driver from the arguments of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mooring.clock import SystemClock, seeded_random
from mooring.config import from_document, load
from mooring.errors import ConfigError
from mooring.recordings.format import Recording
from mooring.simulation.replay import objects_of
from mooring.simulation.simulate import FAMILY

if TYPE_CHECKING:
    from mooring.config import KubeSchedulerConfiguration
    from mooring.simulation.driver import Driver


def make_driver(
    objects: Iterable[Any],
    *,
    config: KubeSchedulerConfiguration | None = None,
    plugins: Sequence[str] = (),
    seed: int = 0,
    node_order: Sequence[str] | None = None,
    preempt_all_nodes: bool = False,
    gates: Mapping[str, bool] = MappingProxyType({}),
) -> Driver:
    """Returns a driver over these objects; ``plugins`` are named as ``module:attribute``.

    ``preempt_all_nodes`` and ``gates``: see ``Driver``.

    Raises:
        ConfigError: a plugin cannot be loaded, or the configuration cannot be used.
    """
    from mooring.simulation.driver import Driver

    return Driver(
        list(objects),
        config=config,
        plugins=plugins,
        rng=seeded_random(seed),
        clock=SystemClock(),
        node_order=node_order,
        preempt_all_nodes=preempt_all_nodes,
        gates=gates,
    )


def driver_of(
    header: Recording,
    *,
    config: KubeSchedulerConfiguration | None,
    file: str | None = None,
    gates: Mapping[str, bool] = MappingProxyType({}),
) -> Driver:
    """Returns a driver with the cluster of a recording before its first step.

    Args:
        header: The recording; its steps are not read.
        config: The scheduler's configuration; see ``configuration_of``.
        file: The recording's file, for errors.
        gates: The feature gates whose value is not the default.

    Raises:
        ConfigError: an object or the configuration cannot be used.
    """
    return make_driver(
        objects_of(header.objects, file=file),
        config=config,
        seed=header.seed,
        node_order=header.node_order,
        # A simulation's preemption follows the configured number of candidate nodes.
        preempt_all_nodes=header.family != FAMILY,
        gates=gates,
    )


def configuration_of(
    header: Recording, *, config_file: str | None = None, file: str | None = None
) -> KubeSchedulerConfiguration | None:
    """Returns the configuration of a file, or that of the recording; None = all defaults.

    Raises:
        ConfigError: it cannot be used.
    """
    if config_file is not None:
        return load(config_file)
    if header.config is None:
        return None
    try:
        return from_document(header.config)
    except ConfigError as error:
        raise error.located(file=file) from error

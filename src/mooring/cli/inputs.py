"""The input of commands that schedule offline: files, or a live cluster, with notes about both."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from mooring.clock import SystemClock, seeded_random
from mooring.objects.generic import GenericObject
from mooring.simulation.inputs.gated_kinds import with_gated_kinds
from mooring.simulation.inputs.unsupported import notes
from mooring.simulation.workload import Workload, read_sources, workload_of

if TYPE_CHECKING:
    from mooring.client.transport.kubeconfig import Access
    from mooring.config import KubeSchedulerConfiguration
    from mooring.simulation.inputs.live_cluster import LiveObjects, RawObjects

Listed = TypeVar("Listed", "LiveObjects", "RawObjects")


def print_note(command: str, text: str) -> None:
    """Prints a note on standard error."""
    click.echo(f"mooring {command}: note: {text}", err=True)


def print_not_listed(command: str, not_listed: Mapping[str, str]) -> None:
    """Prints a note for each kind that a live cluster does not list."""
    for kind, reason in not_listed.items():
        print_note(command, f"cannot list {kind} objects: {reason}")


class Live(NamedTuple):
    """A live cluster to read.

    Attributes:
        command: The name of the command, for notes.
        kubeconfig: The file; None = as kubectl finds it.
        context: The context; None = the current one.
        kinds: Further kinds, which plugins list: names of resources.
    """

    command: str
    kubeconfig: str | None
    context: str | None
    kinds: Sequence[str] = ()


def list_live(
    live: Live, read: Callable[..., Coroutine[Any, Any, Listed]]
) -> tuple[Access, Listed]:
    """Returns the address of a live cluster and its objects; notes the kinds it does not list.

    ``read`` is ``list_objects`` or ``list_raw``.

    Raises:
        ConfigError: the cluster cannot be read.
    """
    from mooring.client.transport.kubeconfig import find_access

    access = find_access(live.kubeconfig, context=live.context, environment=os.environ)
    clock, rng = SystemClock(), seeded_random(0)
    listed = asyncio.run(read(access, clock=clock, rng=rng, kinds=live.kinds))
    print_not_listed(live.command, listed.not_listed)
    return access, listed


def read_live(live: Live, pods: Sequence[str], *, skip_validation: bool) -> Workload:
    """Returns the objects of a live cluster, with those of files.

    A workload in the files replaces the spec of the existing one.

    Raises:
        ConfigError: the cluster cannot be read, or a file.
    """
    from mooring.simulation.inputs.live_cluster import list_objects
    from mooring.simulation.inputs.workloads import merged

    access, listed = list_live(live, list_objects)
    added = read_sources(pods, skip_validation=skip_validation)
    workload = workload_of(", ".join([access.server, *pods]), [*listed.objects, *added])
    controlled = merged(listed.workloads, added.workloads)
    return workload._replace(skipped=added.skipped, controlled=controlled)


def for_plugins(
    workload: Workload,
    config: KubeSchedulerConfiguration | None,
    plugins: Sequence[str],
    *,
    command: str,
    gates: Mapping[str, bool] = MappingProxyType({}),
) -> Workload:
    """Returns the workload as the plugins and feature gates read it; notes what is ignored.

    Raises:
        ConfigError: a plugin cannot be used.
    """
    workload = with_gated_kinds(workload, gates)
    if any(isinstance(obj, GenericObject) for obj in workload.objects):
        from mooring.simulation.inputs.plugin_kinds import generic_kinds, with_generic_kinds

        workload = with_generic_kinds(workload, generic_kinds(config, plugins))
    for note in notes(config, workload.skipped):
        print_note(command, note)
    return workload

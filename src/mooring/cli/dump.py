"""``mooring dump``: writes everything that decisions about pods need, from a live cluster."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from mooring.cli.inputs import Live, list_live
from mooring.cli.options import file_option
from mooring.errors import ConfigError
from mooring.files import replaced_file
from mooring.objects.counts import counted
from mooring.objects.kinds import kind_named


@click.command("dump")
@file_option("--kubeconfig", help="The cluster; default: as kubectl finds it.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@file_option("-o", "--output", help="File to write; default: standard output.")
@click.option(
    "--kind",
    "kinds",
    metavar="RESOURCE.VERSION.GROUP",
    multiple=True,
    help="Write the objects of this resource, too, which a plugin lists; may be given several "
    "times. Example: --kind podgroups.v1alpha1.scheduling.x-k8s.io.",
)
def command(
    kubeconfig: str | None, context: str | None, output: str | None, kinds: tuple[str, ...]
) -> None:
    """Write a live cluster's objects to one file, for simulate, explain and start.

    It lists every kind that a scheduling decision reads, and the workloads; nothing is written to
    the cluster. Secrets and ConfigMaps are not read. The result is a List in JSON, one object per
    line.
    """
    from mooring.simulation.inputs.live_cluster import list_raw

    for name in kinds:
        if not kind_named(name).is_generic:
            raise ConfigError("is dumped in any case", path="--kind", value=name)
    _, listed = list_live(Live("dump", kubeconfig, context, kinds), list_raw)
    if output is None:
        sys.stdout.writelines(list_lines(listed.objects))
        return
    try:
        with replaced_file(output) as file:
            file.writelines(line.encode() for line in list_lines(listed.objects))
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", path=output) from error
    counts = Counter(obj["kind"] for obj in listed.objects)
    text = ", ".join(counted(count, kind) for kind, count in counts.items())
    click.echo(f"mooring dump: {output}: {text}", err=True)


def list_lines(objects: list[dict[str, Any]]) -> Iterator[str]:
    """Yields the lines of a List in JSON, one object per line."""
    yield '{"apiVersion": "v1", "kind": "List", "items": [\n'
    for number, obj in enumerate(objects):
        yield json.dumps(obj) + (",\n" if number + 1 < len(objects) else "\n")
    yield "]}\n"

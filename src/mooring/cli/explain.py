"""``mooring explain``: why a pod is where it is, or why it is nowhere."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from difflib import get_close_matches

import click

from mooring.cli.options import file_names, workload_options
from mooring.clock import SystemClock, seeded_random
from mooring.config import load
from mooring.errors import ConfigError
from mooring.explain.explain import explain
from mooring.explain.from_recording import told_by_recording
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.simulation.build import make_driver
from mooring.simulation.simulate import decide_until
from mooring.simulation.unsupported import notes
from mooring.simulation.utilization import Fill
from mooring.simulation.weights import score_weights
from mooring.simulation.workload import read_workload


@click.command("explain")
@click.argument("pod", metavar="POD")
@click.option(
    "--recording", metavar="FILE", shell_complete=file_names, help="Explain what was decided there."
)
@click.option("--attempt", type=click.IntRange(min=1), help="Which one; the last by default.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    shell_complete=file_names,
    help="Explain a pod of this cluster: the mooring that runs there is asked, if one does.",
)
@click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
@workload_options
def command(
    pod: str,
    recording: str | None,
    attempt: int | None,
    kubeconfig: str | None,
    context: str | None,
    cluster: tuple[str, ...],
    pods: tuple[str, ...],
    skip_validation: bool,
    config_file: str | None,
    plugins: tuple[str, ...],
    seed: int,
) -> None:
    """Say why POD goes to its node, or why no node takes it.

    POD is a name or NAMESPACE/NAME. Without files the openb trace is decided up to that pod. With
    --kubeconfig it is decided on the cluster as it is now; nothing is written there.
    """
    if recording is not None:
        if cluster or pods or skip_validation or config_file or plugins or kubeconfig:
            raise click.UsageError("--recording explains what was decided: give nothing else")
        click.echo(told_by_recording(recording, pod, attempt=attempt))
        return
    if attempt is not None:
        raise click.UsageError("--attempt goes with --recording")
    if kubeconfig is not None:
        if cluster or pods:
            raise click.UsageError("--kubeconfig explains a pod of that cluster: give no files")
        _explain_there(pod, kubeconfig, context, config_file, plugins, seed)
        return
    workload = read_workload(cluster, pods, skip_validation=skip_validation)
    wanted = _find(pod, workload.pods)
    if wanted.spec.node_name:
        click.echo(f"Pod {key(wanted)} is on {wanted.spec.node_name} from the start.")
        return
    config = load(config_file) if config_file else None
    for note in notes(config, workload.pods, workload.skipped):
        click.echo(f"mooring explain: note: {note}", err=True)
    driver = make_driver(workload.objects, config=config, plugins=plugins, seed=seed)
    fill = Fill(workload.objects)
    decision = decide_until(workload.pending, driver, fill, key(wanted))
    weights = {**driver.weights, **score_weights(config, wanted.spec.scheduler_name)}
    click.echo(explain(wanted, decision, fill, weights=weights))


def _explain_there(
    pod: str,
    kubeconfig: str,
    context: str | None,
    config_file: str | None,
    plugins: tuple[str, ...],
    seed: int,
) -> None:
    """Asks the mooring behind an API server, or decides on the objects there."""
    from mooring.client.transport.kubeconfig import find_access
    from mooring.explain.remote import fetch

    access = find_access(kubeconfig, context=context, environment=os.environ)
    found = asyncio.run(fetch(access, pod, clock=SystemClock(), rng=seeded_random(seed)))
    if found.workload is None:
        click.echo(found.told)
        return
    for kind, why in found.not_read.items():
        click.echo(f"mooring explain: note: {kind} objects cannot be read: {why}", err=True)
    workload = found.workload
    wanted = _find(pod, workload.pods)
    if wanted.spec.node_name:
        click.echo(f"Pod {key(wanted)} is on {wanted.spec.node_name}.")
        return
    config = load(config_file) if config_file else None
    for note in notes(config, workload.pods, workload.skipped):
        click.echo(f"mooring explain: note: {note}", err=True)
    driver = make_driver(workload.objects, config=config, plugins=plugins, seed=seed)
    weights = {**driver.weights, **score_weights(config, wanted.spec.scheduler_name)}
    # As it is now: other pods that wait are not placed before it.
    decision = driver.attempt(wanted, explain=True).decision()
    click.echo(explain(wanted, decision, Fill(workload.objects), weights=weights))


def _find(text: str, pods: Iterable[Pod]) -> Pod:
    """Returns the pod with this name or key.

    Raises:
        ConfigError: there is none, or there are several.
    """
    by_key = {key(pod): pod for pod in pods}
    found = [pod for name, pod in by_key.items() if text in (name, pod.metadata.name)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(key(pod) for pod in found)
        raise ConfigError(f"is the name of several pods: {names}", value=text)
    names_known = [name if "/" in text else name.rpartition("/")[2] for name in by_key]
    near = get_close_matches(text, names_known, n=1)
    raise ConfigError("is no pod here", value=text, suggestion=near[0] if near else None)

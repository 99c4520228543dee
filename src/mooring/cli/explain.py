"""``mooring explain``: explains a placement or a pending pod."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from mooring.cli.options import devices_option, file_option, workload_options
from mooring.cli.simulate import read_config
from mooring.clock import SystemClock, seeded_random
from mooring.errors import ConfigError
from mooring.explain.explain import explain
from mooring.explain.from_recording import explain_recording
from mooring.objects.meta import key
from mooring.objects.pod import DEFAULT_SCHEDULER_NAME, Pod
from mooring.simulation.build import make_driver
from mooring.simulation.device_file import read_device_file, with_devices
from mooring.simulation.generated_claims import with_generated_claims
from mooring.simulation.simulate import decide_until
from mooring.simulation.utilization import Utilization
from mooring.simulation.weights import score_weights
from mooring.simulation.workload import read_workload

if TYPE_CHECKING:
    from mooring.decision import Decision
    from mooring.explain.remote import SchedulerAddress
    from mooring.simulation.driver import Driver


@click.command("explain")
@click.argument("pod", metavar="POD")
@file_option("--recording", help="Explain a decision of this file.")
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    help="Number of the attempt in the recording; default: the last.",
)
@file_option(
    "--kubeconfig",
    help="Explain a pod of this cluster. If mooring start runs it, its scheduler explains.",
)
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@click.option(
    "--scheduler",
    metavar="URL",
    help="Ask the mooring run at this address, with the identity of --kubeconfig. "
    "Default: one on port 10259 of this machine, if it answers.",
)
@file_option("--scheduler-ca", help="Authority of the certificate at --scheduler.")
@click.option(
    "--insecure-skip-tls-verify",
    is_flag=True,
    help="Do not verify the certificate at --scheduler.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a running scheduler's answer as JSON.")
@workload_options
@devices_option
def command(
    pod: str,
    recording: str | None,
    attempt: int | None,
    kubeconfig: str | None,
    context: str | None,
    scheduler: str | None,
    scheduler_ca: str | None,
    insecure_skip_tls_verify: bool,
    as_json: bool,
    cluster: tuple[str, ...],
    pods: tuple[str, ...],
    skip_validation: bool,
    config_file: str | None,
    plugins: tuple[str, ...],
    seed: int,
    devices_file: str | None,
) -> None:
    """Explain why POD is placed on its node, or why no node is feasible.

    POD is a name or NAMESPACE/NAME. Without files, the pods of the openb trace are scheduled up to
    this pod. With --kubeconfig a running mooring is asked, which knows the pod's queue, attempts
    and victims; if there is none, the pod is scheduled on the current cluster: nothing is written.
    """
    if kubeconfig is None and (scheduler or scheduler_ca or insecure_skip_tls_verify or as_json):
        raise click.UsageError(
            "--scheduler, --scheduler-ca, --insecure-skip-tls-verify and --json need --kubeconfig"
        )
    if recording is not None:
        if any((cluster, pods, skip_validation, config_file, plugins, kubeconfig, devices_file)):
            raise click.UsageError("--recording can only be combined with --attempt")
        click.echo(explain_recording(recording, pod, attempt=attempt))
        return
    if attempt is not None:
        raise click.UsageError("--attempt requires --recording")
    if kubeconfig is not None:
        if cluster or pods or devices_file:
            raise click.UsageError(
                "--kubeconfig cannot be combined with --cluster, --pods or --devices"
            )
        address = _address(scheduler, scheduler_ca, insecure_skip_tls_verify)
        source = _Running(kubeconfig, context, address, as_json)
        _explain_remote(pod, source, config_file, plugins, seed)
        return
    workload = read_workload(cluster, pods, skip_validation=skip_validation)
    if devices_file:
        workload = with_devices(workload, read_device_file(devices_file))
    workload = with_generated_claims(workload)
    pod_object = _find(pod, workload.pods)
    if pod_object.spec.node_name:
        click.echo(f"Pod {key(pod_object)} is already on {pod_object.spec.node_name}.")
        return
    config = read_config(config_file, workload, command="explain")
    driver = make_driver(workload.objects, config=config, plugins=plugins, seed=seed)
    utilization = Utilization(workload.objects)
    decision = decide_until(workload.pending, driver, utilization, key(pod_object))
    weights = {**driver.weights, **score_weights(config, pod_object.spec.scheduler_name)}
    click.echo(_text(pod_object, decision, utilization, driver, weights))


class _Running(NamedTuple):
    """The cluster and the scheduler to ask."""

    kubeconfig: str
    context: str | None
    address: SchedulerAddress
    as_json: bool


def _address(url: str | None, authority: str | None, is_unverified: bool) -> SchedulerAddress:
    from mooring.explain.remote import SchedulerAddress

    if url is not None and not url.startswith("https://"):
        raise click.BadParameter(f"must begin with https://, got {url!r}", param_hint="--scheduler")
    if url is None and (authority is not None or is_unverified):
        raise click.UsageError("--scheduler-ca and --insecure-skip-tls-verify need --scheduler")
    path = None if authority is None else Path(authority)
    return SchedulerAddress(url, path, is_unverified)


def _explain_remote(
    pod: str, source: _Running, config_file: str | None, plugins: tuple[str, ...], seed: int
) -> None:
    """Asks a running scheduler, or schedules the pod on the objects of the cluster."""
    from mooring.client.transport.kubeconfig import find_access
    from mooring.explain.remote import fetch

    access = find_access(source.kubeconfig, context=source.context, environment=os.environ)
    fetched = asyncio.run(
        fetch(
            access,
            pod,
            scheduler=source.address,
            as_json=source.as_json,
            clock=SystemClock(),
            rng=seeded_random(seed),
        )
    )
    if fetched.workload is None:
        click.echo(fetched.explanation)
        return
    click.echo(f"mooring explain: note: {fetched.not_asked}; decided here instead", err=True)
    if source.as_json:
        raise ConfigError("--json needs a running mooring")
    for kind, reason in fetched.not_listed.items():
        click.echo(f"mooring explain: note: cannot list {kind} objects: {reason}", err=True)
    workload = fetched.workload
    pod_object = _find(pod, workload.pods)
    if pod_object.spec.node_name:
        click.echo(f"Pod {key(pod_object)} is on {pod_object.spec.node_name}.")
        return
    config = read_config(config_file, workload, command="explain")
    driver = make_driver(workload.objects, config=config, plugins=plugins, seed=seed)
    weights = {**driver.weights, **score_weights(config, pod_object.spec.scheduler_name)}
    # On the current cluster: other pending pods are not placed first.
    decision = driver.attempt(pod_object, explain=True).decision()
    utilization = Utilization(workload.objects)
    click.echo(_text(pod_object, decision, utilization, driver, weights))


def _text(
    pod: Pod,
    decision: Decision,
    utilization: Utilization,
    driver: Driver,
    weights: Mapping[str, int],
) -> str:
    snapshot = driver.cache.snapshot()
    return explain(
        pod,
        decision,
        utilization,
        weights=weights,
        snapshot=snapshot,
        framework=driver.frameworks.get(pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME),
    )


def _find(text: str, pods: Iterable[Pod]) -> Pod:
    """Returns the pod with this name or key.

    Raises:
        ConfigError: no pod, or several pods, have this name.
    """
    by_key = {key(pod): pod for pod in pods}
    matches = [pod for name, pod in by_key.items() if text in (name, pod.metadata.name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        keys = ", ".join(key(pod) for pod in matches)
        raise ConfigError(f"several pods are named {text!r}: {keys}")
    names = [name if "/" in text else name.rpartition("/")[2] for name in by_key]
    near = get_close_matches(text, names, n=1)
    raise ConfigError(f"no pod {text!r} in the input", suggestion=near[0] if near else None)

"""``mooring explain``: explains a placement or a pending pod."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from mooring.cli.inputs import for_plugins, print_not_listed, print_note
from mooring.cli.options import (
    devices_option,
    feature_gates_option,
    file_option,
    output_option,
    workload_options,
)
from mooring.clock import SystemClock, seeded_random
from mooring.config import load
from mooring.errors import ConfigError
from mooring.explain.explain import Explained, Options, text_of
from mooring.explain.from_recording import explain_recording
from mooring.explain.layout import coloured, wrapped
from mooring.explain.offline import Source, created_pods, explain_offline
from mooring.explain.pod_state import encoded, state_of
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.simulation.device_file import read_device_file, with_devices
from mooring.simulation.generated_claims import with_controller_results
from mooring.simulation.inputs.gated_kinds import gated_kinds
from mooring.simulation.inputs.plugin_kinds import generic_kinds
from mooring.simulation.workload import read_workload

if TYPE_CHECKING:
    from mooring.explain.remote import SchedulerAddress


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
@click.option("--json", "is_json", is_flag=True, help="The same as -o json.")
@click.option(
    "--all",
    "has_all_rejections",
    is_flag=True,
    help="Run every filter on every node, past the first rejection.",
)
@click.option("--all-nodes", "has_all_nodes", is_flag=True, help="Print a line for every node.")
@output_option("text", "json")
@workload_options
@devices_option
@feature_gates_option
def command(
    pod: str,
    recording: str | None,
    attempt: int | None,
    kubeconfig: str | None,
    context: str | None,
    scheduler: str | None,
    scheduler_ca: str | None,
    insecure_skip_tls_verify: bool,
    is_json: bool,
    has_all_rejections: bool,
    has_all_nodes: bool,
    output: str,
    cluster: tuple[str, ...],
    pods: tuple[str, ...],
    skip_validation: bool,
    config_file: str | None,
    plugins: tuple[str, ...],
    seed: int,
    devices_file: str | None,
    gates: dict[str, bool],
) -> None:
    """Explain why POD is placed on its node, or why no node is feasible.

    POD is a name or NAMESPACE/NAME. Without files, the pods of the openb trace are scheduled up to
    this pod. With --kubeconfig a running mooring is asked, which knows the pod's queue, attempts
    and victims; if there is none, the pod is scheduled on the current cluster: nothing is written.
    """
    options = Options(has_all_rejections, has_all_nodes, get_terminal_size().columns)
    printer = _Printer("json" if is_json else output)
    if recording is not None:
        if any((cluster, pods, skip_validation, config_file, plugins, kubeconfig, devices_file)):
            raise click.UsageError(
                "--recording can only be combined with --attempt, --all, --all-nodes, --output"
                " and --feature-gates"
            )
        render = printer.render
        printer.echo(
            explain_recording(
                recording, pod, attempt=attempt, options=options, gates=gates, render=render
            )
        )
        return
    if attempt is not None:
        raise click.UsageError("--attempt requires --recording")
    address = _address(kubeconfig, scheduler, scheduler_ca, insecure_skip_tls_verify)
    if kubeconfig is not None:
        if cluster or pods or devices_file:
            raise click.UsageError(
                "--kubeconfig cannot be combined with --cluster, --pods or --devices"
            )
        running = _Running(kubeconfig, context, address, options)
        _explain_remote(pod, running, printer, config_file, plugins, seed, gates)
        return
    workload = read_workload(cluster, pods, skip_validation=skip_validation)
    if devices_file:
        workload = with_devices(workload, read_device_file(devices_file))
    workload = with_controller_results(workload)
    config = load(config_file) if config_file else None
    workload = for_plugins(workload, config, plugins, command="explain", gates=gates)
    source = Source(workload, config, plugins, seed, gates=gates)
    pods_of_input = [*workload.pods, *workload.omitted]
    if workload.controlled and not _named(pod, pods_of_input):
        pods_of_input += created_pods(source)
    pod_object = _find(pod, pods_of_input)
    printer.echo(explain_offline(pod_object, source, options=options, is_json=printer.is_json))


class _Running(NamedTuple):
    """The cluster and the scheduler to ask."""

    kubeconfig: str
    context: str | None
    address: SchedulerAddress
    options: Options


class _Printer(NamedTuple):
    """Prints explanations as text or JSON."""

    output: str

    @property
    def is_json(self) -> bool:
        """True if the output is JSON."""
        return self.output == "json"

    def render(self, explained: Explained) -> str:
        """Returns an explanation in the format of the output."""
        return encoded(state_of(explained)) if self.is_json else text_of(explained)

    def echo(self, text: str) -> None:
        """Prints a text; on a terminal it fits the width and has colours."""
        if self.is_json or not sys.stdout.isatty():
            click.echo(text)
            return
        lines = wrapped(text.splitlines(), get_terminal_size().columns)
        click.echo("\n".join(lines if "NO_COLOR" in os.environ else coloured(lines)))


def _address(
    kubeconfig: str | None, url: str | None, authority: str | None, is_unverified: bool
) -> SchedulerAddress:
    from mooring.explain.remote import SchedulerAddress

    if kubeconfig is None and (url or authority or is_unverified):
        raise click.UsageError(
            "--scheduler, --scheduler-ca and --insecure-skip-tls-verify need --kubeconfig"
        )
    if url is not None and not url.startswith("https://"):
        raise click.BadParameter(f"must begin with https://, got {url!r}", param_hint="--scheduler")
    if url is None and (authority is not None or is_unverified):
        raise click.UsageError("--scheduler-ca and --insecure-skip-tls-verify need --scheduler")
    path = None if authority is None else Path(authority)
    return SchedulerAddress(url, path, is_unverified)


def _explain_remote(
    pod: str,
    source: _Running,
    printer: _Printer,
    config_file: str | None,
    plugins: tuple[str, ...],
    seed: int,
    gates: dict[str, bool],
) -> None:
    """Asks a running scheduler, or schedules the pod on the objects of the cluster."""
    from mooring.client.transport.kubeconfig import find_access
    from mooring.explain.remote import fetch

    config = load(config_file) if config_file else None
    access = find_access(source.kubeconfig, context=source.context, environment=os.environ)
    fetched = asyncio.run(
        fetch(
            access,
            pod,
            scheduler=source.address,
            as_json=printer.is_json,
            options=source.options,
            clock=SystemClock(),
            rng=seeded_random(seed),
            kinds=(*generic_kinds(config, plugins), *gated_kinds(gates)),
        )
    )
    if fetched.workload is None:
        printer.echo(fetched.explanation or "")
        return
    print_note("explain", fetched.not_asked)
    print_not_listed("explain", fetched.not_listed)
    workload = fetched.workload
    pod_object = _find(pod, (*workload.pods, *workload.omitted), place="in the cluster")
    workload = for_plugins(workload, config, plugins, command="explain", gates=gates)
    # On the current cluster: other pending pods are not placed first.
    offline = Source(workload, config, plugins, seed, schedules_queue=False, gates=gates)
    options, is_json = source.options, printer.is_json
    printer.echo(explain_offline(pod_object, offline, options=options, is_json=is_json))


#: What kubectl calls pods, and what creates them.
_POD_KINDS: Final = ("po", "pod", "pods")
_WORKLOAD_KINDS: Final = (
    *("deploy", "deployment", "deployments", "rs", "replicaset", "replicasets"),
    *("sts", "statefulset", "statefulsets", "ds", "daemonset", "daemonsets"),
    *("job", "jobs", "cj", "cronjob", "cronjobs"),
    *("rc", "replicationcontroller", "replicationcontrollers"),
)
#: Pods of a workload that an error names.
_NAMED: Final = 3


def _named(text: str, pods: Iterable[Pod]) -> list[Pod]:
    """Returns the pods with this name or key."""
    return [pod for pod in pods if text in (key(pod), pod.metadata.name)]


def _find(text: str, pods: Iterable[Pod], *, place: str = "in the input") -> Pod:
    """Returns the pod with this name or key; ``place`` is where errors say that it is not.

    Raises:
        ConfigError: no pod, or several pods, have this name.
    """
    by_key = {key(pod): pod for pod in pods}
    kind, _, name = text.partition("/")
    matches = _named(text, by_key.values())
    if not matches and kind in _POD_KINDS:
        text, matches = name, _named(name, by_key.values())
    if len(matches) == 1:
        return matches[0]
    if matches:
        keys = ", ".join(key(pod) for pod in matches)
        raise ConfigError(f"several pods are named {text!r}: {keys}")
    if kind in _WORKLOAD_KINDS:
        of_workload = [item for item in by_key if item.rpartition("/")[2].startswith(f"{name}-")]
        if not of_workload:
            raise ConfigError(f"{text!r} is not a pod; it has no pods {place}")
        first = ", ".join(of_workload[:_NAMED]) + (", ..." if len(of_workload) > _NAMED else "")
        raise ConfigError(f"{text!r} is not a pod; its pods are explained by their names: {first}")
    names = [name if "/" in text else name.rpartition("/")[2] for name in by_key]
    near = get_close_matches(text, names, n=1)
    raise ConfigError(f"no pod {text!r} {place}", suggestion=near[0] if near else None)

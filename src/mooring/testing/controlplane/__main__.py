"""``python -m mooring.testing.controlplane``: builds the control plane, or runs one."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click

from mooring.errors import SchedulerError
from mooring.testing.controlplane.binaries import build as build_programs
from mooring.testing.controlplane.certificates import IDENTITIES
from mooring.testing.controlplane.control_plane import ControlPlane
from mooring.testing.controlplane.shared_plane import keep as keep_plane

STOPPING = {signal.SIGINT, signal.SIGTERM}


def say(line: str) -> None:
    """Prints a line of progress on standard error."""
    click.echo(line, err=True)


@click.group()
def main() -> None:
    """A real Kubernetes control plane on this machine, for tests and benchmarks."""


@main.command()
def build() -> None:
    """Build the programs if they are missing, and print their folder."""
    click.echo(build_programs(report=say))


@main.command()
@click.option("--scheduler", is_flag=True, help="Start kube-scheduler too.")
@click.option("--controller-manager", is_flag=True, help="Start kube-controller-manager too.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep data, logs and kubeconfig files there; must be empty or missing.",
)
def run(*, scheduler: bool, controller_manager: bool, folder: Path | None) -> None:
    """Start a control plane, print how to access it, and stop it on ^C."""
    with ControlPlane(
        scheduler=scheduler, controller_manager=controller_manager, folder=folder, report=say
    ) as plane:
        # Only now, since the programs would inherit the mask.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        for identity in IDENTITIES:
            click.echo(f"export KUBECONFIG={plane.kubeconfig(identity)}  # {identity}")
        say(f"kubectl: {plane.programs / 'kubectl'}; logs: {plane.folder / 'logs'}; stop with ^C")
        signal.sigwait(STOPPING)


@main.command(hidden=True)
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def keep(folder: Path) -> None:
    """Run a shared control plane while it has users (see shared_plane.py)."""
    keep_plane(folder)


if __name__ == "__main__":
    try:
        main.main(standalone_mode=False)
    except SchedulerError as why:
        # The starter of a keeper reads standard output.
        click.echo(str(why), err="keep" not in sys.argv[1:2])
        sys.exit(1)
    except click.ClickException as why:
        why.show()
        sys.exit(why.exit_code)
    except click.Abort:
        sys.exit(130)

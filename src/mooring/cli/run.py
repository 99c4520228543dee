"""``mooring run``: schedules the pods of a real cluster until it is interrupted.

The flags are kube-scheduler's, parsed by ``mooring.component``, and so are the order of the checks,
the texts of errors and the exit code, which is 1 for every failure at the start.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from mooring.cli.options import file_names
from mooring.clock import SystemClock, VirtualClock, seeded_random

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mooring.client.transport.kubeconfig import Access
    from mooring.component.feature_gates import FeatureGates
    from mooring.component.flags import Options
    from mooring.component.klog import LogControl
    from mooring.component.options import CommandFailed, Effective
    from mooring.errors import ConfigError

PROGRAM: Final = "mooring run"
EXIT_FAILED: Final = 1

_log = logging.getLogger(__name__)


def _flag_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Tells a shell the flags, and to complete their values as file names."""
    from click.shell_completion import CompletionItem

    from mooring.component.flag_table import FLAGS

    if incomplete.startswith("-") and "=" not in incomplete:
        names = [f"--{name}" for name in FLAGS]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return file_names(context, parameter, incomplete)


@click.command(
    "run",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, shell_complete=_flag_names)
def command(flags: tuple[str, ...]) -> int:
    """Schedule the pods of a cluster."""
    from mooring.component.flags import FlagError, parse
    from mooring.component.usage import help_text, usage_text

    try:
        options = parse(flags, program=PROGRAM)
    except FlagError as error:
        if error.shows_usage:
            click.echo(usage_text(PROGRAM), err=True)
        click.echo(f"Error: {error}", err=True)
        return EXIT_FAILED
    if options.help:
        click.echo(help_text(PROGRAM), nl=False)
        return 0
    return _checked(options)


def _checked(options: Options) -> int:
    """Runs the command; an error that ends it is one line of the log."""
    from mooring.component.klog import configure
    from mooring.component.options import CommandFailed, check_logging, feature_gates
    from mooring.component.version import version_output

    # Until the flags of the log have been checked, it is text at verbosity 0.
    defaults = replace(options.logging, logging_format="text", v=0, vmodule=())
    configure(replace(defaults, log_text_split_stream=False))
    try:
        gates = feature_gates(options)
        for message, gate, value in gates.warnings:
            _log.info(message, extra={"featureGate": gate, "value": value})
        if options.version in ("true", "raw"):
            click.echo(version_output(options.version, reported=options.reported_version))
            return 0
        if problem := check_logging(options, gates):
            click.echo(problem, err=True)
            return EXIT_FAILED
        log = configure(options.logging, level=options.log_level)
        for name, text in options.texts.items():
            _log.info('FLAG: --%s="%s"', name, text, extra={"v": 1, "bare": True})
        return _prepared(options, gates, log)
    except CommandFailed as error:
        _log_failure(error)
        return EXIT_FAILED


def _log_failure(error: CommandFailed) -> None:
    for detail in error.details:
        _log.error("%s", detail, extra={"bare": True})
    facts: dict[str, object] = {"err": str(error)}
    if error.causes and _is_json():
        facts["errCauses"] = [{"error": cause} for cause in error.causes]
    _log.error("command failed", extra=facts)


def _is_json() -> bool:
    from mooring.component.klog import JsonFormatter

    return any(
        isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers
    )


def _prepared(options: Options, gates: FeatureGates, log: LogControl) -> int:
    """Checks everything that needs no cluster, then writes the configuration or schedules."""
    from mooring.cli.scheduler_app import SchedulerApp
    from mooring.component.options import check_elector, check_lock, check_options, effective
    from mooring.event_loop import fresh_seed, loop_factory

    check_options(options, gates)
    _warn(options, gates)
    settings = effective(options, gates)
    for field, reason in settings.without_effect:
        _log.warning("a field has no effect", extra={"field": field, "reason": reason})
    access = _access(options, settings)
    rng = seeded_random(fresh_seed())
    app = SchedulerApp(options, settings, access, log, clock=SystemClock(), rng=rng)
    with closing(app):
        # The HTTPS server listens from here on: steps 11 to 13 of kube-scheduler.
        app.bind()
        election = settings.config.leader_election
        check_lock(election)
        _check_profiles(settings, options)
        if _logged_or_written(options, settings):
            return 0
        check_elector(election)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(app.run())
    return 0


def _warn(options: Options, gates: FeatureGates) -> None:
    """Logs what was given and has no effect."""
    for name, reason in options.without_effect():
        _log.warning("a flag has no effect", extra={"flag": f"--{name}", "reason": reason})
    if alpha := gates.enabled_alpha():
        text = "component has alpha features enabled in emulated version, this is unsupported: "
        _log.warning("%sfeatures=[%s]", text, " ".join(alpha), extra={"bare": True})
    for gate, reason in (gates.missing() | gates.partial()).items():
        _log.warning("a feature gate has no effect", extra={"featureGate": gate, "reason": reason})


def _access(options: Options, settings: Effective) -> Access:
    from mooring.client.transport.kubeconfig import Access, NoAccess, find_access
    from mooring.component.options import CommandFailed
    from mooring.errors import ConfigError

    path = settings.config.client_connection.kubeconfig
    is_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    if options.config and options.kubeconfig and not path and not is_pod:
        # kube-scheduler ignores the flag here and fails.
        path = options.kubeconfig
        _log.warning("--kubeconfig is used, because the file of --config names no kubeconfig")
    if path and not os.path.exists(path):
        raise CommandFailed(f"stat {path}: no such file or directory")
    if options.master and not path:
        return Access(server=_master(options.master, has_tls=False))
    try:
        access = find_access(path or None, context=options.context or None, environment=os.environ)
    except NoAccess:
        raise CommandFailed(
            "invalid configuration: no configuration has been provided, try setting "
            "KUBERNETES_MASTER environment variable"
        ) from None
    except ConfigError as error:
        raise CommandFailed(f'error loading config file "{path}": {error}') from None
    if not options.master:
        return access
    has_tls = access.authority is not None or access.certificate is not None
    return access.at(_master(options.master, has_tls=has_tls))


def _master(text: str, *, has_tls: bool) -> str:
    from mooring.client.transport.kubeconfig import master_url
    from mooring.component.options import CommandFailed
    from mooring.errors import ConfigError

    try:
        return master_url(text, has_tls=has_tls)
    except ConfigError as error:
        raise CommandFailed(error.problem) from None


def _check_profiles(settings: Effective, options: Options) -> None:
    """Builds the profiles, without a cluster: this finds unknown plugins and invalid arguments.

    Raises:
        CommandFailed: one cannot be built.
    """
    from mooring.component.options import CommandFailed
    from mooring.errors import ConfigError
    from mooring.extenders.tls import check_trust
    from mooring.scheduler.profiles import load_profiles
    from mooring.simulation.offline import OfflineHandle
    from mooring.state.cache import Cache

    handle = OfflineHandle(Cache(), VirtualClock(), seeded_random(0))
    if settings.profile_error:
        raise CommandFailed(settings.profile_error)
    try:
        check_trust(settings.config.extenders)
    except ConfigError as error:
        raise CommandFailed(f"couldn't build extenders: {error.problem}") from None
    try:
        load_profiles(
            settings.config,
            handle,
            clock=SystemClock(),
            waiting=handle.waiting,
            plugins=options.plugin,
            gates=settings.gates.changed,
        )
    except ConfigError as error:
        raise CommandFailed(_profile_text(error, settings)) from None


def _profile_text(error: ConfigError, settings: Effective) -> str:
    from mooring.component.config_errors import profile_prefix, unknown_plugin_text

    config, path = settings.config, error.path or ""
    if error.problem == "unknown plugin":
        return unknown_plugin_text(str(error.value), config)
    for number, profile in enumerate(config.profiles):
        if path.startswith(f"profiles[{number}]."):
            name = f'profile with scheduler name "{profile.scheduler_name}"'
            if path.endswith("queueSort"):
                count = len(error.value)
                text = f"only one queue sort plugin required for {name}, but got {count}"
            elif path.endswith("plugins.bind"):
                text = f"at least one bind plugin is needed for {name}"
            elif "already registered as" in error.problem:
                text = error.problem
            else:
                text = str(error)
            return profile_prefix(profile) + text
    return f"initializing profiles: {error}"


def _logged_or_written(options: Options, settings: Effective) -> bool:
    """Logs and writes the complete configuration; returns whether that was all to do."""
    from mooring.component.options import CommandFailed
    from mooring.config import upstream_yaml
    from mooring.files import replaced_file

    text = upstream_yaml(settings.config)
    _log.info("Using component config", extra={"v": 2, "config": text})
    path = options.write_config_to
    if not path:
        return False
    try:
        with replaced_file(path) as file:
            file.write(text.encode())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandFailed(f"open {path}: {reason}") from None
    _log.info("Wrote configuration", extra={"file": path})
    return True

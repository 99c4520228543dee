"""``mooring learn``: runs the eight teaching schedulers, from random to queue and events."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, NamedTuple

import click

from mooring.cli.event_loops import loop_factory_for
from mooring.cli.options import file_option, output_option
from mooring.clock import Clock, SystemClock, seeded_random

if TYPE_CHECKING:
    from mooring.client.transport.kubeconfig import Access
    from mooring.learn.lessons import Lesson
    from mooring.learn.running import LessonResult, OutputHooks

STEPS = 8
EXIT_LESSON_FAILED = 1


class Options(NamedTuple):
    """Options of the command."""

    variant: str
    seed: int | None
    is_fast: bool
    kubeconfig: str | None
    context: str | None


@click.command("learn")
@click.argument("step", metavar="[STEP]", type=click.IntRange(1, STEPS), required=False)
@click.option(
    "--variant",
    type=click.Choice(["nakamasato", "sanposhiho"]),
    default="nakamasato",
    show_default=True,
    help="Scenario set to run.",
)
@click.option("--seed", type=int, help="Random seed; default: a new one for each run.")
@click.option("--fast", "is_fast", is_flag=True, help="Use virtual time: waits take no real time.")
@file_option(
    "--kubeconfig",
    help="Run on this cluster instead of in memory; created objects are deleted at the end.",
)
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@output_option("text", "json")
def command(
    step: int | None,
    variant: str,
    seed: int | None,
    is_fast: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Learn how a scheduler works: run STEP, or list all eight steps.

    Each step is a scheduler of less than 80 lines that adds one part to the previous step. The
    command prints its events as they happen, and then the lines that are new in this step.
    """
    from mooring.learn.lessons import lesson, table

    if step is None:
        click.echo(f"{table()}\n\nStart with: mooring learn 1")
        return 0
    if is_fast and kubeconfig:
        raise click.UsageError("--fast uses virtual time and cannot be combined with --kubeconfig")
    if context and not kubeconfig:
        raise click.UsageError("--context requires --kubeconfig")
    options = Options(variant, seed, is_fast, kubeconfig, context)
    run = _run_json if output == "json" else _run_text
    result = run(lesson(step), options)
    return EXIT_LESSON_FAILED if result.failures else 0


def _run_json(lesson: Lesson, options: Options) -> LessonResult:
    from mooring.learn.event_log import JsonLines
    from mooring.learn.running import OutputHooks

    result = _run(lesson, options, OutputHooks(JsonLines(click.echo), lambda _time_s, _text: None))
    for failure in result.failures:
        click.echo(f"mooring learn: {failure}", err=True)
    return result


def _run_text(lesson: Lesson, options: Options) -> LessonResult:
    from mooring.learn.running import OutputHooks
    from mooring.learn.scenarios import SCENARIOS
    from mooring.learn.view import TextLines, after, before

    scenario = SCENARIOS[options.variant][lesson.number - 1]
    click.echo(before(lesson, scenario))
    lines = TextLines(click.echo)
    result = _run(lesson, options, OutputHooks(lines, lines.say))
    lines.flush()
    click.echo(after(lesson, result.pod_lines(scenario), result.failures))
    return result


def _run(lesson: Lesson, options: Options, hooks: OutputHooks) -> LessonResult:
    from mooring.event_loop import fresh_seed

    access = _access(options)
    seed = fresh_seed() if options.seed is None else options.seed
    with asyncio.Runner(loop_factory=loop_factory_for(is_virtual=options.is_fast)) as runner:
        return runner.run(_learn(lesson, options, hooks, access, seed))


def _access(options: Options) -> Access | None:
    if options.kubeconfig is None:
        return None
    from mooring.client.transport.kubeconfig import find_access

    return find_access(options.kubeconfig, context=options.context, environment=os.environ)


async def _learn(
    lesson: Lesson, options: Options, hooks: OutputHooks, access: Access | None, seed: int
) -> LessonResult:
    from mooring.learn.running import learn_embedded, learn_real
    from mooring.virtual_loop import LoopClock

    rng, clock = seeded_random(seed), SystemClock()
    if access is not None:
        return await learn_real(access, lesson, options.variant, hooks, clock=clock, rng=rng)
    chosen: Clock = LoopClock(asyncio.get_running_loop()) if options.is_fast else clock
    return await learn_embedded(lesson, options.variant, hooks, clock=chosen, rng=rng)

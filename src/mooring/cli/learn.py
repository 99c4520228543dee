"""``mooring learn``: runs the eight teaching schedulers, from random to queue and events."""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from mooring.cli.event_loops import loop_factory_for, run_with_cleanup
from mooring.cli.options import file_option, output_option
from mooring.cli.standard_streams import is_output_error
from mooring.clock import Clock, SystemClock, seeded_random

if TYPE_CHECKING:
    from mooring.client.transport.kubeconfig import Access
    from mooring.learn.event_log import Line
    from mooring.learn.lessons import Lesson
    from mooring.learn.running import LessonResult, OutputHooks
    from mooring.learn.scenarios import Scenario

STEPS = 8
EXIT_LESSON_FAILED = 1


class Options(NamedTuple):
    """Options of the command."""

    variant: str
    seed: int | None
    is_fast: bool
    kubeconfig: str | None
    context: str | None
    is_drawn: bool


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
@click.option(
    "--copy",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Copy the steps, or STEP, to this folder, to change them.",
)
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Run this file instead of the installed step.",
)
@click.option("--check", "is_check", is_flag=True, help="Check whether the exercise is solved.")
@click.option(
    "--traceback", "has_traceback", is_flag=True, help="Print the whole traceback of a mistake."
)
@click.option(
    "--draw/--no-draw",
    "is_drawn",
    default=None,
    help="Draw nodes and pods after each change. Default: only on a terminal.",
)
@output_option("text", "json")
def command(
    step: int | None,
    variant: str,
    seed: int | None,
    is_fast: bool,
    kubeconfig: str | None,
    context: str | None,
    folder: Path | None,
    file: Path | None,
    is_check: bool,
    has_traceback: bool,
    is_drawn: bool | None,
    output: str,
) -> int:
    """Learn how a scheduler works: run STEP, or list all eight steps.

    Each step is a scheduler of less than 80 lines that adds one part to the previous step. The
    command prints its events as they happen, and then the lines that are new in this step.
    Each step has an exercise: --copy writes the step to change, --file runs it, --check checks it.
    """
    from mooring.learn.lessons import lesson, table

    if folder is not None:
        return _copy(folder, step)
    if step is None and file is not None:
        step = _step_of(file)
    if step is None:
        if is_check:
            raise click.UsageError("--check requires STEP")
        click.echo(f"{table()}\n\nStart with: mooring learn 1")
        return 0
    if is_fast and kubeconfig:
        raise click.UsageError("--fast uses virtual time and cannot be combined with --kubeconfig")
    if context and not kubeconfig:
        raise click.UsageError("--context requires --kubeconfig")
    draws = sys.stdout.isatty() if is_drawn is None else is_drawn
    options = Options(variant, seed, is_fast or is_check, kubeconfig, context, draws)
    run = _check if is_check else _run_json if output == "json" else _run_text
    chosen = replace(lesson(step), file=file)
    return _run_with_mistakes(run, chosen, options, has_traceback=has_traceback)


def _copy(folder: Path, step: int | None) -> int:
    """Copies one step or all of them."""
    from mooring.learn.pupil import copy_steps

    numbers = tuple(range(1, STEPS + 1)) if step is None else (step,)
    copies = copy_steps(folder, numbers)
    for copy in copies:
        click.echo(copy)
    number, first = numbers[0], copies[0]
    click.echo(f"\nChange a file, then: mooring learn {number} --file {first}")
    click.echo(f"The exercise:        mooring learn {number} --file {first} --check")
    return 0


def _step_of(file: Path) -> int:
    """Returns the step of a file whose name ends in its number."""
    from mooring.learn.pupil import step_of

    number = step_of(file)
    if number is None or not 1 <= number <= STEPS:
        raise click.UsageError(f"which step is {file}? Say it: mooring learn STEP --file {file}")
    return number


def _run_with_mistakes(
    run: Callable[[Lesson, Options], LessonResult],
    lesson: Lesson,
    options: Options,
    *,
    has_traceback: bool,
) -> int:
    """Runs a lesson; a mistake in the learner's file is printed as its line and its message."""
    from mooring.learn.pupil import mistake_of

    try:
        result = run(lesson, options)
    except Exception as error:  # the learner's code may raise anything
        mistake = None if is_output_error(error) else mistake_of(error, lesson.file)
        if mistake is None:
            raise
        if has_traceback:
            traceback.print_exception(error)
        else:
            click.echo(f"mooring learn: {mistake}", err=True)
            click.echo("The whole traceback: --traceback", err=True)
        return EXIT_LESSON_FAILED
    return EXIT_LESSON_FAILED if result.failures else 0


def _check(lesson: Lesson, options: Options) -> LessonResult:
    """Runs the exercise of a step, and prints whether it is solved."""
    from mooring.learn.exercises import exercise
    from mooring.learn.running import OutputHooks
    from mooring.learn.view import filled

    if options.kubeconfig:
        raise click.UsageError("--check cannot be combined with --kubeconfig")
    task = exercise(lesson.number)
    click.echo(filled(f"Exercise {lesson.number}: {task.task}"))
    mistakes: list[str] = []

    def note(line: Line) -> None:
        if line.what == "failed" and ".py:" in line.detail and line.detail not in mistakes:
            mistakes.append(line.detail)

    hooks = OutputHooks(note, lambda _time_s, _text: None)
    result = _run(lesson, options, hooks, task.scenario)
    if not result.failures:
        click.echo("\nSolved.")
        return result
    click.echo("\nNot solved yet:")
    for failure in [*mistakes, *result.failures]:
        click.echo(f"  {failure}")
    return result


def _run_json(lesson: Lesson, options: Options) -> LessonResult:
    from mooring.learn.event_log import JsonLines
    from mooring.learn.running import OutputHooks

    hooks = OutputHooks(JsonLines(click.echo), lambda _time_s, _text: None)
    result = _run(lesson, options, hooks, _scenario(lesson, options))
    for failure in result.failures:
        click.echo(f"mooring learn: {failure}", err=True)
    return result


def _run_text(lesson: Lesson, options: Options) -> LessonResult:
    from mooring.learn.drawing import Drawing
    from mooring.learn.running import OutputHooks
    from mooring.learn.view import TextLines, after, before

    scenario = _scenario(lesson, options)
    click.echo(before(lesson, scenario))
    lines, drawing = TextLines(click.echo), Drawing(click.echo)

    def show(line: Line) -> None:
        lines(line)
        if options.is_drawn:
            drawing(line)

    hooks = OutputHooks(
        show, lines.say, lambda names, cordoned: drawing.add_nodes(names, cordoned=cordoned)
    )
    result = _run(lesson, options, hooks, scenario)
    lines.flush()
    click.echo(after(lesson, result.pod_lines(scenario), result.failures))
    return result


def _scenario(lesson: Lesson, options: Options) -> Scenario:
    from mooring.learn.scenarios import SCENARIOS

    return SCENARIOS[options.variant][lesson.number - 1]


def _run(lesson: Lesson, options: Options, hooks: OutputHooks, scenario: Scenario) -> LessonResult:
    from mooring.event_loop import fresh_seed

    access = _access(options)
    seed = fresh_seed() if options.seed is None else options.seed
    with asyncio.Runner(loop_factory=loop_factory_for(is_virtual=options.is_fast)) as runner:
        work = _learn(lesson, scenario, options, hooks, access, seed)
        # In memory there is nothing to delete.
        return runner.run(work) if access is None else run_with_cleanup(runner, work)


def _access(options: Options) -> Access | None:
    if options.kubeconfig is None:
        return None
    from mooring.client.transport.kubeconfig import find_access

    return find_access(options.kubeconfig, context=options.context, environment=os.environ)


async def _learn(
    lesson: Lesson,
    scenario: Scenario,
    options: Options,
    hooks: OutputHooks,
    access: Access | None,
    seed: int,
) -> LessonResult:
    from mooring.learn.running import learn_embedded, learn_real
    from mooring.virtual_loop import LoopClock

    rng, clock = seeded_random(seed), SystemClock()
    if access is not None:
        return await learn_real(access, lesson, scenario, hooks, clock=clock, rng=rng)
    chosen: Clock = LoopClock(asyncio.get_running_loop()) if options.is_fast else clock
    return await learn_embedded(lesson, scenario, hooks, clock=chosen, rng=rng)

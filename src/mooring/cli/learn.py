"""``mooring learn``: eight small schedulers, from a random one to one with queue and events."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from mooring.cli.options import file_names
from mooring.clock import Clock, SystemClock, seeded_random

if TYPE_CHECKING:
    from mooring.client.transport.kubeconfig import Access
    from mooring.learn.lessons import Lesson
    from mooring.learn.running import Ending, Showing

STEPS = 8
EXIT_NOT_AS_IT_MUST_BE = 1


class Options(NamedTuple):
    """What was asked for."""

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
    help="Whose scenarios: those of one teaching scheduler or of the other.",
)
@click.option("--seed", type=int, help="For whatever is left to chance; another one each time.")
@click.option("--fast", "is_fast", is_flag=True, help="On virtual time: waiting takes none.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    shell_complete=file_names,
    help="On this cluster, not in memory; what is created there is deleted at the end.",
)
@click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def command(
    step: int | None,
    variant: str,
    seed: int | None,
    is_fast: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Learn how a scheduler works: run STEP, or without one list all eight.

    Each step is a scheduler of less than 80 lines, and does a little more than the one before. What
    it does is shown as it happens, and at the end the lines that are new.
    """
    from mooring.learn.lessons import lesson, table

    if step is None:
        click.echo(f"{table()}\n\nBegin with: mooring learn 1")
        return 0
    if is_fast and kubeconfig:
        raise click.UsageError("--fast is virtual time, and no real cluster lives on that")
    if context and not kubeconfig:
        raise click.UsageError("--context goes with --kubeconfig")
    options = Options(variant, seed, is_fast, kubeconfig, context)
    give = _give_json if output == "json" else _give_text
    ending = give(lesson(step), options)
    return EXIT_NOT_AS_IT_MUST_BE if ending.complaints else 0


def _give_json(lesson: Lesson, options: Options) -> Ending:
    from mooring.learn.event_log import JsonLines
    from mooring.learn.running import Showing

    ending = _run(lesson, options, Showing(JsonLines(click.echo), lambda _time_s, _text: None))
    for complaint in ending.complaints:
        click.echo(f"mooring learn: {complaint}", err=True)
    return ending


def _give_text(lesson: Lesson, options: Options) -> Ending:
    from mooring.learn.running import Showing
    from mooring.learn.scenarios import SCENARIOS
    from mooring.learn.view import TextLines, after, before

    scenario = SCENARIOS[options.variant][lesson.number - 1]
    click.echo(before(lesson, scenario))
    lines = TextLines(click.echo)
    ending = _run(lesson, options, Showing(lines, lines.say))
    lines.flush()
    click.echo(after(lesson, ending.told(scenario), ending.complaints))
    return ending


def _run(lesson: Lesson, options: Options, showing: Showing) -> Ending:
    from mooring.event_loop import fresh_seed

    access = _access(options)
    seed = fresh_seed() if options.seed is None else options.seed
    with asyncio.Runner(loop_factory=_loop_factory(options)) as runner:
        return runner.run(_learn(lesson, options, showing, access, seed))


def _access(options: Options) -> Access | None:
    if options.kubeconfig is None:
        return None
    from mooring.client.transport.kubeconfig import find_access

    return find_access(options.kubeconfig, context=options.context, environment=os.environ)


def _loop_factory(options: Options) -> Any:
    if options.is_fast:
        from mooring.virtual_loop import VirtualLoop

        return VirtualLoop
    from mooring.event_loop import loop_factory

    return loop_factory()


async def _learn(
    lesson: Lesson, options: Options, showing: Showing, access: Access | None, seed: int
) -> Ending:
    from mooring.learn.running import learn_embedded, learn_real
    from mooring.virtual_loop import LoopClock

    rng, clock = seeded_random(seed), SystemClock()
    if access is not None:
        return await learn_real(access, lesson, options.variant, showing, clock=clock, rng=rng)
    chosen: Clock = LoopClock(asyncio.get_running_loop()) if options.is_fast else clock
    return await learn_embedded(lesson, options.variant, showing, clock=chosen, rng=rng)

"""Puts a step's scheduler into a cluster, plays its scenario, and looks at what came of it.

The cluster is an API server in this process, on the machine's clock or on virtual time, or a real
one. Of a real one the scheduler is shown the lesson's own nodes and pods only, and these are
deleted when the lesson is over, however it ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN, IDENTITIES
from mooring.client import Client, Informer, InProcessTransport
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import Access
from mooring.clock import Clock, Rng
from mooring.errors import ConfigError, NotFound, Unreachable
from mooring.event_loop import fresh_seed, ticking
from mooring.learn.event_log import Board, Line
from mooring.learn.filtered_transport import OwnObjects
from mooring.learn.lessons import Lesson
from mooring.learn.scenario_runner import LIMIT_S, Stage
from mooring.learn.scenarios import SCENARIOS, Scenario
from mooring.objects import Namespace, ObjectMeta

#: On every node of a lesson; the value is the lesson's namespace.
LABEL: Final = "mooring.dev/lesson"

#: How long cleaning up may take after an interruption.
CLEAN_UP_S: Final = 30.0

#: The schedulerName of pods, where no other scheduler runs and where one may.
ALONE: Final = "default-scheduler"
BESIDE_OTHERS: Final = "mooring-learn"


class Showing(NamedTuple):
    """Who is told of what happens.

    Attributes:
        on_line: Of every line.
        on_say: Of what the scenario does: seconds, and a text.
    """

    on_line: Callable[[Line], None]
    on_say: Callable[[float, str], None]


class Ending(NamedTuple):
    """What came of a lesson.

    Attributes:
        lines: All that happened.
        nodes: Pod -> its node; "" if it has none.
        complaints: What is not as it must be; empty if all is well.
    """

    lines: list[Line]
    nodes: Mapping[str, str]
    complaints: list[str]

    def told(self, scenario: Scenario) -> list[str]:
        """Returns a line for each pod."""
        found = []
        for pod, node in sorted(self.nodes.items()):
            allowed = scenario.ends[pod]
            choice = f" (any of {allowed[0]} to {allowed[-1]} would do)" if len(allowed) > 1 else ""
            found.append(f"{pod} is on {node}{choice}." if node else f"{pod} has no node.")
        return found


class LessonTarget(NamedTuple):
    """Where a lesson is given.

    Attributes:
        client: An administrator's.
        own: The scheduler's.
        namespace: The pods'.
        scheduler_name: What they ask for.
    """

    client: Client
    own: Client
    namespace: str
    scheduler_name: str


async def learn_embedded(
    lesson: Lesson, variant: str, showing: Showing, *, clock: Clock, rng: Rng
) -> Ending:
    """Gives a lesson on an API server of its own."""
    api = ApiServer(clock, rng)

    def client(headers: dict[str, str]) -> Client:
        return Client(InProcessTransport(api.handle, headers=headers), rng=rng)

    own = client(IDENTITIES["mooring"].headers())
    queue_name = LessonTarget(client(ADMIN.headers()), own, "default", ALONE)
    with ticking(api.tick):
        return await _learn(lesson, variant, queue_name, showing, clock=clock, rng=rng)


async def learn_real(
    access: Access, lesson: Lesson, variant: str, showing: Showing, *, clock: Clock, rng: Rng
) -> Ending:
    """Gives a lesson on a real cluster, in a namespace that is deleted afterwards.

    Raises:
        ConfigError: a node of the lesson's names is there already.
    """
    transport = connect(access, clock=clock, environment=os.environ)
    # Not from the seed: the namespace of the run before may still be on its way out.
    namespace = f"{BESIDE_OTHERS}-{fresh_seed() % 2**32:08x}"
    try:
        client = Client(transport, rng=rng)
        own = Client(OwnObjects(transport, namespace, f"{LABEL}={namespace}"), rng=rng)
        queue_name = LessonTarget(client, own, namespace, BESIDE_OTHERS)
        try:
            await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
            return await _learn(lesson, variant, queue_name, showing, clock=clock, rng=rng)
        finally:
            with suppress(NotFound):
                await _in_time(client.delete("Namespace", namespace))
    finally:
        await transport.close()


async def _learn(
    lesson: Lesson,
    variant: str,
    queue_name: LessonTarget,
    showing: Showing,
    *,
    clock: Clock,
    rng: Rng,
) -> Ending:
    scenario = SCENARIOS[variant][lesson.number - 1]
    board = Board(clock, showing.on_line)
    scheduler = lesson.module.Scheduler(
        queue_name.own, queue_name.scheduler_name, clock=clock, rng=rng, tell=board.tell
    )
    stage = Stage(
        queue_name.client,
        scheduler,
        board,
        namespace=queue_name.namespace,
        scheduler_name=queue_name.scheduler_name,
        labels={LABEL: queue_name.namespace},
        on_say=showing.on_say,
    )
    try:
        await _play(scenario, stage, board)
    finally:
        await _in_time(stage.clean_up())
    nodes = {pod: board.node_of(stage.key(pod)) for pod in scenario.ends}
    return Ending(board.lines, nodes, stage.complaints)


async def _play(scenario: Scenario, stage: Stage, board: Board) -> None:
    """Runs the scheduler for as long as the scenario lasts."""
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(stage.scheduler.run())
            for informer in (stage.scheduler.nodes, stage.scheduler.pods):
                await _wait_until_synced(informer)
            board.start()
            await scenario.play(stage)
            for pod, nodes in scenario.ends.items():
                stage.check_bound(pod, nodes)
            running.cancel()
    except BaseExceptionGroup as group:
        # The scheduler failed, or the scenario, and so the other one was cancelled.
        found: BaseException = group
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        raise found from None


async def _wait_until_synced(informer: Informer) -> None:
    """Returns when the scheduler knows the cluster.

    Raises:
        ConfigError: it is not shown it.
    """
    try:
        async with asyncio.timeout(LIMIT_S):
            await informer.wait_until_synced()
    except TimeoutError as error:
        problem = f"cannot be listed and watched: {informer.last_error}"
        raise ConfigError(problem, path=informer.kind.name) from error


async def _in_time(cleaning: Awaitable[None]) -> None:
    """Cleans up, if it does not take for ever.

    Raises:
        Unreachable: it does.
    """
    try:
        async with asyncio.timeout(CLEAN_UP_S):
            await cleaning
    except TimeoutError as error:
        told = f"what the lesson created could not be deleted in {CLEAN_UP_S:g} s"
        raise Unreachable(told) from error

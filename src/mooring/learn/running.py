"""Runs a step's scheduler and its scenario on a cluster, and checks the result.

The cluster is an API server in this process, on the system clock or on virtual time, or a real
one. On a real one the scheduler sees only the lesson's own nodes and pods, and these are always
deleted at the end of the lesson.
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
from mooring.errors import ConfigError, NotFound, Unreachable, first_error
from mooring.event_loop import fresh_seed, ticking
from mooring.learn.event_log import EventLog, Line
from mooring.learn.filtered_transport import FilteredTransport
from mooring.learn.lessons import Lesson
from mooring.learn.scenario_runner import LIMIT_S, ScenarioRunner
from mooring.learn.scenarios import Scenario
from mooring.objects import Namespace, ObjectMeta

#: Label of a lesson's nodes; its value is the lesson's namespace.
LABEL: Final = "mooring.dev/lesson"

#: Timeout of the cleanup.
CLEAN_UP_S: Final = 30.0

#: The schedulerName of the lesson's pods on an embedded and on a real cluster.
ALONE: Final = "default-scheduler"
BESIDE_OTHERS: Final = "mooring-learn"


class OutputHooks(NamedTuple):
    """Callbacks for the output of a lesson.

    Attributes:
        on_line: Called with every event.
        on_say: Called with every step of the scenario: seconds, and a text.
        on_nodes: Called with the names of new nodes, and whether they are cordoned.
    """

    on_line: Callable[[Line], None]
    on_say: Callable[[float, str], None]
    on_nodes: Callable[[list[str], bool], None] = lambda _names, _cordoned: None


class LessonResult(NamedTuple):
    """The result of a lesson.

    Attributes:
        lines: All events.
        nodes: Pod -> its node; "" if it has none.
        failures: The failed checks.
    """

    lines: list[Line]
    nodes: Mapping[str, str]
    failures: list[str]

    def pod_lines(self, scenario: Scenario) -> list[str]:
        """Returns a line of text for each pod."""
        lines = []
        for pod, node in sorted(self.nodes.items()):
            allowed = scenario.ends[pod]
            choice = f" (any of {allowed[0]} to {allowed[-1]} would do)" if len(allowed) > 1 else ""
            lines.append(f"{pod} is on {node}{choice}." if node else f"{pod} has no node.")
        return lines


class LessonTarget(NamedTuple):
    """The cluster that a lesson runs on.

    Attributes:
        client: A client with an administrator's credentials.
        own: The scheduler's client.
        namespace: The pods' namespace.
        scheduler_name: The pods' schedulerName.
    """

    client: Client
    own: Client
    namespace: str
    scheduler_name: str


async def learn_embedded(
    lesson: Lesson, scenario: Scenario, hooks: OutputHooks, *, clock: Clock, rng: Rng
) -> LessonResult:
    """Runs a lesson or its exercise on an embedded API server."""
    api = ApiServer(clock, rng)

    def client(headers: dict[str, str]) -> Client:
        return Client(InProcessTransport(api.handle, headers=headers), rng=rng)

    own = client(IDENTITIES["mooring"].headers())
    target = LessonTarget(client(ADMIN.headers()), own, "default", ALONE)
    with ticking(api.tick):
        return await _learn(lesson, scenario, target, hooks, clock=clock, rng=rng)


async def learn_real(
    access: Access,
    lesson: Lesson,
    scenario: Scenario,
    hooks: OutputHooks,
    *,
    clock: Clock,
    rng: Rng,
) -> LessonResult:
    """Runs a lesson on a real cluster, in a namespace that is deleted afterwards.

    Raises:
        ConfigError: a node with a name of the lesson exists already.
    """
    transport = connect(access, clock=clock, environment=os.environ)
    # Not from the seed: the namespace of the previous run may still be terminating.
    namespace = f"{BESIDE_OTHERS}-{fresh_seed() % 2**32:08x}"
    try:
        client = Client(transport, rng=rng)
        own = Client(FilteredTransport(transport, namespace, f"{LABEL}={namespace}"), rng=rng)
        target = LessonTarget(client, own, namespace, BESIDE_OTHERS)
        try:
            await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
            return await _learn(lesson, scenario, target, hooks, clock=clock, rng=rng)
        finally:
            with suppress(NotFound):
                await _with_timeout(client.delete("Namespace", namespace))
    finally:
        await transport.close()


async def _learn(
    lesson: Lesson,
    scenario: Scenario,
    target: LessonTarget,
    hooks: OutputHooks,
    *,
    clock: Clock,
    rng: Rng,
) -> LessonResult:
    event_log = EventLog(clock, hooks.on_line)
    scheduler = lesson.module.Scheduler(
        target.own, target.scheduler_name, clock=clock, rng=rng, emit=event_log.emit
    )
    runner = ScenarioRunner(
        target.client,
        scheduler,
        event_log,
        namespace=target.namespace,
        scheduler_name=target.scheduler_name,
        labels={LABEL: target.namespace},
        on_say=hooks.on_say,
        on_nodes=hooks.on_nodes,
    )
    try:
        await _play(scenario, runner, event_log)
    finally:
        await _with_timeout(runner.clean_up())
    nodes = {pod: event_log.node_of(runner.key(pod)) for pod in scenario.ends}
    return LessonResult(event_log.lines, nodes, runner.failures)


async def _play(scenario: Scenario, runner: ScenarioRunner, event_log: EventLog) -> None:
    """Runs the scheduler while the scenario runs."""
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(runner.scheduler.run())
            for informer in (runner.scheduler.nodes, runner.scheduler.pods):
                await _wait_until_synced(informer)
            event_log.start()
            await scenario.play(runner)
            for pod, nodes in scenario.ends.items():
                runner.check_bound(pod, nodes)
            running.cancel()
    except BaseExceptionGroup as group:
        # Either the scheduler or the scenario failed, and the other was cancelled.
        raise first_error(group) from None


async def _wait_until_synced(informer: Informer) -> None:
    """Waits until an informer of the scheduler has synced.

    Raises:
        ConfigError: the objects cannot be listed and watched.
    """
    try:
        async with asyncio.timeout(LIMIT_S):
            await informer.wait_until_synced()
    except TimeoutError as error:
        problem = f"cannot be listed and watched: {informer.last_error}"
        raise ConfigError(problem, path=informer.kind.name) from error


async def _with_timeout(cleanup: Awaitable[None]) -> None:
    """Awaits the cleanup, with a timeout.

    Raises:
        Unreachable: on timeout.
    """
    try:
        async with asyncio.timeout(CLEAN_UP_S):
            await cleanup
    except TimeoutError as error:
        problem = f"the lesson's objects could not be deleted in {CLEAN_UP_S:g} s"
        raise Unreachable(problem) from error

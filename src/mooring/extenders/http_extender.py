"""An extender of the configuration: asks over a ``Post``, and makes answers of what comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

from mooring.client import Client
from mooring.client.bound_node import read_bound_node
from mooring.clock import Clock
from mooring.config.types import Extender
from mooring.errors import ExtenderError, NotFound, SchedulerError
from mooring.extenders import wire
from mooring.extenders.full_objects import WholeObjects
from mooring.extenders.http import TIMEOUT_S, NoAnswer, Post
from mooring.extenders.metrics import ExtenderMetrics
from mooring.extenders.tls import without_password
from mooring.framework.extender import FilterResult, PrioritizeResult, Victims
from mooring.framework.status import Candidate
from mooring.state import PodInfo

#: The longest answers: of names, or of whole objects.
NAMES_BYTES_MAX: Final = 16 << 20
OBJECTS_BYTES_MAX: Final = 128 << 20

#: While nobody knows whether an extender has bound a pod, the API server is asked so often.
ASK_AGAIN_S: Final = 0.25

Sleep = Callable[[float], Awaitable[None]]


class AskedExtender:
    """Does what ``mooring.framework.extender.Extender`` says, for one of the configuration.

    Args:
        config: Its part of the configuration.
        post: The way to it.
        whole: What it is sent.
        client: Asked what became of a binding; its fence lets bindings pass.
        clock: Monotonic seconds.
        sleep: Waits.
        metrics: Count its calls; nobody sees them by default.
    """

    def __init__(
        self,
        config: Extender,
        post: Post,
        whole: WholeObjects,
        *,
        client: Client,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
        metrics: ExtenderMetrics | None = None,
    ) -> None:
        self._config = config
        #: Its URL prefix, as written, but for a password.
        self.name = without_password(config.url_prefix)
        self._post = post
        self._whole = whole
        self._client = client
        self._clock = clock
        self._sleep = sleep
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        self._is_capable = config.node_cache_capable
        self._timeout_s = config.http_timeout_s if config.http_timeout_s > 0 else TIMEOUT_S
        self._metrics = metrics or ExtenderMetrics()
        for verb, has in (
            ("filter", self.has_filter),
            ("prioritize", self.has_prioritize),
            ("preempt", self.has_preempt),
            ("bind", self.has_bind),
        ):
            if has:
                self._metrics.watch(self.name, verb)
        self._names = wire.names_of(())
        self._bytes_max = NAMES_BYTES_MAX if self._is_capable else OBJECTS_BYTES_MAX

    @property
    def is_ignorable(self) -> bool:
        """As configured."""
        return self._config.ignorable

    @property
    def weight(self) -> int:
        """As configured."""
        return self._config.weight

    @property
    def has_filter(self) -> bool:
        """Whether it has the verb."""
        return bool(self._config.filter_verb)

    @property
    def has_prioritize(self) -> bool:
        """Whether it has the verb."""
        return bool(self._config.prioritize_verb)

    @property
    def has_preempt(self) -> bool:
        """Whether it has the verb."""
        return bool(self._config.preempt_verb)

    @property
    def has_bind(self) -> bool:
        """Whether it has the verb."""
        return bool(self._config.bind_verb)

    def is_interested(self, pod: PodInfo) -> bool:
        """Returns whether it manages nothing in particular, or something that a container wants."""
        if not self._managed:
            return True
        spec = pod.spec
        return any(
            not self._managed.isdisjoint(container.resources.requests)
            or not self._managed.isdisjoint(container.resources.limits)
            for container in (*spec.containers, *spec.init_containers)
        )

    async def filter(self, pod: PodInfo, names: Sequence[str]) -> FilterResult:
        """Which of these nodes can take the pod."""
        body = await self._nodes_args(pod, names)
        with self._calls("filter"):
            answer = await self._asked(self._config.filter_verb, body, self._bytes_max)
            return wire.read_filter(answer, self._named(names) if self._is_capable else None)

    async def prioritize(self, pod: PodInfo, names: Sequence[str]) -> PrioritizeResult:
        """Nodes and their scores."""
        body = await self._nodes_args(pod, names)
        with self._calls("prioritize"):
            answer = await self._asked(self._config.prioritize_verb, body, NAMES_BYTES_MAX)
            return wire.read_priorities(answer)

    async def preempt(self, pod: PodInfo, candidates: Sequence[Candidate]) -> Mapping[str, Victims]:
        """Node -> who has to leave it."""
        itself = await self._whole.pod(pod)
        if self._is_capable:
            victims = {
                room.node_name: Victims(tuple(each.uid for each in room.victims), room.violations)
                for room in candidates
            }
            body = wire.meta_victims_args(itself, victims)
        else:
            known = await self._whole.pods([each for room in candidates for each in room.victims])
            objects = {
                room.node_name: (
                    [known[each.uid] for each in room.victims if each.uid in known],
                    room.violations,
                )
                for room in candidates
            }
            body = wire.victims_args(itself, objects)
        with self._calls("preempt"):
            answer = await self._asked(self._config.preempt_verb, body, NAMES_BYTES_MAX)
            return wire.read_preempt(answer)

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Has it bind the pod; if it is not clear whether it did, the API server says so.

        Raises:
            ExtenderError: it did not, as far as anybody knows.
            LeaseLost: nothing may be written any more.
        """
        # Like every write it must not outlive the lease under which it was begun.
        limit_s = min(self._client.pass_fence(), self._timeout_s)
        body = wire.binding_args(pod.metadata, node_name)
        with self._calls("bind"):
            try:
                wire.read_bind(await self._post_within(limit_s, self._config.bind_verb, body))
            except NoAnswer as error:
                if not error.is_sent or not await self._is_bound_soon(pod, node_name, limit_s):
                    raise
            except ExtenderError:
                if not await self._is_bound(pod, node_name):
                    raise

    async def _post_within(self, limit_s: float, verb: str, body: bytes) -> bytes:
        # The way there keeps the usual limit, and knows better whether anything was sent.
        try:
            async with asyncio.timeout(limit_s if limit_s < self._timeout_s else None):
                return await self._post(verb, body, NAMES_BYTES_MAX)
        except TimeoutError as error:
            told = f"extender {json.dumps(self.name)}: no answer to {verb} in {limit_s:g} s"
            raise NoAnswer(told) from error

    def _calls(self, verb: str) -> AbstractContextManager[None]:
        """Counts what the block does as one call."""
        return self._metrics.call(self.name, verb, self._clock)

    async def _asked(self, verb: str, body: bytes, bytes_max: int) -> bytes:
        """Returns the answer to a question that changes nothing: it may be asked again.

        A server may close an idle connection at the very moment in which it is used.
        """
        try:
            return await self._post(verb, body, bytes_max)
        except NoAnswer as error:
            if not error.is_cut_off:
                raise
        return await self._post(verb, body, bytes_max)

    async def _is_bound_soon(self, pod: PodInfo, node_name: str, limit_s: float) -> bool:
        """Whether the pod is on the node, if it gets there in the time that a request has."""
        ends_s = self._clock.monotonic_s() + limit_s
        while not await self._is_bound(pod, node_name):
            if self._clock.monotonic_s() >= ends_s:
                return False
            await self._sleep(ASK_AGAIN_S)
        return True

    async def _is_bound(self, pod: PodInfo, node_name: str) -> bool:
        """Returns whether the API server has the pod on the node; False if nobody says so."""
        try:
            bound_node = await read_bound_node(self._client, pod.pod)
        except NotFound as error:
            raise ExtenderError(f"pod {pod.key} was deleted") from error
        except SchedulerError:
            return False
        if bound_node and bound_node != node_name:
            raise ExtenderError(f"pod {pod.key} is bound to node {bound_node} already")
        return bool(bound_node)

    async def _nodes_args(self, pod: PodInfo, names: Sequence[str]) -> bytes:
        itself = await self._whole.pod(pod)
        if self._is_capable:
            return wire.names_args(itself, self._named(names))
        nodes = await self._whole.nodes(names)
        return wire.objects_args(itself, nodes.values())

    def _named(self, names: Sequence[str]) -> wire.Names:
        """Ready to be sent; within an attempt the same list is, again and again."""
        if self._names.names is not names:
            self._names = wire.names_of(names)
        return self._names

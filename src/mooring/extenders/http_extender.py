"""An extender of the configuration: encodes its calls, and decodes the responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

from mooring.client import Client
from mooring.client.bound_node import ARRIVES_WITHIN_S, read_bound_node
from mooring.client.retry import Sleep
from mooring.clock import Clock
from mooring.config.types import Extender
from mooring.errors import ExtenderError, NotFound, SchedulerError
from mooring.extenders import wire
from mooring.extenders.full_objects import FullObjectCache
from mooring.extenders.http import TIMEOUT_S, ExtenderTransport, NoResponse
from mooring.extenders.metrics import ExtenderMetrics
from mooring.extenders.tls import without_password
from mooring.framework.extender import FilterResult, PrioritizeResult, Victims
from mooring.framework.status import Candidate
from mooring.state import PodInfo

#: The longest answers: of names, or of whole objects.
NAMES_BYTES_MAX: Final = 16 << 20
OBJECTS_BYTES_MAX: Final = 128 << 20

#: Interval of reading a pod while it is unknown whether an extender has bound it.
READ_AGAIN_S: Final = 0.25
READ_AGAIN_S_MAX: Final = 5.0


class HTTPExtender:
    """Implements ``mooring.framework.extender.Extender`` for one extender of the configuration.

    Args:
        config: Its part of the configuration.
        post: Sends a call.
        whole: What it is sent.
        client: Reads pods whose binding is unknown; its fence guards bindings.
        clock: Monotonic seconds.
        sleep: Waits.
        metrics: Counts the calls.
    """

    def __init__(
        self,
        config: Extender,
        post: ExtenderTransport,
        full_objects: FullObjectCache,
        *,
        client: Client,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
        metrics: ExtenderMetrics | None = None,
    ) -> None:
        self._config = config
        #: The URL prefix as configured, without a password.
        self.name = without_password(config.url_prefix)
        self._post = post
        self._whole = full_objects
        self._client = client
        self._clock = clock
        self._sleep = sleep
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        self._is_capable = config.node_cache_capable
        self._timeout_s = config.http_timeout_s if config.http_timeout_s > 0 else TIMEOUT_S
        self._metrics = metrics or ExtenderMetrics()
        for verb, is_configured in (
            ("filter", self.has_filter),
            ("prioritize", self.has_prioritize),
            ("preempt", self.has_preempt),
            ("bind", self.has_bind),
        ):
            if is_configured:
                self._metrics.watch(self.name, verb)
        self._names = wire.names_of(())
        self._bytes_max = NAMES_BYTES_MAX if self._is_capable else OBJECTS_BYTES_MAX

    @property
    def is_ignorable(self) -> bool:
        """The configured value."""
        return self._config.ignorable

    @property
    def weight(self) -> int:
        """The configured value."""
        return self._config.weight

    @property
    def has_filter(self) -> bool:
        """True if the verb is configured."""
        return bool(self._config.filter_verb)

    @property
    def has_prioritize(self) -> bool:
        """True if the verb is configured."""
        return bool(self._config.prioritize_verb)

    @property
    def has_preempt(self) -> bool:
        """True if the verb is configured."""
        return bool(self._config.preempt_verb)

    @property
    def has_bind(self) -> bool:
        """True if the verb is configured."""
        return bool(self._config.bind_verb)

    def is_interested(self, pod: PodInfo) -> bool:
        """Returns whether it manages all pods, or a resource that a container requests."""
        if not self._managed:
            return True
        spec = pod.spec
        return any(
            not self._managed.isdisjoint(container.resources.requests)
            or not self._managed.isdisjoint(container.resources.limits)
            for container in (*spec.containers, *spec.init_containers)
        )

    async def filter(self, pod: PodInfo, names: Sequence[str]) -> FilterResult:
        """Returns which of these nodes are feasible."""
        body = await self._nodes_args(pod, names)
        with self._calls("filter"):
            answer = await self._asked(self._config.filter_verb, body, self._bytes_max)
            return wire.read_filter(answer, self._named(names) if self._is_capable else None)

    async def prioritize(self, pod: PodInfo, names: Sequence[str]) -> PrioritizeResult:
        """Returns the nodes and their scores."""
        body = await self._nodes_args(pod, names)
        with self._calls("prioritize"):
            answer = await self._asked(self._config.prioritize_verb, body, NAMES_BYTES_MAX)
            return wire.read_priorities(answer)

    async def preempt(self, pod: PodInfo, candidates: Sequence[Candidate]) -> Mapping[str, Victims]:
        """Returns node -> victims."""
        pod_object = await self._whole.pod(pod)
        if self._is_capable:
            victims = {
                candidate.node_name: Victims(
                    tuple(victim.uid for victim in candidate.victims), candidate.violations
                )
                for candidate in candidates
            }
            body = wire.meta_victims_args(pod_object, victims)
        else:
            full_objects = await self._whole.pods(
                [victim for candidate in candidates for victim in candidate.victims]
            )
            objects = {
                candidate.node_name: (
                    [
                        full_objects[victim.uid]
                        for victim in candidate.victims
                        if victim.uid in full_objects
                    ],
                    candidate.violations,
                )
                for candidate in candidates
            }
            body = wire.victims_args(pod_object, objects)
        with self._calls("preempt"):
            answer = await self._asked(self._config.preempt_verb, body, NAMES_BYTES_MAX)
            return wire.read_preempt(answer)

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Binds the pod through the extender; if the outcome is unknown, reads the pod.

        Raises:
            ExtenderError: the pod is not bound, as far as the API server shows.
            LeaseLost: the lease does not allow writes any more.
        """
        # Like every write it must not outlive the lease under which it was begun.
        limit_s = min(self._client.pass_fence(), self._timeout_s)
        body = wire.binding_args(pod.metadata, node_name)
        with self._calls("bind"):
            try:
                wire.read_bind(await self._post_within(limit_s, self._config.bind_verb, body))
            except NoResponse as error:
                if not error.is_sent:
                    raise
                if not await self._is_bound_in_the_end(pod, node_name, ARRIVES_WITHIN_S):
                    raise
            except ExtenderError:
                if not await self._is_bound_in_the_end(pod, node_name, 0.0):
                    raise

    async def _post_within(self, limit_s: float, verb: str, body: bytes) -> bytes:
        # The transport has the usual limit, and knows whether the request was sent.
        try:
            async with asyncio.timeout(limit_s if limit_s < self._timeout_s else None):
                return await self._post(verb, body, NAMES_BYTES_MAX)
        except TimeoutError as error:
            message = f"extender {json.dumps(self.name)}: no answer to {verb} in {limit_s:g} s"
            raise NoResponse(message) from error

    def _calls(self, verb: str) -> AbstractContextManager[None]:
        """Counts the block as one call."""
        return self._metrics.call(self.name, verb, self._clock)

    async def _asked(self, verb: str, body: bytes, bytes_max: int) -> bytes:
        """Returns the response to a call without side effects: it may be retried once.

        A server may close an idle connection just when it is used.
        """
        try:
            return await self._post(verb, body, bytes_max)
        except NoResponse as error:
            if not error.is_cut_off:
                raise
        return await self._post(verb, body, bytes_max)

    async def _is_bound_in_the_end(
        self, pod: PodInfo, node_name: str, arrives_within_s: float
    ) -> bool:
        """Returns whether the pod is bound to the node; waits until that cannot change any more.

        The pod keeps its resources on the node meanwhile: a binding that arrives late must not
        exceed them. Nor does an error of the extender tell that it has not bound the pod, so that
        the pod is read until the API server answers.
        """
        ends_s, wait_s = self._clock.monotonic_s() + arrives_within_s, READ_AGAIN_S
        while True:
            # The next leader must not be held up by what this one waits for.
            self._client.pass_fence()
            may_arrive = self._clock.monotonic_s() < ends_s
            is_bound = await self._is_bound(pod, node_name)
            if is_bound or (is_bound is not None and not may_arrive):
                return is_bound
            await self._sleep(wait_s)
            wait_s = min(2 * wait_s, READ_AGAIN_S_MAX)

    async def _is_bound(self, pod: PodInfo, node_name: str) -> bool | None:
        """Returns whether the pod is bound to the node; None if it cannot be read."""
        try:
            bound_node = await read_bound_node(self._client, pod.pod)
        except NotFound as error:
            raise ExtenderError(f"pod {pod.key} was deleted") from error
        except SchedulerError:
            return None
        if bound_node and bound_node != node_name:
            raise ExtenderError(f"pod {pod.key} is bound to node {bound_node} already")
        return bool(bound_node)

    async def _nodes_args(self, pod: PodInfo, names: Sequence[str]) -> bytes:
        pod_object = await self._whole.pod(pod)
        if self._is_capable:
            return wire.names_args(pod_object, self._named(names))
        nodes = await self._whole.nodes(names)
        return wire.objects_args(pod_object, nodes.values())

    def _named(self, names: Sequence[str]) -> wire.Names:
        """Returns the names encoded as JSON; cached, since an attempt sends the same list often."""
        if self._names.names is not names:
            self._names = wire.names_of(names)
        return self._names

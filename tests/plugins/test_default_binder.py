"""DefaultBinder: binds through the handle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from mooring.errors import Conflict
from mooring.framework.waiting_pods import WaitingPod
from mooring.plugins import DefaultBinder
from mooring.state import PodInfo
from mooring.testing import Harness, check_conformance, make_node, make_pod


class ApiServer:
    """A handle that records bindings, or raises a prepared error."""

    snapshot = None

    def __init__(self, failure: Exception | None = None) -> None:
        self.bindings: list[tuple[str, str]] = []
        self._failure = failure

    def monotonic_s(self) -> float:
        return 0.0

    def random(self) -> float:
        return 0.0

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        if self._failure is not None:
            raise self._failure
        self.bindings.append((pod.uid, node_name))

    def waiting_pod(self, uid: str) -> None:
        raise NotImplementedError

    def is_preempting(self, uid: str) -> bool:
        raise NotImplementedError

    async def read(self, path: str) -> bytes:
        raise NotImplementedError

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    def waiting_pods(self) -> Iterable[WaitingPod]:
        raise NotImplementedError

    def activate(self, *uids: str) -> None:
        raise NotImplementedError

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        raise NotImplementedError

    async def until(
        self, kind: str, key: str, predicate: Callable[[Any], bool], deadline_s: float
    ) -> Any:
        raise NotImplementedError


def test_it_binds_the_pod_of_the_cycle_by_its_uid() -> None:
    api = ApiServer()
    plugin = DefaultBinder(api)
    cycle, _ = Harness([make_node("a")], [plugin]).open(make_pod("web", uid="u-1"))
    asyncio.run(plugin.bind(cycle, "a"))
    assert api.bindings == [("u-1", "a")]


def test_what_the_api_server_says_goes_through() -> None:
    refused = Conflict("pod web is already assigned to node b", status=409, reason="Conflict")
    plugin = DefaultBinder(ApiServer(refused))
    cycle, _ = Harness([make_node("a")], [plugin]).open(make_pod())
    with pytest.raises(Conflict) as caught:
        asyncio.run(plugin.bind(cycle, "a"))
    assert caught.value is refused


def test_it_neither_filters_nor_scores() -> None:
    plugin = DefaultBinder(ApiServer())
    assert not any(hasattr(plugin, point) for point in ("filter", "score", "reserve", "permit"))


def test_it_keeps_the_contract() -> None:
    check_conformance(DefaultBinder(ApiServer()), seeds=range(5))

"""The timed calls of plugins, as metrics get them, beside what the plugins have returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final

from mooring.framework.status import SKIP, PostFilterResult, Status, Wait

#: Method -> its name in ``scheduler_plugin_execution_duration_seconds``.
POINTS: Final = {
    "pre_filter": "PreFilter",
    "filter": "Filter",
    "add_pod": "PreFilterExtensionAddPod",
    "remove_pod": "PreFilterExtensionRemovePod",
    "apply_deltas": "PreFilterExtensionRemovePod",
    "post_filter": "PostFilter",
    "pre_score": "PreScore",
    "score": "Score",
    "normalize": "ScoreExtensionNormalize",
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
    "pre_bind_pre_flight": "PreBindPreFlight",
    "pre_bind": "PreBind",
    "bind": "Bind",
    "post_bind": "PostBind",
}
#: Methods that are called for a single node, of which some together are one call.
OF_NODES: Final = {"filter_node": "Filter", "score_node": "Score"}
#: Method -> its name in errors, if it has another one there.
ERROR_POINTS: Final = {"normalize": "NormalizeScore"}
RAISED: Final = ""

#: Plugin, point, code.
Call = tuple[str, str, str]


class PluginCalls:
    """The calls of plugins in an attempt.

    Attributes:
        made: By what the plugin has returned.
        of_nodes: (plugin, point) of the calls for single nodes.
        recorded: As metrics get them.
        raised: (plugin, point) of the calls that have raised.
        failed: The same, as metrics get them.
        wrong: A plugin, its method, and what that returns instead; None = nothing is wrong.
        n_wrong: How often it was returned.
    """

    def __init__(self) -> None:
        self.made: Counter[Call] = Counter()
        self.of_nodes: set[tuple[str, str]] = set()
        self.recorded: Counter[Call] = Counter()
        self.raised: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()
        self.wrong: tuple[str, str, Any] | None = None
        self.n_wrong = 0

    def clear(self) -> None:
        """Begins an attempt."""
        for calls in (self.made, self.of_nodes, self.recorded, self.raised, self.failed):
            calls.clear()

    def noted(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a method that notes its result."""
        if name in OF_NODES:

            @wraps(method)
            def of_node(plugin: Any, *arguments: Any) -> Any:
                pair = plugin.name, OF_NODES[name]
                self.of_nodes.add(pair)
                try:
                    result = method(plugin, *arguments)
                except Exception:
                    self.raised[pair] += 1
                    raise
                return self._or_wrong(plugin.name, name, result)

            return of_node
        if name not in POINTS:
            return method
        if iscoroutinefunction(method):

            @wraps(method)
            async def waiting(plugin: Any, *arguments: Any) -> Any:
                code = RAISED
                try:
                    code = _code(result := await method(plugin, *arguments))
                    return result
                finally:
                    self._note(plugin.name, name, code)

            return waiting

        @wraps(method)
        def called(plugin: Any, *arguments: Any) -> Any:
            code = RAISED
            try:
                code = _code(result := method(plugin, *arguments))
                return self._or_wrong(plugin.name, name, result)
            finally:
                self._note(plugin.name, name, code)

        return called

    def _or_wrong(self, plugin: str, method: str, result: Any) -> Any:
        if self.wrong is None or self.wrong[:2] != (plugin, method):
            return result
        self.n_wrong += 1
        return self.wrong[2]

    def _note(self, plugin: str, method: str, code: str) -> None:
        point = POINTS[method]
        self.made[plugin, point, "Error" if code == RAISED else code] += 1
        if code == RAISED:
            self.raised[plugin, ERROR_POINTS.get(method, point)] += 1

    def problems(self, *, is_timed: bool) -> Iterator[str]:
        """Yields a difference: each call is recorded if the attempt is timed, and none if not."""
        points = {*POINTS.values()}
        recorded = Counter({call: n for call, n in self.recorded.items() if call[1] in points})
        made = self.made if is_timed else Counter[Call]()
        missing, surplus = made - recorded, recorded - made
        for call in [*surplus]:
            if is_timed and call[:2] in self.of_nodes:
                del surplus[call]
        if missing or surplus:
            yield f"timed calls {dict(missing)} are missing, {dict(surplus)} were not made"
        points |= {*ERROR_POINTS.values()}
        failed = Counter({call: n for call, n in self.failed.items() if call[1] in points})
        if failed != self.raised:
            yield f"failed calls {dict(failed)} are counted, not {dict(self.raised)}"
        absent = self.of_nodes - {call[:2] for call in self.recorded}
        if is_timed and absent:
            yield f"timed calls for single nodes are missing: {absent}"


def _code(result: Any) -> str:
    if isinstance(result, PostFilterResult):
        result = result.status
    if result is SKIP:
        return "Skip"
    if isinstance(result, Wait):
        return "Wait"
    return result.code.value if isinstance(result, Status) else "Success"

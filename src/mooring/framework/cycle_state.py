"""The state of one scheduling attempt of one pod, as plugins see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mooring.errors import PluginError
from mooring.metrics.recorders import FrameworkRecorder
from mooring.state.snapshot import Snapshot
from mooring.state.tables.pods import PodInfo


class FilterRunner(Protocol):
    """The part of ``Framework`` with which a plugin runs the Filter plugins of its profile."""

    @property
    def filters(self) -> tuple[Any, ...]:
        """The Filter plugins, in order."""
        ...

    @property
    def recorder(self) -> FrameworkRecorder:
        """Records what is evaluated."""
        ...

    def call(self, plugin: Any, point: str, method: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a method of a plugin.

        Raises:
            PluginError: if the method raised, with the plugin's name.
        """
        ...

    def log_error(self, error: PluginError, **facts: Any) -> None:
        """Counts and logs an error that does not fail the pod, with its traceback."""
        ...


class Cycle:
    """A pod, the snapshot that it is scheduled on, and the state that each plugin stored.

    A plugin writes ``cycle[self] = state`` in ``pre_filter`` or ``pre_score`` and reads
    ``cycle[self]`` at every later extension point, up to ``post_bind`` or ``unreserve``. A state is
    one typed object that owns its data (no views of columns) and is not changed after it is stored.
    """

    __slots__ = (
        "_states",
        "cached_results",
        "framework",
        "idle_plugins",
        "is_timed",
        "node_hint",
        "number",
        "pod",
        "pods_to_activate",
        "profile",
        "skipped",
        "snapshot",
        "writer",
    )

    def __init__(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        profile: str = "",
        framework: FilterRunner | None = None,
    ) -> None:
        self.pod = pod
        self.snapshot = snapshot
        #: The framework of this attempt: preemption runs its filters again.
        self.framework = framework
        #: Whether the calls of plugins are timed in this attempt.
        self.is_timed = False
        #: The number of pods that the queue had popped; None = there is no queue.
        self.number: int | None = None
        #: The node that opportunistic batching suggests; "" = none.
        self.node_hint = ""
        #: The profile's schedulerName.
        self.profile = profile
        #: Names of the plugins whose pre_filter returned SKIP: they do not filter in this attempt.
        self.skipped: frozenset[str] = frozenset()
        #: Pods that a plugin moves to the active queue after this attempt, by UID.
        self.pods_to_activate: dict[str, PodInfo] = {}
        #: Set by the framework: the cached results for this pod, and the plugins they belong to.
        self.cached_results: tuple[Any, frozenset[str]] | None = None
        #: Set with them: the names of the plugins that do not apply to this pod.
        self.idle_plugins: frozenset[str] = frozenset()
        self._states: dict[str, Any] = {}
        #: Set by the framework: the plugin that may store its state now; None = no plugin.
        self.writer: str | None = None

    def __getitem__(self, plugin: Any) -> Any:
        """Returns the state that ``plugin`` stored.

        Raises:
            PluginError: if it stored none, for example because it returned SKIP.
        """
        try:
            return self._states[plugin.name]
        except KeyError:
            raise PluginError(plugin.name, "state", "nothing was stored for this attempt") from None

    def __setitem__(self, plugin: Any, state: Any) -> None:
        """Stores the state of ``plugin``.

        Raises:
            PluginError: if called outside the plugin's own pre_filter and pre_score.
        """
        if self.writer != plugin.name:
            raise PluginError(
                plugin.name, "state", "is stored only in the plugin's own pre_filter or pre_score"
            )
        self._states[plugin.name] = state

    def __contains__(self, plugin: Any) -> bool:
        return plugin.name in self._states

    # -- for the framework ------------------------------------------------------------------------

    def state_of(self, plugin: str) -> Any:
        """Returns the state that ``plugin`` stored, None if there is none."""
        return self._states.get(plugin)

    def restore(self, plugin: str, state: Any) -> None:
        """Restores a state that ``plugin`` stored for a pod with the same signature."""
        if state is not None:
            self._states[plugin] = state

    def restore_all(self, states: Mapping[str, Any]) -> None:
        """Restores the states that plugins stored for a pod with the same signature."""
        self._states.update(states)

    def drop_state(self, plugin: str) -> None:
        """Removes what ``restore_all`` restored of ``plugin``, which does not run for this pod."""
        self._states.pop(plugin, None)
        self.skipped -= {plugin}

    def with_state(self, plugin: str, state: Any) -> Cycle:
        """Returns a copy in which ``plugin`` has another state: for hypothetical nodes."""
        copy = Cycle(self.pod, self.snapshot, self.profile, self.framework)
        copy.skipped = self.skipped
        copy._states = {**self._states, plugin: state}
        return copy

"""One attempt at one pod, as the plugins see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mooring.errors import PluginError
from mooring.state.snapshot import Snapshot
from mooring.state.tables.pods import PodInfo


class FilterRunner(Protocol):
    """What a plugin needs to run the Filter plugins of its profile again: a ``Framework``."""

    @property
    def filters(self) -> tuple[Any, ...]:
        """The Filter plugins, in order."""
        ...

    def call(self, plugin: Any, point: str, method: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a method of a plugin.

        Raises:
            PluginError: if the method raised, with the plugin's name.
        """
        ...


class Cycle:
    """A pod, the snapshot it is decided on, and what each plugin noted during the attempt.

    ``cycle[self] = state`` in ``pre_filter`` or ``pre_score``, ``cycle[self]`` ever after, up to
    ``post_bind`` or ``unreserve``. A state is one typed object that owns its data (no views of
    columns) and does not change once it is stored.
    """

    __slots__ = (
        "_states",
        "_writer",
        "framework",
        "pod",
        "pods_to_activate",
        "profile",
        "shared",
        "skipped",
        "snapshot",
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
        #: The plugins that decide in this attempt: who makes room has to ask the filters again.
        self.framework = framework
        #: The profile's schedulerName.
        self.profile = profile
        #: Names of the plugins whose pre_filter said SKIP: they do not filter in this attempt.
        self.skipped: set[str] = set()
        #: Pods that a plugin wants tried at once, by UID.
        self.pods_to_activate: dict[str, PodInfo] = {}
        #: The runner's note: the shared answers for this pod, and the plugins they speak for.
        self.shared: tuple[Any, frozenset[str]] | None = None
        self._states: dict[str, Any] = {}
        self._writer: str | None = None

    def __getitem__(self, plugin: Any) -> Any:
        """Returns the state that ``plugin`` stored.

        Raises:
            PluginError: if it stored none (it skipped itself, or forgot).
        """
        try:
            return self._states[plugin.name]
        except KeyError:
            raise PluginError(plugin.name, "state", "nothing was stored for this attempt") from None

    def __setitem__(self, plugin: Any, state: Any) -> None:
        """Stores the state of ``plugin``.

        Raises:
            PluginError: outside the plugin's own pre_filter and pre_score.
        """
        if self._writer != plugin.name:
            raise PluginError(
                plugin.name, "state", "is stored only in the plugin's own pre_filter or pre_score"
            )
        self._states[plugin.name] = state

    def __contains__(self, plugin: Any) -> bool:
        return plugin.name in self._states

    # -- for the runner ---------------------------------------------------------------------------

    def open_for(self, plugin: str | None) -> None:
        """Lets ``plugin`` (and nobody else) store its state; None = nobody."""
        self._writer = plugin

    def state_of(self, plugin: str) -> Any:
        """What ``plugin`` stored, None if nothing."""
        return self._states.get(plugin)

    def restore(self, plugin: str, state: Any) -> None:
        """Puts back a state that ``plugin`` stored for an equal pod."""
        if state is not None:
            self._states[plugin] = state

    def with_state(self, plugin: str, state: Any) -> Cycle:
        """Returns a twin of this cycle in which ``plugin`` has another state: for worlds."""
        twin = Cycle(self.pod, self.snapshot, self.profile, self.framework)
        twin.skipped = self.skipped
        twin._states = {**self._states, plugin: state}
        return twin

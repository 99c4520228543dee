"""The interface of an extender: an external webhook that is called in addition to the plugins.

The transport is elsewhere (``mooring.extenders`` calls them over HTTP). Calls take time, so code
that schedules with extenders is a generator: it yields ``ExtenderCallback``s, and its driver awaits
them and sends their results.

Source: k8s.io/kube-scheduler/framework (Extender), extender/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from mooring.framework.status import Candidate
from mooring.state.tables.pods import PodInfo

#: The plugin name of a rejection by an extender.
EXTENDER: Final = "Extender"

#: Scores of an extender should be from 0 to 10, those of plugins are from 0 to 100. The former are
#: multiplied by this, whatever they are.
SCALE: Final = 10

T = TypeVar("T")

#: A call of an extender, to be awaited by the driver.
ExtenderCallback: TypeAlias = Callable[[], Awaitable[Any]]

#: Yields calls that may run at the same time; is sent their results in the same order, an
#: ExtenderError for a call that failed.
ExtenderCalls: TypeAlias = Generator[list[ExtenderCallback], list[Any], T]


class FilterResult(NamedTuple):
    """The result of ``filter``: feasible nodes in the extender's order, and failed nodes."""

    names: Sequence[str]
    #: Node -> message. Evicting pods may help on ``failed`` nodes, but not on
    #: ``failed_and_unresolvable`` ones; a node in both counts as unresolvable.
    failed: Mapping[str, str]
    failed_and_unresolvable: Mapping[str, str]


class PrioritizeResult(NamedTuple):
    """The result of ``prioritize``: the score, an int64, of the name at the same index.

    Names may be missing, repeated, or of nodes that were not sent.
    """

    names: Sequence[str]
    scores: Sequence[int]


class Extender(Protocol):
    """One extender. All async methods raise ExtenderError for any failure."""

    @property
    def name(self) -> str:
        """Its URL."""
        ...

    @property
    def is_ignorable(self) -> bool:
        """True if the attempt continues without the extender when a call fails."""
        ...

    @property
    def weight(self) -> int:
        """The factor by which its scores are multiplied."""
        ...

    @property
    def has_filter(self) -> bool:
        """True if it has a ``filter`` verb."""
        ...

    @property
    def has_prioritize(self) -> bool:
        """True if it has a ``prioritize`` verb."""
        ...

    @property
    def has_preempt(self) -> bool:
        """True if it has a ``preempt`` verb."""
        ...

    @property
    def has_bind(self) -> bool:
        """True if it binds pods instead of the Bind plugins."""
        ...

    def is_interested(self, pod: PodInfo) -> bool:
        """Returns True if the extender is called for this pod."""
        ...

    async def filter(self, pod: PodInfo, names: Sequence[str]) -> FilterResult:
        """Returns the nodes, of those in ``names``, that are feasible for the pod."""
        ...

    async def prioritize(self, pod: PodInfo, names: Sequence[str]) -> PrioritizeResult:
        """Returns scores of these nodes."""
        ...

    async def preempt(self, pod: PodInfo, candidates: Sequence[Candidate]) -> Mapping[str, Victims]:
        """Returns the victims to evict, by node name."""
        ...

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Binds the pod, and returns when the binding is confirmed."""
        ...


class Victims(NamedTuple):
    """Pods by UID, and how many of them violate a PodDisruptionBudget."""

    uids: tuple[str, ...]
    violations: int

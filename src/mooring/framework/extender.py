"""What an extender is to a scheduler: somebody outside who is asked besides the plugins.

How it is reached is not known here (``mooring.extenders`` does it over HTTP), only what it may be
asked, and that its answers take time: who decides with extenders yields its questions
(``extending``), and whoever drives it awaits the answers.

Source: k8s.io/kube-scheduler/framework (Extender), extender/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from mooring.framework.status import Candidate
from mooring.state.tables.pods import PodInfo

#: The name under which extenders refuse pods.
EXTENDER: Final = "Extender"

#: Scores of an extender go from 0 to 10, those of plugins to 100.
SCORE_MAX: Final = 10
SCALE: Final = 10

T = TypeVar("T")

#: A question: whoever gets it awaits its answer.
ExtenderCallback: TypeAlias = Callable[[], Awaitable[Any]]

#: Yields questions that may be asked at the same time; is sent their answers, in their order, an
#: ExtenderError for one that failed.
ExtenderCalls: TypeAlias = Generator[list[ExtenderCallback], list[Any], T]


class FilterResult(NamedTuple):
    """The answer to ``filter``: the nodes that are left, in the extender's order, and why not."""

    names: Sequence[str]
    #: Node -> message. Evicting pods may help on ``failed`` nodes, but not on
    #: ``failed_and_unresolvable`` ones; a node in both counts as unresolvable.
    failed: Mapping[str, str]
    failed_and_unresolvable: Mapping[str, str]


class PrioritizeResult(NamedTuple):
    """The answer to ``prioritize``: a score, 0 to 10, for the name at the same place.

    Of any nodes, some perhaps several times, and not of all that were asked about.
    """

    names: Sequence[str]
    scores: Sequence[int]


class Extender(Protocol):
    """Asked besides the plugins. All methods that wait raise ExtenderError for any failure."""

    @property
    def name(self) -> str:
        """Its URL."""
        ...

    @property
    def is_ignorable(self) -> bool:
        """Whether the attempt goes on without it if it fails."""
        ...

    @property
    def weight(self) -> int:
        """What its scores are multiplied with."""
        ...

    @property
    def has_filter(self) -> bool:
        """Whether it filters."""
        ...

    @property
    def has_prioritize(self) -> bool:
        """Whether it gives scores."""
        ...

    @property
    def has_preempt(self) -> bool:
        """Whether it is asked who has to leave."""
        ...

    @property
    def has_bind(self) -> bool:
        """Whether it binds pods instead of the plugins."""
        ...

    def is_interested(self, pod: PodInfo) -> bool:
        """Returns whether it is asked about this pod at all."""
        ...

    async def filter(self, pod: PodInfo, names: Sequence[str]) -> FilterResult:
        """Which of these nodes can take the pod."""
        ...

    async def prioritize(self, pod: PodInfo, names: Sequence[str]) -> PrioritizeResult:
        """How good these nodes are."""
        ...

    async def preempt(self, pod: PodInfo, candidates: Sequence[Candidate]) -> Mapping[str, Victims]:
        """Node -> who has to leave it."""
        ...

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Binds the pod, and returns when it surely is."""
        ...


class Victims(NamedTuple):
    """Pods by UID, and how many of them a budget protects."""

    uids: tuple[str, ...]
    violations: int

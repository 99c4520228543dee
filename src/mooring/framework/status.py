"""What a plugin may answer, and what the framework makes of the answers.

=================================  ==============================================================
Code                               What it means for the pod
=================================  ==============================================================
Success                            the plugin has nothing against it
Unschedulable                      not here, or not now; preemption may help; parked until a
                                   cluster event wakes it
UnschedulableAndUnresolvable       as above, and evicting pods would not help
Wait                               Permit only: the decision stands, binding waits
Skip                               the plugin has nothing to say on this pod at all
Pending                            parked, and woken without backoff
Error                              something broke: the pod is retried with backoff
=================================  ==============================================================

Refusals are values. Whatever a plugin raises is an Error, of that pod alone.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.decision import Preemption
from mooring.errors import PluginError
from mooring.state.tables.pods import PodInfo


class Code(enum.Enum):
    """kube-scheduler's status codes, by their names."""

    SUCCESS = "Success"
    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    PENDING = "Pending"


class _StatusFields(NamedTuple):
    code: Code
    reasons: tuple[str, ...]
    plugin: str = ""


class Status(_StatusFields):
    """A refusal (or an Error of one node): its code, its reasons, and the plugin that said it.

    Plugins make one with ``Reject`` or ``Pending``; the runner fills in ``plugin``.
    """

    __slots__ = ()

    @property
    def message(self) -> str:
        """The reasons as one text, as kube-scheduler joins them."""
        return ", ".join(self.reasons)

    @property
    def is_rejection(self) -> bool:
        """Whether the pod is parked for it (Error is not a rejection)."""
        return self.code in (
            Code.UNSCHEDULABLE,
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            Code.PENDING,
        )

    def named(self, plugin: str) -> Status:
        """Returns the same status, said by ``plugin``."""
        return Status(self.code, self.reasons, plugin)


class Reject(Status):
    """A refusal: ``Reject("node(s) had no room")``; ``resolvable=False`` = eviction won't help.

    Example:
        >>> Reject("too hot").code.value
        'Unschedulable'
        >>> Reject("wrong zone", resolvable=False).code.value
        'UnschedulableAndUnresolvable'
    """

    __slots__ = ()

    def __new__(cls, *reasons: str, resolvable: bool = True) -> Reject:
        """Several reasons are counted one by one in the pod's message."""
        code = Code.UNSCHEDULABLE if resolvable else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        return super().__new__(cls, code, reasons)


class Pending(Status):
    """A refusal that ends without backoff: the pod waits for something that surely comes."""

    __slots__ = ()

    def __new__(cls, *reasons: str) -> Pending:
        """Several reasons are counted one by one in the pod's message."""
        return super().__new__(cls, Code.PENDING, reasons)


class NodeError(Status):
    """An Error at one node: the attempt fails if the visit gets as far as that node."""

    __slots__ = ()

    def __new__(cls, *reasons: str) -> NodeError:
        """Returns the reasons become the text of the error."""
        return super().__new__(cls, Code.ERROR, reasons)


class Skip(enum.Enum):
    """The type of ``SKIP``."""

    SKIP = "Skip"

    def __repr__(self) -> str:
        return "SKIP"


#: "I have nothing to say on this pod": from pre_filter, pre_score, pre_bind_pre_flight and bind.
SKIP: Final = Skip.SKIP


class Wait(NamedTuple):
    """Permit: hold the binding for at most ``timeout_s`` seconds, until somebody allows it."""

    timeout_s: float
    reason: str = ""


class PreFilterResult(NamedTuple):
    """PreFilter: only these nodes can do; names of nodes that do not exist are fine."""

    node_names: frozenset[str]


class FilterStatuses:
    """What a filter says of m nodes: ``codes`` uint16 shape (m,) and ``table`` of statuses.

    0 = feasible, k = refused with ``table[k - 1]``.

    Example:
        >>> import numpy as np
        >>> verdicts = FilterStatuses.refuse(np.array([False, True]), Reject("too hot"))
        >>> verdicts.codes.tolist(), verdicts.table[0].reasons
        ([0, 1], ('too hot',))
    """

    __slots__ = ("codes", "table")

    def __init__(self, codes: npt.NDArray[np.uint16], table: list[Status]) -> None:
        self.codes = codes
        self.table = table

    @classmethod
    def feasible(cls, length: int) -> FilterStatuses:
        """Nothing against any of ``length`` nodes."""
        return cls(np.zeros(length, dtype=np.uint16), [])

    @classmethod
    def refuse(cls, refused: npt.NDArray[np.bool_], status: Status) -> FilterStatuses:
        """``status`` for the nodes where ``refused``, bool shape (m,), is true."""
        return cls(refused.astype(np.uint16), [status])

    @classmethod
    def of(cls, statuses: Iterable[Status | None]) -> FilterStatuses:
        """Returns one answer per node: None = feasible."""
        known: dict[Status, int] = {}
        codes = [
            0 if status is None else known.setdefault(status, len(known) + 1) for status in statuses
        ]
        return cls(np.array(codes, dtype=np.uint16), list(known))

    def checked(self, plugin: str, length: int) -> FilterStatuses:
        """Itself, if it is an answer for ``length`` nodes.

        Raises:
            PluginError: naming ``plugin``, if the shape, the type or a code is wrong.
        """
        if self.codes.shape != (length,) or self.codes.dtype != np.uint16:
            raise PluginError(
                plugin,
                "Filter",
                f"codes are {self.codes.dtype} of shape {self.codes.shape}, "
                f"should be uint16 of shape ({length},)",
            )
        if length and int(self.codes.max()) > len(self.table):
            raise PluginError(plugin, "Filter", "a code points past the end of the table")
        return self


class Candidate(NamedTuple):
    """A node that a pod fits on once its ``victims`` are gone, the most important one first.

    ``violations`` is how many of them a budget protects.
    """

    node_name: str
    victims: tuple[PodInfo, ...]
    violations: int

    @property
    def rank(self) -> tuple[int, int, int, int, int]:
        """How bad it is, smallest is best.

        Budgets violated, the priority of the first victim, the sum of priorities (each as if the
        lowest there is were 1, so that one more is never better), the number of victims, and when
        those of the highest priority first started (later is better).

        Source: framework/preemption/preemption.go (pickOneNodeForPreemption).
        """
        priorities = [pod.priority for pod in self.victims]
        highest = max(priorities)
        first_s = min(pod.start_s for pod in self.victims if pod.priority == highest)
        total = sum(priority + 2**31 for priority in priorities)
        return self.violations, priorities[0], total, len(priorities), -first_s


class PostFilterResult(NamedTuple):
    """What PostFilter found: the node that the pod is nominated to now.

    Attributes:
        status: None = room can be made.
        node_name: "" clears an earlier nomination, None leaves it as it is.
        victims: The pods on that node that have to go; whoever runs the scheduler evicts them.
        record: Makes the record of what was tried; to be asked before the state moves on.
        rooms: Makes the list of all nodes where room can be made, if extenders may choose too.
        plugin: Whose result it is; filled in by the runner if room can be made.
    """

    status: Status | None
    node_name: str | None = None
    victims: tuple[PodInfo, ...] = ()
    record: Callable[[], Preemption] | None = None
    candidates: Callable[[], list[Candidate]] | None = None
    plugin: str = ""

"""Status codes and results of plugins, and their consequence for the pod.

=================================  ==============================================================
Code                               Consequence for the pod
=================================  ==============================================================
Success                            the plugin accepts the node or the pod
Unschedulable                      rejected; preemption may help; unschedulable until a cluster
                                   event requeues it
UnschedulableAndUnresolvable       as Unschedulable, but evicting pods would not help
Wait                               Permit only: the binding is delayed
Skip                               the plugin is not relevant for this pod
Pending                            unschedulable, and requeued without backoff
Error                              a failure: the pod is retried with backoff
=================================  ==============================================================

Rejections are values. An exception raised by a plugin is an Error, of that pod alone.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.decision import Preemption
from mooring.deprecated import RenamedAttribute, warn
from mooring.errors import PluginError, encodable
from mooring.objects.resource import ResourceClaim
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
    """A rejection (or an Error of one node): its code, its reasons, and the plugin.

    Plugins create one with ``Reject`` or ``Pending``; the framework sets ``plugin``.
    """

    __slots__ = ()

    @property
    def message(self) -> str:
        """The reasons in one string, joined as kube-scheduler does."""
        return ", ".join(self.reasons)

    @property
    def is_rejection(self) -> bool:
        """True if the status makes a pod unschedulable (Error does not)."""
        return self.code in (
            Code.UNSCHEDULABLE,
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            Code.PENDING,
        )

    def named(self, plugin: str) -> Status:
        """Returns the same status with ``plugin`` set."""
        return Status(self.code, self.reasons, plugin)


class Reject(Status):
    """A rejection: ``Reject("node(s) too hot")``; ``resolvable=False``: eviction does not help.

    Example:
        >>> Reject("too hot").code.value
        'Unschedulable'
        >>> Reject("wrong zone", resolvable=False).code.value
        'UnschedulableAndUnresolvable'
    """

    __slots__ = ()

    def __new__(cls, *reasons: str, resolvable: bool = True) -> Reject:
        """Returns a rejection; each reason is counted on its own in the pod's message."""
        code = Code.UNSCHEDULABLE if resolvable else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        return super().__new__(cls, code, _texts("Reject", reasons))


class Pending(Status):
    """A rejection that is requeued without backoff: the pod waits for an expected event."""

    __slots__ = ()

    def __new__(cls, *reasons: str) -> Pending:
        """Returns a rejection; each reason is counted on its own in the pod's message."""
        return super().__new__(cls, Code.PENDING, _texts("Pending", reasons))


class NodeError(Status):
    """An Error of one node: the attempt fails if that node is visited."""

    __slots__ = ()

    def __new__(cls, *reasons: str) -> NodeError:
        """Returns a status whose reasons become the text of the error."""
        return super().__new__(cls, Code.ERROR, _texts("NodeError", reasons))


def _texts(status: str, reasons: tuple[str, ...]) -> tuple[str, ...]:
    for reason in reasons:
        if not isinstance(reason, str):
            raise TypeError(f"{status} takes reasons that are texts, not {reason!r}")
    return tuple(map(encodable, reasons))


class Skip(enum.Enum):
    """The type of ``SKIP``."""

    SKIP = "Skip"

    def __repr__(self) -> str:
        return "SKIP"


#: "Not relevant for this pod": a result of pre_filter, pre_score, pre_bind_pre_flight and bind.
SKIP: Final = Skip.SKIP


class Wait(NamedTuple):
    """Permit: delay the binding until it is allowed, for at most ``timeout_s`` seconds."""

    timeout_s: float
    reason: str = ""


class PreFilterResult(NamedTuple):
    """PreFilter: only these nodes are evaluated; names of missing nodes are ignored."""

    node_names: frozenset[str]

    def names_of(self, plugin: str) -> frozenset[str]:
        """Returns the names that ``plugin`` returned.

        Raises:
            PluginError: they are no set of texts.
        """
        names: Any = self.node_names
        if isinstance(names, frozenset):
            return names
        if not isinstance(names, Iterable) or isinstance(names, str | bytes):
            problem = f"returned {self!r}: it takes a frozenset of names of nodes"
            raise PluginError(plugin, "PreFilter", problem)
        return frozenset(names)


#: The type of ``FilterStatuses.codes``.
_CODE_TYPE: Final = np.dtype(np.uint16)


class FilterStatuses:
    """A filter's result for m nodes: ``codes`` uint16 shape (m,) and ``table`` of statuses.

    0 = feasible, k = rejected with ``table[k - 1]``.

    Example:
        >>> import numpy as np
        >>> statuses = FilterStatuses.reject(np.array([False, True]), Reject("too hot"))
        >>> statuses.codes.tolist(), statuses.table[0].reasons
        ([0, 1], ('too hot',))
    """

    __slots__ = ("codes", "table")

    refuse = RenamedAttribute("refuse", "reject")

    def __init__(self, codes: npt.NDArray[np.uint16], table: list[Status]) -> None:
        self.codes = codes
        self.table = table

    @classmethod
    def feasible(cls, length: int) -> FilterStatuses:
        """Returns a result in which all of ``length`` nodes are feasible."""
        return cls(np.zeros(length, dtype=np.uint16), [])

    @classmethod
    def reject(cls, rejected: npt.NDArray[np.bool_], status: Status) -> FilterStatuses:
        """Returns a result with ``status`` for the nodes where ``rejected`` (m,) is true."""
        return cls(rejected.astype(np.uint16), [status])

    @classmethod
    def of(cls, statuses: Iterable[Status | None]) -> FilterStatuses:
        """Returns the result with one status per node: None = feasible."""
        table: dict[Status, int] = {}
        codes = [
            0 if status is None else table.setdefault(status, len(table) + 1) for status in statuses
        ]
        return cls(np.array(codes, dtype=np.uint16), list(table))

    def to_list(self) -> list[Status | None]:
        """Returns the status of each node: None = feasible."""
        return [self.table[code - 1] if code else None for code in self.codes.tolist()]

    def checked(self, plugin: str, length: int) -> FilterStatuses:
        """Validates that this is a result for ``length`` nodes, and returns it.

        Raises:
            PluginError: with the name ``plugin``, if the shape, the type or a code is invalid.
        """
        codes: Any = self.codes
        if not isinstance(codes, np.ndarray):
            raise PluginError(plugin, "Filter", f"codes are {codes!r}, should be an array")
        if self.codes.shape != (length,) or self.codes.dtype != _CODE_TYPE:
            raise PluginError(
                plugin,
                "Filter",
                f"codes are {self.codes.dtype} of shape {self.codes.shape}, "
                f"should be uint16 of shape ({length},)",
            )
        if length and int(np.maximum.reduce(self.codes)) > len(self.table):
            raise PluginError(plugin, "Filter", "a code points past the end of the table")
        table: list[Any] = self.table
        for status in table:
            if not isinstance(status, Status):
                problem = f"returned {status!r} for a node, not None or Reject"
                raise PluginError(plugin, "Filter", problem)
        return self


class Candidate(NamedTuple):
    """A node on which a pod fits after its ``victims`` are evicted, the most important one first.

    ``violations`` is how many of them violate a PodDisruptionBudget.
    """

    node_name: str
    victims: tuple[PodInfo, ...]
    violations: int

    @property
    def rank(self) -> tuple[int, int, int, int, int]:
        """Sort key of pickOneNodeForPreemption; lower is preferred.

        PDB violations, the priority of the first victim, the sum of priorities (each plus 2**31, so
        that one more victim never lowers the sum), the number of victims, and the earliest start
        time of those with the highest priority (later is better).

        Source: framework/preemption/preemption.go (pickOneNodeForPreemption).
        """
        priorities = [pod.priority for pod in self.victims]
        highest = max(priorities)
        first_s = min(pod.start_s for pod in self.victims if pod.priority == highest)
        total = sum(priority + 2**31 for priority in priorities)
        return self.violations, priorities[0], total, len(priorities), -first_s


class ClaimChange(NamedTuple):
    """A change of a resource claim that PostFilter needs: it is deallocated, or deleted."""

    claim: ResourceClaim
    is_deletion: bool = False


class PostFilterResult(NamedTuple):
    """The result of PostFilter: the nominated node and its victims.

    Attributes:
        status: None = preemption is possible.
        node_name: The nominated node; "" clears an earlier nomination, None leaves it as it is.
        victims: The pods on that node to evict; the scheduler evicts them.
        record: Builds the record of the dry run; must be called before the snapshot changes.
        candidates: Builds the list of all candidates, if extenders may choose among them.
        plugin: The plugin; set by the framework if preemption is possible.
        claim_change: A change of a resource claim; the scheduler writes it.
    """

    status: Status | None
    node_name: str | None = None
    victims: tuple[PodInfo, ...] = ()
    record: Callable[[], Preemption] | None = None
    candidates: Callable[[], list[Candidate]] | None = None
    plugin: str = ""
    claim_change: ClaimChange | None = None

    @property
    def rooms(self) -> Callable[[], list[Candidate]] | None:
        """The old name of ``candidates``."""
        warn("PostFilterResult.rooms", "candidates", stacklevel=2)
        return self.candidates

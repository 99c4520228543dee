"""Results of the search for devices, shared by nodes and by pods.

Replicas have claims with equal specs, and most nodes have devices like those of others: the result
of a search depends on the specs and on the signature of the node (state/devices/signatures.py)
alone. So one search for each signature decides for all nodes and for all replicas::

    signature of a node ──▶ verdict ──▶ status of its row, updated for rows that changed
                        └─▶ plan: positions of the devices ──▶ devices of the selected node

Often no search is needed for a signature, either. The search takes the first solution in a fixed
order, and a device in use only removes solutions. So where more devices of equal pools are in use,
and as much of the shared ones, it takes the same solution if its devices are free, and none if
there was none before::

    free: 0 1 2 3 ──▶ 0, 2
    free: 0   2 3 ──▶ 0, 2        without a search
    free:   1 2 3 ──▶ a search, as 0 is in use

Errors are not shared, since their texts name the claim.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.dra import InvalidPools, Plan, PreparedClaim, Selectors, Solution, prepare_claim
from mooring.dra.constraints import ignore_released
from mooring.dra.selectors import Names
from mooring.framework import FilterStatuses, NodeView, Reject, Status
from mooring.objects.resource import ResourceClaim
from mooring.state.columns.caches import LRUCache
from mooring.state.columns.change_log import ChangeLog
from mooring.state.devices.devices import Devices
from mooring.state.devices.signatures import NO_NODE, UNSHARED, NodeSignatures, Usage

#: Templates whose results are kept: a signature takes one byte in each, and a node three.
TEMPLATES_MAX: Final = 128

#: Searches from whose results others follow, of nodes with equal pools: a comparison with all of
#: them takes about as long as a search.
SEARCHES_MAX: Final = 32

#: The entries of ``SharedResults.verdicts``.
UNKNOWN, FEASIBLE, NO_DEVICES, BY_INVALID_POOLS = range(4)

NOT_ALLOCATABLE: Final = Reject("cannot allocate all claims", resolvable=False)
INVALID_POOLS: Final = Reject(str(InvalidPools()), resolvable=False)

#: What results have before the first ``refresh``; never written.
_NO_VERDICTS: Final[npt.NDArray[np.int8]] = np.zeros(0, dtype=np.int8)
_NO_CODES: Final[npt.NDArray[np.uint16]] = np.zeros(0, dtype=np.uint16)
_NO_MARKS: Final[npt.NDArray[np.bool_]] = np.zeros(0, dtype=np.bool_)
_NO_CHANGES: Final = ChangeLog(1)

#: The names of the requests and alternatives that got devices, by claim.
Chosen = tuple[Collection[str], ...]


class _Searched(NamedTuple):
    """A search whose result may hold for other signatures of nodes with equal pools.

    Attributes:
        in_use: The devices that were in use: bit ``1 << position`` for each.
        needed: The devices that it took, likewise; none if it failed.
        signature: Its signature.
    """

    in_use: int
    needed: int
    signature: int


class SharedResults:
    """The results for claims with equal specs, by signature and by row of the table of nodes.

    Attributes:
        verdicts: int8 shape (signatures,): whether the claims can be allocated, if it is known.
        plans: Signature -> the positions of the devices for the claims.
        chosen: Signature -> the requests and alternatives that got devices there.
        prepared: The claims of the first pod with these specs, prepared; empty = not kept.
        has_alternatives: Whether a request of these claims has alternatives.
        codes: uint16 shape (capacity,): the status of each row, ``verdict - FEASIBLE``.
        is_unknown: bool shape (capacity,): no search has decided about the row; its code is 0.
        unknown_count: How many rows that are.
        rejected_count: How many rows have a code other than 0.
        version: Rises when the results of all rows are computed anew.
        log: The rows whose results may have changed since then.
    """

    #: The status of each code, from 1 on.
    rejections: Final = (NOT_ALLOCATABLE, INVALID_POOLS)

    def __init__(self, *, has_alternatives: bool, ignores_released: bool) -> None:
        """Creates results without any.

        Args:
            has_alternatives: Whether a request has alternatives.
            ignores_released: Whether devices that the search has released make no difference to
                what it accepts next.
        """
        self.has_alternatives = has_alternatives
        self._ignores_released = ignores_released
        #: Number of pools, and what shares consume there -> the searches of such nodes.
        self._searched: dict[tuple[int, Hashable], list[_Searched]] = {}
        self.verdicts = _NO_VERDICTS
        self.plans: dict[int, Plan] = {}
        self.chosen: dict[int, Chosen] = {}
        self.prepared: tuple[PreparedClaim, ...] = ()
        self.codes = _NO_CODES
        self.is_unknown = _NO_MARKS
        self.unknown_count = 0
        self.rejected_count = 0
        self.version = 0
        self.log = _NO_CHANGES
        #: Equal plans are kept once: most signatures differ by devices that no plan uses.
        self._plans: dict[Plan, Plan] = {}
        self._epoch = -1
        self._layout = -1
        self._generation = 0

    @property
    def is_new(self) -> bool:
        """True until a node is filtered."""
        return self._epoch < 0

    def refresh(self, signatures: NodeSignatures) -> None:
        """Makes room for new signatures. Once per attempt, before ``verdicts`` is read."""
        if self._epoch != signatures.epoch:
            self._epoch = signatures.epoch
            self._layout = -1
            self.verdicts = np.zeros(signatures.count, dtype=np.int8)
            self.verdicts[NO_NODE] = FEASIBLE
            self.plans.clear()
            self._plans.clear()
            self._searched.clear()
            self.chosen.clear()
        missing = signatures.count - len(self.verdicts)
        if missing > 0:
            more = np.zeros(max(missing, len(self.verdicts)), dtype=np.int8)
            self.verdicts = np.concatenate([self.verdicts, more])

    def refresh_rows(self, signatures: NodeSignatures) -> None:
        """Updates the results of rows, after ``refresh``.

        Complexity: O(rows with another signature than before).
        """
        changed = None
        self.log = signatures.log
        if self._layout == signatures.layout:
            changed = signatures.log.rows_since(self._generation)
        self._generation = signatures.log.generation
        if changed is None:
            self._layout = signatures.layout
            self.recompute_rows(signatures)
            return
        for row in changed:
            self._set_row(row, self.verdicts.item(signatures.column.item(row)))

    def recompute_rows(self, signatures: NodeSignatures) -> None:
        """Computes the results of all rows anew, from the verdicts."""
        self.version += 1
        verdicts = self.verdicts.take(signatures.column)
        self.is_unknown = verdicts == UNKNOWN
        self.unknown_count = int(np.count_nonzero(self.is_unknown))
        is_rejected = verdicts > FEASIBLE
        self.rejected_count = int(np.count_nonzero(is_rejected))
        self.codes = is_rejected.astype(np.uint16)
        if self.rejected_count:
            self.codes += verdicts == BY_INVALID_POOLS

    def _set_row(self, row: int, verdict: int) -> None:
        is_unknown = verdict == UNKNOWN
        code = 0 if is_unknown else verdict - FEASIBLE
        self.unknown_count += is_unknown - self.is_unknown.item(row)
        self.rejected_count += (code != 0) - (self.codes.item(row) != 0)
        self.is_unknown[row] = is_unknown
        self.codes[row] = code

    def search_first(
        self,
        view: NodeView,
        signatures: NodeSignatures,
        search: Callable[[int], Status | None],
    ) -> None:
        """Searches as ``search_unknown``, before the first ``refresh_rows``.

        The results of rows are then computed once, instead of before and after the searches.
        """
        rows = None if len(view) == len(view.snapshot.nodes) else view.rows
        self._search(signatures.one_row_of_each(rows), signatures, search)

    def first_statuses(self, view: NodeView, signatures: NodeSignatures) -> FilterStatuses | None:
        """Returns the statuses after ``search_first``; None if a node has no shared result.

        Many templates have one pod only: what later pods need of the rows is not computed yet.
        """
        # UNKNOWN becomes the greatest code.
        codes: npt.NDArray[np.uint16] = (self.verdicts - FEASIBLE).astype(np.uint16)
        codes = view.take(codes.take(signatures.column))
        highest = codes.max(initial=0)
        if highest > len(self.rejections):
            return None
        return FilterStatuses(codes, list(self.rejections) if highest else [])

    def search_unknown(
        self,
        view: NodeView,
        signatures: NodeSignatures,
        search: Callable[[int], Status | None],
    ) -> dict[int, Status]:
        """Searches where no search has decided: at most one row for each signature.

        Args:
            view: The nodes.
            signatures: Their signatures, up to date.
            search: Searches the node of a row, and puts a result that is shared.

        Returns:
            Position in the view -> a rejection that is not shared.
        """
        if not self.unknown_count:
            return {}
        rows = view.rows[view.take(self.is_unknown).nonzero()[0]]
        self._search(signatures.one_row_of_each(rows), signatures, search)
        self.recompute_rows(signatures)
        rejections: dict[int, Status] = {}
        for position in view.take(self.is_unknown).nonzero()[0].tolist():
            status = search(view.rows.item(position))
            if status is not None:
                rejections[position] = status
        return rejections

    def _search(
        self,
        rows: Iterable[tuple[int, int]],
        signatures: NodeSignatures,
        search: Callable[[int], Status | None],
    ) -> None:
        """Finds the verdicts of some signatures, each with the row of a node."""
        unknown = [
            (signatures.usage(number), number, row)
            for number, row in rows
            if self.verdicts.item(number) == UNKNOWN
        ]
        if not self._ignores_released:
            for _, _, row in unknown:
                search(row)
            return
        unknown.sort(key=_in_use_count)  # the fewer devices are in use, the more follows
        for usage, number, row in unknown:
            if not self._infer(number, usage):
                search(row)
                self._note_search(number, usage)

    def _infer(self, signature: int, usage: Usage) -> bool:
        """Takes the result of an earlier search if it holds for a signature, too."""
        in_use = usage.alone
        for earlier in self._searched.get((usage.pools, usage.shares), ()):
            if not earlier.in_use & ~in_use and not earlier.needed & in_use:
                self.verdicts[signature] = self.verdicts.item(earlier.signature)
                if earlier.signature in self.plans:
                    self.plans[signature] = self.plans[earlier.signature]
                if earlier.signature in self.chosen:
                    self.chosen[signature] = self.chosen[earlier.signature]
                return True
        return False

    def _note_search(self, signature: int, usage: Usage) -> None:
        """Keeps the result of a search for signatures with more devices in use."""
        if self.verdicts.item(signature) == UNKNOWN:
            return
        searched = self._searched.setdefault((usage.pools, usage.shares), [])
        if len(searched) < SEARCHES_MAX:
            needed = 0
            for claim in self.plans.get(signature, ()):
                for device in claim.devices:
                    needed |= 1 << device.device
            searched.append(_Searched(usage.alone, needed, signature))

    def statuses(self, view: NodeView, others: Mapping[int, Status]) -> FilterStatuses:
        """Returns the statuses of the nodes of a view.

        Args:
            view: The nodes.
            others: Position in the view -> a rejection that is not shared.
        """
        if not self.rejected_count and not others:
            return FilterStatuses.feasible(len(view))
        codes, table = view.take(self.codes).copy(), list[Status](self.rejections)
        for position, status in others.items():
            if status not in table:
                table.append(status)
            codes[position] = table.index(status) + 1
        return FilterStatuses(codes, table)

    def put(self, signature: int, verdict: int, solution: Solution | None = None) -> None:
        """Keeps the result of a search on a node with this signature."""
        if signature == UNSHARED:
            return
        self.verdicts[signature] = verdict
        if solution is not None and self.has_alternatives:
            self.chosen[signature] = chosen_in(solution)

    def put_plan(self, signature: int, plan: Plan) -> None:
        """Keeps the positions of the devices on nodes with this signature."""
        if signature != UNSHARED:
            self.plans[signature] = self._plans.setdefault(plan, plan)


class Template(NamedTuple):
    """Claims to be allocated, and what they have in common with those of other pods.

    Attributes:
        claims: The claims.
        key: The version of the device classes, and the specs.
    """

    claims: Sequence[ResourceClaim]
    key: tuple[int, bytes]


class ResultsByTemplate:
    """Specs of claims -> their results."""

    def __init__(self, selectors: Selectors) -> None:
        self._by_template: LRUCache[tuple[int, bytes], SharedResults] = LRUCache(TEMPLATES_MAX)
        self._encode = msgspec.msgpack.Encoder().encode
        self._selectors = selectors

    def of(self, claims: Sequence[PreparedClaim], devices: Devices) -> SharedResults:
        """Returns the results for claims with these specs; the caller adds to them."""
        key = self.template([claim.claim for claim in claims], devices).key
        results = self._by_template.recent(key)
        return self._new(key, claims, devices) if results is None else results

    def is_known(self, template: Template) -> bool:
        """Returns whether a pod had claims with these specs, whose requests had no problem."""
        results = self._by_template.get(template.key)
        return results is not None and bool(results.prepared)

    def prepared(
        self, template: Template, devices: Devices, *, is_own: bool
    ) -> tuple[list[PreparedClaim], SharedResults]:
        """Returns claims in prepared form, and their results.

        Unless ``is_own``, the requests may be those of another pod, with equal specs: then the
        texts of their errors name its claims.
        """
        claims, key = template
        results = self._by_template.recent(key)
        if results is not None and results.prepared and not is_own:
            pairs = zip(results.prepared, claims, strict=True)
            return [first.of_claim(claim) for first, claim in pairs], results
        prepared = prepare_claims(claims, devices)
        if results is None:
            results = self._new(key, prepared, devices)
        if not any(claim.constraint_problem for claim in prepared):
            results.prepared = tuple(prepared)
        return prepared, results

    def template(self, claims: Sequence[ResourceClaim], devices: Devices) -> Template:
        """Returns claims with what other pods may have, too."""
        specs = self._encode([claim.spec for claim in claims])
        return Template(claims, (devices.classes.version, specs))

    def _new(
        self, key: tuple[int, bytes], claims: Sequence[PreparedClaim], devices: Devices
    ) -> SharedResults:
        devices.signatures.read(self._names_read(claims))
        results = SharedResults(
            has_alternatives=have_alternatives([claim.claim for claim in claims], devices),
            ignores_released=all(ignore_released(claim.constraints) for claim in claims),
        )
        return self._by_template.put(key, results)

    def _names_read(self, claims: Sequence[PreparedClaim]) -> Names:
        """Returns the attributes that selectors and constraints of claims read; None = all."""
        names: set[tuple[str, str]] = set()
        for expression in _expressions(claims):
            read = self._selectors.names(expression)
            if read is None:
                return None
            names |= read
        for claim in claims:
            for constraint in claim.constraints:
                attribute = constraint.match_attribute or constraint.distinct_attribute or ""
                domain, _, identifier = attribute.partition("/")
                names.add((domain, identifier))
        return frozenset(names)


def _in_use_count(entry: tuple[Usage, int, int]) -> int:
    return entry[0].alone.bit_count()


def have_alternatives(claims: Iterable[ResourceClaim], devices: Devices) -> bool:
    """Returns whether a request of some claims has alternatives that count."""
    return devices.features.has_alternatives and any(
        request.first_available for claim in claims for request in claim.spec.devices.requests
    )


def prepare_claims(claims: Iterable[ResourceClaim], devices: Devices) -> list[PreparedClaim]:
    """Returns claims in prepared form."""
    return [prepare_claim(claim, devices.classes.get, devices.features) for claim in claims]


def _expressions(claims: Sequence[PreparedClaim]) -> Iterator[str]:
    """Yields the selectors of the claims and of their classes."""
    requests = chain.from_iterable(claim.requests for claim in claims)
    for choice in chain.from_iterable(request.choices for request in requests):
        for condition in choice.conditions:
            yield condition.expression


def chosen_in(solution: Solution) -> Chosen:
    """Returns the names of the requests and alternatives that got devices, by claim."""
    return tuple({taken.choice.full_name for taken in claim[2]} for claim in solution.claims)

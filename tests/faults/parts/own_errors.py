"""Exceptions in the scheduler's own code: in a drawn function, at a drawn call of an attempt.

A function raises before it has done anything, or when it has ended. That is an attempt's failure in
the scheduling cycle until its pod is assumed, in Reserve and Permit, and in the binding cycle until
the pod is bound. What undoes or reports an attempt does not raise.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Final, NamedTuple

import pytest

from mooring.clock import Rng
from mooring.framework import Framework
from mooring.framework.equal_nodes import EqualNodes
from mooring.framework.runtime import (
    bind,
    post_filter,
    result_cache,
    scheduling_algorithm,
    score,
    with_extenders,
)
from mooring.framework.runtime import filter as filtering
from mooring.framework.runtime.attempt import Attempt
from mooring.framework.runtime.combined_results import CombinedCache
from mooring.framework.runtime.filter_results import FilterResults
from mooring.framework.runtime.result_cache import CachedResults, ResultCache
from mooring.framework.waiting_pods import WaitingPods
from mooring.scheduler import binding_cycle
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.binding_tasks import RequestInProgress as Request

SCHEDULING, BINDING = "scheduling cycle", "binding cycle"
#: Functions by their owner: a class or a module.
Functions = Sequence[tuple[Any, tuple[str, ...]]]
#: Those of attempts and bindings.
FUNCTIONS: Final[Functions] = (
    (scheduling_algorithm, ("schedule_pod",)),
    (
        filtering,
        (
            *("find_nodes_that_fit", "pre_filter", "_run_pre_filter", "try_nominated"),
            *("filter_nodes", "run_filters", "_cached_filter_results", "_nominated_rows"),
            *("_select_feasible", "_stop_index"),
        ),
    ),
    (score, ("select_host", "total_scores", "_placement")),
    (
        with_extenders,
        (
            *("schedule_pod", "_filter", "_visited", "_call_filters", "_rejections", "_record"),
            *("_validated_filter_result", "_select_host", "_call_prioritize", "_scores_of"),
            "still_fits",
        ),
    ),
    (post_filter, ("_run_plugins", "_with_message")),
    (Attempt, ("diagnosis", "included_rows")),
    (FilterResults, ("copy", "describe", "feasible_rows")),
    (Framework, ("status_of", "cached_results")),
    (
        bind,
        ("permit", "diagnosis_of", "pre_binders", "_pre_binders", "pre_bind", "bind", "_wait"),
    ),
    (WaitingPods, ("add",)),
    (binding_cycle, ("wait_on_permit", "expired_in_time")),
    (BindingTasks, ("request", "outside_request", "waiting_in_permit")),
    (Request, ("__aenter__",)),
)
#: Those that use cached results of plugins.
CACHED_FUNCTIONS: Final[Functions] = (
    (filtering, ("_run_pre_filter", "_cached_filter_results", "_run_uncached", "filter_one")),
    (score, ("pre_score", "_run_scorers", "score_one", "normalize_one")),
    (
        FilterResults,
        (
            *("copy", "set_codes", "set_code", "recompute_first", "set_first", "set_many"),
            *("_move_counts", "_own", "_translate", "_number", "describe"),
        ),
    ),
    (EqualNodes, ("results",)),
    (CombinedCache, ("of", "note")),
    (
        CachedResults,
        (
            *("refresh_filters", "refresh_scores", "_add_up", "_set_finals", "_changed"),
            "_update_first_rejections",
        ),
    ),
    (ResultCache, ("of",)),
    (result_cache, ("restored_results", "are_scores", "_rows_index")),
)
#: Reserve ends before it raises: an Unreserve without a Reserve is no difference otherwise.
RESERVE: Final = (bind, "reserve")
#: These are called in each attempt, or once its node is selected.
ALWAYS: Final = {(filtering, "pre_filter"), (bind, "permit"), (bind, "pre_binders"), (bind, "bind")}
#: Functions of a run that raise.
DRAWN: Final = 6
RATES: Final = (0.1, 0.3)
#: A third exception in a row would quarantine the pod.
RAISED_MAX: Final = 2


class OwnError(Exception):
    """Is raised by our own code, and expected nowhere."""


class Raised(NamedTuple):
    """An exception: what the failure of the attempt says, and the extension point it counts for."""

    text: str
    point: str


#: UID and cycle of the attempt of this task; None = nothing raises.
_attempt: Final = ContextVar[tuple[str, str] | None]("attempt", default=None)


class OwnErrors:
    """The functions of a run that raise.

    Attributes:
        is_passive: None raises any more.
        raised: UID -> what was raised in its attempt, which is to fail.
        fatal: Is raised next, whatever is drawn; None = nothing is.
        on_fatal: Called before that.
        on_raise: Called with the UID before any other exception.

    Args:
        rng: Draws the functions and the calls.
        patch: Undone at the end of the run.
        functions: Those of which some are drawn.
        rates: One of them is the share of calls that raise.
    """

    def __init__(
        self,
        rng: Rng,
        patch: pytest.MonkeyPatch,
        functions: Functions,
        rates: Sequence[float] = RATES,
    ) -> None:
        self.is_passive = False
        self.raised: dict[str, Raised] = {}
        self.fatal: Exception | None = None
        self.on_fatal: Callable[[], None] = lambda: None
        self.on_raise: Callable[[str], None] = lambda _: None
        self._rng, self._patch = rng, patch
        self._rate = rng.choice(rates)
        self._counts: Counter[str] = Counter()
        pool = [(owner, name) for owner, names in functions for name in names]
        for owner, name in rng.sample(pool, DRAWN):
            self.break_at(owner, name)

    def break_after(self, owner: Any, name: str) -> None:
        """Lets a function raise after it has run."""
        self._replace(owner, name, self._after)

    def break_at(self, owner: Any, name: str) -> None:
        """Lets a function raise, before or after it has run."""
        real = inspect.getattr_static(owner, name)
        is_awaited = inspect.iscoroutinefunction(inspect.unwrap(real))
        before = is_awaited or self._rng.random() < 0.5
        self._replace(owner, name, self._before if before else self._after)

    def break_always(self, error: Exception, on_raise: Callable[[], None]) -> None:
        """Lets a function raise an error at its next call that each attempt makes."""
        self.fatal, self.on_fatal = error, on_raise
        owner, name = self._rng.choice(sorted(ALWAYS, key=lambda pair: (pair[0].__name__, pair[1])))
        self._replace(owner, name, self._before)

    @contextmanager
    def attempt(self, uid: str, cycle: str) -> Iterator[None]:
        """Lets functions raise while the block runs; with "" for the cycle none does."""
        token = _attempt.set((uid, cycle) if cycle else None)
        try:
            yield
        finally:
            _attempt.reset(token)

    def _before(self, real: Any, name: str) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            self._raise(name)
            return real(*args, **named)

        return call

    def _after(self, real: Any, name: str) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            result = real(*args, **named)
            self._raise(name)
            return result

        return call

    def _raise(self, name: str) -> None:
        attempt = _attempt.get()
        if attempt is None:
            return
        if self.fatal is not None:
            self.on_fatal()
            raise self.fatal
        uid, cycle = attempt
        if self.is_passive or self._counts[uid] >= RAISED_MAX or self._rng.random() >= self._rate:
            return
        self._counts[uid] += 1
        text = f"injected failure in {name}"
        self.raised[uid] = Raised(f"{cycle}: OwnError: {text}", cycle.title().replace(" ", ""))
        self.on_raise(uid)
        raise OwnError(text)

    def _replace(self, owner: Any, name: str, wrapped: Callable[[Any, str], Any]) -> None:
        """Replaces a function, wherever it is used by its name."""
        static = inspect.getattr_static(owner, name)
        call = wrapped(static, name)
        self._patch.setattr(owner, name, call)
        for importer in importers(owner, name, static):
            self._patch.setattr(importer, name, call)


def importers(owner: Any, name: str, value: Any) -> list[ModuleType]:
    """Returns the modules of the scheduler that have imported a function by its name."""
    if not inspect.ismodule(owner):
        return []
    return [
        module
        for other, module in list(sys.modules.items())
        if other.startswith("mooring.") and getattr(module, name, None) is value
    ]

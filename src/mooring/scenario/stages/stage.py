"""A stage that was read: which objects it is for, when it comes, and what it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from mooring.clock import Rng
from mooring.config.durations import duration_text, parse_duration_s
from mooring.scenario.stages.queries import Query
from mooring.scenario.stages.templates import Template

#: An object as JSON.
View = Mapping[str, Any]
IN, NOT_IN, EXISTS, NOT_EXISTS = "In", "NotIn", "Exists", "DoesNotExist"
#: A longer delay, of an annotation, never ends.
_DELAY_S_MAX: Final = 100 * 365 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition of the results of a query."""

    query: Query
    operator: str
    values: tuple[str, ...]

    def matches(self, view: View) -> bool:
        """Returns whether an object meets it."""
        results = self.query.values(view) or ()
        if self.operator in (IN, NOT_IN):
            has_value = any(_comparable(result) in self.values for result in results)
            return has_value is (self.operator == IN)
        is_there = any(result is not None for result in results)
        return is_there is (self.operator == EXISTS)


def _comparable(value: Any) -> str | None:
    """Returns a value as requirements have it; None = it equals none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None


@dataclass(frozen=True, slots=True)
class Time:
    """A time: that of a query, or else a fixed one; None = there is none."""

    query: Query | None
    fixed_s: float | None

    @property
    def text(self) -> str:
        """The time in words."""
        fixed = "" if self.fixed_s is None else duration_text(self.fixed_s)
        if self.query is None:
            return fixed
        return f"{self.query.text} or {fixed}" if fixed else self.query.text

    def seconds(self, view: View, wall_s: float) -> float | None:
        """Returns it for an object; a date of the object counts from now on."""
        results = self.query.values(view) if self.query is not None else ()
        if results and isinstance(results[0], str):
            if not results[0]:
                return None
            seconds = _seconds(results[0], wall_s)
            if seconds is not None:
                return seconds
        return self.fixed_s


def _seconds(text: str, wall_s: float) -> float | None:
    """Returns a duration, or the time until a date; None = it is neither."""
    try:
        return parse_duration_s(text)
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return date.timestamp() - wall_s if date.tzinfo is not None else None


@dataclass(frozen=True, slots=True)
class StageEvent:
    """An event about the object of a stage.

    Attributes:
        type: Normal or Warning.
        reason: In CamelCase.
        message: For users.
    """

    type: str
    reason: str
    message: Template


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that a stage does.

    Attributes:
        template: Of the status; None = it stays.
        empties, removes, adds: Changes of the finalizers.
        deletes: Whether the object is deleted.
        event: What is recorded on an API server; a simulation has no events.
    """

    template: Template | None = None
    empties: bool = False
    removes: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()
    deletes: bool = False
    event: StageEvent | None = None

    def finalizers_after(self, finalizers: Sequence[str]) -> list[str]:
        """Returns the finalizers that an object has afterwards."""
        before = () if self.empties else finalizers
        remaining = [name for name in before if name not in self.removes]
        return [*remaining, *(name for name in self.adds if name not in remaining)]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage.

    Attributes:
        name: Of the stage.
        kind: Pod or Node.
        labels, annotations: What the object must have.
        requirements: What must hold.
        weight: Among several stages.
        weight_query: Instead of the weight, if it has a result.
        delay: The time before it; None = it comes at once.
        jitter: The longest time before it; None = the delay.
        effects: What it does, in order.
        where: Its file and line, for errors.
    """

    name: str
    kind: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    requirements: Sequence[Requirement]
    weight: int
    weight_query: Query | None
    delay: Time | None
    jitter: Time | None
    effects: Sequence[Effect]
    where: str = ""

    @property
    def text(self) -> str:
        """The stage in words: what it is for, when it comes, and what it does."""
        if not self.kind:
            return "for no object"
        parts = [
            *("sets the status" for effect in self.effects if effect.template is not None),
            *("deletes" for _ in range(self.deletes)),
        ]
        when = "at once" if self.delay is None else f"after {self.delay.text}"
        until = "" if self.jitter is None else f" to {self.jitter.text}"
        return f"{self.kind}, {when}{until}: {', '.join(parts) or 'changes finalizers'}"

    @property
    def deletes(self) -> bool:
        """True if it deletes its object."""
        return any(effect.deletes for effect in self.effects)

    def matches(self, view: View) -> bool:
        """Returns whether an object is in the state that the stage begins with."""
        metadata = view.get("metadata") or {}
        for required, name in ((self.labels, "labels"), (self.annotations, "annotations")):
            own = metadata.get(name) or {}
            if any(own.get(key) != value for key, value in required.items()):
                return False
        return all(requirement.matches(view) for requirement in self.requirements)

    def weight_of(self, view: View) -> int | None:
        """Returns the weight for an object; None = its query has a result that is no number."""
        results = self.weight_query.values(view) if self.weight_query is not None else ()
        if not results:
            return self.weight
        first = results[0]
        if isinstance(first, str):
            try:
                return max(0, int(first, 0))
            except ValueError:
                return None
        if isinstance(first, int | float) and not isinstance(first, bool):
            return max(0, int(first))
        return self.weight

    def delay_s(self, view: View, wall_s: float, rng: Rng) -> float:
        """Returns the time before the stage.

        Source: KWOK's pkg/utils/lifecycle/lifecycle.go (Stage.Delay).
        """
        delay_s = None if self.delay is None else self.delay.seconds(view, wall_s)
        if delay_s is None:
            return 0.0
        jitter_s = None if self.jitter is None else self.jitter.seconds(view, wall_s)
        if jitter_s is not None:
            # A jitter below the delay is the delay.
            is_range = jitter_s > delay_s
            delay_s = delay_s + rng.random() * (jitter_s - delay_s) if is_range else jitter_s
        return min(max(0.0, delay_s), _DELAY_S_MAX)


def chosen(stages: Sequence[Stage], view: View, rng: Rng) -> tuple[Stage | None, bool]:
    """Returns the stage that an object enters next, and whether no other one could have been.

    Stages without weights are equally likely; else each is as likely as its weight.

    Source: KWOK's pkg/utils/lifecycle/lifecycle.go (Lifecycle.Match).
    """
    matching = [stage for stage in stages if stage.matches(view)]
    if len(matching) < 2:
        return (matching[0] if matching else None), True
    weights = [stage.weight_of(view) for stage in matching]
    if any(weights):
        likely = [(stage, own) for stage, own in zip(matching, weights, strict=True) if own]
    else:
        weighted = [s for s, own in zip(matching, weights, strict=True) if own is not None]
        likely = [(stage, 1) for stage in weighted or matching]
    if len(likely) == 1:
        return likely[0][0], True
    at = rng.random() * sum(own for _, own in likely)
    for stage, own in likely:
        at -= own
        if at < 0:
            return stage, False
    return likely[-1][0], False

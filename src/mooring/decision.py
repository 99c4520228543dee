"""The record of one scheduling attempt, for users, recordings and comparisons.

A ``Decision`` is built only on demand. Its JSON form is that of the recordings
(``tests/parity/data/README.md``): what a recording leaves out is left out here as well, so a
recorded decision that is read and written again stays the same. Below the line come fields of our
own; they are absent when there is nothing to say.

Not here: making decisions (framework), explaining (explain) and comparing (recordings) them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mooring.errors import ConfigError
from mooring.objects.codec.decode import reworded

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
GATED: Final = "gated"
ERROR: Final = "error"
RESULTS: Final = (SCHEDULED, UNSCHEDULABLE, GATED, ERROR)

NOMINATED: Final = "nominated"
BATCHED: Final = "batched"
FIRST: Final = "first"
UNORDERED: Final = "unordered"
CHOICES: Final = (NOMINATED, BATCHED, FIRST, UNORDERED)

#: How PreFilter's narrowing begins its texts: for a pod without nodes, for a node left out.
#: Source: kubernetes pkg/scheduler/schedule_one.go, findNodesThatFitPod.
NOT_SATISFIED: Final = "node(s) didn't satisfy plugin"
LEFT_OUT_PREFIX: Final = f"{NOT_SATISFIED}(s) ["

Scores = dict[str, dict[str, int]]


class Rejection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rejection of a node or of all nodes: plugin, status code and reasons.

    ``plugin`` holds several names joined by "," where PreFilter plugins left a node out together;
    ``reasons`` is sorted.
    """

    plugin: str
    code: str
    reasons: tuple[str, ...]

    @property
    def plugins(self) -> tuple[str, ...]:
        """The names in ``plugin``, split."""
        return tuple(self.plugin.split(","))

    @property
    def is_left_out(self) -> bool:
        """True if PreFilter excluded the node, so that no Filter plugin ran on it."""
        return any(reason.startswith(LEFT_OUT_PREFIX) for reason in self.reasons)


class PreemptionCandidate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pods that would have to leave one node (sorted), and how many of them a budget holds."""

    victims: tuple[str, ...]
    pdb_violations: int


class Preemption(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of preemption; ``nominated`` is None if it did not help."""

    nominated: str | None
    victims: tuple[str, ...]
    candidates: dict[str, PreemptionCandidate]
    acceptable: tuple[str, ...]


class ExtenderCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The response of one extender: rejected nodes, scores before the weight, its error."""

    url: str
    rejected: dict[str, str] = {}
    scores: dict[str, int] = {}
    error: str = ""


class Decision(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One attempt at one pod, as a recording writes it.

    Every score is an integer; ``scores`` is after normalizing and before the weight (0..100),
    ``total`` is the sum of score x weight. ``raw``, ``scores`` and ``total`` are None when nothing
    was scored, which is not the same as empty.

    Example:
        >>> decision = decode_decision(
        ...     b'{"result": "scheduled", "node": "a", "tied": ["a"], "rejected": {},'
        ...     b' "unschedulable_plugins": [], "pending_plugins": []}')
        >>> decision.node, decision.scores
        ('a', None)
    """

    result: str
    node: str | None
    tied: tuple[str, ...]
    rejected: dict[str, Rejection]
    unschedulable_plugins: tuple[str, ...]
    pending_plugins: tuple[str, ...]
    choice: str | None = None
    prefilter: Rejection | None = None
    scores: Scores | None = None
    raw: Scores | None = None
    total: dict[str, int] | None = None
    reason: str | None = None
    message: str | None = None
    preemption: Preemption | None = None
    nominated_node_after: str | None = None
    # ---- our own, absent from kube-scheduler's recordings ----
    #: Stage -> seconds.
    durations_s: dict[str, float] = {}
    #: How many nodes were looked at, if the walk stopped before it had seen all.
    sampled: int | None = None
    #: The whole text of what went wrong, when ``result`` is "error" and ``message`` had to be cut.
    error: str | None = None
    extenders: tuple[ExtenderCall, ...] = ()

    @property
    def passed(self) -> tuple[str, ...] | None:
        """The nodes that were scored, or None where the record does not list them."""
        return None if self.total is None else tuple(self.total)


def encode_decision(decision: Decision) -> bytes:
    """Returns the JSON of a decision, fields in the order of the struct, without absent ones."""
    return msgspec.json.encode(decision)


def decode_decision(data: bytes | str | msgspec.Raw, *, file: str | None = None) -> Decision:
    """Decodes a decision, and validates it with ``check_decision``.

    Raises:
        ConfigError: the JSON is broken, a field is unknown, missing or of another type, or the
            fields contradict each other.
    """
    try:
        decision = msgspec.json.decode(data, type=Decision)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_json(error, file=file) from error
    check_decision(decision, file=file)
    return decision


def check_decision(decision: Decision, *, file: str | None = None, path: str = "") -> None:
    """Validates that the fields of a decision do not contradict each other.

    Raises:
        ConfigError: an unknown ``result`` or ``choice``, a node without "scheduled" or the other
            way round, a node outside ``tied``, a node both refused and scored, a node with a
            total that a plugin has not scored.
    """
    problem = _contradiction(decision)
    if problem is None:
        return
    field, text, value = problem
    raise ConfigError(text, file=file, path=f"{path}.{field}" if path else field, value=value)


def _contradiction(decision: Decision) -> tuple[str, str, Any] | None:
    if decision.result not in RESULTS:
        return "result", f"must be one of {', '.join(RESULTS)}", decision.result
    if decision.choice is not None and decision.choice not in CHOICES:
        return "choice", f"must be one of {', '.join(CHOICES)}", decision.choice
    if (decision.result == SCHEDULED) != (decision.node is not None):
        return "node", f'does not go with the result "{decision.result}"', decision.node or "null"
    if decision.node is not None and decision.node not in decision.tied:
        return "tied", "must hold the chosen node", list(decision.tied)
    if decision.node is not None and decision.node in decision.rejected:
        return "rejected", "holds the chosen node", decision.node
    for node in decision.total or ():
        if node in decision.rejected:
            return "total", "holds a node that was rejected", node
    if decision.total:
        for plugin, by_node in (decision.scores or {}).items():
            if by_node and not decision.total.keys() <= by_node.keys():
                unscored = next(node for node in decision.total if node not in by_node)
                return f"scores.{plugin}", "has no score for a node that has a total", unscored
    return None


def bad_json(error: Exception, *, file: str | None, path: str = "") -> ConfigError:
    """Returns a ConfigError for msgspec's error, its ``$.a.b`` path without the ``$``."""
    problem, marker, where = str(error).partition(" - at `$")
    inside = where.rstrip("`") if marker else ""
    full_path = (path + inside).lstrip(".")
    return ConfigError(reworded(problem), file=file, path=full_path or None)

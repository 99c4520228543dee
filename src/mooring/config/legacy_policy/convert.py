"""From a legacy Policy to a KubeSchedulerConfiguration that decides as it did.

::

    predicates ──▶ what filters: what the file leaves out is switched off at its points
    priorities ──▶ what scores: everything is switched off, and the listed ones on again
    extenders  ──▶ the same, in today's spelling

A list that is missing means the defaults, and says nothing in the result either; an empty list
means none, but for the two predicates that always ran. What came after the Policy (scheduling
gates, devices, declared features) runs as it does by default. What has no successor is left out,
with a note that says what to use.

Source: createFromConfig in pkg/scheduler/factory.go and framework/plugins/legacy_registry.go beside
it, of Kubernetes v1.22, the last version that read a Policy.
Differs: the defaults of a missing list are today's, and so are the order of filters and the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from mooring.config import strict
from mooring.config.durations import duration_text
from mooring.config.field_errors import FieldError
from mooring.config.legacy_policy.checks import kind_errors, policy_errors, type_error
from mooring.config.legacy_policy.names import (
    GONE_ARGUMENTS,
    GONE_PREDICATES,
    MANDATORY,
    MOVED_PREDICATES,
    PREDICATES,
)
from mooring.config.legacy_policy.scores import Scores, score_points, scores
from mooring.config.legacy_policy.types import (
    KIND,
    LegacyExtender,
    Note,
    Policy,
    Predicate,
    as_written,
    named,
)
from mooring.config.load import build, located_errors, only_document
from mooring.config.plugin_defaults import DEFAULT_PLUGINS, POINTS
from mooring.config.plugin_sets import camel
from mooring.config.types import API_VERSION, DEFAULT_SCHEDULER_NAME
from mooring.config.types import KIND as CONFIGURATION
from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.files.documents import lines_of, path_text

_NS_PER_S = 10**9
#: Where a plugin works that a predicate stood for.
_FILTERING = ("pre_filter", "filter", "reserve", "pre_bind")
_HARD_AFFINITY_WEIGHT_DEFAULT = 1


class ConvertedPolicy(NamedTuple):
    """The result of a conversion.

    Attributes:
        document: A KubeSchedulerConfiguration, saying only what differs from the defaults.
        notes: What is gone or means something else now, each with file, line and path.
    """

    document: dict[str, Any]
    notes: tuple[str, ...]


class _Filters(NamedTuple):
    """Filter plugins of the predicates (None: the defaults), and node labels."""

    plugins: frozenset[str] | None = None
    labels: tuple[tuple[str, bool], ...] = ()


def convert_policy(data: bytes | str, *, file: str | None = None) -> ConvertedPolicy:
    """Returns the KubeSchedulerConfiguration that does what a Policy, YAML or JSON, did.

    Args:
        data: The text.
        file: Its name for errors and notes.

    Raises:
        ConfigFaults: It says what no kube-scheduler took; it holds every fault, with its line.
        ConfigError: It is not one YAML or JSON document.

    Example:
        >>> text = "{apiVersion: v1, kind: Policy, hardPodAffinitySymmetricWeight: 10}"
        >>> convert_policy(text).document["profiles"][0]["pluginConfig"]
        [{'name': 'InterPodAffinity', 'args': {'hardPodAffinityWeight': 10}}]
    """
    try:
        value = only_document(data, kind=KIND)
    except ConfigError as error:
        raise error.located(file=file) from None
    notes: list[Note] = []
    result = _convert(value, notes)
    if isinstance(result, dict):
        named_notes = [Note(as_written(note.path, value), note.text) for note in notes]
        return ConvertedPolicy(result, tuple(map(str, _located_notes(named_notes, data, file))))
    errors = [
        FieldError(as_written(error.path, value), error.problem, error.value, error.suggestion)
        for error in result
    ]
    raise ConfigErrors(located_errors(errors, data, file))


def _convert(value: Any, notes: list[Note]) -> dict[str, Any] | list[FieldError]:
    errors = kind_errors(value)
    if errors:
        return errors
    canonical = named(value, errors, notes)
    plain = strict.checked(canonical, Policy, (), errors)
    if errors:
        return [type_error(error) for error in errors]
    policy: Policy = strict.build(plain, Policy)
    if errors := policy_errors(policy):
        return errors
    document = _document(policy, plain, notes)
    result = build(document)
    return list(result) if isinstance(result, list) else document


def _document(policy: Policy, plain: dict[str, Any], notes: list[Note]) -> dict[str, Any]:
    filters = _filters(policy.predicates, notes)
    scored = scores(policy.priorities, notes)
    plugins = {**_filter_points(filters), **score_points(scored)}
    plugin_config = _plugin_config(policy, filters, scored, notes)
    if policy.always_check_all_predicates:
        text = (
            "gone: a node's reason is the first refusal; `mooring explain` shows that of every node"
        )
        notes.append(Note(("alwaysCheckAllPredicates",), text))
    document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": CONFIGURATION}
    profile = {"plugins": plugins, "pluginConfig": plugin_config}
    entry = {key: item for key, item in profile.items() if item}
    if entry:
        document["profiles"] = [{"schedulerName": DEFAULT_SCHEDULER_NAME, **entry}]
    extenders = [
        _extender(extender, plain["extenders"][i], i, notes)
        for i, extender in enumerate(policy.extenders)
    ]
    if extenders:
        document["extenders"] = extenders
    return document


# ---------------------------------------------------------------- predicates


def _filters(predicates: tuple[Predicate, ...] | None, notes: list[Note]) -> _Filters:
    if predicates is None:
        return _Filters()
    plugins = set(MANDATORY)
    labels: list[tuple[str, bool]] = []
    for i, predicate in enumerate(predicates):
        name, argument = predicate.name, predicate.argument
        path = ("predicates", i)
        if name in PREDICATES:
            plugins.update(PREDICATES[name])
            if name in MOVED_PREDICATES:
                notes.append(Note(path, f"{name} is gone: {MOVED_PREDICATES[name]}"))
            if argument is not None:
                text = f"{name} takes no argument: left out, as kube-scheduler did"
                notes.append(Note(path, text))
        elif argument is None:
            notes.append(Note(path, f"{name} is gone: {GONE_PREDICATES[name]}"))
        elif argument.labels_presence is not None:
            presence = argument.labels_presence
            labels.extend((label, presence.presence) for label in presence.labels)
            if name in GONE_PREDICATES:
                text = f"the last kube-schedulers left the argument out under the name {name}"
                notes.append(Note(path, text))
        else:
            text = f"serviceAffinity is gone: {GONE_ARGUMENTS['serviceAffinity']}"
            notes.append(Note(path, text))
    if labels and "NodeAffinity" not in plugins:
        plugins.add("NodeAffinity")
        text = "the labels are checked by NodeAffinity, which sees to the pods' nodeSelector too"
        notes.append(Note(("predicates",), text))
    missing = _missing(plugins)
    if missing:
        text = f"as before, nothing is filtered by what is not listed: {', '.join(missing)}"
        notes.append(Note(("predicates",), text))
    return _Filters(frozenset(plugins), tuple(labels))


def _filter_points(filters: _Filters) -> dict[str, Any]:
    """Switches off, wherever a predicate's plugin works, those that no predicate names."""
    if filters.plugins is None:
        return {}
    missing = _missing(filters.plugins)
    points = {}
    for point in _FILTERING:
        disabled = [{"name": name} for name in missing if point in POINTS[name]]
        if disabled:
            points[camel(point)] = {"disabled": disabled}
    return points


def _missing(plugins: Iterable[str]) -> list[str]:
    """Plugins that predicates can stand for and that are not among ``plugins``."""
    disabled_names = {plugin for names in PREDICATES.values() for plugin in names}
    return [name for name in DEFAULT_PLUGINS if name in disabled_names and name not in plugins]


# ---------------------------------------------------------------- arguments and extenders


def _plugin_config(
    policy: Policy, filters: _Filters, scored: Scores, notes: list[Note]
) -> list[dict[str, Any]]:
    args: dict[str, dict[str, Any]] = {}
    hard_weight = policy.hard_pod_affinity_symmetric_weight
    if hard_weight and scored.weights is not None and "InterPodAffinity" not in scored.weights:
        text = "left out: without InterPodAffinityPriority it had no effect"
        notes.append(Note(("hardPodAffinitySymmetricWeight",), text))
    elif hard_weight not in (0, _HARD_AFFINITY_WEIGHT_DEFAULT):
        args["InterPodAffinity"] = {"hardPodAffinityWeight": hard_weight}
    if filters.labels:
        expressions = [
            {"key": label, "operator": "Exists" if presence else "DoesNotExist"}
            for label, presence in dict(filters.labels).items()
        ]
        required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        args["NodeAffinity"] = {"addedAffinity": affinity}
    if scored.strategy:
        args["NodeResourcesFit"] = {"scoringStrategy": scored.strategy}
    if not scored.has_default_spread:
        args["PodTopologySpread"] = {"defaultingType": "List"}
    return [{"name": name, "args": item} for name, item in args.items()]


def _extender(
    extender: LegacyExtender, plain: dict[str, Any], position: int, notes: list[Note]
) -> dict[str, Any]:
    """Returns an extender in today's spelling; what is false, 0 or empty is left out."""
    path = ("extenders", position)
    made = {key: item for key, item in plain.items() if item}
    made.pop("enableHttps", None)
    if made.pop("httpTimeout", None):
        made["httpTimeout"] = duration_text(extender.http_timeout_ns / _NS_PER_S)
    if not extender.enable_https:
        return made
    made["enableHTTPS"] = True
    tls = extender.tls_config
    if tls is None or not (tls.insecure or tls.ca_file or tls.ca_data):
        made["tlsConfig"] = {**made.get("tlsConfig", {}), "insecure": True}
        text = "HTTPS without a CA took every certificate; insecure: true says so. Better: a caFile"
        notes.append(Note(path, text))
    return made


def _located_notes(notes: list[Note], data: bytes | str, file: str | None) -> Iterator[ConfigError]:
    """Yields notes with file and line, like errors."""
    lines = lines_of(data, [(1, note.path) for note in notes])
    for note, line in zip(notes, lines, strict=True):
        path = path_text(note.path) or None
        yield ConfigError(note.text, file=file, line=line if path else None, path=path)

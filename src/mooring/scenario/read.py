"""From a scenario file to a scenario: strict, and every error with its line.

A Scenario of kube-scheduler-simulator is read by ``scenario.steps``.

::

    file ──strict──▶ Document ──resolve──▶ Scenario
         (unknown fields, types)   (distributions, processes, objects, traces, plugins)
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from mooring.apiserver.registry.existing_objects import ExistingObjects
from mooring.apiserver.resources import RESOURCES
from mooring.chance import Distribution
from mooring.config import load
from mooring.config.field_errors import FieldError
from mooring.config.strict import nearest
from mooring.config.strict_document import read_strict
from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.codec.decode import to_builtins
from mooring.objects.files.documents import Path
from mooring.objects.files.paths import Text
from mooring.objects.files.reader import Objects, read_values
from mooring.objects.files.sources import iter_values
from mooring.objects.node import Node
from mooring.objects.types import Object
from mooring.scenario import scenario as resolved
from mooring.scenario.autoscaler import EXPANDERS, unknown_expanders
from mooring.scenario.document import (
    API_VERSION,
    KIND,
    Document,
    NodeGroup,
    PodDefaults,
)
from mooring.scenario.expectations import Expectation, expectations_of
from mooring.scenario.item_reader import (
    ItemReader,
    TimeReader,
    notes_of_traces,
    run_time_errors,
)
from mooring.scenario.measures import measure_names
from mooring.scenario.object_reader import ObjectReader, named_node
from mooring.scenario.scenario import FOR_EVER, RunTime, Scenario
from mooring.scenario.stages.reading import read_stages
from mooring.scenario.steps.reading import first_document, is_of_simulator, scenario_of_steps
from mooring.simulation.utilization import ResourceNames
from mooring.simulation.workload import workload_of
from mooring.traces.openb import OPENB_PREFIX, read_nodes

#: Of a node for an hour.
PRICE_MAX: Final = 1e12
_KINDS_OF_CLUSTERS: Final = frozenset({"List", *(resource.kind for resource in RESOURCES)})
#: Kinds of the cluster that pods of the workload refer to by name.
_REFERRED_KINDS: Final = ("PriorityClass", "RuntimeClass", "StorageClass")


def read_scenario(
    path: str | os.PathLike[str], *, seed: int | None = None, stages: Sequence[str] = ()
) -> Scenario:
    """Reads a scenario file.

    Args:
        path: The file, YAML or JSON; names of files in it are relative to its folder.
        seed: Instead of the file's.
        stages: Files of KWOK's stages, besides the file's; relative to the current folder.

    Raises:
        ConfigError: it cannot be read, or says what cannot be run; ``ConfigErrors`` if there are
            several errors.
    """
    name = os.fspath(path)
    folder = os.path.dirname(name) or "."
    return read_scenario_text(Text(name), folder=folder, seed=seed, stages=stages)


def read_scenario_text(
    text: Text, *, folder: str = ".", seed: int | None = None, stages: Sequence[str] = ()
) -> Scenario:
    """Reads a scenario from text; names of files in it are relative to ``folder``.

    Raises:
        ConfigError: as ``read_scenario``.
    """
    if is_of_simulator(text.read()):
        return scenario_of_steps(text, seed, read_stages(stages))
    check_holds_scenario(text)
    read = read_strict(text, Document, api_version=API_VERSION, kind=KIND)
    scenario = _Reading(read.document, text, folder, read.errors).scenario(read.value, seed, stages)
    read.raise_errors()
    return scenario


def check_holds_scenario(text: Text) -> None:
    """Refuses a file of a cluster's objects.

    Raises:
        ConfigError: the first document is an object of Kubernetes.
    """
    try:
        value = first_document(text.read())
    except (ConfigError, StopIteration):
        return
    if not isinstance(value, dict):
        return
    kind = value.get("kind")
    if isinstance(kind, str) and kind in _KINDS_OF_CLUSTERS:
        problem = f'must be "{KIND}"; for objects of a cluster there is --cluster'
        raise ConfigError(problem, file=text.name, path="kind", value=kind)


class _Reading:
    """Resolves a document; errors are collected."""

    def __init__(
        self, document: Document, text: Text, folder: str, errors: list[FieldError]
    ) -> None:
        self._document = document
        self._spec = document.spec
        self._text = text
        self._errors = errors
        self._folder = folder
        self._objects = ObjectReader(text, errors)
        self._times = TimeReader(errors, self._folder)

    def scenario(self, value: Object, seed: int | None, stage_files: Sequence[str]) -> Scenario:
        """Returns the scenario; it means nothing if there are errors."""
        spec, errors = self._spec, self._errors
        own_files = [os.path.join(self._folder, file) for file in spec.stages]
        stages = read_stages([*own_files, *stage_files])
        if any(stage.kind == "Pod" for stage in stages.stages):
            errors += run_time_errors(spec)
        defaults = self._defaults(spec.pods, ("spec", "pods"))
        cluster = self._cluster_objects()
        workload = workload_of("", cluster)
        items_reader = ItemReader(errors, self._objects, self._times)
        groups = [
            self._group(group, ("spec", "cluster", "groups", at))
            for at, group in enumerate(spec.cluster.groups)
        ]
        items = [
            item
            for at, raw in enumerate(spec.workload)
            if (item := items_reader.item(raw, ("spec", "workload", at), defaults)) is not None
        ]
        self._check_names()
        for name in unknown_expanders(spec.autoscaler.expander):
            path = ("spec", "autoscaler", "expander")
            self._errors.append(
                FieldError(path, "unknown expander", name, nearest(name, [*EXPANDERS]))
            )
        failures = [
            self._failures(at, ("spec", "failures", at)) for at in range(len(spec.failures))
        ]
        nodes = [obj for obj in cluster if isinstance(obj, Node)]
        expectations = expectations_of(spec.expect, ("spec", "expect"), errors)
        self._check_measures(expectations, [*nodes, *(group.template for group in groups)])
        return Scenario(
            name=self._document.metadata.name or os.path.basename(self._text.name),
            seed=spec.seed if seed is None else seed,
            end_s=self._end(items),
            objects=workload.objects,
            pending=workload.pending,
            controlled=cluster.workloads,
            groups=groups,
            prices={
                **{nodes.name: nodes.price for nodes in spec.cluster.nodes},
                **{f"{group.name}-": group.price for group in spec.cluster.groups},
            },
            autoscaler=spec.autoscaler,
            items=items,
            defaults=defaults,
            failures=failures,
            config=self._config(),
            plugins=spec.scheduler.plugins,
            gates=spec.scheduler.feature_gates,
            attempt_s=self._attempt_s(),
            expectations=expectations,
            source=value,
            notes=[*notes_of_traces(items, stages.stages), *stages.notes_of_simulation],
            stages=stages.stages,
        )

    def _error(self, path: Path, problem: str, value: Any = None) -> None:
        self._errors.append(FieldError(path, problem, value))

    def _check_measures(self, expectations: list[Expectation], nodes: list[Node]) -> None:
        """Reports expectations that name no measure."""
        resources = {name: None for node in nodes for name in node.status.allocatable}
        names = measure_names(ResourceNames(resources).short(name) for name in resources)
        for item in expectations:
            if item.measure not in names and not item.measure.startswith("refused."):
                near = nearest(item.measure, names)
                problem = "unknown measure; docs/reference/measures.md has all"
                self._errors.append(FieldError(item.path, problem, None, near))

    # -- cluster ----------------------------------------------------------------------------------

    def _cluster_objects(self) -> Objects:
        cluster = self._spec.cluster
        nodes: list[Any] = []
        files = []
        for at, file in enumerate(cluster.files):
            if file.startswith(OPENB_PREFIX):
                nodes += self._openb_nodes(file, at)
            else:
                files.append(os.path.join(self._folder, file))
        try:
            objects = read_values(iter_values(files), validator=ExistingObjects())
        except ConfigErrors:
            raise
        except ConfigError as error:
            if error.file is not None and error.line is not None:
                raise  # it is in that file
            self._error(("spec", "cluster", "files"), error.problem, error.file)
            objects = Objects()
        for at, entry in enumerate(cluster.nodes):
            path = ("spec", "cluster", "nodes", at)
            node = self._objects.node(entry.template, (*path, "template"))
            if not entry.name:
                self._error((*path, "name"), "must not be empty", entry.name)
            self._check_price(entry.price, path)
            nodes += [named_node(node, f"{entry.name}{number}") for number in range(entry.count)]
        own = [obj.metadata.name for obj in [*nodes, *objects] if isinstance(obj, Node)]
        twice = next((name for name, count in sorted(Counter(own).items()) if count > 1), None)
        if twice is not None:
            self._error(("spec", "cluster"), "has two nodes with one name", twice)
        self._check_groups(own)
        if not own and not cluster.groups:
            self._error(("spec", "cluster"), "has no nodes: give files, nodes or groups")
        self._objects.context = [
            {**to_builtins(obj), "kind": type(obj).__name__}
            for obj in objects
            if type(obj).__name__ in _REFERRED_KINDS
        ]
        merged = Objects([*nodes, *objects])
        merged.workloads, merged.skipped = objects.workloads, objects.skipped
        return merged

    def _openb_nodes(self, file: str, at: int) -> list[Node]:
        try:
            return read_nodes(file.removeprefix(OPENB_PREFIX))
        except ConfigError as error:
            self._error(("spec", "cluster", "files", at), error.problem, file)
            return []

    def _group(self, group: NodeGroup, path: Path) -> resolved.NodeGroup:
        if group.min > group.max:
            self._error((*path, "min"), f"must be at most max ({group.max})", group.min)
        if not group.name:
            self._error((*path, "name"), "must not be empty", group.name)
        self._check_price(group.price, path)
        return resolved.NodeGroup(
            name=group.name,
            template=self._objects.node(group.template, (*path, "template")),
            min=group.min,
            max=group.max,
            price=group.price,
            provision=self._times.distribution(group.provision, (*path, "provision")),
            priority=group.priority,
        )

    def _check_price(self, price: float, path: Path) -> None:
        if not 0 <= price <= PRICE_MAX:
            self._error((*path, "price"), f"must be from 0 to {PRICE_MAX:g}", price)

    def _check_groups(self, nodes: Sequence[str]) -> None:
        """Reports groups with one name, and nodes with the name of a group's node."""
        names: dict[str, int] = {}
        for at, group in enumerate(self._spec.cluster.groups):
            path = ("spec", "cluster", "groups", at, "name")
            if names.setdefault(group.name, at) != at:
                first = f"is the name of groups[{names[group.name]}], too"
                self._error(path, first, group.name)
            own = re.compile(re.escape(group.name) + "-[0-9]+")
            taken = next((name for name in nodes if own.fullmatch(name)), None)
            if taken is not None:
                self._error(path, f"would give a node the name of {taken}", group.name)

    def _check_names(self) -> None:
        names: dict[str, int] = {}
        for at, item in enumerate(self._spec.workload):
            if item.name and names.setdefault(item.name, at) != at:
                first = f"is the name of workload[{names[item.name]}], too"
                self._error(("spec", "workload", at, "name"), first, item.name)

    # -- times ------------------------------------------------------------------------------------

    def _defaults(self, pods: PodDefaults, path: Path) -> RunTime:
        duration: Distribution = FOR_EVER
        if pods.duration is not None:
            duration = self._times.distribution(pods.duration, (*path, "duration"))
        start = self._times.distribution(pods.start, (*path, "start"))
        return RunTime(start, duration, self._times.share(pods.failure, (*path, "failure")))

    def _failures(self, at: int, path: Path) -> resolved.FailureProcess:
        failures = self._spec.failures[at]
        times = []
        for name in ("mtbf", "mttr"):
            value = getattr(failures, name)
            if not isinstance(value, dict):
                value = {"exponential": {"mean": value}}
            times.append(self._times.distribution(value, (*path, name)))
        nodes = resolved.NodeSelection("", failures.match_labels)
        name = failures.name or f"failures-{at}"
        return resolved.FailureProcess(name, nodes, times[0], times[1], failures.together)

    def _end(self, items: Iterable[Any]) -> float | None:
        """Returns the end; what never ends needs one."""
        end, path = self._spec.end, ("spec", "end")
        if end.after not in (None, "settled"):
            self._error((*path, "after"), 'must be "settled"', end.after)
        if end.at is not None:
            if end.after is not None:
                self._error(path, "must have one of at and after")
            if end.at <= 0:
                self._error((*path, "at"), "must be above 0s", end.at)
            return end.at
        for reason in self._endless(items):
            self._error((*path, "at"), f"is required: {reason}")
        return None

    def _endless(self, items: Iterable[Any]) -> Iterator[str]:
        for item in items:
            if isinstance(item, resolved.ArrivalItem) and item.arrivals.is_endless:
                yield f"the arrivals of {item.name} have no end"
        if self._spec.failures:
            yield "failures go on for ever"

    # -- scheduler --------------------------------------------------------------------------------

    def _attempt_s(self) -> float:
        scheduler, path = self._spec.scheduler, ("spec", "scheduler")
        rate = scheduler.pods_per_second
        if rate is not None and scheduler.attempt_time is not None:
            self._error(path, "must have one of attemptTime and podsPerSecond")
        if rate is not None:
            if rate <= 0:
                self._error((*path, "podsPerSecond"), "must be above 0", rate)
                return 0.0
            return 1.0 / rate
        return scheduler.attempt_time or 0.0

    def _config(self) -> Any:
        file = self._spec.scheduler.config
        return load(os.path.join(self._folder, file)) if file else None

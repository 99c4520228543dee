"""Scenarios from Python: read or written as values, run with seeds and configurations."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import msgspec

from mooring.config import KubeSchedulerConfiguration, from_document, load
from mooring.experiments.report_of_folders import folders_report
from mooring.experiments.result_folders import StoredRun, StoredSweep, read_folder
from mooring.files import write_text
from mooring.objects.files.paths import Text
from mooring.scenario.document import API_VERSION, KIND
from mooring.scenario.read import read_scenario_text
from mooring.scenario.results import Result, write_results
from mooring.scenario.run import ScenarioRun
from mooring.scenario.scenario import Scenario as ResolvedScenario
from mooring.scenario.show import shown
from mooring.scenario.text import result_text
from mooring.study.table import Table

#: Stands for the text of a file among the fields of a scenario.
_TEXT: Final = "<text>"


class Scenario:
    """A cluster over time: pods come, run and leave, nodes fail and are added.

    Example:
        >>> node = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
        >>> pod = {"apiVersion": "v1", "kind": "Pod",
        ...        "spec": {"containers": [{"name": "main", "image": "x"}]}}
        >>> scenario = Scenario(
        ...     cluster={"nodes": [{"count": 2, "name": "node-", "template": node}]},
        ...     workload=[{"arrive": {"interval": {"every": "1m", "count": 5}}, "object": pod,
        ...                "duration": "90s"}],
        ... )
        >>> result = scenario.run(seed=3)
        >>> result.summary["pods.succeeded"], result.summary["makespan"]
        (5, 330.0)
        >>> result.pods["final_state"][0]
        'Succeeded'
    """

    def __init__(self, *, name: str = "scenario", folder: str = ".", **spec: Any) -> None:
        """Takes the fields of ``spec`` as in a scenario file; files are relative to ``folder``.

        Raises:
            ConfigError: as for a file.
        """
        text = spec.pop(_TEXT, None)
        if text is None:
            head = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}}
            data = msgspec.json.encode({**head, "spec": spec})
            text = Text(f"<{name}>", msgspec.json.format(data, indent=1))
        self._scenario: ResolvedScenario = read_scenario_text(text, folder=folder)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Scenario:
        """Returns the scenario of a file.

        Raises:
            ConfigError: it cannot be read, or says what cannot be run.
        """
        name = os.fspath(path)
        spec: dict[str, Any] = {_TEXT: Text(name)}
        return cls(folder=os.path.dirname(name) or ".", **spec)

    @property
    def name(self) -> str:
        """The name of the scenario."""
        return self._scenario.name

    def run(
        self,
        *,
        seed: int | None = None,
        config: str | Mapping[str, Any] | KubeSchedulerConfiguration | None = None,
        plugins: Sequence[Any] = (),
    ) -> ScenarioResult:
        """Runs the scenario.

        Args:
            seed: Of all chance; None = that of the scenario.
            config: Of the scheduler: a file, a document, or as loaded; None = that of the scenario.
            plugins: Further plugins: objects, or ``module:attribute``.

        Raises:
            ConfigError: the configuration or a plugin cannot be used.
        """
        scenario = self._scenario
        if seed is not None and seed != scenario.seed:
            scenario = replace(scenario, seed=seed)
        if isinstance(config, str):
            scenario = replace(scenario, config=load(config))
        elif isinstance(config, KubeSchedulerConfiguration):
            scenario = replace(scenario, config=config)
        elif config is not None:
            scenario = replace(scenario, config=from_document(dict(config)))
        scenario = replace(scenario, plugins=(*scenario.plugins, *plugins))
        return ScenarioResult(ScenarioRun(scenario).run())

    def __repr__(self) -> str:
        """Returns what the scenario has, and what arrives when."""
        return shown(self._scenario)


class ScenarioResult:
    """The results of one run.

    Attributes:
        summary: Measure -> value; see docs/reference/measures.md.
        pods, jobs, nodes, groups, series: Tables.
        pending: Pod -> why it still waits.
    """

    def __init__(self, result: Result) -> None:
        self._result = result
        self.summary = dict(result.summary)
        self.pods = Table(result.tables["pods"])
        self.jobs = Table(result.tables["jobs"])
        self.nodes = Table(result.tables["nodes"])
        self.groups = Table(result.tables["groups"])
        self.series = Table(result.tables["series"])
        self.pending = dict(result.pending)

    @cached_property
    def digest(self) -> str:
        """Equal for equal runs. It is computed when it is read first, from all tables."""
        return self._result.digest

    @property
    def holds(self) -> bool:
        """True if all lines of ``expect`` hold."""
        return self._result.holds

    def write(self, folder: str, *, table_format: str = "csv") -> list[str]:
        """Writes all tables and the summary into a folder; returns the names of the files.

        Args:
            folder: It is created.
            table_format: csv, arrow or parquet.

        Raises:
            ConfigError: it cannot be written, or pyarrow is not installed.
        """
        return write_results(self._result, folder, table_format=table_format)

    def stored(self, name: str) -> StoredRun:
        """Returns the results under a name, as a report takes them."""
        return StoredRun(name, self._result, self.digest)

    def __repr__(self) -> str:
        return result_text(self._result)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(result_text(self._result))}</pre>"


def write_report(
    results: Mapping[str, ScenarioResult] | Sequence[str], path: str, *, title: str = "Report"
) -> None:
    """Writes one HTML file over several results.

    Args:
        results: Name -> result; or folders, written by ``ScenarioResult.write``, by ``mooring
            simulate --out`` or by ``mooring sweep``.
        path: The file.
        title: Of the report.

    Raises:
        ConfigError: a folder has no results, or the file cannot be written.
    """
    stored: list[StoredRun | StoredSweep] = []
    if isinstance(results, Mapping):
        stored += [own.stored(name) for name, own in results.items()]
    else:
        stored += [read_folder(folder) for folder in results]
    text = folders_report(stored, title=title)
    write_text(path, text)

"""Sweep files: a scenario, a grid of values for some of its fields, and how many seeds.

::

    apiVersion: mooring.dev/v1alpha1
    kind: Sweep
    spec:
      scenario: team.yaml
      grid:
        cluster.nodes[0].count: {range: [6, 12, 2]}
        scheduler.config: ["", pack.yaml]
      seeds: 10
"""

from __future__ import annotations

import codecs
import hashlib
import itertools
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from mooring import __version__
from mooring.config.field_errors import FieldError
from mooring.config.load import only_document
from mooring.config.strict import nearest
from mooring.config.strict_document import read_strict
from mooring.errors import ConfigError
from mooring.objects.files.documents import Path, path_text
from mooring.objects.files.paths import Text, read_bytes
from mooring.objects.types import Object
from mooring.scenario.document import API_VERSION
from mooring.scenario.document import KIND as SCENARIO
from mooring.scenario.expectations import limit_of
from mooring.scenario.measures import MEASURES
from mooring.scenario.read import read_scenario_text
from mooring.scenario.scenario import Scenario
from mooring.scenario.text import unit_of
from mooring.traces.openb import OPENB_PREFIX

KIND: Final = "Sweep"
#: Limits of one sweep.
CELLS_MAX: Final = 10_000
SEEDS_MAX: Final = 10_000
_STEP: Final = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")

#: The values of a cell: path -> value.
Values = dict[str, Any]


class Until(Struct, frozen=True, rename="camel"):
    """More seeds until the interval of a measure is narrow enough.

    Attributes:
        measure: The measure.
        half_width: Half of the 95 % interval's width: a number, a duration or a share ("0.2%").
        max_seeds: The most seeds of a cell.
        min_seeds: The fewest.
    """

    measure: str
    half_width: Any
    max_seeds: Annotated[int, Meta(ge=2, le=SEEDS_MAX)] = 100
    min_seeds: Annotated[int, Meta(ge=2, le=SEEDS_MAX)] = 5


class Spec(Struct, frozen=True, rename="camel"):
    """A sweep.

    Attributes:
        scenario: The scenario's file.
        grid: Path in the scenario's spec -> values, or ``{range: [first, last, step]}``.
        seeds: The seeds of every cell, from the scenario's on.
        until: Instead of seeds.
        measures: The measures that are shown.
        first_seed: The first seed; None = the scenario's.
    """

    scenario: str
    grid: dict[str, Any] = field(default_factory=dict)
    seeds: Annotated[int, Meta(ge=1, le=SEEDS_MAX)] | None = None
    until: Until | None = None
    measures: tuple[str, ...] = ()
    first_seed: int | None = None


class Metadata(Struct, frozen=True, rename="camel"):
    """The name of a sweep."""

    name: str = ""


class Document(Struct, frozen=True, rename="camel"):
    """A sweep file."""

    api_version: str
    kind: str
    spec: Spec
    metadata: Metadata = Metadata()


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid.

    Attributes:
        values: Path -> value.
        data: The scenario with these values, as JSON.
        name: The scenario's file, for errors.
        folder: Names of files in it are relative to it.
        plugins: Further plugins.
        fingerprint: A digest of everything that decides the results, but the seed.
    """

    values: Values
    data: bytes
    name: str
    folder: str
    fingerprint: str
    plugins: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The values in words; "as written" if there are none."""
        parts = [f"{short_path(path)}={value_name(value)}" for path, value in self.values.items()]
        return ", ".join(parts) or "as written"

    def scenario(self, seed: int) -> Scenario:
        """Returns the scenario with a seed.

        Raises:
            ConfigError: it cannot be run.
        """
        return read_scenario_text(Text(self.name, self.data), folder=self.folder, seed=seed)

    def key(self, seed: int) -> str:
        """Returns the key of a run: equal for equal runs, in whatever sweep."""
        return hashlib.sha256(f"{self.fingerprint} {seed}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep that was read.

    Attributes:
        name: Of the sweep.
        cells: All points of the grid, the last path first to change.
        paths: The paths of the grid.
        seeds: How many for every cell; the fewest if ``until`` is given.
        until: When a cell has enough seeds.
        half_width: Of ``until``, as a number.
        measures: The measures that are shown; () = the usual ones.
        first_seed: The first seed.
        source: The text of the file.
    """

    name: str
    cells: Sequence[Cell]
    paths: Sequence[str]
    seeds: int
    until: Until | None
    half_width: float
    measures: Sequence[str]
    first_seed: int
    source: str


def read_sweep(path: str | os.PathLike[str]) -> Sweep:
    """Reads a sweep file, and the scenario with every combination of values.

    Raises:
        ConfigError: it cannot be read, or a combination cannot be run; ``ConfigErrors`` if there
            are several errors.
    """
    text = Text(os.fspath(path))
    source = _decoded(text.read())
    read = read_strict(text, Document, api_version=API_VERSION, kind=KIND)
    document, spec = read.document, read.document.spec
    grid, half_width = _checked(spec, read.errors)
    read.raise_errors()
    file = os.path.join(os.path.dirname(os.fspath(path)) or ".", spec.scenario)
    try:
        base = only_document(read_bytes(file), kind=SCENARIO)
    except ConfigError as error:
        raise error.located(file=file) from None
    try:
        cells = list(_cells(base, file, grid))
        _check_different(cells)
    except ConfigError as error:
        raise error if error.file else error.located(file=text.name) from None
    seeds = spec.seeds if spec.until is None else spec.until.min_seeds
    first_seed = spec.first_seed
    if first_seed is None:
        first_seed = int((base.get("spec") or {}).get("seed", 0)) if isinstance(base, dict) else 0
    return Sweep(
        document.metadata.name or os.path.basename(text.name),
        cells,
        list(grid),
        seeds or 1,
        spec.until,
        half_width,
        spec.measures,
        first_seed,
        source,
    )


def _decoded(data: bytes) -> str:
    """Returns the text of a file that YAML may read: UTF-8, or UTF-16 with a mark of its order."""
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_wide else "utf-8-sig", "replace")


def _checked(spec: Spec, errors: list[FieldError]) -> tuple[dict[str, list[Any]], float]:
    """Returns path -> values, and the half width of ``until``."""
    if spec.seeds is not None and spec.until is not None:
        errors.append(FieldError(("spec",), "must have one of seeds and until"))
    half_width = 0.0
    if spec.until is not None:
        limit = spec.until.half_width
        number = limit_of(limit) if isinstance(limit, str) else limit
        where = ("spec", "until", "halfWidth")
        if (
            not isinstance(number, int | float)
            or isinstance(number, bool)
            or not 0 < number < math.inf
        ):
            errors.append(FieldError(where, "must be a number, duration or share above 0", limit))
        else:
            half_width = float(number)
        if spec.until.min_seeds > spec.until.max_seeds:
            problem = f"must be at most maxSeeds ({spec.until.max_seeds})"
            errors.append(FieldError(("spec", "until", "minSeeds"), problem, spec.until.min_seeds))
    _check_measures(spec, errors)
    grid = {path: _values(path, value, errors) for path, value in spec.grid.items()}
    n_cells = 1
    for values in grid.values():
        n_cells *= max(1, len(values))
    if n_cells > CELLS_MAX:
        errors.append(FieldError(("spec", "grid"), f"has more than {CELLS_MAX} cells", n_cells))
    return grid, half_width


def _check_measures(spec: Spec, errors: list[FieldError]) -> None:
    """Reports names that are no measures; which resources there are is known only in a run."""
    names: dict[Path, str] = {
        ("spec", "measures", at): name for at, name in enumerate(spec.measures)
    }
    if spec.until is not None:
        names["spec", "until", "measure"] = spec.until.measure
    for path, name in names.items():
        if not unit_of(name):
            near = nearest(name, [measure.name for measure in MEASURES])
            problem = "unknown measure; docs/reference/measures.md has all"
            errors.append(FieldError(path, problem, name, near))


def _values(path: str, value: Any, errors: list[FieldError]) -> list[Any]:
    where = ("spec", "grid", path)
    if isinstance(value, list) and value:
        return value
    if isinstance(value, dict) and list(value) == ["range"]:
        limits = value["range"]
        is_range = isinstance(limits, list) and len(limits) in (2, 3)
        if is_range and all(type(number) in (int, float) for number in limits):
            first, last, step = (*limits, 1)[:3]
            if step > 0 and first <= last and (last - first) / step < CELLS_MAX:
                count = int((last - first) / step + 1e-9) + 1
                return [first + number * step for number in range(count)]
        problem = "must be [first, last, step] with first <= last and step above 0"
        errors.append(FieldError((*where, "range"), problem, limits))
        return []
    errors.append(FieldError(where, "must be a list of values, or {range: [...]}", value))
    return []


def _cells(base: Any, file: str, grid: Mapping[str, Sequence[Any]]) -> Iterator[Cell]:
    """Yields the cells; each is read once, so that an error comes before anything runs.

    Raises:
        ConfigError: a path leads nowhere, or a scenario cannot be run.
    """
    folder = os.path.dirname(file) or "."
    for combination in itertools.product(*grid.values()):
        values = dict(zip(grid, combination, strict=True))
        document = deepcopy(base)
        for path, value in values.items():
            _set(document, path, value)
        data = msgspec.json.format(msgspec.json.encode(document), indent=1)
        cell = Cell(values, data, file, folder, "")
        try:
            cell.scenario(0)
        except ConfigError as error:
            # Lines are those of the JSON, which is not the user's file.
            problem = f"with {cell.text}: {error.path or ''}: {error.problem}"
            raise ConfigError(problem, file=file, value=error.value) from error
        yield replace(cell, fingerprint=_fingerprint(document, folder))


def _check_different(cells: Sequence[Cell]) -> None:
    """Reports cells that would be the same runs: a value that is there twice, or a seed.

    Raises:
        ConfigError: two cells are equal.
    """
    first: dict[str, Cell] = {}
    for cell in cells:
        other = first.setdefault(cell.fingerprint, cell)
        if other is not cell:
            problem = f"makes two equal cells: {other.text} and {cell.text}"
            raise ConfigError(problem, path="spec.grid")


def _set(document: Any, path: str, value: Any) -> None:
    """Sets the value at a path of the scenario's spec; missing mappings on the way are made.

    Raises:
        ConfigError: the path leads nowhere.
    """
    steps = [
        int(position) if position else name
        for name, position in (match.groups() for match in _STEP.finditer(path))
    ]
    if not steps or path_text(tuple(steps)) != path:
        raise ConfigError("is no path such as cluster.nodes[0].count", path="grid", value=path)
    where = document.setdefault("spec", {}) if isinstance(document, dict) else document
    for at, step in enumerate(steps):
        is_last = at == len(steps) - 1
        if isinstance(step, int):
            if not isinstance(where, list) or step >= len(where):
                raise ConfigError(
                    "leads nowhere: the scenario has no such item", path="grid", value=path
                )
        elif not isinstance(where, dict):
            raise ConfigError(
                "leads nowhere: it passes a value that is no mapping", path="grid", value=path
            )
        if is_last:
            where[step] = value
        elif isinstance(step, str):
            where = where.setdefault(step, {})
        else:
            where = where[step]


def _fingerprint(document: Object, folder: str) -> str:
    """Returns a digest of a valid scenario, of the files that it names, and of this version."""
    digest = hashlib.sha256(f"mooring {__version__}".encode())
    spec = {**document.get("spec", {}), "seed": None}
    digest.update(msgspec.json.encode(spec, order="sorted"))
    names = [
        (spec.get("scheduler") or {}).get("config"),
        *((spec.get("cluster") or {}).get("files") or ()),
        *(item.get("trace") for item in spec.get("workload") or ()),
        *(spec.get("stages") or ()),
        *_measured_files(spec),
    ]
    for name in names:
        if isinstance(name, str) and name and not name.startswith(OPENB_PREFIX):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                digest.update(read_bytes(path))
    return digest.hexdigest()


def _measured_files(value: Any) -> Iterator[Any]:
    """Yields the files of distributions, wherever they are."""
    if isinstance(value, dict):
        empirical = value.get("empirical")
        if isinstance(empirical, dict):
            yield empirical.get("file")
    if isinstance(value, dict | list):
        for own in value.values() if isinstance(value, dict) else value:
            yield from _measured_files(own)


def short_path(path: str) -> str:
    """Returns the end of a path that tells it from others: its last name, with what it is of."""
    steps = path.split(".")
    return ".".join(steps[-2:])


def value_name(value: Any) -> str:
    """Returns a value as one word."""
    if value in ("", None):
        return "default"
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()

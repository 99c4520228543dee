"""Feature gates: the 241 of kube-scheduler v1.36.3, and what a command line makes of them.

::

    --emulated-version ─┐
    --min-compatibility ─┼─> stage, default and lock of each gate at that version
    --feature-gates ────┘        └─ unknown, locked, dependencies ─> FeatureGates.enabled(name)

What upstream refuses is refused with its text. A value that mooring does not implement is refused
as well (``gate_support``), because to accept it would promise a behaviour that is not there.

Source: component-base's featuregate/feature_gate.go and compatibility/registry.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from mooring.component.gate_support import MISSING, PARTIAL
from mooring.component.go_values import GoError, aggregate, parse_bool
from mooring.component.version import (
    BINARY,
    FLOOR,
    Version,
    parse_component_versions,
)

_ALL_GATES: Final = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}
_COMPONENT: Final = "kube"
_DATA: Final = "feature_gates.tsv"


class Stage(NamedTuple):
    """A gate from one version on.

    Attributes:
        version: The first version of which this is true.
        stage: ALPHA, BETA, GA or DEPRECATED; PREALPHA before the gate existed.
        default: Its value if it is not set.
        is_locked: Whether it cannot be set to another value.
    """

    version: Version
    stage: str
    default: bool
    is_locked: bool


_PRE_ALPHA: Final = Stage(Version(0, 0), "PREALPHA", default=False, is_locked=False)


class Gate(NamedTuple):
    """A feature gate.

    Attributes:
        name: As users write it.
        history: Its stages, oldest first.
        depends_on: The gates that must be on for it to be on.
    """

    name: str
    history: tuple[Stage, ...]
    depends_on: tuple[str, ...] = ()

    def at(self, version: Version) -> Stage:
        """Returns its stage at a version."""
        current = _PRE_ALPHA
        for stage in self.history:
            if stage.version <= version:
                current = stage
        return current


class GateItem(NamedTuple):
    """A gate for the metric kubernetes_feature_enabled; ``stage`` is "" for GA."""

    name: str
    stage: str
    is_enabled: bool


@cache
def known_gates() -> Mapping[str, Gate]:
    """Returns every gate by name, sorted."""
    text = files("mooring").joinpath("data", _DATA).read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {name: Gate(name, _history(stages), _names(needed)) for name, stages, needed in rows}


def _history(text: str) -> tuple[Stage, ...]:
    stages = []
    for part in text.split(";"):
        version, stage, default, locked = part.split(":")
        major, minor = map(int, version.split("."))
        stages.append(Stage(Version(major, minor), stage, default == "true", locked == "true"))
    return tuple(stages)


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


class FeatureGates:
    """The value of every gate.

    Attributes:
        emulation: The version whose gates these are.
        min_compatibility: The oldest version that other components may have.
        warnings: Lines for the log about what was set, as (message, gate, value).

    Example:
        >>> FeatureGates().enabled("NodeDeclaredFeatures")
        True
        >>> FeatureGates.from_flags(gates={"": ("ComponentFlagz=false",)}).changed
        {'ComponentFlagz': False}
    """

    def __init__(
        self,
        settings: Mapping[str, bool] | None = None,
        *,
        emulation: Version = BINARY,
        min_compatibility: Version | None = None,
    ) -> None:
        """Sets gates.

        Raises:
            GoError: a gate is unknown or locked, or a gate that it depends on is off.
        """
        self.emulation = emulation
        self.min_compatibility = min_compatibility or max(FLOOR, emulation.minus_one())
        self.warnings: list[tuple[str, str, bool]] = []
        self._set: dict[str, bool] = {}
        self._apply(settings or {})

    @classmethod
    def from_flags(
        cls,
        gates: Mapping[str, tuple[str, ...]] | None = None,
        *,
        emulated: tuple[str, ...] = (),
        min_compatibility: tuple[str, ...] = (),
    ) -> FeatureGates:
        """Returns the gates of a command line.

        Args:
            gates: Of --feature-gates: component ("" if left out) -> texts "Name=bool".
            emulated: Of --emulated-version.
            min_compatibility: Of --min-compatibility-version.

        Raises:
            GoError: something cannot be parsed, or a gate cannot be set so.
        """
        emulation = _own(parse_component_versions(emulated)) or BINARY
        oldest = _own(parse_component_versions(min_compatibility))
        return cls(_settings(gates or {}), emulation=emulation, min_compatibility=oldest)

    def enabled(self, name: str) -> bool:
        """Returns whether a gate is on.

        Raises:
            KeyError: there is no such gate.
        """
        value = self._set.get(name)
        return known_gates()[name].at(self.emulation).default if value is None else value

    def items(self) -> Iterator[GateItem]:
        """Yields every gate, for the metric kubernetes_feature_enabled."""
        for name, gate in known_gates().items():
            stage = gate.at(self.emulation).stage
            yield GateItem(name, "" if stage in ("GA", "PREALPHA") else stage, self.enabled(name))

    @property
    def changed(self) -> dict[str, bool]:
        """The gates whose value is not the default of v1.36."""
        return {
            name: value
            for name, gate in known_gates().items()
            if (value := self.enabled(name)) != gate.at(BINARY).default
        }

    @property
    def text(self) -> str:
        """The gates that were set, as ``Name=bool``, sorted."""
        pairs = sorted(self._set.items())
        return ",".join(f"{name}={str(value).lower()}" for name, value in pairs)

    def enabled_alpha(self) -> list[str]:
        """Returns the alpha gates that are on."""
        alpha = (
            gate for gate in known_gates().values() if gate.at(self.emulation).stage == "ALPHA"
        )
        return [gate.name for gate in alpha if self.enabled(gate.name)]

    def version_errors(self) -> list[str]:
        """Returns what is wrong with the versions."""
        errors = []
        if not FLOOR <= self.emulation <= BINARY:
            errors.append(
                f"emulation version {self.emulation} is not between [{FLOOR}, {BINARY}.0]"
            )
        if not FLOOR <= self.min_compatibility <= self.emulation:
            errors.append(
                f"minCompatibilityVersion version {self.min_compatibility} is not between "
                f"[{FLOOR}, {self.emulation}]"
            )
        return errors

    def missing(self) -> dict[str, str]:
        """Returns the gates whose value mooring does not implement, with the reason.

        Only values that differ from the default of v1.36: what mooring lacks of the defaults is in
        its documentation.
        """
        return {
            f"{name}={str(value).lower()}": MISSING[name, value]
            for name, value in self.changed.items()
            if (name, value) in MISSING
        }

    def partial(self) -> dict[str, str]:
        """Returns the gates whose value mooring follows only in part, with what it does."""
        return {
            f"{name}={str(value).lower()}": PARTIAL[name, value]
            for name, value in self.changed.items()
            if (name, value) in PARTIAL
        }

    def missing_because_set(self) -> dict[str, str]:
        """Returns those of ``missing`` that were set, and do not follow from an older version."""
        names = {f"{name}={str(value).lower()}" for name, value in self._set.items()}
        return {text: reason for text, reason in self.missing().items() if text in names}

    def _apply(self, settings: Mapping[str, bool]) -> None:
        errors: list[str] = []
        for name, value in settings.items():
            gate = known_gates().get(name)
            if gate is None:
                raise GoError(aggregate([*errors, f"unrecognized feature gate: {name}"]))
            stage = gate.at(self.emulation)
            value_text = str(value).lower()
            if stage.is_locked and stage.default != value:
                locked = str(stage.default).lower()
                errors.append(
                    f"cannot set feature gate {name} to {value_text}, feature is locked to {locked}"
                )
            elif name in _ALL_GATES:
                self._set_all(_ALL_GATES[name], settings, value=value)
                self._set[name] = value
            elif stage.stage == "PREALPHA":
                errors.append(
                    f"cannot set feature gate {name} to {value_text}, feature is PreAlpha at "
                    f"emulated version {self.emulation}, min compatibility version "
                    f"{self.min_compatibility}"
                )
            else:
                self._set[name] = value
                self._warn(name, stage.stage, value=value)
        if errors := errors or self._dependency_errors():
            raise GoError(aggregate(errors))

    def _set_all(self, stage: str, settings: Mapping[str, bool], *, value: bool) -> None:
        """Sets every gate of a stage that is not set by its name."""
        unset = (gate for gate in known_gates().values() if gate.name not in settings)
        for gate in unset:
            current = gate.at(self.emulation)
            if gate.name not in _ALL_GATES and current.stage == stage and not current.is_locked:
                self._set[gate.name] = value

    def _warn(self, name: str, stage: str, *, value: bool) -> None:
        if stage in ("GA", "DEPRECATED"):
            word = stage if stage == "GA" else "deprecated"
            text = f"Warning: setting {word} feature gate. "
            text += "It will be removed in a future release."
            self.warnings.append((text, name, value))

    def _dependency_errors(self) -> list[str]:
        errors = []
        for name, gate in known_gates().items():
            if gate.depends_on and self.enabled(name):
                disabled = [other for other in gate.depends_on if not self.enabled(other)]
                if disabled:
                    errors.append(
                        f"{name} is enabled, but depends on features that are disabled: "
                        f"[{' '.join(disabled)}]"
                    )
        return errors


def _own(versions: Mapping[str, Version]) -> Version | None:
    for component in versions:
        if component != _COMPONENT:
            raise GoError(f"component not registered: {component}")
    return versions.get(_COMPONENT)


def _settings(gates: Mapping[str, tuple[str, ...]]) -> dict[str, bool]:
    """Returns gate -> value of the texts of --feature-gates; of equal names the last counts."""
    settings: dict[str, bool] = {}
    for component, texts in gates.items():
        if not component and _COMPONENT in gates:
            raise GoError(
                "set kube feature gates with default empty prefix or kube: prefix consistently, "
                "do not mix use"
            )
        if component not in ("", _COMPONENT):
            raise GoError(f"component not registered: {component}")
        for text in filter(None, ",".join(texts).split(",")):
            name, separator, value = (part.strip() for part in text.partition("="))
            if not separator:
                raise GoError(f"missing bool value for {name}")
            try:
                settings[name] = parse_bool(value)
            except GoError as error:
                raise GoError(f"invalid value of {name}={value}, err: {error}") from None
    return settings

"""Feature gates of the commands that schedule offline, and of Python.

``mooring run`` has all flags of kube-scheduler; the other commands take ``--feature-gates`` alone.
The same values are refused: unknown gates, locked gates, and what mooring does not implement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mooring.component.feature_gates import FeatureGates
from mooring.component.flag_kinds import GATES
from mooring.component.go_values import GoError
from mooring.errors import ConfigError


def parse_feature_gates(texts: Sequence[str]) -> FeatureGates:
    """Returns the gates of texts "Name=bool", separated by commas; of equal names the last counts.

    Raises:
        ConfigError: a text cannot be parsed, or a gate cannot be set so.

    Example:
        >>> parse_feature_gates(["DRADeviceTaintRules=true"]).changed
        {'DRADeviceTaintRules': True}
    """
    parsed: Any = {}
    try:
        for text in texts:
            parsed = GATES.parse(parsed, text)
        return _implemented(FeatureGates.from_flags(parsed))
    except GoError as error:
        raise ConfigError(str(error), path="feature gates") from None


def changed_gates(settings: Mapping[str, bool] | str | None) -> dict[str, bool]:
    """Returns the gates whose value is not the default; ``settings`` are values, or a text.

    Raises:
        ConfigError: a text cannot be parsed, or a gate cannot be set so.

    Example:
        >>> changed_gates({"DRADeviceTaintRules": True, "DRADeviceTaints": True})
        {'DRADeviceTaintRules': True}
    """
    if not settings:
        return {}
    if isinstance(settings, str):
        return parse_feature_gates([settings]).changed
    try:
        return _implemented(FeatureGates(settings)).changed
    except GoError as error:
        raise ConfigError(str(error), path="feature gates") from None


def _implemented(gates: FeatureGates) -> FeatureGates:
    if missing := gates.missing_because_set():
        listed = ", ".join(f"{gate}: {reason}" for gate, reason in missing.items())
        raise ConfigError(f"values that mooring does not implement: {listed}", path="feature gates")
    return gates

"""Objects of kinds that a scheduler reads only with a feature gate, such as DeviceTaintRules.

Files are read without knowing the gates, so that these objects have no struct at first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from mooring.errors import ConfigError
from mooring.objects.codec.decode import convert
from mooring.objects.generic import GenericObject
from mooring.objects.kinds import GATED_KINDS, KINDS
from mooring.objects.types import Object
from mooring.simulation.workload import Workload


def gated_kinds(gates: Mapping[str, bool]) -> tuple[str, ...]:
    """Returns the kinds that are read with these gates; those of other values are the defaults."""
    return tuple(kind for kind, gate in GATED_KINDS.items() if gates.get(gate, False))


def with_gated_kinds(workload: Workload, gates: Mapping[str, bool]) -> Workload:
    """Returns a workload in which the objects of enabled kinds have their struct.

    Raises:
        ConfigError: an API server would refuse such an object, or it has another version.
    """
    kinds = gated_kinds(gates)
    if not kinds:
        return workload
    skipped = {kind: count for kind, count in workload.skipped.items() if kind not in kinds}
    objects = [_decoded(obj, kinds) for obj in workload.objects]
    return workload._replace(objects=objects, skipped=skipped)


def ignored_kinds(kinds: Iterable[str], gates: Mapping[str, bool]) -> dict[str, int]:
    """Returns kind -> number of its objects, for kinds whose gate is off; other kinds are no keys.

    Args:
        kinds: The kind of each object.
        gates: The gates whose value is not the default.
    """
    enabled = gated_kinds(gates)
    return Counter(kind for kind in kinds if kind in GATED_KINDS and kind not in enabled)


def gated_kind(obj: Any) -> str:
    """Returns the kind of an object that needs a gate, with or without a struct; else ""."""
    if not isinstance(obj, GenericObject):
        kind = type(obj).__name__
        return kind if kind in GATED_KINDS else ""
    own = KINDS[obj.kind] if obj.kind in GATED_KINDS else None
    is_own = own is not None and own.group == obj.api_version.rpartition("/")[0]
    return obj.kind if is_own else ""


def _decoded(obj: Any, kinds: tuple[str, ...]) -> Any:
    kind = gated_kind(obj)
    if kind not in kinds or not isinstance(obj, GenericObject):
        return obj
    expected = KINDS[kind].api_version
    where = f"{kind} {obj.metadata.name}"
    if obj.api_version != expected:
        problem = f"is read only as {expected}"
        raise ConfigError(problem, path=f"{where}: apiVersion", value=obj.api_version)
    _check_rule(dict(obj), where)
    try:
        return convert(dict(obj), kind)
    except ConfigError as error:
        path = f"{where}: {error.path}" if error.path else where
        raise ConfigError(error.problem, path=path, value=error.value) from None


def _check_rule(rule: Object, where: str) -> None:
    """Checks the fields and values of a DeviceTaintRule, the only kind of this sort.

    Raises:
        ConfigError: the first problem.
    """
    # Imported here, as wherever files are validated: most inputs have no such objects.
    from mooring.apiserver.names import dns_subdomain
    from mooring.apiserver.validation.devices.taint_rules import field_problems, validate_taint_rule
    from mooring.apiserver.validation.metadata import validate_metadata

    for problem in field_problems(rule):
        path = ".".join(map(str, problem.path))
        raise ConfigError(
            problem.text,
            path=f"{where}: {path}",
            value=problem.value,
            suggestion=problem.suggestion,
        )
    # Objects without a struct are read as namespaced, so each of them has a namespace.
    metadata = {name: value for name, value in rule["metadata"].items() if name != "namespace"}
    checked = validate_metadata(metadata, namespaced=False, check_name=dns_subdomain)
    for error in (*checked, *validate_taint_rule(rule)):
        raise ConfigError(error.body, path=f"{where}: {error.field}")

"""JSON Schema of scenario files, for editors."""

from __future__ import annotations

import inspect as python_inspect
import re
from typing import Any, Final

from msgspec import inspect

from mooring.config.types import DURATION
from mooring.scenario.document import API_VERSION, KIND, Document

_DURATION: Final = {"type": "string", "pattern": r"^([0-9]*\.?[0-9]+(ns|us|µs|ms|s|m|h))+$|^0$"}
_TIME: Final = {"anyOf": [{"type": "number", "minimum": 0}, _DURATION]}
_RATE: Final = {"type": "string", "pattern": r"^\s*[0-9.]+\s*/\s*(s|sec|min|m|h|hour|d|day)\s*$"}
_OBJECT: Final = {"type": "object"}


def _form(required: tuple[str, ...], **fields: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(required),
        "additionalProperties": False,
    }


def _one_of(forms: dict[str, Any]) -> list[dict[str, Any]]:
    return [_form((name,), **{name: form}) for name, form in forms.items()]


_NUMBER: Final = {"type": "number", "exclusiveMinimum": 0}
_DISTRIBUTION: Final = {
    "description": "A duration, a number of seconds, or a distribution.",
    "anyOf": [
        *_TIME["anyOf"],
        *_one_of(
            {
                "uniform": _form(("max",), min=_TIME, max=_TIME),
                "exponential": _form(("mean",), mean=_TIME),
                "lognormal": _form(("median",), median=_TIME, p99=_TIME, sigma=_NUMBER),
                "weibull": _form(("shape", "scale"), shape=_NUMBER, scale=_TIME),
                "gamma": _form(("shape", "mean"), shape=_NUMBER, mean=_TIME),
                "pareto": _form(("min", "shape"), min=_TIME, shape=_NUMBER),
                "choice": {
                    "type": "array",
                    "minItems": 1,
                    "items": _form(("value",), value=_TIME, weight=_NUMBER),
                },
                "empirical": _form(
                    (),
                    values={"type": "array", "minItems": 1, "items": _TIME},
                    file={"type": "string"},
                    column={"type": "string"},
                ),
            }
        ),
    ],
}
_COUNT: Final = {"type": "integer", "minimum": 1}
_SPAN: Final = {"from": _DURATION, "until": _DURATION, "count": _COUNT}
_ARRIVE: Final = {
    "description": "An arrival process.",
    "anyOf": _one_of(
        {
            "poisson": _form(("rate",), rate=_RATE, **_SPAN),
            "interval": _form(("every",), every=_DURATION, **_SPAN),
            "uniform": _form(("count", "until"), **_SPAN),
            "bursts": _form(("size", "every"), size=_COUNT, every=_DURATION, **_SPAN),
            "hourly": _form(
                ("rates",),
                rates={"type": "array", "minItems": 24, "maxItems": 24, "items": _RATE},
                **_SPAN,
            ),
            "at": {"type": "array", "minItems": 1, "items": _DURATION},
        }
    ),
}
_OBJECTS: Final = {
    "description": "A Kubernetes object, or a list of them.",
    "anyOf": [_OBJECT, {"type": "array", "items": _OBJECT}],
}
#: Fields of type Any -> their schema.
_DEFINITIONS: Final = {
    "distribution": _DISTRIBUTION,
    "arrivals": _ARRIVE,
    "objects": _OBJECTS,
}
_ANY: Final = {
    **dict.fromkeys(("start", "duration", "provision", "mtbf", "mttr"), "distribution"),
    "arrive": "arrivals",
    **dict.fromkeys(("object", "create"), "objects"),
}
_LINE: Final = {"type": "string", "pattern": r"^\s*(<=|>=|==|!=|<|>)\s*\S+\s*$"}


def schema() -> dict[str, Any]:
    """Returns the schema of a scenario file (JSON Schema 2020-12)."""
    document = _of(inspect.type_info(Document), "")
    document["properties"]["apiVersion"] = {"const": API_VERSION}
    document["properties"]["kind"] = {"const": KIND}
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, "title": KIND, **document, "$defs": _DEFINITIONS}


def _of(expected: inspect.Type, name: str) -> dict[str, Any]:
    """Returns the schema of a type; ``name`` is that of its field."""
    if isinstance(expected, inspect.Metadata):
        if (expected.extra or {}).get(DURATION):
            return dict(_DURATION)
        expected = expected.type
    match expected:
        case inspect.UnionType():
            own = [kind for kind in expected.types if not isinstance(kind, inspect.NoneType)]
            return _of(own[0], name)
        case inspect.StructType():
            return _of_struct(expected)
        case inspect.VarTupleType():
            if name == "expect":
                return {"type": "array", "items": {**_OBJECT, "additionalProperties": _LINE}}
            return {"type": "array", "items": _of(expected.item_type, "")}
        case inspect.DictType():
            if name == "template":
                return dict(_OBJECT)
            return {**_OBJECT, "additionalProperties": _of(expected.value_type, "")}
        case inspect.StrType():
            return {"type": "string"}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            limits = {"minimum": expected.ge, "maximum": expected.le}
            return {"type": "integer", **{k: v for k, v in limits.items() if v is not None}}
        case inspect.FloatType():
            return {"type": "number"}
    return {"$ref": f"#/$defs/{_ANY[name]}"} if name in _ANY else {}


def _of_struct(expected: inspect.StructType) -> dict[str, Any]:
    texts = _descriptions(expected.cls)
    properties = {}
    for field in expected.fields:
        own = _of(field.type, field.name)
        if field.name in texts:
            own["description"] = texts[field.name]
        properties[field.encode_name] = own
    return {
        "type": "object",
        "description": (python_inspect.getdoc(expected.cls) or "").partition("\n")[0],
        "properties": properties,
        "required": [field.encode_name for field in expected.fields if field.required],
        "additionalProperties": False,
    }


def _descriptions(struct: type[Any]) -> dict[str, str]:
    """Returns field -> description, of a docstring's attributes."""
    _, _, attributes = (python_inspect.getdoc(struct) or "").partition("Attributes:\n")
    joined = re.sub(r"\n {6,}", " ", attributes)
    lines = re.findall(r"^ {4}(\w+): (.*)$", joined, re.MULTILINE)
    return {name: text.replace("``", '"') for name, text in lines}

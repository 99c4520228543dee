"""Mutations of files of Kubernetes objects that keep most of them objects.

Values get other types, limits, odd texts, or a value that the same key has elsewhere; objects get
owners, selectors, copies and other kinds; parts are nested, removed and repeated. The result is
written as YAML documents, with anchors at times, or as JSON.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import yaml

from bench.fuzz.mutation import BYTES_MAX, mutated
from mooring.clock import Rng

CHANGES_MAX: Final = 5

#: How often the bytes of the result are mutated too, and how often it is JSON.
_BYTES, _JSON = 0.03, 0.3

_HUGE: Final = 10**30
_NUMBERS: Final = (
    *(0, 1, -1, 2, 3, 0.5, -0.0, 1e300, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1),
    *(2**63 - 1, 2**63, -(2**63), 2**64, _HUGE, 100),
)
_QUANTITIES: Final = (
    *("0", "-1", "1", "1.5", "100m", "1e3", "1E", "1Ei", "9223372036854775807", "1n", "-5Gi"),
    *("99999999999999999999Ei", "0.0000000001", "", "1 Gi", "+1", ".5", "1e-999", "1Zi", "5."),
)
TEXTS: Final = (
    *("", " ", "a", "A", "a/b", "/", "a/b/c", "..", "-", "a" * 300, "\u00e4", "\U0001f600"),
    *("\u202e", "\u0000", "0", "true", "null", "~", "n1", "default", "kube-system", "a.b", "*"),
    *("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "in", "NoSchedule", "Never"),
    *("2026-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00Z", "50%", "-5%", "%"),
    *("9999-12-31T23:59:59.999999999Z", "1", "-1", "0-1", "3-1", "Pod", "Node", "system", "None"),
)
_OTHERS: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    [],
    {},
    [None],
    [[]],
    {"": ""},
    [{}],
    {"a": None},
)
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "gt", "", None, 1)
_KINDS: Final = (
    *(("v1", "Pod"), ("v1", "Node"), ("apps/v1", "Deployment"), ("batch/v1", "Job")),
    *(("v1", "List"), ("v1", "PodList"), ("v1", "Status"), ("x.io/v1", "Odd"), ("v1", "Namespace")),
    *(("apps/v1", "ReplicaSet"), ("apps/v1beta1", "Deployment"), ("v2", "Pod"), ("", "Pod")),
    *(("resource.k8s.io/v1", "ResourceClaim"), ("resource.k8s.io/v1beta1", "ResourceSlice")),
)

#: A version of marshal's format.
_WITHOUT_REFERENCES: Final = 2

#: How often ``mutated_values`` mutates bytes.
_BYTES_OF_VALUES: Final = 0.3

#: The first bytes of a file of gzip.
_COMPRESSED: Final = b"\x1f\x8b"

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

#: A mapping or a list, and the key or position of a value in it.
_Place = tuple[Any, Any]


def mutated_cluster(rng: Rng, corpus: list[bytes]) -> bytes:
    """Returns a mutation of one of the files."""
    files = _files(tuple(corpus))
    objects: list[Any] = _copy(rng.choice(files))
    others = _others(tuple(corpus))
    for _ in range(rng.randrange(1, CHANGES_MAX)):
        places = list(value_places(objects))
        if places:
            _change(rng, objects, places, others)
    data = _written(rng, objects)
    return mutated(rng, [data]) if rng.random() < _BYTES else data[:BYTES_MAX]


def change_values(rng: Rng, values: list[Any], others: list[Any]) -> None:
    """Changes a value inside ``values``; the new one may be one of ``others``."""
    _change_one(rng, values, Others(others))


def _change_one(rng: Rng, values: list[Any], others: Others) -> None:
    places = list(value_places(values))
    if places:
        _change(rng, values, places, others if others.places else Others(values))


def mutated_values(
    rng: Rng, corpus: list[bytes], also: Callable[[Rng, list[Any]], None] | None = None
) -> bytes:
    """Returns a mutation of one of the files: of its bytes, or of values in its documents.

    Args:
        rng: Draws the changes.
        corpus: The files, YAML or JSON.
        also: Changes more of the documents.
    """
    if rng.random() < _BYTES_OF_VALUES:
        return mutated(rng, corpus)
    texts = tuple(data for data in corpus if not data.startswith(_COMPRESSED))
    number, files = rng.randrange(len(texts)), _files(texts)
    documents: list[Any] = _copy(files[number])
    others = _others(texts)
    for _ in range(rng.randrange(1, CHANGES_MAX)):
        _change_one(rng, documents, others)
    if also is not None:
        also(rng, documents)
    if texts[number].startswith(b"{"):
        return json.dumps(documents[0] if documents else None).encode()[:BYTES_MAX]
    return _yaml(documents)[:BYTES_MAX]


@lru_cache(maxsize=1)
def _files(corpus: tuple[bytes, ...]) -> list[list[Any]]:
    """Returns the documents of each file; nothing changes them."""
    return [list(yaml.load_all(data, _TextLoader)) for data in corpus]


@lru_cache(maxsize=1)
def _others(corpus: tuple[bytes, ...]) -> Others:
    """Returns the values of all files."""
    return Others(_files(corpus))


class Others:
    """Values that a change can take: every value inside some values, which nothing changes.

    Attributes:
        places: Of the values.
    """

    def __init__(self, values: list[Any]) -> None:
        self.places = list(value_places(values))
        self._by_key: dict[str, list[_Place]] = {}
        for place in self.places:
            if isinstance(place[1], str):
                self._by_key.setdefault(place[1], []).append(place)

    def of_key(self, step: Any) -> list[_Place]:
        """Returns the values of a key; all of them for a position in a list, or an unknown key."""
        same = self._by_key.get(step) if isinstance(step, str) else None
        return same or self.places


class _TextLoader(_Loader):  # type: ignore[misc]
    """Leaves times as text."""


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def value_places(value: Any) -> Iterator[_Place]:
    """Yields every value inside a value, by its place."""
    items = list(value.items() if isinstance(value, dict) else enumerate(value))
    for step, item in items:
        yield value, step
        if isinstance(item, dict | list):
            yield from value_places(item)


def _change(rng: Rng, objects: list[Any], places: list[_Place], others: Others) -> None:
    holder, step = rng.choice(places)
    match rng.randrange(14):
        case 0 | 1:
            # Copied: a later change may be inside it.
            holder[step] = _copy(rng.choice(rng.choice((_NUMBERS, _QUANTITIES, TEXTS, _OTHERS))))
        case 2 | 3 | 4:
            # Values of the same key are of the right type, so more of the product is reached.
            from_where = rng.choice(others.of_key(step))
            holder[step] = _copy(from_where[0][from_where[1]])
        case 5:
            _replace_like(rng, holder, step)
        case 6:
            del holder[step]
        case 7:
            from_where = rng.choice(others.places)
            value = _copy(from_where[0][from_where[1]])
            if isinstance(holder, list):
                holder.insert(step, value)
            else:
                holder[from_where[1] if isinstance(from_where[1], str) else "odd"] = value
        case 8 if isinstance(holder, list):
            # Many: work must not grow with the square of the entries, or of their errors.
            holder += [_copy(holder[step]) for _ in range(rng.choice((1, 2, 3, 100)))]
        case 9:
            for _ in range(rng.choice((1, 3, 20, 70))):
                holder[step] = [holder[step]] if rng.random() < 0.5 else {"a": holder[step]}
        case 10:
            _own(rng, objects)
        case 11:
            _select(rng, places)
        case 12:
            _alter_object(rng, objects)
        case _:
            # One value in two places: written as an anchor and an alias.
            other, where = rng.choice(places)
            if not any(place[0] is other for place in value_places([holder[step]])):
                other[where] = holder[step]


def _copy(value: Any) -> Any:
    # Without references to earlier values, which would be one value in two places.
    return marshal.loads(marshal.dumps(value, _WITHOUT_REFERENCES))


def _replace_like(rng: Rng, holder: Any, step: Any) -> None:
    """Replaces a value by an odd value of the same type."""
    value = holder[step]
    if isinstance(value, bool):
        holder[step] = not value
    elif isinstance(value, int | float):
        holder[step] = rng.choice(_NUMBERS)
    elif isinstance(value, str):
        is_amount = value[:1].isdigit()
        holder[step] = rng.choice(_QUANTITIES if is_amount else TEXTS)
    elif isinstance(value, dict):
        holder[step] = {} if rng.random() < 0.5 else {rng.choice(TEXTS): rng.choice(TEXTS)}
    elif isinstance(value, list):
        holder[step] = value[::-1] if rng.random() < 0.5 else []


def _objects_in(objects: list[Any]) -> list[dict[str, Any]]:
    """Returns the objects with metadata, also those of lists."""
    items = [own for own in objects if isinstance(own, dict)]
    lists = [own["items"] for own in items if isinstance(own.get("items"), list)]
    items += [item for own in lists for item in own if isinstance(item, dict)]
    return [own for own in items if isinstance(own.get("metadata"), dict)]


def _own(rng: Rng, objects: list[Any]) -> None:
    """Makes an object the owner of another, or of itself: owners may be in a circle."""
    candidates = _objects_in(objects)
    if not candidates:
        return
    owned, owner = rng.choice(candidates), rng.choice(candidates)
    uid = owner["metadata"].setdefault("uid", f"uid-{rng.randrange(3)}")
    reference = {
        "apiVersion": owner.get("apiVersion"),
        "kind": owner.get("kind"),
        "name": owner["metadata"].get("name"),
        "uid": uid,
        "controller": rng.random() < 0.8,
    }
    references = owned["metadata"].get("ownerReferences")
    own = references if isinstance(references, list) and rng.random() < 0.3 else []
    # Copied: a UID may be a mapping, of which the other object is a part.
    owned["metadata"]["ownerReferences"] = [*own, _copy(reference)]


def _select(rng: Rng, places: list[_Place]) -> None:
    """Gives a selector other requirements."""
    names = ("selector", "labelSelector", "namespaceSelector", "preference", "nodeSelectorTerms")
    selectors = [place for place in places if place[1] in names]
    if not selectors:
        return
    holder, step = rng.choice(selectors)
    counts = (0, 1, 2)
    requirements = [
        {
            "key": rng.choice(("app", "disk", "kubernetes.io/hostname", *TEXTS)),
            "operator": rng.choice(_OPERATORS),
            "values": [rng.choice(("web", "5", *TEXTS)) for _ in range(rng.choice(counts))],
        }
        for _ in range(rng.choice(counts))
    ]
    term = {rng.choice(("matchExpressions", "matchFields")): requirements}
    holder[step] = [term] if step == "nodeSelectorTerms" else term


def _alter_object(rng: Rng, objects: list[Any]) -> None:
    """Changes the head or the metadata of an object."""
    candidates = _objects_in(objects)
    if not candidates:
        return
    own = rng.choice(candidates)
    metadata = own["metadata"]
    match rng.randrange(6):
        case 0:
            own["apiVersion"], own["kind"] = rng.choice(_KINDS)
        case 1:
            del own["metadata"]
        case 2:
            metadata["name"] = _copy(rng.choice(candidates)["metadata"].get("name"))
        case 3:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        case 4:
            metadata["namespace"] = rng.choice(("default", "shop", "gone", "", None))
        case _:
            metadata["generateName"] = metadata.pop("name", "x")


def _written(rng: Rng, objects: list[Any]) -> bytes:
    """Returns the objects as a file."""
    if rng.random() < _JSON:
        whole = {"apiVersion": "v1", "kind": "List", "items": objects}
        return json.dumps(whole if rng.random() < 0.8 else objects[:1]).encode()
    return _yaml(objects)


def _yaml(documents: list[Any]) -> bytes:
    text: str = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text.encode("utf-8", "replace")

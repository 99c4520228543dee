"""One stored object: its bytes, split at the resourceVersion.

::

    {"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"  12  ","name":"web-0",...
    └──────────────────── head, shared ──────────────────────────┘  │   └──── tail ────────
                                                                 version

So an object gets another version, or loses its kind inside a list, without being decoded; and two
objects are equal exactly if their tails are equal, since the tail's keys are sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mooring.apiserver.types import Object
from mooring.objects.sorted_json import encode_sorted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.resources import Resource


_decode = msgspec.json.Decoder().decode

#: The first bytes of an object inside a list, where its kind is not repeated.
ITEM_HEAD = b'{"metadata":{"resourceVersion":"'
_NO_LABELS: Mapping[str, str] = {}


def head_of(resource: Resource) -> bytes:
    """Returns the first bytes of all objects of a resource, up to the resourceVersion's digits."""
    names = f'"kind":"{resource.kind}","apiVersion":"{resource.api_version}"'
    return b"{" + names.encode() + b"," + ITEM_HEAD[1:]


def tail_of(obj: Object) -> bytes:
    """Returns the bytes of the object after the digits of its resourceVersion.

    Kind, apiVersion and resourceVersion in ``obj`` are ignored.
    """
    metadata = dict(obj["metadata"])
    metadata.pop("resourceVersion", None)
    rest = {key: value for key, value in obj.items() if key not in _IN_HEAD}
    inner, outer = encode_sorted(metadata), encode_sorted(rest)
    middle = b'",' if metadata else b'"'
    if rest:
        return middle + inner[1:] + b"," + outer[1:]
    return middle + inner[1:] + b"}"


_IN_HEAD = frozenset(("kind", "apiVersion", "metadata"))


class Stored:
    """An object at one version; immutable.

    Attributes:
        key: "namespace/name", or the name alone where there are no namespaces.
        version: The resourceVersion, as a number.
        labels: The object's labels; shared, do not change them.
    """

    __slots__ = ("_head", "fields", "key", "labels", "tail", "version")

    def __init__(
        self, head: bytes, key: str, version: int, tail: bytes, labels: Mapping[str, str] | None
    ) -> None:
        self._head = head
        self.key = key
        self.version = version
        self.tail = tail
        self.labels = labels or _NO_LABELS
        #: The selectable fields; computed on first use.
        self.fields: Mapping[str, str] | None = None

    def encoded(self) -> bytes:
        """Returns the whole object as JSON."""
        return b"%b%d%b" % (self._head, self.version, self.tail)

    def item(self) -> bytes:
        """Returns the object as an item of a list: without kind and apiVersion."""
        return b"%b%d%b" % (ITEM_HEAD, self.version, self.tail)

    def object(self) -> Object:
        """Returns the object, decoded anew: the caller may change it."""
        obj: Object = _decode(self.encoded())
        return obj

    @property
    def uid(self) -> str:
        """The object's UID."""
        return str(self.object()["metadata"]["uid"])

    def at_version(self, version: int) -> Stored:
        """Returns the same object with another resourceVersion."""
        copy = Stored(self._head, self.key, version, self.tail, self.labels)
        copy.fields = self.fields
        return copy

    @property
    def name(self) -> str:
        """The object's name."""
        return self.key.rpartition("/")[2]

    @property
    def namespace(self) -> str:
        """The object's namespace, "" if it has none."""
        return self.key.rpartition("/")[0]


def key_of(namespace: str, name: str) -> str:
    """Returns the storage key of an object; namespace "" for cluster-scoped kinds."""
    return f"{namespace}/{name}" if namespace else name

"""Objects of kinds without a struct: custom resources, and built-in kinds outside the table.

Only plugins read them. An object is its JSON, with the metadata decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from mooring.objects.meta import ObjectMeta

#: As kube-scheduler's plugins name a resource: plural, version, group ("" = the core group).
RESOURCE_NAME: Final = re.compile(r"([a-z0-9-]+)\.(v[0-9][a-z0-9]*)\.([a-z0-9.-]*)")

_CLASSES_CACHED: Final = 1024


class GenericObject(Mapping[str, Any]):
    """An object without a struct: a mapping of its JSON fields, and its metadata. Do not change it.

    Example:
        >>> group = GenericObject({"metadata": {"name": "g"}, "spec": {"minMember": 3}})
        >>> group.metadata.name, group.spec["minMember"], group.status
        ('g', 3, {})

    Args:
        content: The object as JSON.

    Raises:
        msgspec.ValidationError: the metadata is missing, or has a field of a wrong type.
    """

    __slots__ = ("_content", "metadata")

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content
        self.metadata: ObjectMeta = _metadata(content)

    @property
    def api_version(self) -> str:
        """The value of ``apiVersion``."""
        return str(self._content.get("apiVersion", ""))

    @property
    def kind(self) -> str:
        """The value of ``kind``."""
        return str(self._content.get("kind", ""))

    @property
    def spec(self) -> Mapping[str, Any]:
        """The value of ``spec``; empty if there is none."""
        return self._content.get("spec") or {}

    @property
    def status(self) -> Mapping[str, Any]:
        """The value of ``status``; empty if there is none."""
        return self._content.get("status") or {}

    def __getitem__(self, name: str) -> Any:
        """Returns a field of the object as JSON."""
        return self._content[name]

    def __iter__(self) -> Iterator[str]:
        """Yields the names of the fields."""
        return iter(self._content)

    def __len__(self) -> int:
        """Returns the number of fields."""
        return len(self._content)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles the JSON: the class is created anew in another process."""
        return _of_class, (type(self).__name__, dict(self._content))

    def __repr__(self) -> str:
        """Returns kind and key: an object may be large."""
        metadata = self.metadata
        return f"<{self.kind or 'object'} {metadata.namespace}/{metadata.name}>"


@lru_cache(maxsize=_CLASSES_CACHED)
def generic_class(name: str) -> type[GenericObject]:
    """Returns the class of the objects of a kind, which has the kind's name as all structs."""
    return type(name, (GenericObject,), {"__slots__": ()})


def _of_class(name: str, content: Mapping[str, Any]) -> GenericObject:
    cls = GenericObject if name == GenericObject.__name__ else generic_class(name)
    return cls(content)


def decode_generic(cls: Any, content: Any) -> Any:
    """Converts JSON for msgspec, as its ``dec_hook``.

    Raises:
        NotImplementedError: the class is no generic one.
        ValueError: the content is no object.
    """
    if not (isinstance(cls, type) and issubclass(cls, GenericObject)):
        raise NotImplementedError
    if not isinstance(content, dict):
        raise ValueError("must be a mapping")
    if "apiVersion" not in content:  # an object of a list of a built-in kind
        _, version, group = cls.__name__.split(".", 2)
        content["apiVersion"] = f"{group}/{version}" if group else version
    return cls(content)


def encode_generic(obj: Any) -> Any:
    """Returns the JSON of a generic object, as msgspec's ``enc_hook``.

    Raises:
        NotImplementedError: it is no generic object.
    """
    if not isinstance(obj, GenericObject):
        raise NotImplementedError(f"cannot encode {type(obj).__name__}")
    return dict(obj)


def resource_name_of(api_version: str, kind: str) -> str:
    """Returns the name of the resource that a kind most likely has.

    Source: k8s.io/apimachinery pkg/api/meta/restmapper.go (UnsafeGuessKindToResource).

    Example:
        >>> resource_name_of("scheduling.x-k8s.io/v1alpha1", "PodGroup")
        'podgroups.v1alpha1.scheduling.x-k8s.io'
        >>> resource_name_of("networking.k8s.io/v1", "NetworkPolicy")
        'networkpolicies.v1.networking.k8s.io'
    """
    group, _, version = api_version.rpartition("/")
    singular = kind.lower()
    if singular == "endpoints":
        plural = singular
    elif singular.endswith("s"):
        plural = f"{singular}es"
    elif singular.endswith("y"):
        plural = f"{singular[:-1]}ies"
    else:
        plural = f"{singular}s"
    return f"{plural}.{version}.{group}"


def _metadata(content: Mapping[str, Any]) -> ObjectMeta:
    """Returns the metadata; null fields are absent, as for Go."""
    metadata = content.get("metadata")
    if isinstance(metadata, dict):
        metadata = {name: value for name, value in metadata.items() if value is not None}
    return msgspec.convert(metadata, ObjectMeta)

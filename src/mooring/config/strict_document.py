"""Files of mooring's own kinds: one YAML or JSON document, read strictly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from mooring.config import strict
from mooring.config.field_errors import FieldError
from mooring.config.load import located_errors, only_document
from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.files.paths import Text

Document = TypeVar("Document")
#: Errors that are shown: the text is read once more for the line of each.
ERRORS_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class StrictDocument(Generic[Document]):
    """A document that has all fields that it must have, and no others.

    Attributes:
        value: As plain values.
        document: As a struct.
        errors: Gets what is wrong with the meaning of fields.
    """

    value: Any
    document: Document
    errors: list[FieldError] = field(default_factory=list)
    _data: bytes = b""
    _file: str = ""

    def raise_errors(self) -> None:
        """Raises the errors, if there are any.

        Raises:
            ConfigError: there is one; ``ConfigErrors`` if there are several.
        """
        _raise(self.errors, self._data, self._file)


def read_strict(
    text: Text, struct: type[Document], *, api_version: str, kind: str
) -> StrictDocument[Document]:
    """Reads the single document of a text.

    Args:
        text: YAML or JSON.
        struct: The type of the document, with ``api_version`` and ``kind``.
        api_version: What the document must say.
        kind: The same.

    Raises:
        ConfigError: it cannot be read, has an unknown field or a value of another type;
            ``ConfigErrors`` if there are several errors.
    """
    data = text.read()
    try:
        value = only_document(data, kind=kind)
    except ConfigError as error:
        raise error.located(file=text.name) from None
    errors: list[FieldError] = []
    plain = strict.checked(value, struct, (), errors)
    if isinstance(value, dict):
        for name, expected in (("apiVersion", api_version), ("kind", kind)):
            if name in value and value[name] != expected:
                errors.insert(0, FieldError((name,), f'must be "{expected}"', value[name]))
    _raise(errors, data, text.name)
    document: Document = strict.build(plain, struct)
    return StrictDocument(value, document, [], data, text.name)


def _raise(errors: Sequence[FieldError], data: bytes, file: str) -> None:
    located = located_errors(errors[:ERRORS_MAX], data, file)
    if len(located) == 1:
        raise located[0]
    if located:
        raise ConfigErrors(located, is_cut=len(errors) > ERRORS_MAX)

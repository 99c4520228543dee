"""Fields of objects that a write may not change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.apiserver.types import Object


def restore_fields(new: Object, old: Object, *names: str) -> None:
    """Gives fields the values that they have in the old object; absent ones are removed."""
    for name in names:
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)

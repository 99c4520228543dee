"""Plants a bug by the change of one line of a function's source.

A bug that no longer fits, since the code has changed, is an error: it has to be planted anew.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from typing import Any, NamedTuple

import pytest


class PlantedBug(NamedTuple):
    """One bug.

    Attributes:
        name: Of the bug.
        what: What is wrong, in words.
        owner: The class or module that has the function.
        function: The name of the function.
        before: A part of its source, which occurs once.
        after: What replaces it.
        runs: The runs that detect it, or may: a key of ``kinds.KINDS``.
        seed: The seed of these runs that detects it; None = none is recorded.
    """

    name: str
    what: str
    owner: Any
    function: str
    before: str
    after: str
    runs: str = "swarm"
    seed: int | None = None

    @property
    def room(self) -> str:
        """The package of the bug: "queue", "state", "scheduler" ..."""
        parts = _module_of(self.owner).__name__.split(".")
        return "/".join(parts[1:3]) if parts[1] == "plugins" else parts[1]

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Plants the bug until the patch is undone.

        Raises:
            AssertionError: the source has no such part, or several.
        """
        module = _module_of(self.owner)
        static = inspect.getattr_static(self.owner, self.function)
        # With the module's own names, and with its ``from __future__ import annotations``.
        text = "from __future__ import annotations\n" + self._changed()
        namespace: dict[str, Any] = {}
        code = compile(text, f"<planted {self.name}>", "exec")
        exec(code, vars(module), namespace)
        planted = namespace[self.function]
        patch.setattr(self.owner, self.function, planted)
        if inspect.ismodule(self.owner):
            # Others have imported the function by its name, also runs that call it themselves.
            for importer in [module for name, module in sys.modules.items() if _is_ours(name)]:
                if getattr(importer, self.function, None) is static:
                    patch.setattr(importer, self.function, planted)

    def planted_source(self) -> str:
        """Returns the changed function with its module, without what changes nothing in it.

        Raises:
            AssertionError: the source has no such part, or several.
        """
        return f"{_module_of(self.owner).__name__} {ast.dump(ast.parse(self._changed()))}"

    def _changed(self) -> str:
        static = inspect.getattr_static(self.owner, self.function)
        function: Any = static.fget if isinstance(static, property) else static
        # A context manager made by a decorator has the function inside; its source has both.
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.before) == 1, f"{self.name}: {source.count(self.before)} places"
        return source.replace(self.before, self.after)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in ("mooring", "tests")


def _module_of(owner: Any) -> Any:
    return owner if inspect.ismodule(owner) else sys.modules[owner.__module__]

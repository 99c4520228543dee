"""The scripts that a report carries: Vega, Vega-Lite, Vega-Embed, and the one of the page.

``vendor/vendor.json`` lists the package, version, licences and SHA-256 of every vendored file.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from importlib import resources
from typing import Final

#: In the order in which a page runs them.
VENDORED: Final = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")

#: A browser with open developer tools would ask for the map beside the report.
_SOURCE_MAP: Final = re.compile(r"\n//# sourceMappingURL=\S+\s*\Z")
#: Either ends a script, or starts a state in which the next end is not seen.
_ENDS_SCRIPT: Final = re.compile(r"</script|<script|<!--", re.IGNORECASE)


@lru_cache(maxsize=1)
def scripts() -> tuple[str, ...]:
    """Returns the scripts of a page, safe inside of script elements."""
    folder = resources.files("mooring.report")
    texts = [folder.joinpath("vendor", name).read_text("utf-8") for name in VENDORED]
    texts.append(folder.joinpath("static", "page.js").read_text("utf-8"))
    made = tuple(_SOURCE_MAP.sub("\n", text) for text in texts)
    assert not any(map(_ENDS_SCRIPT.search, made)), "a script cannot be inlined"
    return made


@lru_cache(maxsize=1)
def style() -> str:
    """Returns the style sheet of a page."""
    return resources.files("mooring.report").joinpath("static", "page.css").read_text("utf-8")


def source_hash(text: str) -> str:
    """Returns the source of a Content-Security-Policy that allows an inline text."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"

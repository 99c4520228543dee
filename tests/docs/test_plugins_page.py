"""The page "Plugins" has every default plugin, with its extension points, weight and source."""

from __future__ import annotations

import re
from typing import NamedTuple

from mooring import plugins
from mooring.config import DEFAULT_PLUGINS
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "plugins.md"
_SECTION = re.compile(
    r"^## (\w+)\n\n\| Extension points \| Weight \| Source \|\n\|---\|---\|---\|\n"
    r"\| ([\w, ]+) \| (\d+|-) \| \[`([\w/]+\.py)`\]",
    re.MULTILINE,
)
#: Method -> its extension point.
POINTS = {
    "pre_enqueue": "PreEnqueue",
    "less": "QueueSort",
    "pre_filter": "PreFilter",
    "filter": "Filter",
    "post_filter": "PostFilter",
    "pre_score": "PreScore",
    "score": "Score",
    "reserve": "Reserve",
    "permit": "Permit",
    "pre_bind": "PreBind",
    "bind": "Bind",
    "post_bind": "PostBind",
}


class Section(NamedTuple):
    """One plugin of the page."""

    name: str
    points: str
    weight: str
    source: str


def sections() -> list[Section]:
    """Returns the plugins of the page, in order."""
    return [Section(*groups) for groups in _SECTION.findall(PAGE.read_text(encoding="utf-8"))]


def test_the_page_has_the_default_plugins_in_their_order() -> None:
    assert [section.name for section in sections()] == list(DEFAULT_PLUGINS)


def test_each_section_has_the_weight_of_the_default_profile() -> None:
    weights = {section.name: int(section.weight.replace("-", "0")) for section in sections()}
    assert weights == DEFAULT_PLUGINS


def test_each_section_has_the_extension_points_that_the_plugin_implements() -> None:
    for section in sections():
        plugin = getattr(plugins, section.name)
        points = [point for method, point in POINTS.items() if hasattr(plugin, method)]
        assert section.points == ", ".join(points), section.name


def test_each_section_links_the_module_that_defines_the_plugin() -> None:
    for section in sections():
        module = getattr(plugins, section.name).__module__
        assert f"mooring/{section.source}" == module.replace(".", "/") + ".py"

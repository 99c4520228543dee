"""The version of Kubernetes that ``mooring run`` stands in for, and versions of components.

Source: apimachinery's util/version, component-base's version and compatibility.
"""

from __future__ import annotations

import re
import sys
from platform import machine
from typing import Final, NamedTuple

from mooring.component.go_values import GoError, quote

#: The kube-scheduler whose flags, gates and answers these are.
BINARY_VERSION: Final = "1.36.3"
VERSION_TEXT: Final = f"v{BINARY_VERSION}"

_VERSION: Final = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)(.*?)\s*", re.DOTALL)


class Version(NamedTuple):
    """A major and a minor number."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def minus_one(self) -> Version:
        """Returns the minor version before this one."""
        return Version(self.major, max(self.minor - 1, 0))


#: The version of the gates' defaults if nothing is emulated.
BINARY: Final = Version(1, 36)
#: The oldest version that can be emulated.
FLOOR: Final = Version(1, 33)


def parse_version(text: str) -> tuple[int, ...]:
    """Returns the numbers of a version: two or more.

    Raises:
        GoError: it is no version.
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        raise GoError(f"could not parse {quote(text)} as version")
    numbers = match[1].split(".")
    if len(numbers) < 2:
        raise GoError(f"illegal version string {quote(text)}")
    if numbers[0].startswith("0") and numbers[0] != "0":
        raise GoError(
            f"illegal zero-prefixed version component {quote(numbers[0])} in {quote(text)}"
        )
    return tuple(map(int, numbers))


def parse_component_versions(texts: tuple[str, ...]) -> dict[str, Version]:
    """Returns component -> version of a flag's texts: "kube=1.35", or "1.35" for kube.

    Raises:
        GoError: a version cannot be parsed, has a patch number, or is given twice.
    """
    versions: dict[str, tuple[Version, str]] = {}
    for text in texts:
        component, separator, version_text = text.partition("=")
        if not separator:
            component, version_text = "kube", text
        else:
            component, version_text = component.strip(), version_text.strip()
        numbers = parse_version(version_text)
        canonical = ".".join(map(str, numbers))
        if len(numbers) > 2 and numbers[2]:
            raise GoError(f"patch version not allowed, got: {component}={canonical}")
        if component in versions:
            before = versions[component][1]
            raise GoError(
                f"duplicate version flag, {component}={before} and {component}={canonical}"
            )
        versions[component] = Version(numbers[0], numbers[1]), canonical
    return {component: version for component, (version, _) in versions.items()}


def version_output(form: str, *, reported: str = VERSION_TEXT) -> str:
    """Returns what --version prints, or with ``form`` "raw" all of it."""
    if form != "raw":
        return f"Kubernetes {reported}"
    fields = {
        "Major": BINARY.major,
        "Minor": BINARY.minor,
        "EmulationMajor": "",
        "EmulationMinor": "",
        "MinCompatibilityMajor": "",
        "MinCompatibilityMinor": "",
        "GitVersion": reported,
        "GitCommit": "",
        "GitTreeState": "",
        "BuildDate": "",
        "GoVersion": "",
        "Compiler": "",
        "Platform": f"{sys.platform}/{machine()}",
    }
    return "version.Info{" + ", ".join(f'{name}:"{value}"' for name, value in fields.items()) + "}"

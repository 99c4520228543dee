"""Settings of the metrics: from the command line and the feature gates."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

#: The version of kube-scheduler whose metrics these are.
KUBERNETES_VERSION = "1.36.3"


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature gate: ``stage`` is "ALPHA", "BETA", "" (GA) or "DEPRECATED"."""

    name: str
    stage: str
    is_enabled: bool


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """The labels of ``kubernetes_build_info``. There is no Go: ``go_version`` is empty."""

    git_version: str = f"v{KUBERNETES_VERSION}"
    git_commit: str = ""
    git_tree_state: str = "clean"
    build_date: str = "1970-01-01T00:00:00Z"
    go_version: str = ""
    compiler: str = field(default_factory=lambda: platform.python_implementation().lower())
    platform: str = field(default_factory=lambda: f"{platform.system().lower()}/{_machine()}")

    @property
    def labels(self) -> tuple[str, ...]:
        """The values, in the order of the family's labels."""
        major, minor, *_ = self.git_version.lstrip("v").split(".")
        return (
            *(major, minor, self.git_version, self.git_commit, self.git_tree_state),
            *(self.build_date, self.go_version, self.compiler, self.platform),
        )


def _machine() -> str:
    """Returns Go's name of this machine."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """The options of ``Metrics``.

    Attributes:
        disabled: Names of families that are not shown (``--disabled-metrics``); unknown names
            count, as upstream, but do nothing.
        allowed_labels: ``"metric,label"`` -> ``"value,value"`` (``--allow-metric-labels``, or its
            manifest): other values become ``unexpected``.
        features: The feature gates; families of a gate that is off are not registered.
        build: The version that ``kubernetes_build_info`` shows.
        emulation_version: The emulated version of ``version_info``.
        min_compatibility_version: The oldest version that ``version_info`` shows.
    """

    disabled: Sequence[str] = ()
    allowed_labels: Mapping[str, str] = field(default_factory=dict)
    features: Sequence[Feature] = ()
    build: BuildInfo = field(default_factory=BuildInfo)
    emulation_version: str = "1.36"
    min_compatibility_version: str = "1.35"

    def allowed_values(self, metric: str) -> dict[str, frozenset[str]]:
        """Returns label -> allowed values, for the labels of a metric that have a list."""
        allowed = {}
        for key, values in self.allowed_labels.items():
            name, _, label = key.partition(",")
            if name == metric:
                allowed[label] = frozenset(values.split(","))
        return allowed

from typing import Final

from mooring.errors import (
    ConfigError as ConfigError,
)
from mooring.errors import (
    PluginError as PluginError,
)
from mooring.errors import (
    SchedulerError as SchedulerError,
)
from mooring.framework import (
    SKIP as SKIP,
)
from mooring.framework import (
    Cycle as Cycle,
)
from mooring.framework import (
    Diagnosis as Diagnosis,
)
from mooring.framework import (
    FilterStatuses as FilterStatuses,
)
from mooring.framework import (
    NodeInfo as NodeInfo,
)
from mooring.framework import (
    NodeView as NodeView,
)
from mooring.framework import (
    Pending as Pending,
)
from mooring.framework import (
    PostFilterResult as PostFilterResult,
)
from mooring.framework import (
    PreFilterResult as PreFilterResult,
)
from mooring.framework import (
    Reject as Reject,
)
from mooring.framework import (
    Status as Status,
)
from mooring.framework import (
    Wait as Wait,
)
from mooring.framework import (
    default_normalize as default_normalize,
)
from mooring.framework import (
    per_node as per_node,
)
from mooring.framework import (
    predicate as predicate,
)
from mooring.framework import (
    priority as priority,
)
from mooring.state import PodInfo as PodInfo
from mooring.state.columns.change_log import Change as Change
from mooring.study.cluster import Cluster as Cluster
from mooring.study.compare import Comparison as Comparison
from mooring.study.compare import compare as compare
from mooring.study.result import Result as Result
from mooring.study.scenario import Scenario as Scenario
from mooring.study.scenario import ScenarioResult as ScenarioResult
from mooring.study.scenario import write_report as write_report
from mooring.study.server import Server as Server
from mooring.study.suggestions import Suggestion as Suggestion
from mooring.study.suggestions import Suggestions as Suggestions
from mooring.study.table import Table as Table

__version__: Final[str]
__all__: list[str]
_PUBLIC: Final[dict[str, str]]

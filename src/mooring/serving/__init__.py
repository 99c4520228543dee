"""The scheduler's own HTTPS endpoints: health, metrics, configuration and debugging.

::

    TLS ── authentication ── authorization ── router ──┬── health
           401                403, 500        404      ├── metrics
                                                       ├── /configz /flagz /statusz
                                                       └── /debug/pprof /debug/flags

``SecureServer`` is independent of the scheduler: everything that it shows comes from functions that
its ``Endpoints`` contain.
"""

from mooring.serving.health import HealthChecks, healthy
from mooring.serving.options import ServingOptions
from mooring.serving.routes import Debugging, Endpoints, MetricsRoutes
from mooring.serving.server import SecureServer
from mooring.serving.zpages import Versions

__all__ = [
    "Debugging",
    "Endpoints",
    "HealthChecks",
    "MetricsRoutes",
    "SecureServer",
    "ServingOptions",
    "Versions",
    "healthy",
]

"""Every family of metrics that the scheduler registers, by endpoint.

Names, labels, types, buckets and stability of families that kube-scheduler has are those of
kube-scheduler v1.36.3 (pkg/scheduler/metrics/metrics.go, component-base and client-go); the help
texts are ours. Families that begin with ``mooring_`` are ours alone. docs/reference/metrics.md says
when each is observed.
"""

from __future__ import annotations

from typing import Final

from mooring.metrics.family import Family
from mooring.metrics.process_families import CLIENT, HEALTH, OWN, POD_RESOURCES, PROCESS
from mooring.metrics.scheduler_families import ATTEMPTS, BATCH, FRAMEWORK, QUEUE
from mooring.metrics.serving_families import SERVING

#: All families, in the order of registration.
FAMILIES: Final[tuple[Family, ...]] = (
    *ATTEMPTS,
    *QUEUE,
    *FRAMEWORK,
    *BATCH,
    *CLIENT,
    *PROCESS,
    *HEALTH,
    *POD_RESOURCES,
    *SERVING,
    *OWN,
)

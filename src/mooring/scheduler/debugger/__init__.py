"""Compares cache and queue with the informers' objects: for SIGUSR2, and every minute.

Also finds the containers with a limit, for metrics.
"""

from mooring.scheduler.debugger.audit import CacheAudit
from mooring.scheduler.debugger.buffers import Buffer, buffers, record_buffers
from mooring.scheduler.debugger.dump import LogEntry, debug_entries

__all__ = [
    "Buffer",
    "CacheAudit",
    "LogEntry",
    "buffers",
    "debug_entries",
    "record_buffers",
]

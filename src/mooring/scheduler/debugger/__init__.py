"""Compares cache and queue with the informers' objects: for SIGUSR2, and every minute."""

from mooring.scheduler.debugger.audit import CacheAudit
from mooring.scheduler.debugger.dump import LogEntry, debug_entries

__all__ = ["CacheAudit", "LogEntry", "debug_entries"]

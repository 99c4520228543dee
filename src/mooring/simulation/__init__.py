"""Schedules without an API server, on virtual time: ``mooring simulate``, ``mooring replay``."""

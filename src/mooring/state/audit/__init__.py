"""Recomputes derived state from the objects alone, and reports differences."""

from mooring.state.audit.columns import audit

__all__ = ["audit"]

"""Recomputes derived state from the objects alone, and reports differences."""

from mooring.state.audit.columns import audit, audit_row

__all__ = ["audit", "audit_row"]

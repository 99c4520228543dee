"""Converts a legacy Policy file (removed in Kubernetes v1.23) to a configuration."""

from __future__ import annotations

from mooring.config.legacy_policy.convert import ConvertedPolicy, convert_policy

__all__ = ["ConvertedPolicy", "convert_policy"]

"""Fixtures of these tests: each starts a scheduler, which collects garbage first."""

from tests.helpers.fast_collections import fast_collections

__all__ = ["fast_collections"]

"""DefaultPreemption: evicts pods of lower priority to make a node fit."""

from mooring.plugins.default_preemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]

"""DefaultPreemption: selects pods of lower priority as victims, so that a pod fits on a node."""

from mooring.plugins.default_preemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]

"""DynamicResources: allocates devices to the resource claims of a pod."""

from mooring.plugins.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]

"""Controllers that run with the request that has changed something."""

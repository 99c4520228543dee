"""Runs the plugins of a profile: the extension points of one scheduling cycle, in order.

``framework.py`` holds the plugins of one profile; every extension point has its own module.
``result_cache.py`` keeps the results of plugins for pods with equal signatures.
"""

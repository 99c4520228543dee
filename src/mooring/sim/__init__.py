"""Clusters on virtual time: recordings, comparing decisions, workloads, summaries, explanations.

Nothing here talks to an API server. ``driver`` decides; the other modules feed it and tell of it.
"""

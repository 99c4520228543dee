"""``mooring learn``: a tutorial of eight schedulers, each an extension of the one before.

``steps`` has the schedulers, ``scenarios`` the clusters and the expected results, ``lessons`` the
texts; ``running`` runs a lesson. The names below are for schedulers that run in the same way.
"""

from mooring.learn.observer import (
    EventSink,
    LoggingObserver,
    emit_decision,
    failure_text,
    moves,
    tutorial_framework,
)

__all__ = [
    "EventSink",
    "LoggingObserver",
    "emit_decision",
    "failure_text",
    "moves",
    "tutorial_framework",
]

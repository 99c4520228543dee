"""``mooring learn``: eight schedulers, each a step further than the one before, and what they show.

``steps`` holds the schedulers, ``scenarios`` what is done to them and what must come of it,
``lessons`` what is said, ``running`` puts them into a cluster. The names below are those that a
scheduler of one's own needs to be run in the same way.
"""

from mooring.learn.observer import (
    Tell,
    TellingObserver,
    failure_text,
    moves,
    tell_decision,
    tutorial_framework,
)

__all__ = [
    "Tell",
    "TellingObserver",
    "failure_text",
    "moves",
    "tell_decision",
    "tutorial_framework",
]

"""The format that metrics are exposed in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from prometheus_client.core import Metric

from mooring.metrics.text import CONTENT_TYPE, render


class Exposition(NamedTuple):
    """A format of /metrics.

    Attributes:
        content_type: The media type with its parameters.
        render: Returns the body for some families.
    """

    content_type: str
    render: Callable[[Iterable[Metric]], bytes]


#: The Prometheus text format 0.0.4.
TEXT = Exposition(CONTENT_TYPE, render)

"""Requests whose answers were recorded from kube-apiserver v1.36.3: the embedded server's exam.

``tools/record_answers.py`` sends them to a real control plane and keeps the answers in
``tests/unit/data/apiserver_answers.jsonl.gz``; ``test_apiserver_recorded.py`` sends them to the
embedded server and compares. Every scenario has a namespace of its own, written ``NS``.
"""

from __future__ import annotations

from tests.helpers.scenarios.base import Step
from tests.helpers.scenarios.changes import CHANGES
from tests.helpers.scenarios.invalid import INVALID
from tests.helpers.scenarios.objects import OBJECTS
from tests.helpers.scenarios.requests import REQUESTS

SCENARIOS: dict[str, list[Step]] = {**REQUESTS, **CHANGES, **OBJECTS, **INVALID}

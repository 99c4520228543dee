"""The failure of a reservation: which of its requests has failed, and what may follow it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, Final

CONFLICT: Final = 409
CONFLICTS_MAX: Final = 5
#: What was read says more than a request that has failed.
OF_READS: Final = ("in the meantime",)


def text_problem(text: str, key: str, answers: list[Any], *, is_allocated: bool) -> str:
    """Returns what is wrong with the text of a failure; "" = nothing.

    It names the step of the last request, and has the server's own text. A read that only shows
    what a write has stored is no step: after a failure of the server, and after the last conflict.

    Args:
        text: The text.
        key: The claim's namespace and name.
        answers: The answers to the attempt: with a request, a status and a body.
        is_allocated: Whether the attempt allocates the claim.
    """
    if not answers or any(part in text for part in OF_READS):
        return ""
    steps, writes = [answers[-1]], [answer for answer in answers if not _is_read(answer)]
    if writes and _is_read(answers[-1]):
        conflicts = sum(answer.status == CONFLICT for answer in answers)
        is_answered = 0 < answers[-1].status < 300
        if conflicts >= CONFLICTS_MAX or (writes[-1].status >= 500 and is_answered):
            steps = [writes[-1]]
        elif writes[-1].status >= 500:
            steps.append(writes[-1])
    if not any(_is_of(text, answer, key, is_allocated=is_allocated) for answer in steps):
        sent = [(answer.request.method, answer.request.path, answer.status) for answer in steps]
        return f"the last requests are {sent}"
    return ""


def requests_after_the_end(answers: list[Any]) -> int:
    """Returns how many requests followed a read of a claim that does not exist any more.

    Such a read ends the attempt, if all requests before have an answer: one that the server failed
    just before the read counts as answered by it. After a conflict it does so in any case.
    """
    for index, (before, answer) in enumerate(pairwise(answers)):
        is_read = answer.request.method == "GET"
        if before.status == 409 and is_read and answer.status == 404:
            return len(answers) - index - 2
    for index, answer in enumerate(answers):
        is_failed_write = answer.request.method != "GET" and answer.status >= 500
        is_judged = is_failed_write and index + 1 < len(answers)
        if answer.request.method == "GET" and answer.status == 404:
            return len(answers) - index - 1
        if not (0 < answer.status < 300 or answer.status == 409 or is_judged):
            return 0
        if is_judged and answers[index + 1].status not in (200, 404):
            return 0
    return 0


def _is_read(answer: Any) -> bool:
    return bool(answer.request.method == "GET")


def _is_of(text: str, answer: Any, key: str, *, is_allocated: bool) -> bool:
    """Returns whether a text may be that of the failure of a request."""
    if _is_read(answer):
        step = f"get updated claim {key}{' after conflict' if answer.status else ''}"
    elif not answer.request.path.endswith("/status"):
        step = f"add finalizer to claim {key}"
    else:
        step = f"add {'allocation and ' * is_allocated}reservation to claim {key}"
    if not text.startswith(f"{step}: "):
        return False
    return not answer.status or text.removeprefix(f"{step}: ") == _message(answer)


def _message(answer: Any) -> str:
    try:
        return str(json.loads(answer.body)["message"])
    except (ValueError, KeyError, TypeError):
        return ""

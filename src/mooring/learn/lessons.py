"""The texts of each step, and the new lines of its scheduler."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mooring.learn.pupil import load


@dataclass(frozen=True, slots=True)
class Lesson:
    """A step of the tutorial.

    Attributes:
        number: From 1.
        title: One or two words.
        subject: Its subject, in one line.
        conclusion: Its conclusion.
        new_code: Names in its module of the code that is new in this step.
        file: The learner's version of the step; None = the installed one.
    """

    number: int
    title: str
    subject: str
    conclusion: str
    new_code: tuple[str, ...]
    file: Path | None = None

    @property
    def module(self) -> Any:
        """The module of the step's scheduler; a learner's file is imported each time."""
        if self.file is not None:
            return load(self.file)
        return importlib.import_module(f"mooring.learn.steps.step_{self.number}")

    def source(self) -> list[tuple[str, str]]:
        """Returns (file and line, text) of the step's new code."""
        return [self._source(name) for name in self.new_code]

    def _source(self, name: str) -> tuple[str, str]:
        member = self.module
        for part in name.split("."):
            member = getattr(member, part)
        lines, number = inspect.getsourcelines(member)
        return f"step_{self.number}.py, line {number}", textwrap.dedent("".join(lines)).rstrip()


LESSONS: Final = (
    Lesson(
        1,
        "Random",
        "take a pod from a queue, pick a random node, bind the pod",
        "A scheduler is a client of the API server. It watches pods and nodes, and writes one "
        "thing: the binding of a pod to a node. Everything else is about which node to choose, and "
        "about failures.",
        ("Scheduler.schedule_one", "Scheduler.choose"),
    ),
    Lesson(
        2,
        "Filter",
        "filter plugins rule out nodes",
        "The filters run for each node, one after another, and the first rejection counts. If no "
        "node is feasible, the message of kubectl describe counts the reasons.",
        ("NodeUnschedulable.filter", "Scheduler.refusal"),
    ),
    Lesson(
        3,
        "Score",
        "score plugins rank the feasible nodes",
        "Every feasible node gets a number from every score plugin. The highest sum wins; ties are "
        "broken at random here. (kube-scheduler and mooring also apply weights, and scale scores "
        "to 0..100.)",
        ("NodeNumber.score", "Scheduler.choose"),
    ),
    Lesson(
        4,
        "PreScore",
        "what depends only on the pod is computed once per attempt",
        "The cycle stores the state of one attempt: a plugin writes it in PreScore and reads it in "
        "Score. It always writes a value, also for a pod without a number: such a pod gets 0 on "
        "every node, and is scheduled.",
        ("NodeNumber.pre_score", "NodeNumber.score"),
    ),
    Lesson(
        5,
        "Permit",
        "a binding can wait without blocking other pods",
        "Scheduling cycles run one after another, bindings run concurrently. A pod that waits in "
        "Permit is allowed by the plugin that delayed it, or rejected after its timeout.",
        ("NodeNumber.permit", "Scheduler.bind"),
    ),
    Lesson(
        6,
        "Queue",
        "unschedulable pods wait, with the plugins that rejected them",
        "A pod is always in one state: active, unschedulable, in backoff, or in flight. A rejected "
        "pod is not retried all the time: it waits for a reason to retry it.",
        ("Scheduler.schedule", "Scheduler.put_back"),
    ),
    Lesson(
        7,
        "Events",
        "cluster events requeue the pods that they can help",
        "Plugins register the events that can resolve their rejections. An event requeues only "
        "these pods; a pod that was tried a moment ago backs off first: 1 s, 2 s, 4 s, 8 s, then "
        "10 s. Events during an attempt are not lost: the queue records them until the attempt is "
        "over.",
        ("NodeNumber.events", "Scheduler.on_node"),
    ),
    Lesson(
        8,
        "Flush",
        "a timer requeues pods after their backoff, or after five minutes",
        "The queue needs a timer. With it the scheduler is complete: it is made of the parts of "
        "`mooring run`, with two plugins.",
        ("Scheduler.flush",),
    ),
)


def lesson(number: int) -> Lesson:
    """Returns the lesson with this number, from 1."""
    return LESSONS[number - 1]


def table() -> str:
    """Returns all lessons, one per line."""
    width = max(len(lesson.title) for lesson in LESSONS)
    return "\n".join(
        f"  {lesson.number}  {lesson.title:<{width}}  {lesson.subject}" for lesson in LESSONS
    )

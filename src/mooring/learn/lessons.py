"""What is said before and after each step, and which lines of its scheduler are the step."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Lesson:
    """A step.

    Attributes:
        number: From 1.
        title: In a word or two.
        line: What it is about, in a line.
        learnt: What one knows afterwards.
        shown: The lines that are this step: names in its module.
    """

    number: int
    title: str
    line: str
    learnt: str
    shown: tuple[str, ...]

    @property
    def module(self) -> Any:
        """The step's scheduler."""
        return importlib.import_module(f"mooring.learn.steps.step_{self.number}")

    def source(self) -> list[tuple[str, str]]:
        """(where, text) of the lines that are this step, read from the file that has just run."""
        return [self._source(name) for name in self.shown]

    def _source(self, name: str) -> tuple[str, str]:
        found = self.module
        for part in name.split("."):
            found = getattr(found, part)
        lines, number = inspect.getsourcelines(found)
        return f"step_{self.number}.py, line {number}", textwrap.dedent("".join(lines)).rstrip()


LESSONS: Final = (
    Lesson(
        1,
        "Random",
        "take a pod from a line, pick any node, bind the pod",
        "A scheduler is a client like any other. It watches pods and nodes, and writes one thing: "
        "the binding of a pod to a node. All else is about which node, and about what can go wrong "
        "on the way.",
        ("Scheduler.schedule_one", "Scheduler.choose"),
    ),
    Lesson(
        2,
        "Filter",
        "plugins say which nodes can take the pod at all",
        "Each node is shown to the filters in turn, and the first refusal counts. If no node is "
        "left, the counted reasons are the message that kubectl describe shows.",
        ("NodeUnschedulable.filter", "Scheduler.refusal"),
    ),
    Lesson(
        3,
        "Score",
        "plugins say how good each node is that is left",
        "Every node that passed the filters gets a number from every score plugin. The highest sum "
        "wins, and among equals chance decides here. (kube-scheduler and mooring also weigh the "
        "plugins, and scale their scores to 0..100.)",
        ("NodeNumber.score", "Scheduler.choose"),
    ),
    Lesson(
        4,
        "PreScore",
        "what a plugin knows of the pod is worked out once an attempt",
        "The cycle is the memory of one attempt: a plugin writes it in PreScore and reads it in "
        "Score. It always writes, also that there is nothing to know: a pod without a number gets "
        "0 from every node, and is scheduled.",
        ("NodeNumber.pre_score", "NodeNumber.score"),
    ),
    Lesson(
        5,
        "Permit",
        "a pod that has a node may have to wait, and holds up nobody",
        "Decisions come one after another, bindings run beside them. A pod that waits in Permit is "
        "allowed by the plugin that held it back, or refused when its time is up.",
        ("NodeNumber.permit", "Scheduler.bind"),
    ),
    Lesson(
        6,
        "Queue",
        "what no node takes is parked, with the plugins that refused it",
        "A pod is always in one place: active, parked, backing off, or in flight. One that was "
        "refused is not tried again and again: it waits until there is a reason to.",
        ("Scheduler.schedule", "Scheduler.put_back"),
    ),
    Lesson(
        7,
        "Events",
        "what happens in the cluster wakes the pods that it can help",
        "Plugins name the events that can help those whom they refused. An event wakes these pods "
        "alone; one that was tried a moment ago backs off first: 1 s, 2 s, 4 s, 8 s, then 10 s. "
        "What happens while a pod is being tried is not lost: the queue keeps it until the attempt "
        "is over.",
        ("NodeNumber.events", "Scheduler.on_node"),
    ),
    Lesson(
        8,
        "Flush",
        "who has backed off, or waited for too long, is tried again",
        "A queue needs somebody who looks at the clock. With that the scheduler is complete: what "
        "runs here are the parts of `mooring run`, with two plugins.",
        ("Scheduler.flush",),
    ),
)


def lesson(number: int) -> Lesson:
    """Returns the lesson with this number, from 1."""
    return LESSONS[number - 1]


def table() -> str:
    """Returns all lessons, a line each."""
    width = max(len(each.title) for each in LESSONS)
    return "\n".join(f"  {each.number}  {each.title:<{width}}  {each.line}" for each in LESSONS)

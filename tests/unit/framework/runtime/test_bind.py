"""After the decision: Reserve, Permit, PreBind, Bind, PostBind, and the way back."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from mooring.errors import Conflict, InvariantViolation, OutcomeUnknown, PluginError
from mooring.framework import SKIP, Cycle, Framework, Pending, Reject, Status, Wait
from mooring.framework.runtime import bind as binding
from mooring.framework.waiting_pods import WaitingPod
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod

Called = list[tuple[str, str]]


class Step:
    """A plugin with prepared results, which records its calls."""

    def __init__(self, name: str, called: Called, **answers: Any) -> None:
        self.name = name
        self.called = called
        self.answers = answers
        for point in answers:
            setattr(
                self,
                point,
                self._async(point) if point in ("pre_bind", "bind") else self._plain(point),
            )

    def _answer(self, point: str) -> Any:
        self.called.append((self.name, point))
        answer = self.answers[point]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _plain(self, point: str) -> Any:
        def method(cycle: Cycle, node_name: str) -> Any:
            assert node_name == "a"
            return self._answer(point)

        return method

    def _async(self, point: str) -> Any:
        async def method(cycle: Cycle, node_name: str) -> Any:
            assert node_name == "a"
            return self._answer(point)

        return method


def made(*plugins: Any) -> tuple[Framework, Cycle]:
    harness = Harness([make_node("a")], plugins)
    snapshot = harness.cache.snapshot()
    return harness.framework, harness.framework.new_cycle(PodInfo(make_pod("p")), snapshot)


def steps(*answers: dict[str, Any]) -> tuple[Called, Framework, Cycle]:
    """Plugins A, B ... with these answers, in a framework, and the list of calls."""
    called: Called = []
    plugins = [Step("ABC"[at], called, **found) for at, found in enumerate(answers)]
    return called, *made(*plugins)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine by hand; it must not suspend."""
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    return stop.value.value


# ---------------------------------------------------------------- Reserve


def test_reserve_asks_all_in_order() -> None:
    called, framework, cycle = steps({"reserve": None}, {"reserve": None})

    assert binding.reserve(framework, cycle, "a") is None
    assert called == [("A", "reserve"), ("B", "reserve")]


@pytest.mark.parametrize("refusal", [Reject("taken"), Reject("no", resolvable=False), Pending("x")])
def test_the_first_refusal_ends_reserve_and_is_signed(refusal: Status) -> None:
    called, framework, cycle = steps({"reserve": None}, {"reserve": refusal}, {"reserve": None})

    assert binding.reserve(framework, cycle, "a") == refusal.named("B")
    assert called == [("A", "reserve"), ("B", "reserve")]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ValueError("broken"), "ValueError: broken"),
        (True, "returned True"),
        (SKIP, "returned SKIP"),
    ],
)
@pytest.mark.parametrize("point", ["reserve", "permit"])
def test_what_is_no_answer_is_an_error_with_the_plugins_name(
    point: str, answer: Any, told: str
) -> None:
    _, framework, cycle = steps({point: answer})

    def ask() -> Any:
        if point == "reserve":
            return binding.reserve(framework, cycle, "a")
        return binding.permit(framework, cycle, "a", now_s=0)

    with pytest.raises(PluginError) as caught:
        ask()

    assert str(caught.value) == f'running {point.capitalize()} plugin "A": {told}'


def test_only_permit_may_wait() -> None:
    _, framework, cycle = steps({"reserve": Wait(1)})

    with pytest.raises(PluginError, match=r'Reserve plugin "A": returned Wait\(timeout_s=1'):
        binding.reserve(framework, cycle, "a")


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
    """Returns plugin, point, pod and error of each line, and the last line of its traceback."""
    lines = []
    for record in caplog.records:
        facts = vars(record)
        assert record.exc_info is not None
        cause = record.exc_info[1].__cause__ if record.exc_info[1] else None
        keys = ("plugin", "extension_point", "pod", "error")
        lines.append((record.message, *(facts[key] for key in keys), repr(cause)))
    return lines


def test_unreserve_calls_every_plugin_and_logs_and_counts_those_that_raise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    called, framework, cycle = steps(
        {"unreserve": None}, {"unreserve": KeyError("lost")}, {"unreserve": None}
    )

    binding.unreserve(framework, cycle, "a")

    assert called == [("C", "unreserve"), ("B", "unreserve"), ("A", "unreserve")]
    error = "running Unreserve plugin \"B\": KeyError: 'lost'"
    assert logged(caplog) == [
        ("a plugin failed", "B", "Unreserve", "default/p", error, "KeyError('lost')")
    ]
    assert framework.errors.statistics() == {("B", "Unreserve"): 1}


def test_our_own_bug_is_not_taken_for_a_plugins_fault() -> None:
    _, framework, cycle = steps({"unreserve": InvariantViolation("columns disagree")})

    with pytest.raises(InvariantViolation, match="columns disagree"):
        binding.unreserve(framework, cycle, "a")


# ---------------------------------------------------------------- Permit


def test_permit_without_an_objection_lets_the_pod_go_on() -> None:
    called, framework, cycle = steps({"permit": None}, {"permit": None})

    assert binding.permit(framework, cycle, "a", now_s=0) is None
    assert len(called) == 2
    assert len(framework.waiting) == 0


def test_a_plugin_that_waits_makes_the_pod_wait_until_its_deadline() -> None:
    _, framework, cycle = steps({"permit": Wait(30)}, {"permit": None}, {"permit": Wait(10)})

    waiting = binding.permit(framework, cycle, "a", now_s=100)

    assert isinstance(waiting, WaitingPod)
    assert framework.waiting.get(cycle.pod.uid) is waiting
    assert (waiting.pod, waiting.node_name) == (cycle.pod, "a")
    assert waiting.pending_plugins == ["A", "C"]
    assert waiting.deadline_s == 110


def test_a_refusal_counts_even_after_a_wait_and_nobody_waits_then() -> None:
    called, framework, cycle = steps(
        {"permit": Wait(30)}, {"permit": Reject("gang is not complete")}, {"permit": None}
    )

    refusal = binding.permit(framework, cycle, "a", now_s=0)

    assert refusal == Reject("gang is not complete").named("B")
    assert called == [("A", "permit"), ("B", "permit")]
    assert len(framework.waiting) == 0


@pytest.mark.parametrize("timeout", [float("nan"), "5", None])
def test_a_wait_for_no_number_of_seconds_names_its_plugin(timeout: Any) -> None:
    _, framework, cycle = steps({"permit": Wait(timeout)})
    with pytest.raises(PluginError, match="timeout is no number of seconds") as raised:
        binding.permit(framework, cycle, "a", now_s=0.0)
    assert (raised.value.plugin, raised.value.point) == ("A", "Permit")
    assert len(framework.waiting) == 0


def test_a_refusal_becomes_a_diagnosis_of_one_node() -> None:
    diagnosis = binding.diagnosis_of("a", Reject("one", "two").named("B"))

    assert diagnosis.message == "0/1 nodes are available: 1 one, 1 two."
    assert diagnosis.unschedulable_plugins == {"B"}
    assert diagnosis.status_of("a") == Reject("one", "two").named("B")


def test_a_pending_refusal_is_remembered_as_such() -> None:
    diagnosis = binding.diagnosis_of("a", Pending("driver").named("B"))

    assert (diagnosis.unschedulable_plugins, diagnosis.pending_plugins) == ({"B"}, {"B"})


# ---------------------------------------------------------------- PreBind


def test_pre_bind_runs_those_that_have_something_to_do() -> None:
    called, framework, cycle = steps(
        {"pre_bind": None, "pre_bind_pre_flight": None},
        {"pre_bind": None, "pre_bind_pre_flight": SKIP},
        {"pre_bind": None},
    )

    assert run(binding.pre_bind(framework, cycle, "a")) is None
    assert called == [
        ("A", "pre_bind_pre_flight"),
        ("B", "pre_bind_pre_flight"),
        ("A", "pre_bind"),
        ("C", "pre_bind"),
    ]


@pytest.mark.parametrize("answer", [Reject("no"), True])
def test_pre_flight_says_nothing_or_skip(answer: Any) -> None:
    called, framework, cycle = steps(
        {"pre_bind": None}, {"pre_bind": None, "pre_bind_pre_flight": answer}
    )

    with pytest.raises(PluginError) as caught:
        binding.pre_bind(framework, cycle, "a").send(None)

    assert str(caught.value) == (
        f'running PreBindPreFlight plugin "B": returned {answer!r}, not None or SKIP'
    )
    assert ("A", "pre_bind") not in called


def test_the_first_refusal_ends_pre_bind() -> None:
    called, framework, cycle = steps({"pre_bind": Reject("no disk")}, {"pre_bind": None})

    assert run(binding.pre_bind(framework, cycle, "a")) == Reject("no disk").named("A")
    assert called == [("A", "pre_bind")]


@pytest.mark.parametrize(
    ("answer", "told"), [(OSError("boom"), "OSError: boom"), (SKIP, "returned SKIP")]
)
def test_a_failing_pre_bind_is_named(answer: Any, told: str) -> None:
    _, framework, cycle = steps({"pre_bind": answer})

    with pytest.raises(PluginError) as caught:
        binding.pre_bind(framework, cycle, "a").send(None)

    assert str(caught.value) == f'running PreBind plugin "A": {told}'


# ---------------------------------------------------------------- Bind


def test_the_first_that_does_not_skip_binds() -> None:
    called, framework, cycle = steps({"bind": SKIP}, {"bind": None}, {"bind": None})

    assert run(binding.bind(framework, cycle, "a")) is None
    assert called == [("A", "bind"), ("B", "bind")]


def test_a_refusal_to_bind_is_signed_and_final() -> None:
    called, framework, cycle = steps({"bind": Reject("not mine")}, {"bind": None})

    assert run(binding.bind(framework, cycle, "a")) == Reject("not mine").named("A")
    assert called == [("A", "bind")]


@pytest.mark.parametrize("answers", [[], [{"bind": SKIP}, {"bind": SKIP}]])
def test_if_nobody_binds_that_is_an_error(answers: list[dict[str, Any]]) -> None:
    _, framework, cycle = steps(*answers)

    with pytest.raises(PluginError, match="every bind plugin skipped the pod"):
        binding.bind(framework, cycle, "a").send(None)


def test_an_exception_while_binding_is_named() -> None:
    _, framework, cycle = steps({"bind": RuntimeError("wire cut")})

    with pytest.raises(PluginError) as caught:
        binding.bind(framework, cycle, "a").send(None)

    assert str(caught.value) == 'running Bind plugin "A": RuntimeError: wire cut'


@pytest.mark.parametrize(
    "error", [OutcomeUnknown("no answer"), Conflict("already bound", status=409)]
)
def test_what_the_api_client_raises_comes_through_as_it_is(error: Exception) -> None:
    _, framework, cycle = steps({"bind": error})

    with pytest.raises(type(error)) as caught:
        binding.bind(framework, cycle, "a").send(None)

    assert caught.value is error


def test_a_bind_that_waits_goes_on_where_it_stood() -> None:
    class Answer:
        def __await__(self) -> Any:
            return (yield "question")

    class Asks:
        name = "Asks"

        async def bind(self, cycle: Cycle, node_name: str) -> Any:
            return await Answer()

    framework, cycle = made(Asks())
    coroutine = binding.bind(framework, cycle, "a")

    assert coroutine.send(None) == "question"
    with pytest.raises(StopIteration) as stop:
        coroutine.send(Reject("told so"))
    assert stop.value.value == Reject("told so").named("Asks")


# ---------------------------------------------------------------- PostBind


def test_post_bind_calls_every_plugin_and_logs_and_counts_those_that_raise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    called, framework, cycle = steps({"post_bind": ValueError("late")}, {"post_bind": None})

    binding.post_bind(framework, cycle, "a")

    assert called == [("A", "post_bind"), ("B", "post_bind")]
    error = 'running PostBind plugin "A": ValueError: late'
    assert logged(caplog) == [
        ("a plugin failed", "A", "PostBind", "default/p", error, "ValueError('late')")
    ]
    assert framework.errors.statistics() == {("A", "PostBind"): 1}

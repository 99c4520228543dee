"""Candidates for a lease: each step as upstream's elector, and never two leaders at a time.

``AsUpstream`` compares every try with ``elector_model``; requests succeed, clocks agree, and the
lease may be deleted by a user. ``NeverTwo`` has failing requests, lost answers,
pauses, and clocks whose rates differ by less than a factor of 1.5.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mooring.client.leader_election import Elector, LeaseTimes
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import OutcomeUnknown, Unreachable
from tests.helpers.client_servers import LeaseServer
from tests.helpers.lease_fixture import PATH
from tests.machines.elector_model import Answer, ModelElector, ModelServer, Record, run_on

CANDIDATES = st.integers(0, 1)
TIMES = LeaseTimes()
#: So different that a clock is at most 1.5 times as fast as the other.
RATES = st.sampled_from([(1.0, 1.0), (1.0, 1.4), (1.2, 0.85), (0.7, 1.0)])
FAULTS = st.sampled_from(["", "", "", "unreachable", "lost"])


class Candidates(RuleBasedStateMachine):
    """Two candidates, each with its own clock; one that has lost the lease starts again."""

    rates = (1.0, 1.0)

    @initialize()
    def begin(self) -> None:
        self.server = LeaseServer()
        self.runner = asyncio.Runner()
        self.numbers = itertools.count()
        self.clocks = [VirtualClock(), VirtualClock()]
        self.electors = [self.candidate(index) for index in range(2)]
        self.has_led = [False, False]

    def candidate(self, index: int) -> Elector:
        return Elector(
            self.server,
            "kube-system",
            "mooring",
            identity=f"{'ab'[index]}-{next(self.numbers)}",
            clock=self.clocks[index],
            rng=seeded_random(0),
            times=TIMES,
        )

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.close()

    def wait(self, seconds: float) -> None:
        for clock, rate in zip(self.clocks, self.rates, strict=True):
            clock.advance(seconds * rate)

    def attempt(self, index: int) -> bool:
        """Runs one try, as ``wait_until_leading`` and ``keep`` do."""
        elector = self.electors[index]
        if self.has_led[index] and not elector.is_leading:
            self.restart(index)
            elector = self.electors[index]
        holds = self.runner.run(elector._try(TIMES.renew_s))
        self.has_led[index] = elector.is_leading
        return holds

    def restart(self, index: int) -> None:
        self.electors[index] = self.candidate(index)
        self.has_led[index] = False


class AsUpstream(Candidates):
    """Every try has the result of upstream's, and leaves the same lease."""

    @initialize()
    def begin(self) -> None:
        super().begin()
        self.model = ModelServer()
        self.models = [self.model_of(index) for index in range(2)]

    def model_of(self, index: int) -> ModelElector:
        now_s = self.clocks[index].monotonic_s
        return ModelElector(self.electors[index].identity, TIMES.duration_s, now_s)

    @rule(seconds=st.sampled_from([0.5, 2.0, 4.4, 9.0, 14.9, 15.0, 15.1]))
    def time_passes(self, seconds: float) -> None:
        self.wait(seconds)

    @rule(index=CANDIDATES)
    def tries(self, index: int) -> None:
        if self.has_led[index] and not self.electors[index].is_leading:
            self.restart(index)
            self.models[index] = self.model_of(index)
        assert self.attempt(index) == run_on(self.model, self.models[index].tries())

    @rule(index=CANDIDATES)
    def releases(self, index: int) -> None:
        elector = self.electors[index]
        if not elector.is_leading:
            return
        released = run_on(self.model, self.models[index].releases())
        assert self.runner.run(elector.release()) == released
        self.restart(index)
        self.models[index] = self.model_of(index)

    @rule()
    def a_user_deletes_the_lease(self) -> None:
        self.server.leases.clear()
        self.model.record = None

    @invariant()
    def leases_are_equal(self) -> None:
        if not hasattr(self, "model"):
            return
        lease = self.server.leases.get(PATH)
        assert (lease is None) == (self.model.record is None)
        if lease is not None and self.model.record is not None:
            spec, record = lease["spec"], self.model.record
            assert spec.get("holderIdentity", "") == record.holder
            assert spec.get("leaseTransitions", 0) == record.transitions
            assert spec["leaseDurationSeconds"] == record.duration_s


class NeverTwo(Candidates):
    """Whatever fails, at most one candidate may write, and one that is alone will lead."""

    @initialize(rates=RATES)
    def begin_with_rates(self, rates: tuple[float, float]) -> None:
        self.rates = rates

    @rule(index=CANDIDATES, seconds=st.floats(0.0, 6.0), faults=st.lists(FAULTS, max_size=3))
    def tries_after_a_while(self, index: int, seconds: float, faults: list[str]) -> None:
        self.wait(seconds)
        for fault in filter(None, faults):
            is_lost = self.server.is_answer_lost = fault == "lost"
            self.server.troubles.append(OutcomeUnknown("") if is_lost else Unreachable(""))
        self.attempt(index)
        self.server.troubles.clear()

    @rule(seconds=st.floats(5.0, 60.0))
    def all_pause(self, seconds: float) -> None:
        self.wait(seconds)

    @rule(index=CANDIDATES)
    def one_alone_leads(self, index: int) -> None:
        self.attempt(index)
        for _ in range(10):
            self.wait(2.0 / min(self.rates))
            if self.attempt(index):
                return
        self.wait(TIMES.duration_s / min(self.rates))
        assert self.attempt(index)

    @invariant()
    def at_most_one_leads(self) -> None:
        if hasattr(self, "electors"):
            leaders = [elector for elector in self.electors if elector.is_leading]
            assert len(leaders) <= 1
            for elector in leaders:
                lease = self.server.leases[PATH]
                assert lease["spec"]["holderIdentity"] == elector.identity


def test_the_model_takes_over_when_the_observed_lease_expires() -> None:
    clock = VirtualClock()
    server = ModelServer(Record("other", 15.0, 3, 0.0))
    model = ModelElector("me", 15.0, clock.monotonic_s)

    results = []
    for seconds in (0.0, 14.9, 0.1):
        clock.advance(seconds)
        results.append(run_on(server, model.tries()))
    assert results == [False, False, True]
    assert server.record == Record("me", 15.0, 4, clock.monotonic_s())


def test_the_model_reads_the_lease_after_a_request_that_failed() -> None:
    model = ModelElector("me", 15.0, VirtualClock().monotonic_s)
    run_on(ModelServer(), model.tries())

    attempt = model.tries()
    assert next(attempt).verb == "replace"
    with contextlib.suppress(StopIteration):
        attempt.send(Answer.FAILED)
    assert next(model.tries()).verb == "read"


TestAsUpstream = AsUpstream.TestCase
TestNeverTwo = NeverTwo.TestCase
for case in (TestAsUpstream, TestNeverTwo):
    case.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

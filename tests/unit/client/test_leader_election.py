"""Leader election on a virtual clock, against leases in a dict."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.client.leader_election import LeaseTimes
from mooring.errors import ConfigError, LeaseLost, OutcomeUnknown, Unreachable
from tests.helpers.client_servers import LeaseServer, answer, refusal
from tests.helpers.lease_fixture import PATH, World, run


def test_the_first_candidate_makes_the_lease() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        assert one.is_leading
        assert world.lease == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        }
        assert world.leaders == ["one"]
        assert world.server.requests == [("GET", PATH), ("POST", PATH.removesuffix("/mooring"))]

    run(test)


def test_the_fence_stands_before_the_end_of_the_lease() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        with pytest.raises(LeaseLost):
            one.fence()
        await one.wait_until_leading()
        assert one.fence() == 10.0
        world.clock.advance(9.9)
        assert one.fence() == pytest.approx(0.1)
        world.clock.advance(0.1)
        with pytest.raises(LeaseLost, match="one does not hold kube-system/mooring"):
            one.fence()
        assert not one.is_leading

    run(test)


def test_a_wall_clock_that_jumps_changes_nothing() -> None:
    async def test(world: World) -> None:
        one, two = world.candidate("one"), world.candidate("two")
        await one.wait_until_leading()
        world.clock.step_wall(3600)
        assert one.fence() == 10.0
        assert not await two._try(10)
        world.clock.step_wall(-7200)
        world.clock.advance(10)
        assert not await two._try(10)

    run(test)


def test_the_leader_renews_without_reading() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        world.server.requests.clear()
        renewals = itertools.count(1)

        def stop() -> None:
            if next(renewals) > 3:
                raise KeyError("enough")

        world.after_wait = stop
        with pytest.raises(KeyError):
            await one.keep()
        assert world.server.requests == [("PUT", PATH)] * 3
        assert one.fence() == 10.0 - 2.0
        assert world.lease["renewTime"] == "2026-01-01T00:00:06.000000Z"
        assert world.lease["acquireTime"] == "2026-01-01T00:00:00.000000Z"
        assert world.lease["leaseTransitions"] == 0

    run(test)


def test_a_candidate_waits_the_whole_duration_after_the_last_news() -> None:
    async def test(world: World) -> None:
        one, two = world.candidate("one"), world.candidate("two")
        await one.wait_until_leading()
        world.clock.advance(14)
        # It observes the lease for the first time, so its age is unknown.
        assert not await two._try(10)
        world.clock.advance(14.9)
        assert not await two._try(10)
        world.clock.advance(0.1)
        assert await two._try(10)
        assert world.lease["holderIdentity"] == "two"
        assert world.lease["leaseTransitions"] == 1
        assert world.leaders == ["one", "one", "two"]

    run(test)


def test_the_duration_that_counts_is_the_one_in_the_lease() -> None:
    async def test(world: World) -> None:
        one, two = world.candidate("one", duration_s=60.0), world.candidate("two")
        await one.wait_until_leading()
        assert not await two._try(10)
        world.clock.advance(59)
        assert not await two._try(10)
        world.clock.advance(1)
        assert await two._try(10)

    run(test)


def test_a_candidate_tries_every_two_seconds_and_up_to_twice_as_long_again() -> None:
    async def test(world: World) -> None:
        one, two = world.candidate("one"), world.candidate("two")
        await one.wait_until_leading()
        before = world.clock.monotonic_s()
        times: list[float] = []
        world.after_wait = lambda: times.append(world.clock.monotonic_s())
        await two.wait_until_leading()
        waits = [after - at for at, after in itertools.pairwise([before, *times])]
        assert all(2.0 <= wait < 4.4 for wait in waits)
        assert 15 <= times[-1] - before < 15 + 4.4

    run(test)


@pytest.mark.parametrize(
    "trouble",
    [
        Unreachable("refused"),
        OutcomeUnknown("no answer"),
        TimeoutError(),
        refusal(500, "InternalError"),
        refusal(403, "Forbidden"),
        answer(200, b"<html>"),
    ],
)
def test_the_leader_survives_trouble_for_less_than_ten_seconds(trouble: Exception) -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        world.server.troubles = [trouble, trouble, trouble]
        waits = itertools.count(1)

        def stop() -> None:
            if next(waits) == 5:
                assert one.is_leading
                raise KeyError("it leads on")

        world.after_wait = stop
        with pytest.raises(KeyError):
            await one.keep()
        assert world.lease["renewTime"] == "2026-01-01T00:00:08.000000Z"
        assert world.lease["leaseTransitions"] == 0

    run(test)


def test_the_leader_that_cannot_renew_stops_before_anybody_else_starts() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        world.server.troubles = [Unreachable("refused")] * 100
        with pytest.raises(LeaseLost, match=r"not renewed for 10\.0 s"):
            await one.keep()
        assert world.clock.monotonic_s() == 10.0
        with pytest.raises(LeaseLost):
            one.fence()

    run(test)


def test_a_leader_that_was_deposed_stops_at_once() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        # The holder was overwritten, which only a user does.
        found = world.server.leases[PATH]
        found["spec"]["holderIdentity"] = "two"
        found["metadata"]["resourceVersion"] = "99"
        with pytest.raises(LeaseLost, match="its holder is two"):
            await one.keep()
        assert world.clock.monotonic_s() == 2.0, "the conflict is followed by a read"
        assert not one.is_leading

    run(test)


def test_a_deleted_lease_is_created_again_at_the_next_renewal() -> None:
    async def test(world: World) -> None:
        one, two = world.candidate("one"), world.candidate("two")
        await one.wait_until_leading()
        assert not await two._try(10)
        del world.server.leases[PATH]
        # The holder may still write: another candidate does not create it.
        assert not await two._try(10)
        assert PATH not in world.server.leases
        assert await one._try(10)
        assert world.lease["holderIdentity"] == "one"

    run(test)


def test_a_deleted_lease_whose_holder_is_gone_is_created_when_it_would_have_expired() -> None:
    async def test(world: World) -> None:
        one, two, three = map(world.candidate, ("one", "two", "three"))
        await one.wait_until_leading()
        assert not await two._try(10)
        del world.server.leases[PATH]
        world.clock.advance(14.9)
        assert not await two._try(10)
        world.clock.advance(0.1)
        assert await two._try(10)
        assert world.lease["leaseTransitions"] == 0
        # A candidate that has not observed any holder does not wait.
        del world.server.leases[PATH]
        assert await three._try(10)

    run(test)


def test_a_process_that_was_stopped_for_too_long_asks_for_nothing_any_more() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        world.server.requests.clear()

        def pause() -> None:
            assert world.clock.monotonic_s() < 60, "it goes on after the pause"
            world.clock.advance(60)

        world.after_wait = pause
        with pytest.raises(LeaseLost, match="not renewed for 62"):
            await one.keep()
        assert world.server.requests == []

    run(test)


def test_the_loss_is_reported_when_it_happens_and_not_at_the_next_try() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one", retry_s=4.0)
        await one.wait_until_leading()
        world.server.troubles = [Unreachable("refused")] * 100
        with pytest.raises(LeaseLost):
            await one.keep()
        assert world.clock.monotonic_s() == 10.0

    run(test)


def test_others_are_told_to_wait_for_no_less_than_we_count_on() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one", duration_s=10.4, renew_s=10.2)
        await one.wait_until_leading()
        assert world.lease["leaseDurationSeconds"] == 11

    run(test)


def test_a_renewal_whose_answer_was_lost_is_seen_by_reading() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        world.server.requests.clear()
        world.server.troubles = [OutcomeUnknown("no answer")]
        world.server.is_answer_lost = True
        assert not await one._try(10)
        assert await one._try(10)
        assert [method for method, _ in world.server.requests] == ["PUT", "GET", "PUT"]
        assert world.lease["leaseTransitions"] == 0

    run(test)


def test_two_that_come_at_once_do_not_both_lead() -> None:
    async def test(world: World) -> None:
        one, two = world.candidate("one"), world.candidate("two")
        await one.wait_until_leading()
        await two._try(10)
        three = world.candidate("three")
        await three._try(10)
        world.clock.advance(15)
        results = await asyncio.gather(two._try(10), three._try(10))
        assert sorted(results) == [False, True]

    run(test)


def test_labels_and_other_fields_of_the_lease_stay() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        world.server.leases[PATH]["metadata"]["labels"] = {"app": "mooring"}
        world.server.leases[PATH]["spec"]["strategy"] = "OldestEmulationVersion"
        one._needs_read = True
        assert await one._try(10)
        assert world.server.leases[PATH]["metadata"]["labels"] == {"app": "mooring"}
        assert world.lease["strategy"] == "OldestEmulationVersion"

    run(test)


def test_a_faster_clock_takes_over_only_after_the_fence() -> None:
    async def main() -> None:
        server = LeaseServer()
        slow_world, fast_world = World(server), World(server)
        slow, fast = slow_world.candidate("slow"), fast_world.candidate("fast")
        assert await slow._try(10)
        assert not await fast._try(10)
        slow_world.clock.advance(9.99)
        fast_world.clock.advance(9.99 * 1.49)
        assert slow.is_leading
        assert not await fast._try(10)
        slow_world.clock.advance(0.08)
        fast_world.clock.advance(0.08 * 1.49)
        assert await fast._try(10)
        assert not slow.is_leading

    asyncio.run(main())


@given(
    rate=st.sampled_from([1.0, 1.2, 1.49]),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["slow", "fast"]),
            st.sampled_from([0.0, 2.0, 9.9, 10.1, 12.0, 15.0]),
            st.sampled_from(["", "", "lost", "no"]),
        ),
        min_size=8,
        max_size=16,
    ),
)
def test_two_never_write_at_once_though_one_clock_is_faster(
    rate: float, steps: list[tuple[str, float, str]]
) -> None:
    """The one that is asked last in each step writes; both are looked at before and after."""

    async def main() -> None:
        server = LeaseServer()
        worlds = {"slow": World(server), "fast": World(server)}
        candidates = {name: world.candidate(name) for name, world in worlds.items()}

        def advance(seconds: float) -> None:
            worlds["slow"].clock.advance(seconds)
            worlds["fast"].clock.advance(seconds * rate)

        for name, wait_s, trouble in steps:
            advance(wait_s)
            assert sum(one.is_leading for one in candidates.values()) <= 1
            server.is_answer_lost = trouble == "lost"
            server.troubles = [Unreachable("down")] if trouble else []
            await candidates[name]._try(10)
            assert sum(one.is_leading for one in candidates.values()) <= 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("times", "path"),
    [
        ({"duration_s": 10.0}, "leaderElection.leaseDuration"),
        ({"renew_s": 2.4}, "leaderElection.renewDeadline"),
        ({"retry_s": 0.0}, "leaderElection.retryPeriod"),
    ],
)
def test_times_that_do_not_fit_together_are_refused(times: dict[str, float], path: str) -> None:
    with pytest.raises(ConfigError) as refused:
        LeaseTimes(**times)
    assert refused.value.path == path


def test_a_candidate_has_a_name() -> None:
    with pytest.raises(ConfigError, match="must not be empty"):
        World().candidate("")

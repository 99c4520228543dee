"""Requests for the status of a pod whose effect is not known, and versions that are no numbers."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from msgspec.structs import replace

from mooring.errors import Conflict, LeaseLost, OutcomeUnknown, Unreachable
from mooring.objects import Pod
from mooring.objects.codec.decode import encode
from mooring.scheduler import status_writer
from mooring.scheduler.status_writer import _Requests
from tests.helpers.client_servers import answer
from tests.helpers.running_scheduler import virtually
from tests.unit.scheduler.test_status_writer import messages, refused, stored, word, writing


def send(requests: _Requests, uid: str, error: BaseException | None = None) -> None:
    """Sends a request that ends with this error."""
    expected = (type(error),) if error is not None else ()
    with suppress(*expected), requests.sending(uid):
        assert not requests.are_known(uid)
        if error is not None:
            raise error


@pytest.mark.parametrize(
    ("error", "is_known"),
    [
        (None, True),
        (Unreachable("cut off"), True),
        (Conflict("changed", status=409), True),
        (LeaseLost("over"), True),
        (OutcomeUnknown("no answer"), False),
        (asyncio.CancelledError(), False),
    ],
)
def test_what_a_request_has_stored_is_known_by_its_end(
    error: BaseException | None, is_known: bool
) -> None:
    requests = _Requests()
    send(requests, "u1", error)
    assert requests.are_known("u1") is is_known
    assert requests.are_known("u2")


def test_only_an_answer_makes_known_what_requests_before_it_have_stored() -> None:
    requests = _Requests()
    send(requests, "u1", OutcomeUnknown("no answer"))
    send(requests, "u1", Unreachable("cut off"))
    send(requests, "u2")
    assert not requests.are_known("u1")
    send(requests, "u1")
    assert requests.are_known("u1")
    send(requests, "u1", OutcomeUnknown("no answer"))
    requests.forget("u1")
    assert requests.are_known("u1")


def test_an_answer_says_nothing_of_a_request_at_the_same_time() -> None:
    requests = _Requests()
    with requests.sending("u1"):
        send(requests, "u1", OutcomeUnknown("no answer"))
        assert not requests.are_known("u1")
    assert not requests.are_known("u1")
    with requests.sending("u1"):
        with requests.sending("u1"):
            pass
        assert not requests.are_known("u1")  # one is in progress
    assert requests.are_known("u1")


def test_the_oldest_of_too_many_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_writer, "STORED_MAX", 2)
    requests = _Requests()
    for uid in ("u1", "u2", "u3"):
        send(requests, uid, OutcomeUnknown("no answer"))
    assert [requests.are_known(uid) for uid in ("u1", "u2", "u3")] == [True, False, False]


@virtually
async def test_a_version_that_is_no_number_is_older_than_any_other() -> None:
    def versioned(version: str, message: str) -> object:
        pod = refused(message=message)
        return replace(pod, metadata=replace(pod.metadata, resource_version=version))

    odd, newer = versioned("odd", "first"), versioned("5", "second")
    async with writing(answer(200, encode(newer)), stored()) as (writer, script):
        writer.enqueue(word(odd, message="second"))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        writer.enqueue(word(odd, message="second"))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        assert messages(script) == ["second"]


@virtually
async def test_a_stored_version_counts_until_the_informer_has_it() -> None:
    def versioned(version: str, message: str) -> object:
        pod = refused(message=message)
        return replace(pod, metadata=replace(pod.metadata, resource_version=version))

    old, newer = versioned("3", "first"), versioned("5", "second")
    async with writing(answer(200, encode(newer)), stored()) as (writer, script):
        for _ in range(3):
            writer.enqueue(word(old, message="second"))  # type: ignore[arg-type]
            await asyncio.sleep(1)
        assert messages(script) == ["second"]
        assert writer.statistics.unchanged == 2
        # The informer has a version that is as new: the stored one is not needed any more.
        writer.enqueue(word(versioned("5", "second"), message="second"))  # type: ignore[arg-type]
        assert writer._stored == {}


@virtually
async def test_what_is_stored_of_a_pod_is_remembered_without_its_spec() -> None:
    pod = refused(message="first")
    metadata = replace(
        pod.metadata, resource_version="5", annotations={"text": "x" * 1000}, generation=7
    )
    async with writing(answer(200, encode(replace(pod, metadata=metadata))), stored()) as (
        writer,
        script,
    ):
        writer.enqueue(word(refused(message="old"), message="first"))
        await asyncio.sleep(1)
        (remembered,) = writer._stored.values()
        assert (remembered.spec, remembered.metadata.annotations) == (Pod().spec, {})
        assert remembered.metadata.generation == 7
        writer.enqueue(word(refused(message="old"), message="second"))
        await asyncio.sleep(1)
        assert messages(script) == ["first", "second"]

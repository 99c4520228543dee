"""Lines out of chunks, and the transport that has no network."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.client.transport.http import failure_text
from mooring.client.transport.transport import (
    AnswerTooLong,
    ChunkedStream,
    Handler,
    InProcessTransport,
    Request,
    StreamBroken,
    StreamUnreadable,
    read_all,
)
from mooring.errors import OutcomeUnknown, Unreachable


async def chunks_of(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def silence() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


async def lines_of(stream: ChunkedStream) -> list[bytes]:
    return [line async for batch in stream.batches() for line in batch]


def stream(*chunks: bytes, status: int = 200, line_bytes_max: int = 1000) -> ChunkedStream:
    return ChunkedStream(status, {}, chunks_of(*chunks), idle_s=10, line_bytes_max=line_bytes_max)


@given(
    lines=st.lists(st.binary(max_size=8).filter(lambda text: b"\n" not in text), max_size=8),
    cuts=st.lists(st.integers(0, 80), max_size=8),
)
def test_lines_are_the_same_wherever_the_chunks_are_cut(
    lines: list[bytes], cuts: list[int]
) -> None:
    text = b"".join(line + b"\n" for line in lines)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    chunks = [text[start:end] for start, end in itertools.pairwise(edges)]
    assert asyncio.run(lines_of(stream(*chunks))) == lines


def test_all_lines_of_a_chunk_come_at_once() -> None:
    async def batches() -> list[list[bytes]]:
        return [batch async for batch in stream(b"a\nb\nc", b"d\n", b"e\n").batches()]

    assert asyncio.run(batches()) == [[b"a", b"b"], [b"cd"], [b"e"]]


def test_an_end_in_the_middle_of_a_line_breaks_the_stream_after_the_whole_ones() -> None:
    seen: list[bytes] = []

    async def read() -> None:
        async for batch in stream(b"whole\nhal").batches():
            seen.extend(batch)

    with pytest.raises(StreamBroken, match="middle of a line"):
        asyncio.run(read())
    assert seen == [b"whole"]


def test_the_text_of_an_error_needs_no_newline() -> None:
    assert asyncio.run(read_all(stream(b'{"kind":', b'"Status"}', status=403))) == (
        b'{"kind":"Status"}'
    )


def test_a_long_error_is_cut() -> None:
    assert asyncio.run(read_all(stream(b"a\nb\nc\n", status=500), bytes_max=3)) == b"a\nb"


@pytest.mark.parametrize("chunks", [(b"x" * 11,), (b"x" * 6, b"x" * 6)])
def test_a_line_without_end_breaks_the_stream(chunks: tuple[bytes, ...]) -> None:
    with pytest.raises(StreamBroken, match="longer than 10 bytes"):
        asyncio.run(lines_of(stream(*chunks, line_bytes_max=10)))


def test_silence_breaks_the_stream() -> None:
    quiet = ChunkedStream(200, {}, silence(), idle_s=0.0)
    with pytest.raises(StreamBroken, match="no data for 0 s"):
        asyncio.run(lines_of(quiet))


async def handle(
    method: str, path: str, query: list[tuple[str, str]], headers: Mapping[str, str], body: bytes
) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
    """Says what it was asked; under /watch in chunks."""
    said = f"{method} {path} {query} {headers['authorization']} {body.decode()}\n".encode()
    content: bytes | AsyncIterator[bytes] = said
    if path == "/watch":
        content = chunks_of(said[:5], said[5:])
    return 200, {"content-type": "text/plain"}, content


def test_a_pause_within_the_limit_breaks_nothing_whatever_limits_stand_inside_it() -> None:
    """The chunks wait with a clock of their own, as those of a watch do."""
    seen: list[bytes] = []

    async def patient() -> AsyncIterator[bytes]:
        yield b"at once\n"
        for _ in range(3):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.001):
                    await asyncio.Event().wait()
        yield b"late\n"
        await asyncio.Event().wait()

    async def read() -> None:
        async for batch in ChunkedStream(200, {}, patient(), idle_s=0.2).batches():
            seen.extend(batch)

    with pytest.raises(StreamBroken, match="no data"):
        asyncio.run(read())
    assert seen == [b"at once", b"late"]


def test_who_is_cancelled_while_nothing_comes_cancels_what_makes_the_chunks() -> None:
    ended: list[str] = []

    async def chunks() -> AsyncIterator[bytes]:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("chunks")
        yield b""

    async def read() -> None:
        task = asyncio.create_task(lines_of(ChunkedStream(200, {}, chunks(), idle_s=10)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(read())
    assert ended == ["chunks"]


def test_in_process_the_handler_gets_all_of_the_request() -> None:
    async def main() -> None:
        transport = InProcessTransport(handle, headers={"authorization": "Bearer me"})
        answer = await transport.request(
            Request("POST", "/pods", query=[("a", "1")], body=b"text", deadline_s=1)
        )
        assert answer.status == 200
        assert answer.body == b"POST /pods [('a', '1')] Bearer me text\n"
        again = await transport.request(Request("GET", "/watch", deadline_s=1))
        assert again.body == b"GET /watch [] Bearer me \n"

    asyncio.run(main())


@pytest.mark.parametrize("path", ["/watch", "/pods"])
def test_in_process_an_answer_streams_whether_it_comes_in_chunks_or_whole(path: str) -> None:
    async def main() -> list[bytes]:
        transport = InProcessTransport(handle, headers={"authorization": "Bearer me"})
        async with transport.stream(Request("GET", path, deadline_s=1), idle_s=1) as found:
            assert found.status == 200
            return [line async for batch in found.batches() for line in batch]

    assert asyncio.run(main()) == [f"GET {path} [] Bearer me ".encode()]


def test_in_process_the_chunks_are_closed_with_the_stream() -> None:
    is_closed = False

    async def endless() -> AsyncIterator[bytes]:
        nonlocal is_closed
        try:
            while True:
                yield b"more\n"
        finally:
            is_closed = True

    async def serve(
        *_: object,
    ) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        return 200, {}, endless()

    async def main() -> None:
        async with InProcessTransport(serve).stream(
            Request("GET", "/", deadline_s=1), idle_s=1
        ) as found:
            batches = found.batches()
            assert await anext(batches) == [b"more"]
            await batches.aclose()

    asyncio.run(main())
    assert is_closed


def test_a_closed_transport_reaches_nobody() -> None:
    async def main() -> None:
        transport = InProcessTransport(handle)
        await transport.close()
        with pytest.raises(Unreachable, match="closed"):
            await transport.request(Request("GET", "/", deadline_s=1))

    asyncio.run(main())


async def never(*_: object) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
    await asyncio.Event().wait()
    raise AssertionError


async def endless(*_: object) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
    return 200, {}, silence()


@pytest.mark.parametrize("serve", [never, endless])
def test_in_process_a_request_has_a_deadline_too(serve: Handler) -> None:
    async def main() -> None:
        transport = InProcessTransport(serve)
        with pytest.raises(OutcomeUnknown, match="POST /pods: no response in 0 s"):
            await transport.request(Request("POST", "/pods", deadline_s=0))

    asyncio.run(main())


def test_in_process_the_head_of_a_stream_has_a_deadline_too() -> None:
    async def main() -> None:
        transport = InProcessTransport(never)
        with pytest.raises(Unreachable, match="GET /pods: no response in 0 s"):
            async with transport.stream(Request("GET", "/pods", deadline_s=0), idle_s=1):
                pass

    asyncio.run(main())


def test_in_process_an_answer_may_be_too_long_and_header_names_are_in_lower_case() -> None:
    async def serve(*_: object) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        return 429, {"Retry-After": "3"}, b"12345"

    async def main() -> None:
        transport = InProcessTransport(serve)
        found = await transport.request(Request("GET", "/", deadline_s=1, bytes_max=5))
        assert found == (429, {"retry-after": "3"}, b"12345")
        with pytest.raises(AnswerTooLong, match="more than 4 bytes"):
            await transport.request(Request("GET", "/", deadline_s=1, bytes_max=4))

    asyncio.run(main())


def test_in_process_chunks_without_an_end_of_their_own_are_left_alone() -> None:
    class Chunks:
        def __aiter__(self) -> Chunks:
            return self

        async def __anext__(self) -> bytes:
            raise StopAsyncIteration

    async def serve(*_: object) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        return 200, {}, Chunks()

    async def main() -> None:
        transport = InProcessTransport(serve)
        async with transport.stream(Request("GET", "/", deadline_s=1), idle_s=1) as found:
            assert [batch async for batch in found.batches()] == []

    asyncio.run(main())


def test_a_line_that_is_too_long_would_be_so_again() -> None:
    with pytest.raises(StreamUnreadable):
        asyncio.run(lines_of(stream(b"x" * 11, line_bytes_max=10)))


def test_in_process_an_answer_may_wait_for_several_things() -> None:
    async def patient(*_: object) -> tuple[int, Mapping[str, str], bytes]:
        woken = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(woken.set_result, b"!")
        await asyncio.sleep(0)
        return 200, {}, b"late" + await woken

    async def request() -> bytes:
        transport = InProcessTransport(patient)
        return (await transport.request(Request("GET", "/", deadline_s=10))).body

    assert asyncio.run(request()) == b"late!"


def test_in_process_an_error_after_a_wait_is_the_callers() -> None:
    async def failing(*_: object) -> tuple[int, Mapping[str, str], bytes]:
        await asyncio.sleep(0)
        raise Unreachable("gone")

    async def request() -> None:
        await InProcessTransport(failing).request(Request("GET", "/", deadline_s=10))

    with pytest.raises(Unreachable, match="gone"):
        asyncio.run(request())


def test_in_process_who_is_cancelled_cancels_what_answers() -> None:
    seen = []

    async def endless(*_: object) -> tuple[int, Mapping[str, str], bytes]:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("ended")
        raise AssertionError

    async def request() -> None:
        async with asyncio.TaskGroup() as tasks:
            transport = InProcessTransport(endless)
            task = tasks.create_task(transport.request(Request("GET", "/", deadline_s=10)))
            await asyncio.sleep(0)
            task.cancel()

    asyncio.run(request())
    assert seen == ["ended"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (ConnectionResetError("the server closed the connection"), "the server closed the"),
        (ConnectionRefusedError(111, "refused"), "Connection refused"),
    ],
)
def test_failures_are_named_without_classes_of_python(error: OSError, text: str) -> None:
    assert failure_text(error).startswith(text)

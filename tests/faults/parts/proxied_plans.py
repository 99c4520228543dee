"""Plans of exchanges over HTTP, and what follows from them: the result, and when it comes."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from mooring.client.transport.transport import AnswerTooLong, Request, StreamBroken
from mooring.clock import Rng
from mooring.errors import OutcomeUnknown

SERVER: Final = "192.0.2.1"
LATE: Final = "timeout: no response"
#: How a connection is opened; "slow" takes longer than any request. The last two are of tunnels.
OPENINGS: Final = ("fine",) * 12 + ("refused", "slow", "denied", "dropped")
#: How an answer is framed, and how it ends.
FRAMES: Final = ("sized", "sized", "chunked", "unframed")
ENDS: Final = ("complete",) * 6 + ("cut", "hang", "reset", "silent")
#: A redirect, a cookie and an encoding: the client follows none, keeps none and decodes nothing.
IGNORED: Final = (
    f"location: http://{SERVER}/other\r\nset-cookie: a=b; path=/\r\ncontent-encoding: gzip\r\n"
)


class Plan(NamedTuple):
    """An exchange.

    Attributes:
        is_stream: Whether the answer is read as a stream.
        request: What is sent.
        idle_s: Of a stream.
        opening: How a connection is opened, if one is.
        tries: The status of each answer: a second one after 401.
        after_s: Until an answer begins.
        frame: Of the answer.
        pieces: Of its body, each after a pause.
        pause_s: Before each piece.
        end: How it ends after all pieces: "reset" and "silent" have no answer at all.
        is_kept: Whether the server keeps the connection.
    """

    is_stream: bool
    request: Request
    idle_s: float
    opening: str
    tries: tuple[int, ...]
    after_s: float
    frame: str
    pieces: tuple[bytes, ...]
    pause_s: float
    end: str
    is_kept: bool

    @property
    def moments(self) -> list[tuple[float, bytes | None]]:
        """The pieces of the body, and its end (None), each with the seconds after the request."""
        times = [self.after_s + self.pause_s * number for number in range(1, len(self.pieces) + 2)]
        moments: list[tuple[float, bytes | None]] = list(zip(times, self.pieces, strict=False))
        if self.end == "hang":
            return moments
        # An answer with a length ends with its last byte.
        is_over = self.frame == "sized" and self.end == "complete"
        ends_s = max((at_s for at_s, _ in moments), default=self.after_s) if is_over else times[-1]
        return [*moments, (ends_s, None)]

    @property
    def is_complete(self) -> bool:
        """True if the answer ends as it should: without a length it does with its connection."""
        return self.end == "complete" or (self.frame == "unframed" and self.end == "cut")

    def head(self, status: int) -> bytes:
        """Returns the head of the answer."""
        length = sum(map(len, self.pieces)) + (self.end != "complete")
        framing = {"sized": f"content-length: {length}\r\n", "unframed": ""}.get(
            self.frame, "transfer-encoding: chunked\r\n"
        )
        closing = "" if self.is_kept else "connection: close\r\n"
        return f"HTTP/1.1 {status} X\r\n{framing}{closing}{IGNORED}\r\n".encode()


def drawn_plan(rng: Rng, *, has_proxy: bool, has_tunnels: bool, has_source: bool) -> Plan:
    """Draws a plan."""
    is_stream = not has_proxy or rng.random() < 0.4
    method = "GET" if is_stream else rng.choice(("GET", "POST", "PATCH", "DELETE"))
    request = Request(
        method,
        f"/r/{rng.randrange(100)}",
        query=rng.choice(((), (("a", "b c"), ("d", "x=1,y in (2)")))),
        body=rng.choice((b"", b"body")) if method in ("POST", "PATCH") else b"",
        headers={"accept": "application/json"}
        if method == "GET"
        else {"content-type": "application/json"},
        deadline_s=rng.choice((0.55, 3.35)),
        bytes_max=rng.choice((12, 1000)),
    )
    openings = OPENINGS if has_tunnels else OPENINGS[:-2]
    last = rng.choice((200, 200, 200, 201, 302, 404, 500))
    is_refused = has_source and rng.random() < 0.15
    lines = [rng.choice((b"", b"a\n", b"bc\nd", b"efgh\n\ni", b"j")) for _ in range(4)]
    lines = [line for line in lines[: rng.randrange(5)] if line]
    if rng.random() < 0.3:
        size = max(1, sum(map(len, lines)) - rng.choice((0, 0, 1)))
        request = request._replace(bytes_max=size)
    return Plan(
        is_stream,
        request,
        rng.choice((1.0, 4.0)),
        rng.choice(openings),
        (401, rng.choice((last, last, 401))) if is_refused else (last,),
        rng.choice((0.0, 0.1, 0.7)),
        rng.choice(FRAMES),
        tuple(lines),
        rng.choice((0.01, 0.2, 1.5)),
        rng.choice(ENDS),
        rng.random() < 0.5,
    )


def whole_due(plan: Plan, status: int) -> tuple[Any, str, float]:
    """Returns the result of a request that is answered, and when it comes."""
    deadline_s, bytes_max, body = plan.request.deadline_s, plan.request.bytes_max, b""
    for at_s, piece in plan.moments:
        if at_s >= deadline_s:
            break
        if piece is None:
            complete = (status, body), "", at_s
            return complete if plan.is_complete else (OutcomeUnknown, "", at_s)
        body += piece
        if len(body) > bytes_max:
            return AnswerTooLong, f"more than {bytes_max} bytes", at_s
    return OutcomeUnknown, LATE, deadline_s


def read_due(plan: Plan, status: int) -> tuple[Any, str, float]:
    """Returns the result of a stream whose head has arrived, and when it ends."""
    last_s, text = plan.after_s, b""
    for at_s, piece in plan.moments:
        if at_s >= last_s + plan.idle_s:
            break
        if piece is None and not plan.is_complete:
            return StreamBroken, "", at_s
        if piece is None:
            is_partial = text and not text.endswith(b"\n") and status == 200
            partial = "the stream ended in the middle of a line"
            return (StreamBroken, partial, at_s) if is_partial else (status, "", at_s)
        last_s, text = at_s, text + piece
    return StreamBroken, f"no data for {plan.idle_s:g} s", last_s + plan.idle_s


def lines_due(plan: Plan) -> list[bytes]:
    """Returns the lines of a stream."""
    kind, _, ends_s = read_due(plan, plan.tries[-1])
    pieces = [piece for at_s, piece in plan.moments if piece is not None and at_s <= ends_s]
    lines = b"".join(pieces).split(b"\n")
    last = lines.pop()
    # The answer of an error is read to its end.
    return [*lines, last] if last and kind == plan.tries[-1] != 200 else lines

"""The log in klog's formats."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from mooring.component.flags import parse
from mooring.component.klog import LogControl, configure
from tests.helpers.command_line import restored_logging

_log = logging.getLogger(__name__)


@pytest.fixture(autouse=True)
def _root() -> Iterator[None]:
    with restored_logging():
        yield


def configured(*words: str, level: str = "info") -> tuple[io.StringIO, LogControl]:
    out = io.StringIO()
    return out, configure(parse(words).logging, level=level, out=out)


def texts(out: io.StringIO) -> list[str]:
    return [line.partition("] ")[2] for line in out.getvalue().splitlines()]


def test_a_line_has_the_form_of_klog() -> None:
    out, _ = configured()
    _log.info("caches synced", extra={"nodes": 5, "pod": "default/web", "ok": True})
    pattern = (
        r"I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_klog\.py:\d+\] "
        r'"caches synced" nodes=5 pod="default/web" ok=true\n'
    )
    assert re.fullmatch(pattern, out.getvalue())


@pytest.mark.parametrize(
    ("level", "letter"),
    [(logging.INFO, "I"), (logging.WARNING, "W"), (logging.ERROR, "E"), (logging.CRITICAL, "E")],
)
def test_the_level_is_the_first_letter(level: int, letter: str) -> None:
    out, _ = configured()
    _log.log(level, "text")
    assert out.getvalue()[0] == letter


def test_values_of_several_lines_are_indented() -> None:
    out, _ = configured()
    _log.info("config", extra={"text": "a: 1\nb: 2\n", "list": ["x", 1]})
    assert out.getvalue().endswith('"config" text=<\n\ta: 1\n\tb: 2\n > list=["x",1]\n')


def test_control_characters_are_escaped_in_each_line() -> None:
    out, _ = configured()
    _log.info("failed", extra={"error": "a\tb\n\x1b[31m\x00\r\x9b", "plain": "\x1b[0m"})
    written = out.getvalue()
    assert written.endswith(
        '"failed" error=<\n\ta\tb\n\t\\x1b[31m\\x00\\x0d\\x9b\n > plain="\\x1b[0m"\n'
    )


def test_a_bare_line_is_prose() -> None:
    out, _ = configured()
    _log.info("Serving on %s", "here", extra={"bare": True})
    assert texts(out) == ["Serving on here"]


def test_a_line_break_cannot_begin_another_line() -> None:
    out, _ = configured()
    _log.info("a\nE1122 forged", extra={"pod": "b"})
    assert len(out.getvalue().splitlines()) == 1


def test_verbosity_chooses_the_lines() -> None:
    out, _ = configured("-v=2")
    for v in range(4):
        _log.info("line", extra={"v": v, "n": v})
    _log.debug("fine")
    _log.debug("two", extra={"v": 2})
    assert texts(out) == ['"line" n=0', '"line" n=1', '"line" n=2', '"two"']


def test_verbosity_changes_while_running() -> None:
    out, control = configured()
    _log.debug("hidden")
    assert control.set_verbosity("5") == "successfully set klog.logging.verbosity to 5"
    _log.debug("visible")
    control.set_verbosity("0")
    _log.debug("hidden")
    assert texts(out) == ['"visible"']
    with pytest.raises(ValueError, match=r"failed to set klog\.logging\.verbosity to x: strconv"):
        control.set_verbosity("x")


@pytest.mark.parametrize(("word", "count"), [("test_k*=4", 1), ("test_klog=4", 1), ("other=4", 0)])
def test_a_file_may_have_its_own_verbosity(word: str, count: int) -> None:
    out, _ = configured(f"--vmodule={word}")
    _log.debug("line")
    assert len(texts(out)) == count


def test_the_old_level_is_kept() -> None:
    out, _ = configured(level="warning")
    _log.info("left out")
    _log.warning("written")
    assert texts(out) == ['"written"']
    out, _ = configured(level="debug")
    _log.debug("written")
    assert texts(out) == ['"written"']


def test_json_has_one_object_a_line() -> None:
    out, _ = configured("--logging-format=json", "-v=3")
    _log.info("bound", extra={"v": 2, "pod": "default/web", "facts": {"a": (1, "b")}})
    _log.error("failed", extra={"err": "no\nway"})
    info, error = (json.loads(line) for line in out.getvalue().splitlines())
    assert re.fullmatch(r"component/test_klog\.py:\d+", info.pop("caller"))
    assert info.pop("ts") > 1e12
    assert info == {"msg": "bound", "v": 2, "pod": "default/web", "facts": {"a": [1, "b"]}}
    assert (error["msg"], error["err"]) == ("failed", "no\nway")
    assert "v" not in error


def test_a_split_stream_has_its_info_lines_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    configure(parse(["--log-text-split-stream"]).logging)
    _log.info("one")
    _log.error("two")
    captured = capsys.readouterr()
    assert captured.out.endswith('"one"\n')
    assert captured.err.endswith('"two"\n')
    assert len(captured.err.splitlines()) == 1


def test_a_traceback_is_a_value() -> None:
    out, _ = configured()
    try:
        raise ValueError("wrong")
    except ValueError:
        _log.exception("failed")
    assert '"failed" trace=<\n\tTraceback' in out.getvalue()
    assert out.getvalue().endswith("\tValueError: wrong\n >\n")

"""Programs that end: after how long and with which exit code, held to a shell."""

from __future__ import annotations

import math
import subprocess

import pytest

from mooring.devcluster.kubelet.programs import (
    EXIT_CODE,
    RUN_SECONDS,
    InvalidAnnotation,
    Program,
    annotated,
    program_of,
)

#: Scripts without a sleep: what a shell says of them is the truth.
SCRIPTS = [
    "exit 0",
    "exit 3",
    "exit",
    "false; exit",
    "exit 256",
    "true",
    "false",
    ":",
    "date; echo Hello from the cluster",
    "echo 'a; exit 1'",
    'echo "$HOME" && exit 5',
    "true && false",
    "true && exit 2; exit 3",
    "false && exit 2; exit 3",
    "false || exit 4",
    "true || exit 4",
    "false || true; exit 6",
    "false && true || exit 7",
    "\n  echo one\n\n  exit 8 # the end\n",
    "# nothing\nexit 9",
    "echo a#b; exit 10",
    "true &&\nexit 11",
    "sleep x; exit 12",
    "/bin/true && /bin/false",
    "",
]


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("flags", [["-c"], ["-ec"], ["-e", "-c"]], ids=" ".join)
def test_a_script_ends_as_in_a_shell(flags: list[str], script: str) -> None:
    command = ["/bin/sh", *flags, script]
    run = subprocess.run(command, capture_output=True, timeout=10)
    assert program_of("any", command, []) == Program(0.0, run.returncode)


@pytest.mark.parametrize(
    ("script", "program"),
    [
        ("sleep 30", Program(30.0, 0)),
        ("sleep 1.5 2m; exit 3", Program(121.5, 3)),
        ("sleep 1h && false", Program(3600.0, 1)),
        ("sleep 5; exit 1; sleep 100", Program(5.0, 1)),
        ("false && sleep 5; true", Program(0.0, 0)),
        ("sleep infinity", Program(math.inf, 0)),
        ("sleep .5d", Program(43200.0, 0)),
    ],
)
def test_sleeps_are_added_up(script: str, program: Program) -> None:
    assert program_of("any", ["sh", "-c"], [script]) == program


@pytest.mark.parametrize(
    "script",
    [
        "if true; then exit 1; fi",
        "exit $?",
        "exit $(( 1 ))",
        "sleep $SECONDS_TO_SLEEP",
        "echo a > /tmp/x",
        "true | false",
        "(exit 3)",
        "sleep 5 &",
        "nginx -g 'daemon off;'",
        "exit -1",
        "echo 'unclosed",
        "&& true",
        "true ;; false",
        "echo `date; sleep 5` | cat",
        "A=1 true",
    ],
)
def test_all_else_runs_until_it_is_killed(script: str) -> None:
    assert program_of("any", ["sh", "-c", script], []) is None


def test_commands_without_a_shell() -> None:
    assert program_of("any", ["sleep"], ["1000000"]) == Program(1000000.0, 0)
    assert program_of("any", ["/bin/false"], []) == Program(0.0, 1)
    assert program_of("any", ["echo", "$(HOSTNAME)"], []) == Program(0.0, 0)
    # There is no program "exit", and no script in these.
    for command in (["exit", "1"], ["sh"], ["sh", "-x"], ["sh", "script.sh"], ["nginx"], []):
        assert program_of("any", command, []) is None


def test_arguments_alone_are_a_command_of_an_image_without_an_entry_point() -> None:
    for image in (
        "busybox",
        "example.com/busybox:1.36",
        "alpine@sha256:00",
        "h:5000/bash:5",
    ):
        assert program_of(image, [], ["sleep", "3"]) == Program(3.0, 0)
    for image in ("nginx", "busybox-extras", "example.com/busybox/app:1", ""):
        assert program_of(image, [], ["sleep", "3"]) is None


def test_a_shell_ends_at_once_without_input() -> None:
    assert program_of("busybox", [], []) == Program(0.0, 0)
    assert program_of("busybox", [], [], has_input=True) is None
    assert program_of("nginx", [], []) is None


def test_annotations() -> None:
    assert annotated({}) is None
    assert annotated({RUN_SECONDS: "90"}) == Program(90.0, 0)
    assert annotated({RUN_SECONDS: "0.5", EXIT_CODE: "42"}) == Program(0.5, 42)
    assert annotated({EXIT_CODE: "1"}) == Program(0.0, 1)


@pytest.mark.parametrize("text", ["", "-1", "ten", "1e3", "nan", "inf", " 1", "1 ", "٣", "9" * 10])
def test_an_annotation_that_is_no_number_is_an_error(text: str) -> None:
    message = f"annotation mooring.dev/run-seconds is {text!r}, not a number of seconds"
    with pytest.raises(InvalidAnnotation) as caught:
        annotated({RUN_SECONDS: text})
    assert str(caught.value) == message
    with pytest.raises(InvalidAnnotation, match="not a whole number from 0 to 255"):
        annotated({EXIT_CODE: text})


def test_exit_codes_have_a_limit() -> None:
    assert annotated({EXIT_CODE: "255"}) == Program(0.0, 255)
    for text in ("256", "1.5"):
        with pytest.raises(InvalidAnnotation, match="not a whole number from 0 to 255"):
            annotated({EXIT_CODE: text})

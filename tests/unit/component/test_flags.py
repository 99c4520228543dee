"""The command line, as pflag parses it; hundreds of lines are in ``test_flags_peer``."""

from __future__ import annotations

import dataclasses

import pytest

from mooring.component.flag_kinds import CertKey, VModule
from mooring.component.flag_table import FLAGS
from mooring.component.flags import OWN_FLAGS, FlagError, parse
from mooring.component.usage import help_text


def problem(*words: str) -> str:
    with pytest.raises(FlagError) as caught:
        parse(words)
    return str(caught.value)


def test_the_flags_are_those_of_kube_scheduler_and_four_more() -> None:
    assert len(FLAGS) - len(OWN_FLAGS) == 62
    assert {"context", "log-level", "node-sampling", "plugin"} == OWN_FLAGS


def test_without_words_every_flag_has_its_default() -> None:
    options = parse([])
    assert options.given_flags == frozenset()
    assert options.serving.secure_port == 10259
    assert options.authorization.authorization_always_allow_paths == (
        "/healthz",
        "/readyz",
        "/livez",
    )
    assert options.leader_election.leader_elect_lease_duration == 15
    assert options.texts["pod-max-in-unschedulable-pods-duration"] == "5m0s"


def test_every_flag_is_an_attribute() -> None:
    options = parse([])
    parts = [options, *(getattr(options, field.name) for field in dataclasses.fields(options))]
    names = {
        field.name
        for part in parts
        if dataclasses.is_dataclass(part)
        for field in dataclasses.fields(part)
    }
    assert {name.replace("-", "_") for name in FLAGS} <= names


@pytest.mark.parametrize(
    "words",
    [
        ["--secure-port=1"],
        ["--secure_port", "1"],
        ["--secure-port=2", "--secure-port=0x1"],
    ],
)
def test_a_value_may_be_a_word_of_its_own_and_the_last_one_counts(words: list[str]) -> None:
    options = parse(words)
    assert options.serving.secure_port == 1
    assert options.given_flags == {"secure-port"}


@pytest.mark.parametrize("words", [["-v2"], ["-v=2"], ["-v", "2"], ["--v", "2"], ["--v=2"]])
def test_a_letter(words: list[str]) -> None:
    assert parse(words).logging.v == 2


def test_a_boolean_takes_no_word() -> None:
    assert parse(["--leader-elect"]).leader_election.leader_elect is True
    assert parse(["--leader-elect=F"]).leader_election.leader_elect is False
    assert problem("--leader-elect", "false") == (
        '"kube-scheduler" does not take any arguments, got ["false"]'
    )


def test_lists_replace_the_default_and_then_grow() -> None:
    options = parse(["--authorization-always-allow-paths=/a,/b", "--plugin=m:A", "--plugin=m:B,C"])
    assert options.authorization.authorization_always_allow_paths == ("/a", "/b")
    assert options.plugin == ("m:A", "m:B,C")
    paths = parse(
        ["--authorization-always-allow-paths=/a", '--authorization-always-allow-paths="b,c"']
    )
    assert paths.authorization.authorization_always_allow_paths == ("/a", "b,c")


def test_values_of_several_parts() -> None:
    options = parse(
        [
            "--tls-sni-cert-key=a.crt, a.key:x.io,y.io",
            "--tls-sni-cert-key=b.crt,b.key",
            "--vmodule=queue=3,cache*=5",
            "--allow-metric-labels=m,l=v",
            "--feature-gates=A=true,kube:B=false",
            "--feature-gates=C=true",
        ]
    )
    assert options.serving.tls_sni_cert_key == (
        CertKey("a.crt", "a.key", ("x.io", "y.io")),
        CertKey("b.crt", "b.key"),
    )
    assert options.texts["tls-sni-cert-key"] == "[a.crt,a.key:x.io,y.io;b.crt,b.key]"
    assert options.logging.vmodule == (VModule("queue", 3), VModule("cache*", 5))
    assert options.metrics.allow_metric_labels == {"m,l": "v"}
    assert options.feature_gates == {"": ("A=true", "C=true"), "kube": ("B=false",)}
    assert options.texts["feature-gates"] == ":A=true,:C=true,kube:B=false"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--nosuch"], "unknown flag: --nosuch"),
        (["--conf=x"], "unknown flag: --conf"),
        (["-x"], "unknown shorthand flag: 'x' in -x"),
        (["--config"], "flag needs an argument: --config"),
        (["-v"], "flag needs an argument: 'v' in -v"),
        (["---"], "bad flag syntax: ---"),
        (["--secure-port=abc"], 'invalid argument "abc" for "--secure-port" flag: '
         'strconv.ParseInt: parsing "abc": invalid syntax'),
        (["-v=x"], 'invalid argument "x" for "-v, --v" flag: strconv.ParseUint: parsing "x": '
         "invalid syntax"),
        (["--node-sampling=some"], 'invalid argument "some" for "--node-sampling" flag: must be '
         "one of 'all', 'adaptive'"),
    ],
)  # fmt: skip
def test_what_pflag_refuses_is_refused_with_its_text(words: list[str], expected: str) -> None:
    assert problem(*words) == expected


def test_words_after_two_dashes_are_arguments() -> None:
    assert problem("--", "--config=x").endswith('got ["--config=x"]')
    assert parse(["--v=1", "--"]).logging.v == 1


def test_an_error_wins_over_help() -> None:
    assert parse(["x", "--help"]).help
    assert problem("--help", "--nosuch") == "unknown flag: --nosuch"


def test_flags_without_effect_are_named_if_given() -> None:
    options = parse(["--http2-max-streams-per-connection=5", "--v=1"])
    assert [name for name, _ in options.without_effect()] == ["http2-max-streams-per-connection"]


def test_the_usage_text_has_every_flag() -> None:
    text = help_text("mooring run")
    for name in FLAGS:
        assert f"--{name}" in text
    assert max(map(len, text.splitlines())) <= 110

"""``mooring run`` from the command line to its first request: what is refused before that."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.config import load
from tests.helpers.command_line import restored_logging, run_command

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture(autouse=True)
def _root() -> Iterator[None]:
    with restored_logging():
        yield


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    if not any("secure-port" in word for word in words):
        words = (*words, "--secure-port=0")  # other tests run beside this one
    code, out, err = run_command(capsys, "run", *words)
    assert out == ""
    return code, err


def kubeconfig(folder: Path) -> str:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    return f"--kubeconfig={path}"


def failure(err: str) -> str:
    """Returns the last line, which must be an error of the log, without time and place."""
    last = err.splitlines()[-1]
    head, _, text = last.partition("] ")
    assert re.fullmatch(r"E\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ run\.py:\d+", head), last
    return text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--kubeconfig=no-such-file"], "stat no-such-file: no such file or directory"),
        (["--config=no-such-config"], "open no-such-config: no such file or directory"),
        (["--secure-port=-1"], "--secure-port -1 must be between 0 and 65535, inclusive. 0 for "
         "turning off secure port"),
        (["--feature-gates=Nope=true"], "unrecognized feature gate: Nope"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_start_logs_why_and_exits_with_1(
    capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    code, err = run(capsys, *words)
    assert code == 1
    assert failure(err) == f'"command failed" err="{expected}"'


def test_a_context_that_does_not_exist_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, err = run(capsys, kubeconfig(tmp_path), "--context=y")
    assert code == 1
    assert "no context 'y'; existing: x" in failure(err)


def test_a_plugin_that_does_not_exist_is_refused_before_anything_is_requested(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, err = run(capsys, kubeconfig(tmp_path), "--plugin=no_such_module:X")
    assert code == 1
    assert "no_such_module" in failure(err)


def test_the_kubeconfig_of_the_configuration_counts_and_not_the_flag(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + "clientConnection: {kubeconfig: /no/such/file}\n")
    code, err = run(capsys, f"--config={config}", kubeconfig(tmp_path))
    assert code == 1
    assert failure(err) == '"command failed" err="stat /no/such/file: no such file or directory"'


def test_the_flag_counts_if_the_configuration_names_no_kubeconfig(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(HEAD)
    out_path = tmp_path / "out.yaml"
    code, err = run(
        capsys, f"--config={config}", kubeconfig(tmp_path), f"--write-config-to={out_path}"
    )
    assert code == 0, err
    assert "--kubeconfig is used, because the file of --config names no kubeconfig" in err
    assert load(out_path).client_connection.kubeconfig == ""


def test_master_needs_no_kubeconfig(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out_path = tmp_path / "out.yaml"
    code, err = run(capsys, "--master=http://10.0.0.1:8080", f"--write-config-to={out_path}")
    assert code == 0, err


@pytest.mark.parametrize("master", ["https://a:x", "https://[::1", "http://"])
def test_a_master_without_a_usable_host_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, master: str
) -> None:
    for more in ([], [kubeconfig(tmp_path)]):
        code, err = run(capsys, f"--master={master}", *more)
        assert code == 1
        text = json.dumps(f'host must be a URL or a host:port pair: "{master}"')
        assert failure(err) == f'"command failed" err={text}'


def test_fields_without_effect_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + "parallelism: 4\nclientConnection: {contentType: application/json}\n")
    out_path = tmp_path / "out.yaml"
    _, err = run(
        capsys, f"--config={config}", kubeconfig(tmp_path), f"--write-config-to={out_path}"
    )
    assert '"a field has no effect" field="parallelism" reason="decisions use one core"' in err
    assert 'field="clientConnection.contentType"' in err


def test_an_error_in_a_file_is_explained_before_the_last_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + "paralelism: 1\n")
    code, err = run(capsys, f"--config={config}")
    assert code == 1
    assert failure(err) == (
        '"command failed" err="strict decoding error: unknown field \\"paralelism\\""'
    )
    assert f"{config}: line 3: paralelism: unknown field (did you mean 'parallelism'?)" in err


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (["--nosuch"], "Error: unknown flag: --nosuch"),
        (["--log-level=loud"], "Error: invalid argument \"loud\" for \"--log-level\" flag: must be "
         "one of 'debug', 'info', 'warning', 'error'"),
    ],
)  # fmt: skip
def test_a_command_line_error_comes_after_the_usage_text(
    capsys: pytest.CaptureFixture[str], words: list[str], last: str
) -> None:
    code, err = run(capsys, *words)
    assert code == 1
    assert err.startswith("Usage:\n  mooring run [flags]\n\nMisc flags:\n")
    assert err.endswith(f"\n{last}\n")


def test_an_argument_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, err = run(capsys, "pods")
    assert code == 1
    assert err == 'Error: "mooring run" does not take any arguments, got ["pods"]\n'


def test_help_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_command(capsys, "run", "--help")
    assert (code, err) == (0, "")
    assert "      --leader-elect-lease-duration duration\n" in out
    assert "kube:NodeDeclaredFeatures=true|false (BETA - default=true)" in out


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("--version", "Kubernetes v1.36.3\n"),
        ("--version=raw", 'version.Info{Major:"1", Minor:"36"'),
    ],
)
def test_version(capsys: pytest.CaptureFixture[str], word: str, expected: str) -> None:
    code, out, err = run_command(capsys, "run", word)
    assert (code, err) == (0, "")
    assert out.startswith(expected)


def test_write_config_to_writes_the_configuration_in_effect(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out_path = tmp_path / "out.yaml"
    config = tmp_path / "config.yaml"
    path = kubeconfig(tmp_path).partition("=")[2]
    config.write_text(
        HEAD + f"clientConnection: {{kubeconfig: {path}, qps: 7}}\n"
        "leaderElection: {leaderElect: false}\n"
    )
    code, err = run(
        capsys,
        f"--config={config}",
        "--leader-elect=true",
        "--kube-api-qps=77",
        "--profiling=false",
        "--secure-port=0",
        f"--write-config-to={out_path}",
    )
    assert code == 0, err
    written = load(out_path)
    assert written.leader_election.leader_elect is True
    assert written.client_connection.qps == 7
    assert written.enable_profiling is True
    assert f'"Wrote configuration" file="{out_path}"' in err


def test_every_flag_is_logged_at_v_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out_path = tmp_path / "out.yaml"
    _, err = run(
        capsys, kubeconfig(tmp_path), "-v=1", "--secure-port=0", f"--write-config-to={out_path}"
    )
    flags = [line.partition("] FLAG: ")[2] for line in err.splitlines() if "] FLAG: " in line]
    assert len(flags) == 62
    names = [flag.partition("=")[0] for flag in flags]
    assert names == sorted(names)
    assert '--secure-port="0"' in flags


def test_flags_without_effect_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out_path = tmp_path / "out.yaml"
    _, err = run(
        capsys,
        kubeconfig(tmp_path),
        "--contention-profiling",
        "--secure-port=0",
        f"--write-config-to={out_path}",
    )
    (line,) = [line for line in err.splitlines() if line.startswith("W")]
    assert '"a flag has no effect" flag="--contention-profiling"' in line


def test_the_log_can_be_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, err = run(capsys, "--logging-format=json", "--secure-port=-1")
    assert code == 1
    entry = json.loads(err.splitlines()[-1])
    assert entry.pop("ts") > 1e12
    assert entry.pop("caller").startswith("cli/run.py:")
    problem = (
        "--secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port"
    )
    assert entry == {"msg": "command failed", "err": problem, "errCauses": [{"error": problem}]}

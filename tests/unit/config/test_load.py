"""Loading a configuration: files, plain values, defaults, and error messages.

What kube-scheduler makes of 316 files is in ``test_config_golden``.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.config import (
    default_configuration,
    from_document,
    load,
    loads,
    to_document,
)
from mooring.config.plugin_defaults import ARGS_TYPES
from mooring.config.types import (
    CPU_AND_MEMORY,
    EXTENSION_POINTS,
    InterPodAffinityArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
)
from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.files.limits import CONFIG_BYTES_MAX
from tests.helpers.counting import calls
from tests.helpers.paths import PARITY_DATA

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PARITY = PARITY_DATA


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def faults_of(text: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        loads(text, file="c.yaml")
    lines = str(caught.value).splitlines()
    assert lines == [str(error) for error in caught.value.errors]
    return lines


def test_a_file_with_nothing_but_its_kind_is_the_default(tmp_path: Path) -> None:
    assert load(write(tmp_path / "c.yaml", HEAD)) == default_configuration()
    assert from_document(None) == default_configuration()


def test_a_config_map_is_named_with_the_keys_of_its_texts() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\ndata:\n  scheduler.yaml: x\n"
    assert faults_of(text) == [
        "c.yaml: line 2: kind: must be KubeSchedulerConfiguration: write the text in "
        "data.scheduler.yaml to a file of its own, got 'ConfigMap'"
    ]


def test_json_and_gzip_are_read_too(tmp_path: Path) -> None:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 3,
    }
    plain = write(tmp_path / "c.json", json.dumps(document))
    packed = tmp_path / "c.gz"
    packed.write_bytes(gzip.compress(HEAD.encode() + b"parallelism: 3\n"))
    assert load(plain).parallelism == load(packed).parallelism == 3


def test_faults_have_file_line_path_value_and_suggestion() -> None:
    text = (
        HEAD + "paralelism: 1\nleaderElection:\n  leaseDuration: 15\nprofiles:\n- {}\n- plugins:\n"
    )
    text += "    score:\n      enabled:\n      - name: A\n        wieght: 2\n"
    assert faults_of(text) == [
        "c.yaml: line 3: paralelism: unknown field (did you mean 'parallelism'?)",
        'c.yaml: line 5: leaderElection.leaseDuration: must be a duration such as "15s" or "1m30s"'
        ", got 15",
        "c.yaml: line 12: profiles[1].plugins.score.enabled[0].wieght: unknown field "
        "(did you mean 'weight'?)",
    ]


def test_values_are_looked_at_only_when_the_form_is_right() -> None:
    assert faults_of(HEAD + "parallelism: 0\nfoo: 1\n") == ["c.yaml: line 4: foo: unknown field"]
    assert faults_of(HEAD + "parallelism: 0\npercentageOfNodesToScore: 101\n") == [
        "c.yaml: line 3: parallelism: should be an integer value greater than zero, got 0",
        "c.yaml: line 4: percentageOfNodesToScore: not in valid range [0-100], got 101",
    ]


def test_what_is_missing_gets_the_nearest_line() -> None:
    text = HEAD + "profiles:\n- schedulerName: a\n- percentageOfNodesToScore: 5\n"
    assert faults_of(text) == ["c.yaml: line 5: profiles[1].schedulerName: is required"]


def test_a_removed_plugin_is_found_where_the_file_has_it() -> None:
    text = (
        HEAD + "profiles:\n- plugins:\n    multiPoint:\n      enabled:\n      - name: EBSLimits\n"
    )
    (line,) = faults_of(text)
    assert line.startswith("c.yaml: line 7: profiles[0].plugins.multiPoint.enabled[0]: was invalid")


def test_an_old_version_is_reported() -> None:
    (line,) = faults_of(HEAD.replace("/v1\n", "/v1beta3\n"))
    assert "must be kubescheduler.config.k8s.io/v1; change the apiVersion and run again" in line


def test_located_keeps_all_faults() -> None:
    with pytest.raises(ConfigErrors) as caught:
        from_document({**to_document(default_configuration()), "foo": 1, "bar": 2})
    located = caught.value.located(file="recording.json", document=1)
    assert str(located).splitlines() == [
        "recording.json: document 1: foo: unknown field",
        "recording.json: document 1: bar: unknown field",
    ]


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="is empty"):
        load(write(tmp_path / "empty.yaml", "# nothing\n"))
    with pytest.raises(ConfigError, match=r"two.yaml: document 2: .*one document only"):
        load(write(tmp_path / "two.yaml", HEAD + "---\n" + HEAD))
    with pytest.raises(ConfigError, match=f"larger than {CONFIG_BYTES_MAX} bytes"):
        load(write(tmp_path / "big.yaml", HEAD + "#" * CONFIG_BYTES_MAX))


@pytest.mark.parametrize("value", [[], "x", 7, True])
def test_a_plain_value_must_be_a_mapping(value: Any) -> None:
    with pytest.raises(ConfigError, match="must be a KubeSchedulerConfiguration"):
        from_document(value)


def test_defaults_of_everything() -> None:
    config = default_configuration()
    (profile,) = config.profiles
    assert config.profile("default-scheduler") is profile
    assert config.profile("other") is None
    assert config.enable_contention_profiling is True
    assert config.leader_election.lease_duration_s == 15.0
    assert profile.args("NodeResourcesFit") == NodeResourcesFitArgs()
    assert profile.args("NodeName") is None
    assert {entry.name for entry in profile.plugin_config} == set(ARGS_TYPES)
    names = [entry.name for entry in profile.plugin_config]
    assert names == sorted(names)


def test_profiling_off_switches_contention_profiling_off_too() -> None:
    assert loads(HEAD + "enableProfiling: false\n").enable_contention_profiling is False


def test_written_args_come_first_and_are_filled_in() -> None:
    text = (
        HEAD + "profiles:\n- pluginConfig:\n  - name: Mine\n    args: {a: [1]}\n"
        "  - name: NodeResourcesFit\n    args:\n      scoringStrategy:\n"
        "        type: MostAllocated\n        resources: [{name: cpu, weight: 0}]\n"
        "  - name: InterPodAffinity\n"
    )
    (profile,) = loads(text).profiles
    names = [entry.name for entry in profile.plugin_config]
    assert names[:3] == ["Mine", "NodeResourcesFit", "InterPodAffinity"]
    assert profile.args("Mine") == {"a": [1]}
    assert profile.args("InterPodAffinity") == InterPodAffinityArgs()
    assert profile.args("NodeResourcesFit") == NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(
            type="MostAllocated", resources=(ResourceSpec(name="cpu", weight=1),)
        )
    )


@pytest.mark.parametrize("name", ["{a: b}", "[a]", "1"])
def test_the_name_of_a_plugin_with_args_is_a_string(name: str) -> None:
    (line,) = faults_of(HEAD + f"profiles:\n- pluginConfig:\n  - name: {name}\n    args: {{}}\n")
    assert "line 5: profiles[0].pluginConfig[0].name: must be a string" in line


def test_args_are_for_plugins_that_run() -> None:
    text = HEAD + "profiles:\n- plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}\n"
    (profile,) = loads(text).profiles
    assert profile.args("InterPodAffinity") is None
    assert profile.args("VolumeBinding") is not None


def test_bad_args_of_a_plugin_that_is_off_do_not_matter() -> None:
    args = "  pluginConfig:\n  - name: NodeResourcesFit\n    args: {ignoredResources: ['a b']}\n"
    off = "  plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}\n"
    loads(HEAD + "profiles:\n- schedulerName: a\n" + off + args)
    (line,) = faults_of(HEAD + "profiles:\n- schedulerName: a\n" + args)
    assert "ignoredResources[0]" in line


def test_resources_left_out_are_cpu_and_memory() -> None:
    text = HEAD + "profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args: "
    text += "{scoringStrategy: {type: LeastAllocated, resources: []}}\n"
    (profile,) = loads(text).profiles
    assert profile.args("NodeResourcesFit").scoring_strategy.resources == CPU_AND_MEMORY


@pytest.mark.parametrize(
    "tls",
    [
        "",
        "tlsConfig: {}",
        "tlsConfig: {serverName: a}",
        "tlsConfig: {insecure: true}",
        "tlsConfig: {caFile: /ca.pem}",
        "tlsConfig: {caData: eA==}",
    ],
)
def test_https_extenders_need_no_ca(tls: str) -> None:
    text = HEAD + f"extenders:\n- {{urlPrefix: 'https://a', enableHTTPS: true, {tls}}}\n"
    assert loads(text).extenders[0].enable_https is True


def test_aliases_stand_for_copies_of_the_value_at_their_anchor() -> None:
    text = (
        HEAD + "profiles:\n- schedulerName: a\n  plugins: &own {score: {disabled: [{name: '*'}]}}\n"
        "- schedulerName: b\n  plugins: *own\n"
    )
    first, second = loads(text).profiles
    assert first.plugins == second.plugins
    assert first.plugins.score.disables("NodeAffinity")


def test_aliases_of_aliases_are_limited() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigError, match="aliases stand for more than 10000 values"):
        loads(HEAD + "\n".join(lines))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("parallelism: *a", "no such anchor"),
        ("profiles: &a [*a]", "in its own value"),
        ("*a : 1", "aliases are not supported"),
    ],
)
def test_aliases_that_stand_for_nothing_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        loads(HEAD + text)


def test_extension_points_are_those_of_a_cycle() -> None:
    assert EXTENSION_POINTS[:4] == ("pre_enqueue", "queue_sort", "pre_filter", "filter")
    assert "multi_point" not in EXTENSION_POINTS
    assert len(EXTENSION_POINTS) == 12


@pytest.mark.parametrize("seed", range(1, 13))
def test_configurations_of_recordings_load_and_come_back(seed: int) -> None:
    path = PARITY / f"profiles-{seed}.json.gz"
    config = from_document(json.loads(gzip.decompress(path.read_bytes()))["config"])
    assert config.profiles
    assert from_document(to_document(config)) == config
    assert from_document(json.loads(json.dumps(to_document(config)))) == config


# ------------------------------------------------------------------------------- many errors


def _calls_of_reading(text: str) -> int:
    def read() -> None:
        with pytest.raises(ConfigError):
            loads(text)

    return calls(read)


@pytest.mark.parametrize("entry", ["unknown{}: 1\n", "- {{schedulerName: {}, odd: 1}}\n"])
def test_a_text_is_read_twice_whatever_the_number_of_its_errors(entry: str) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    head += "profiles:\n" if entry.startswith("-") else ""
    few, many = (head + "".join(map(entry.format, range(count))) for count in (10, 100))

    assert _calls_of_reading(many) < 11 * _calls_of_reading(few)


def test_each_of_many_errors_has_its_line() -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    with pytest.raises(ConfigErrors) as caught:
        loads(head + "".join(f"unknown{number}: 1\n" for number in range(30)))
    assert [error.line for error in caught.value.errors] == list(range(3, 33))

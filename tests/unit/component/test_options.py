"""The configuration in effect: which source wins, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.component.flags import parse
from mooring.component.options import (
    CommandFailed,
    Effective,
    RateLimit,
    check_elector,
    check_options,
    effective,
    feature_gates,
)
from mooring.config import default_configuration
from mooring.config.types import LeaderElection

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def settings(*words: str) -> Effective:
    options = parse(words)
    return effective(options, feature_gates(options))


def with_file(folder: Path, text: str, *words: str) -> Effective:
    path = folder / "config.yaml"
    path.write_text(HEAD + text)
    return settings(f"--config={path}", *words)


def test_without_flags_and_file_it_is_the_default() -> None:
    chosen = settings()
    assert chosen.config == default_configuration()
    assert chosen.rate_limit is None
    assert chosen.unschedulable_timeout_s == 300


def test_deprecated_flags_count_without_a_file() -> None:
    config = settings(
        "--kubeconfig=k", "--kube-api-qps=7", "--profiling=false", "--leader-elect=false"
    ).config
    assert config.client_connection.kubeconfig == "k"
    assert config.client_connection.qps == 7
    assert config.client_connection.burst == 100
    assert config.enable_profiling is False
    assert config.leader_election.leader_elect is False


def test_deprecated_flags_are_ignored_with_a_file_and_those_of_election_count(
    tmp_path: Path,
) -> None:
    config = with_file(
        tmp_path,
        "leaderElection: {leaderElect: false, retryPeriod: 3s}\n",
        *("--kubeconfig=k", "--kube-api-qps=7", "--profiling=false"),
        *("--leader-elect", "--leader-elect-resource-name=mine"),
    ).config
    assert config.client_connection.kubeconfig == ""
    assert config.client_connection.qps == 50
    assert config.enable_profiling is True
    assert config.leader_election.leader_elect is True
    assert config.leader_election.resource_name == "mine"
    assert config.leader_election.retry_period_s == 3


def test_election_flags_are_validated_with_a_file_only(tmp_path: Path) -> None:
    assert settings("--leader-elect-lease-duration=5s").config.leader_election.lease_duration_s == 5
    with pytest.raises(CommandFailed, match="must be greater than `RenewDeadline`"):
        with_file(tmp_path, "", "--leader-elect-lease-duration=5s")


@pytest.mark.parametrize(
    ("text", "words", "limit"),
    [
        (None, (), None),
        (None, ("--kube-api-qps=5",), RateLimit(5, 100)),
        (None, ("--kube-api-burst=5",), RateLimit(50, 5)),
        (None, ("--kube-api-qps=-1",), None),
        ("", ("--kube-api-qps=5",), None),
        ("clientConnection: {qps: 0, burst: 0}\n", (), None),
        ("clientConnection: {qps: 2.5}\n", (), RateLimit(2.5, 100)),
        ("clientConnection: {burst: 9}\n", (), RateLimit(50, 9)),
    ],
)
def test_requests_are_limited_only_if_a_limit_was_set(
    tmp_path: Path, text: str | None, words: tuple[str, ...], limit: RateLimit | None
) -> None:
    chosen = settings(*words) if text is None else with_file(tmp_path, text, *words)
    assert chosen.rate_limit == limit


@pytest.mark.parametrize(
    ("text", "words", "percentage"),
    [
        ("", (), None),
        ("percentageOfNodesToScore: 0\n", (), 0),
        ("percentageOfNodesToScore: 30\n", (), 30),
        ("", ("--node-sampling=adaptive",), 0),
        ("percentageOfNodesToScore: 30\n", ("--node-sampling=adaptive",), 30),
    ],
)
def test_nodes_are_sampled_only_if_it_was_set(
    tmp_path: Path, text: str, words: tuple[str, ...], percentage: int | None
) -> None:
    assert with_file(tmp_path, text, *words).config.percentage_of_nodes_to_score == percentage


def test_gates_choose_the_default_plugins_and_arguments() -> None:
    (profile,) = settings("--emulated-version=1.34").config.profiles
    names = [entry.name for entry in profile.plugins.multi_point.enabled]
    assert "NodeDeclaredFeatures" not in names
    assert "DynamicResources" in names
    assert profile.args("DynamicResources").binding_timeout_s is None


FILTER_TIMEOUT_OFF = "--feature-gates=DRASchedulerFilterTimeout=false"
CONDITIONS_OFF = (
    "--feature-gates=DRADeviceBindingConditions=false,DRAResourceClaimDeviceStatus=false,"
    "DRAResourceClaimGranularStatusAuthorization=false"
)


@pytest.mark.parametrize(
    ("gates", "timeouts"),
    [((), (10, 600)), ((FILTER_TIMEOUT_OFF,), (None, 600)), ((CONDITIONS_OFF,), (10, None))],
)
def test_time_limits_of_devices_depend_on_gates(
    tmp_path: Path, gates: tuple[str, ...], timeouts: tuple[float | None, float | None]
) -> None:
    text = "profiles: [{pluginConfig: [{name: DynamicResources, args: {}}]}]\n"
    for chosen in (settings(*gates), with_file(tmp_path, text, *gates)):
        args = chosen.config.profiles[0].args("DynamicResources")
        assert (args.filter_timeout_s, args.binding_timeout_s) == timeouts


@pytest.mark.parametrize(
    ("gate", "argument", "problem"),
    [
        (
            FILTER_TIMEOUT_OFF,
            "filterTimeout: 10s",
            "filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled",
        ),
        (
            CONDITIONS_OFF,
            "bindingTimeout: 60s",
            "bindingTimeout: Forbidden: DRADeviceBindingConditions or "
            "DRAResourceClaimDeviceStatus feature gate is disabled",
        ),
    ],
)
def test_a_time_limit_of_devices_without_its_gate_is_refused(
    tmp_path: Path, gate: str, argument: str, problem: str
) -> None:
    text = "profiles: [{pluginConfig: [{name: DynamicResources, args: {ARG}}]}]\n"
    with pytest.raises(CommandFailed) as caught:
        with_file(tmp_path, text.replace("ARG", argument), gate)
    assert problem in str(caught.value)


def test_storage_capacity_scoring_has_a_shape(tmp_path: Path) -> None:
    gate = "--feature-gates=StorageCapacityScoring=true"
    (profile,) = settings(gate).config.profiles
    shape = profile.args("VolumeBinding").shape
    assert [(point.utilization, point.score) for point in shape] == [(0, 10), (100, 0)]
    text = "profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [SHAPE]}}]}]\n"
    own = with_file(tmp_path, text.replace("SHAPE", "{utilization: 5, score: 7}"), gate)
    assert own.config.profiles[0].args("VolumeBinding").shape[0].score == 7
    with pytest.raises(CommandFailed, match=r"shape\[0\]\.score: Invalid value: 11"):
        with_file(tmp_path, text.replace("SHAPE", "{utilization: 5, score: 11}"), gate)


def test_an_error_of_a_profile_is_kept_for_later(tmp_path: Path) -> None:
    chosen = with_file(
        tmp_path, "profiles: [{plugins: {filter: {enabled: [{name: PrioritySort}]}}}]\n"
    )
    assert chosen.profile_error == (
        "initializing profiles: creating profile for scheduler name default-scheduler: plugin "
        '"PrioritySort" does not extend FilterPlugin plugin'
    )


def test_a_value_of_a_gate_that_is_not_implemented_is_refused() -> None:
    options = parse(["--feature-gates=GenericWorkload=true"])
    with pytest.raises(CommandFailed, match=r"does not implement: GenericWorkload=true: sched"):
        check_options(options, feature_gates(options))


@pytest.mark.parametrize(
    ("election", "problem"),
    [
        (LeaderElection(lease_duration_s=5), "leaseDuration must be greater than renewDeadline"),
        (LeaderElection(retry_period_s=9), "renewDeadline must be greater than retryPeriod*J"),
    ],
)
def test_times_of_election(election: LeaderElection, problem: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        check_elector(election)
    assert str(caught.value).startswith(f"couldn't create leader elector: {problem}")


def test_good_times_of_election() -> None:
    check_elector(LeaderElection())
    check_elector(LeaderElection(leader_elect=False, lease_duration_s=1))

"""The HTTPS endpoints and signals of ``mooring run``, as processes on a real control plane.

A leader and a standby run for the whole module. Single answers of the server are compared with
kube-scheduler's in ``test_serving_peer.py``; here it is the program that is tested.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import find_access
from mooring.clock import SystemClock, seeded_random
from mooring.explain.node_rejections import NodeRejections, PendingPod
from mooring.explain.remote import SchedulerAddress
from mooring.testing.controlplane import ControlPlane, write_kubeconfig
from mooring.ui.board_error import BoardError
from mooring.ui.watched_cluster import RemoteCluster, WatchedClusterBoard
from tests.helpers.exposition import value
from tests.integration.embedded import make_list, make_node, make_pod
from tests.integration.forwarding import forwarded
from tests.integration.processes import Program, free_port, mooring, once, wait_until
from tests.integration.serving_fixture import Answer, Ask, Credentials, answer, is_ready

pytestmark = pytest.mark.slow

IDENTITY = "system:kube-scheduler"
READYZ = (
    "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\n[+]quarantine ok\n"
    "readyz check passed\n"
)
NOT_READY = (
    "[+]leaderElection ok\n[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\n"
    "[+]quarantine ok\nreadyz check failed\n"
)


@dataclass(frozen=True)
class Replica:
    """A running scheduler, and a client of its endpoints."""

    program: Program
    port: int
    credentials: Credentials

    def get(self, path: str, who: str = "admin") -> Answer:
        return self.send(Ask(path, who))

    def send(self, ask: Ask) -> Answer:
        return asyncio.run(answer(self.port, ask, self.credentials))

    def metric(self, sample: str, **labels: str) -> float | None:
        """Returns one sample of /metrics; None if there is none."""
        return value(self.get("/metrics").body, sample, **labels)


@dataclass(frozen=True)
class Replicas:
    """The control plane, and two schedulers of which the first leads."""

    plane: ControlPlane
    credentials: Credentials
    leader: Replica
    standby: Replica

    def items(self, kind: str) -> list[dict[str, Any]]:
        """Returns the objects of a kind on the API server."""
        text = self.plane.kubectl("get", kind, "--all-namespaces", "--output=json")
        items: list[dict[str, Any]] = json.loads(text)["items"]
        return items

    def create(self, *objects: dict[str, Any]) -> None:
        self.plane.kubectl("create", "--filename=-", stdin=json.dumps(make_list(*objects)))

    def started(self, folder: Path, *flags: str, stack: ExitStack) -> Replica:
        """Starts a further scheduler with a port of its own."""
        return _started(self.plane, self.credentials, folder, flags, stack)


def flags_of(kubeconfig: Path, port: int) -> list[str]:
    """Returns the flags that kubeadm gives, with another port."""
    return [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--kubeconfig={kubeconfig}",
        f"--secure-port={port}",
    ]


def _started(
    plane: ControlPlane,
    credentials: Credentials,
    folder: Path,
    flags: tuple[str, ...],
    stack: ExitStack,
) -> Replica:
    folder.mkdir()
    port = free_port()
    words = ["run", *flags_of(plane.kubeconfig(IDENTITY), port), *flags]
    return Replica(stack.enter_context(mooring(folder, *words)), port, credentials)


@pytest.fixture(scope="module")
def replicas(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Yields a leader and a standby on a control plane with two nodes."""
    folder = tmp_path_factory.mktemp("endpoints")
    with ControlPlane(programs=programs) as plane, ExitStack() as stack:
        credentials = Credentials(plane, folder)
        flags = ("--kube-api-qps=770", "--kube-api-burst=990", "--leader-elect-retry-period=1s")
        leader = _started(plane, credentials, folder / "leader", flags, stack)
        leader.program.wait_for("caches synced")
        standby = _started(plane, credentials, folder / "standby", (), stack)
        standby.program.wait_for("waiting for the lease")
        both = Replicas(plane, credentials, leader, standby)
        both.create(make_node("node-0", cpu="2"), make_node("node-1", cpu="2"))
        yield both


@pytest.mark.parametrize("name", ["leader", "standby"])
def test_the_probes_pass_without_credentials(replicas: Replicas, name: str) -> None:
    replica = getattr(replicas, name)
    assert {path: replica.get(path, "anonymous").body for path in ("/healthz", "/livez")} == {
        "/healthz": b"ok",
        "/livez": b"ok",
    }
    readyz = replica.get("/readyz?verbose", "anonymous")
    assert (readyz.status, readyz.body.decode()) == (200, READYZ)
    assert replica.get("/metrics", "anonymous").status == 403


def test_the_lease_is_in_the_metrics(replicas: Replicas) -> None:
    sample = "leader_election_master_status"
    assert replicas.leader.metric(sample, name="kube-scheduler") == 1
    assert replicas.standby.metric(sample, name="kube-scheduler") == 0


# -- metrics --------------------------------------------------------------------------------------


def requesting(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    """Returns a pod with a request, which is gone at once when it is deleted."""
    pod = make_pod(name, terminationGracePeriodSeconds=0, **spec)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return pod


def test_the_metrics_count_what_the_api_server_shows(replicas: Replicas) -> None:
    leader = replicas.leader
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    small = [requesting(f"small-{number}", "100m") for number in range(4)]
    big = [requesting(f"big-{number}", "1500m") for number in range(2)]
    replicas.create(priority, *small, *big)
    wait_until(lambda: bound_pods(replicas) == 6)
    gates = [{"name": "example.com/wait"}]
    replicas.create(
        requesting("refused", "64"),
        requesting("gated", "1", schedulingGates=gates),
        requesting("preempts", "1500m", priorityClassName="high"),
    )
    wait_until(lambda: reasons_of_events(replicas)["Preempted"] == 1)
    wait_until(lambda: reasons_of_events(replicas)["Scheduled"] == 7)
    wait_until(lambda: unschedulable_pods(replicas) == {"refused"})

    # The pod that was preempted is gone; it was bound, too.
    assert bound_pods(replicas) == 6
    profile = "default-scheduler"
    body = leader.get("/metrics").body
    attempts = "scheduler_schedule_attempts_total"
    assert value(body, attempts, result="scheduled", profile=profile) == 7
    refusals = value(body, attempts, result="unschedulable", profile=profile)
    # The refused and the preempting pod, once each or more often.
    assert refusals == refusals_in_events(replicas) >= 2
    assert value(body, attempts, result="error", profile=profile) in (None, 0)
    assert value(body, "scheduler_pod_scheduling_attempts_count") == 7
    total = value(body, "scheduler_pod_scheduling_attempts_sum")
    assert total is not None
    # All pods but the preempting one were bound at their first attempt.
    assert 8 <= total <= 6 + refusals
    assert value(body, "scheduler_preemption_victims_count") == 1
    assert value(body, "scheduler_preemption_victims_sum") == 1
    pending = {
        queue: value(body, "scheduler_pending_pods", queue=queue)
        for queue in ("active", "backoff", "unschedulable", "gated")
    }
    assert (pending["active"], pending["gated"]) == (0, 1)
    # It may have been requeued by the victim's deletion, and wait for its backoff.
    assert (pending["unschedulable"] or 0) + (pending["backoff"] or 0) == 1


def bound_pods(replicas: Replicas) -> int:
    return sum("nodeName" in pod["spec"] for pod in replicas.items("pods"))


def reasons_of_events(replicas: Replicas) -> Counter[str]:
    return Counter(event["reason"] for event in replicas.items("events"))


def refusals_in_events(replicas: Replicas) -> int:
    """Returns how often a pod was refused; equal events are a series with a count."""
    return sum(
        (event.get("series") or {}).get("count", 1)
        for event in replicas.items("events.events.k8s.io")
        if event["reason"] == "FailedScheduling"
    )


def unschedulable_pods(replicas: Replicas) -> set[str]:
    """Returns the names of the pods whose condition says so, and that have no node."""
    return {
        pod["metadata"]["name"]
        for pod in replicas.items("pods")
        for condition in pod["status"].get("conditions", [])
        if condition.get("reason") == "Unschedulable" and "nodeName" not in pod["spec"]
    }


def test_only_the_leader_shows_the_pods_resources(replicas: Replicas) -> None:
    replicas.create(requesting("measured", "50m"))
    labels = {
        "namespace": "default",
        "pod": "measured",
        "scheduler": "default-scheduler",
        "priority": "0",
        "resource": "cpu",
        "unit": "cores",
    }

    def requested() -> Iterator[float | None]:
        nodes = [node["metadata"]["name"] for node in replicas.items("nodes")]
        body = replicas.leader.get("/metrics/resources").body
        return (value(body, "kube_pod_resource_request", node=node, **labels) for node in nodes)

    wait_until(lambda: 0.05 in list(requested()))
    resources = replicas.standby.get("/metrics/resources")
    assert (resources.status, resources.body, resources.headers.get("content-type")) == (
        200,
        b"",
        None,
    )


# -- settings -------------------------------------------------------------------------------------


def test_configz_shows_what_the_flags_set(replicas: Replicas) -> None:
    config = json.loads(replicas.leader.get("/configz").body)["componentconfig"]
    assert (config["kind"], config["apiVersion"]) == (
        "KubeSchedulerConfiguration",
        "kubescheduler.config.k8s.io/v1",
    )
    connection, election = config["clientConnection"], config["leaderElection"]
    assert (connection["qps"], connection["burst"]) == (770, 990)
    assert connection["kubeconfig"] == str(replicas.plane.kubeconfig(IDENTITY))
    assert (election["leaderElect"], election["retryPeriod"]) == (True, "1s")
    flagz = replicas.leader.get("/flagz").body.decode()
    assert re.search(r"^kube-api-qps(: |:|=| )770$", flagz, re.MULTILINE)


def test_the_verbosity_of_the_log_is_set_at_run_time(replicas: Replicas) -> None:
    standby = replicas.standby
    standby.get("/livez?before")
    before = standby.program.said()
    assert 'URI="/livez?before"' not in before
    changed = standby.send(Ask("/debug/flags/v", "admin", "PUT", body=b"5"))
    text = b"successfully set klog.logging.verbosity to 5\n"
    assert (changed.status, changed.body) == (200, text)
    standby.get("/livez?during")
    standby.program.wait_for('URI="/livez?during"')
    standby.send(Ask("/debug/flags/v", "admin", "PUT", body=b"0"))
    standby.get("/livez?after")
    # Lines are written in order: a dump that follows is there, and the request is not.
    standby.program.process.send_signal(signal.SIGUSR2)
    standby.program.wait_for("Dump of scheduling queue")
    assert 'URI="/livez?after"' not in standby.program.said()


# -- signals and the port -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["leader", "standby"])
def test_sigusr2_dumps_the_cache_which_is_right(replicas: Replicas, name: str) -> None:
    program = getattr(replicas, name).program
    dumps = program.said().count("Dump of scheduling queue")
    program.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: program.said().count("Dump of scheduling queue") > dumps)
    text = program.said()
    assert "Dump of cached NodeInfo" in text
    assert "Node name: node-0" in text
    assert "Cache mismatch" not in text
    assert program.process.poll() is None


def test_a_port_in_use_ends_the_second_process(
    replicas: Replicas, programs: Path, tmp_path: Path
) -> None:
    flags = flags_of(replicas.plane.kubeconfig(IDENTITY), replicas.leader.port)
    ours = once(tmp_path, "run", *flags)
    with ExitStack() as stack:
        theirs = stack.enter_context(kube_scheduler(replicas.plane, tmp_path, *flags))
        assert theirs.process.wait(30) == 1
    assert ours.returncode == 1
    assert ours.stdout == ""
    pattern = r'"command failed" err="([^\n]*)"$'
    errors = [re.search(pattern, text, re.MULTILINE) for text in (ours.stderr, theirs.said())]
    first, second = (match.group(1) for match in errors if match)
    assert first == second
    assert first.endswith("bind: address already in use")


@contextmanager
def kube_scheduler(plane: ControlPlane, folder: Path, *flags: str) -> Iterator[Program]:
    """Runs the real kube-scheduler with these flags."""
    out, err = folder / "theirs.out", folder / "theirs.err"
    command = [str(plane.programs / "kube-scheduler"), *flags]
    with (
        out.open("wb") as stdout,
        err.open("wb") as stderr,
        subprocess.Popen(command, stdout=stdout, stderr=stderr, env=plane.environment()) as process,
    ):
        try:
            yield Program(process, out, err)
        finally:
            process.kill()


def explain(replica: Replica, kubeconfig: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs ``mooring explain`` as a user does, with the scheduler of this replica."""
    command = [sys.executable, "-m", "mooring", "explain", *words, f"--kubeconfig={kubeconfig}"]
    own = [f"--scheduler=https://127.0.0.1:{replica.port}", "--insecure-skip-tls-verify"]
    return subprocess.run([*command, *own], capture_output=True, text=True, timeout=60, check=False)


async def rejections(replica: Replica, kubeconfig: Path, node: str) -> NodeRejections:
    """Returns what a node rejects, as the page of another cluster asks this replica for it."""
    clock, rng = SystemClock(), seeded_random(0)
    access = find_access(str(kubeconfig), environment=os.environ)
    address = SchedulerAddress(f"https://127.0.0.1:{replica.port}", is_unverified=True)
    transport = connect(access, clock=clock, environment=os.environ)
    try:
        remote = RemoteCluster(Client(transport, rng=rng), access, address)
        return await WatchedClusterBoard(remote, clock, rng).rejections(node)
    finally:
        await transport.close()


def test_the_leader_explains_a_pod_to_who_may_ask(replicas: Replicas) -> None:
    admin = replicas.plane.kubeconfig("admin")
    replicas.create(requesting("too-big", "64"))
    wait_until(lambda: "too-big" in unschedulable_pods(replicas))
    answer = explain(replicas.leader, admin, "too-big")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("Unschedulable: waiting for a cluster event.\nAttempts: 1; in ")
    assert "Requeued by events of NodeResourcesFit: NodeAdd, " in answer.stdout
    assert "2 x Insufficient cpu: node-0, node-1" in answer.stdout
    state = json.loads(explain(replicas.leader, admin, "default/too-big", "--json").stdout)
    assert (state["queue"], state["rejectedBy"]) == ("unschedulable", ["NodeResourcesFit"])
    groups = asyncio.run(rejections(replicas.leader, admin, "node-0")).groups
    # Pods of other tests may wait as well.
    own = PendingPod("default/too-big", "unschedulable")
    (rejected,) = [group for group in groups if own in group.pods]
    assert [(item.plugin, item.reasons) for item in rejected.rejections] == [
        ("NodeResourcesFit", ("Insufficient cpu",))
    ]
    replicas.plane.kubectl("delete", "pod", "too-big")


def test_nobody_else_explains(replicas: Replicas) -> None:
    admin = replicas.plane.kubeconfig("admin")
    standby = explain(replicas.standby, admin, "too-big")
    assert standby.returncode == 2
    assert "replied 503: this mooring is not scheduling: the leader is " in standby.stderr
    refused = explain(replicas.leader, replicas.plane.kubeconfig("nobody"), "too-big")
    assert refused.returncode == 2
    forbidden = 'forbidden: User "nobody" cannot get path "/mooring/v1/explain"'
    assert f"replied 403: {forbidden}" in refused.stderr
    missing = explain(replicas.leader, admin, "no-such")
    assert missing.returncode == 2
    assert missing.stderr.splitlines()[-1] == "mooring explain: no pod 'no-such' in the cluster"
    for replica, who, node, problem in (
        (replicas.standby, "admin", "node-0", "is not scheduling: the leader is "),
        (replicas.leader, "nobody", "node-0", forbidden),
        (replicas.leader, "admin", "none", "no node 'none' in the cluster"),
    ):
        with pytest.raises(BoardError, match=re.escape(problem)):
            asyncio.run(rejections(replica, replicas.plane.kubeconfig(who), node))


def test_sigterm_ends_leader_and_standby(replicas: Replicas, tmp_path: Path) -> None:
    """With a lease of their own, since the other two are needed."""
    lease = "--leader-elect-resource-name=other"
    with ExitStack() as stack:
        leader = replicas.started(tmp_path / "leader", lease, stack=stack)
        leader.program.wait_for("caches synced")
        standby = replicas.started(tmp_path / "standby", lease, stack=stack)
        standby.program.wait_for("waiting for the lease")
        for replica in (standby, leader):
            assert is_ready(replica.port)
            assert replica.program.end(signal.SIGTERM) == 0
            assert is_refused(replica.port)
            assert f"Stopped listening on 127.0.0.1:{replica.port}" in replica.program.said()
            assert "Traceback" not in replica.program.said()
    holder = "--output=jsonpath={.spec.holderIdentity}"
    assert replicas.plane.kubectl("get", "lease", "other", "-n", "kube-system", holder) == ""


def is_refused(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


# -- the API server is away -----------------------------------------------------------------------


def test_readyz_fails_until_the_api_server_can_be_reached(
    replicas: Replicas, tmp_path: Path
) -> None:
    plane, way, port = replicas.plane, free_port(), free_port()
    kubeconfig = tmp_path / "away.kubeconfig"
    write_kubeconfig(
        kubeconfig,
        url=f"https://127.0.0.1:{way}",
        authority=plane.authority,
        pair=plane.certificate(IDENTITY),
    )
    with mooring(tmp_path, "run", *flags_of(kubeconfig, port)) as program:
        replica = Replica(program, port, replicas.credentials)
        program.wait_for("Serving securely")
        assert [replica.get(path, "anonymous").status for path in ("/healthz", "/livez")] == [
            200,
            200,
        ]
        readyz = replica.get("/readyz", "anonymous")
        assert (readyz.status, readyz.body.decode()) == (500, NOT_READY)
        single = replica.get("/livez/ping", "anonymous")
        assert single.status == 500  # nothing decides whether it is allowed
        with forwarded(way, URL(plane.url).port or 0):
            wait_until(lambda: replica.get("/readyz", "anonymous").status == 200)
            program.wait_for("waiting for the lease")
            assert program.end(signal.SIGTERM) == 0

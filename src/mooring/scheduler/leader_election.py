"""Leader election of a scheduler: its elector, its LeaseCandidate, and the event about the leader.

Source: cmd/kube-scheduler/app/server.go; client-go's tools/leaderelection/resourcelock.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import msgspec

from mooring.client import Client, Elector, LeaseTimes, Transport
from mooring.client.coordinated_election import CoordinatedElector
from mooring.client.lease_candidate import Candidate, CandidateIdentity
from mooring.clock import Clock, Rng, random_uuid, rfc3339
from mooring.config import KubeSchedulerConfiguration
from mooring.errors import LeaseLost, SchedulerError
from mooring.objects.meta import Lease

_log = logging.getLogger(__name__)


def make_elector(
    transport: Transport,
    config: KubeSchedulerConfiguration,
    *,
    clock: Clock,
    rng: Rng,
    on_slow_path: Callable[[], None] = lambda: None,
) -> Elector | None:
    """Returns a candidate for the lease of the configuration; None if it has no leader election.

    Its identity is new each time: the host's name and a random UUID. ``on_slow_path`` is called
    when a renewal has to read the lease first.
    """
    return _make_elector(Elector, transport, config, clock, rng, on_slow_path)


def make_coordinated_elector(
    transport: Transport,
    config: KubeSchedulerConfiguration,
    *,
    clock: Clock,
    rng: Rng,
    on_slow_path: Callable[[], None] = lambda: None,
) -> Elector | None:
    """Returns as ``make_elector`` a candidate that waits until kube-apiserver chooses it.

    For the feature gate CoordinatedLeaderElection; it needs a ``make_candidate``.
    """
    return _make_elector(CoordinatedElector, transport, config, clock, rng, on_slow_path)


def _make_elector(
    elector_class: type[Elector],
    transport: Transport,
    config: KubeSchedulerConfiguration,
    clock: Clock,
    rng: Rng,
    on_slow_path: Callable[[], None],
) -> Elector | None:
    election = config.leader_election
    if not election.leader_elect:
        return None
    return elector_class(
        transport,
        election.resource_namespace,
        election.resource_name,
        identity=f"{os.uname().nodename}_{random_uuid(rng)}",
        clock=clock,
        rng=rng,
        on_slow_path=on_slow_path,
        times=LeaseTimes(
            duration_s=election.lease_duration_s,
            renew_s=election.renew_deadline_s,
            retry_s=election.retry_period_s,
        ),
    )


def make_candidate(
    transport: Transport,
    config: KubeSchedulerConfiguration,
    elector: Elector,
    *,
    binary_version: str,
    emulation_version: str,
    clock: Clock,
    rng: Rng,
) -> Candidate:
    """Returns the LeaseCandidate of an elector.

    *Differs:* it is a candidate for the lease of the configuration, in its namespace; upstream's is
    always one for kube-system/kube-scheduler, so that another lease never gets a holder.

    Args:
        transport: The API server.
        config: Names the lease.
        elector: Waits for the lease.
        binary_version: Such as "1.36.3".
        emulation_version: Such as "1.36.0"; the oldest of all candidates leads.
        clock: For everything.
        rng: For jitter.
    """
    identity = CandidateIdentity(
        namespace=config.leader_election.resource_namespace,
        name=elector.identity,
        lease_name=config.leader_election.resource_name,
        binary_version=binary_version,
        emulation_version=emulation_version,
    )
    return Candidate(Client(transport, rng=rng), identity, clock=clock, rng=rng)


async def record_leader(client: Client, elector: Elector, *, component: str, clock: Clock) -> None:
    """Writes the event that this candidate leads now; a failure is only logged.

    Args:
        client: Its fence is the elector's.
        elector: Leads.
        component: The schedulerName of the first profile.
        clock: For the time of the event.

    Raises:
        LeaseLost: the lease does not allow writes any more.
    """
    lease = elector.lease
    assert lease is not None, "the elector leads"
    now_s = clock.wall_s()
    event = _event(lease, f"{elector.identity} became leader", component, now_s)
    path = f"/api/v1/namespaces/{lease.metadata.namespace}/events"
    try:
        await client.write("POST", path, msgspec.json.encode(event))
    except LeaseLost:
        raise
    except SchedulerError as error:
        _log.warning("event of leader election not written", extra={"error": str(error)})


def _event(lease: Lease, message: str, component: str, now_s: float) -> dict[str, object]:
    """Returns an event of the core group, as client-go's leader election writes it."""
    metadata, now = lease.metadata, rfc3339(now_s)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata.name}.{int(now_s * 1e9):x}",
            "namespace": metadata.namespace,
        },
        "involvedObject": {
            "kind": "Lease",
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
            "apiVersion": "coordination.k8s.io/v1",
            "resourceVersion": metadata.resource_version,
        },
        "reason": "LeaderElection",
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Normal",
    }

"""F4: 403, 409 and 422 for every write, for one object, one namespace or one verb, for ever.

::

    refused ──> others are bound at once; room, volumes and devices are given back
            ──> no request beyond the limits of ``RequestChecker``; attempts wait in backoff
            ──> condition or event say why
    repaired ─> the pod is bound, its condition is written

Each case refuses one kind of write, and only that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import msgspec
import pytest

from mooring.apiserver.resources import BY_PATH
from mooring.clock import seeded_random
from tests.faults.fault_fixture import Lab, run_in_lab, small_node
from tests.faults.harness.faulty_transport import REASONS
from tests.faults.harness.reference_fit import BY_DEVICES
from tests.faults.harness.scheduler_checker import leaks
from tests.faults.harness.volume_controller import CLAIMS, VOLUMES, ZONE, volume
from tests.faults.test_device_seeds import DeviceLab
from tests.faults.test_volume_seeds import VolumeLab
from tests.helpers.virtual_loop import LimitedLoop

CODES: Final = (403, 409, 422)
SCOPES: Final = ("object", "namespace", "verb")

#: How long writes are refused: longer than all backoffs, and than a Retry-After.
REFUSED_S: Final = 150.0
#: Attempts of a pod whose write is refused: after 1, 2, 4 and 8 s, then every 10 s.
ATTEMPTS_MAX: Final = 20
#: A pod whose writes are not refused is bound so soon.
PROMPT_S: Final = 0.5
#: After the repair: the longest backoff of a pod, with its window.
REPAIRED_S: Final = 15.0

#: The namespace, and the start of the names, of what is refused.
BAD: Final = "bad"


def pattern_of(scope: str, write: str) -> str:
    """Returns the expression for a write, such as "POST PODS/NAME/binding", in a scope."""
    namespace = r"[^/ ]+" if scope == "verb" else BAD
    name = f"{BAD}-one" if scope == "object" else r"[^/ ]+"
    base = rf"/namespaces/{namespace}"
    return write.replace("NAMESPACE", base).replace("NAME", name)


async def create(
    lab: Lab, name: str, namespace: str = "default", *, cpu: str = "10m", priority: str = ""
) -> None:
    """Creates a pod in a namespace."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"priorityClassName": priority} if priority else {})}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    await post(lab, f"/api/v1/namespaces/{namespace}/pods", pod)


async def post(lab: Lab, path: str, obj: dict[str, Any]) -> None:
    await lab.user.write("POST", path, msgspec.json.encode(obj))


async def prepare(lab: Lab) -> None:
    """Creates the namespace and the PriorityClass."""
    metadata = {"name": BAD}
    await post(
        lab,
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
    )
    await post(
        lab,
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
        },
    )


def message_of(lab: Lab, name: str) -> str:
    """Returns the message of a pod's PodScheduled condition; "" if it has none."""
    pods = [pod for pod in lab.store.pods.values() if pod.metadata.name == name]
    conditions = [condition for pod in pods for condition in pod.status.conditions]
    messages = [entry.message for entry in conditions if entry.type == "PodScheduled"]
    return messages[0] if messages else ""


def notes(lab: Lab, name: str) -> list[str]:
    """Returns the notes of the events about a pod."""
    events = lab.api.store.collection(BY_PATH["", "v1", "events"])
    objects = [event.object() for event in events.in_order()]
    return [
        str(event.get("note") or event.get("message"))
        for event in objects
        if (event.get("regarding") or event["involvedObject"])["name"] == name
    ]


def attempts_of(lab: Lab, name: str, namespace: str = BAD) -> int:
    """Returns how often a pod was attempted that is in the queue now."""
    for pod in lab.store.pods.values():
        if pod.metadata.name == name and pod.metadata.namespace == namespace:
            entry = lab.service.queue.get(pod.metadata.uid)
            return entry.attempts if entry is not None else 0
    return 0


async def others_are_prompt(lab: Lab, namespace: str = "default") -> None:
    """Creates and deletes a pod every ten seconds; all must be bound at once."""
    ends_s = asyncio.get_running_loop().time() + REFUSED_S
    number = 0
    while asyncio.get_running_loop().time() < ends_s:
        number += 1
        name = f"other-{number}"
        await create(lab, name, namespace)
        # Where the refused pod takes the only place for a moment, this one waits for its backoff.
        await lab.wait_until(partial(lab.node_of, name), within_s=PROMPT_S)
        await lab.user.delete("Pod", name, namespace, grace_period_s=0)
        await asyncio.sleep(10.0)


def no_problems(lab: Lab) -> None:
    """Fails if requests came too often, or too early; and at rest, if nothing was refused."""
    assert list(lab.network.requests.problems()) == []
    assert lab.network.fired["refused_write"] >= 1


@asynccontextmanager
async def refused(
    lab: Lab, scope: str, write: str, code: int, *, others: str | None = "default"
) -> AsyncIterator[None]:
    """Refuses a write in the block and for a while after it, during which others are bound."""
    lab.network.refuse(pattern_of(scope, write), code)
    yield
    if others is None:
        await asyncio.sleep(REFUSED_S)
    else:
        await others_are_prompt(lab, others)
    no_problems(lab)
    assert attempts_of(lab, f"{BAD}-one") <= ATTEMPTS_MAX


def others_of(scope: str) -> str | None:
    """Returns the namespace of pods that must not be delayed; None if no pod can be bound."""
    return {"object": BAD, "namespace": "default", "verb": None}[scope]


cases = pytest.mark.parametrize("code", CODES)
scopes = pytest.mark.parametrize("scope", SCOPES)


@cases
@scopes
def test_a_refused_binding_gives_its_room_back_and_says_why(scope: str, code: int) -> None:
    async def work(lab: Lab) -> None:
        await prepare(lab)
        await lab.add(small_node(pods=2))
        async with lab.running():
            async with refused(
                lab, scope, "^POST .*NAMESPACE/pods/NAME/binding", code, others=others_of(scope)
            ):
                await create(lab, "bad-one", BAD)
            assert f"injected: {code}" in message_of(lab, "bad-one")
            assert any(f"injected: {code}" in note for note in notes(lab, "bad-one"))
            assert attempts_of(lab, "bad-one") >= 5

            lab.network.repair()
            await lab.wait_until(lambda: lab.node_of("bad-one"), within_s=REPAIRED_S)
            await asyncio.sleep(60.0)
            assert list(leaks(lab.service)) == []

    run_in_lab(work)


@cases
def test_the_room_of_a_refused_binding_is_used_by_another_pod(code: int) -> None:
    async def work(lab: Lab) -> None:
        await prepare(lab)
        await lab.add(small_node(pods=1))
        async with lab.running():
            lab.network.refuse(pattern_of("object", "^POST .*NAMESPACE/pods/NAME/binding"), code)
            await create(lab, "bad-one", BAD)
            await asyncio.sleep(60.0)
            await create(lab, "last")
            await lab.wait_until(lambda: lab.node_of("last"), within_s=REPAIRED_S)
            await asyncio.sleep(REFUSED_S)
            no_problems(lab)
            assert message_of(lab, "bad-one").startswith("0/1 nodes are available")

            lab.network.repair()
            await lab.user.delete("Pod", "last", "default", grace_period_s=0)
            await lab.wait_until(lambda: lab.node_of("bad-one"), within_s=REPAIRED_S)

    run_in_lab(work)


@cases
@scopes
def test_a_refused_condition_is_written_later_and_the_event_says_why(scope: str, code: int) -> None:
    async def work(lab: Lab) -> None:
        await prepare(lab)
        await lab.add(small_node(pods=9))
        async with lab.running():
            async with refused(lab, scope, "^PATCH .*NAMESPACE/pods/NAME/status", code):
                await create(lab, "bad-one", BAD, cpu="99")
            assert message_of(lab, "bad-one") == ""
            assert any("Insufficient cpu" in note for note in notes(lab, "bad-one"))

            lab.network.repair()
            await lab.wait_until(
                lambda: "Insufficient cpu" in message_of(lab, "bad-one"), within_s=130.0
            )

    run_in_lab(work)


@cases
@scopes
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_refused_events_delay_nothing_and_the_condition_says_why(
    method: str, scope: str, code: int
) -> None:
    write = r"^POST .*NAMESPACE/events NAME" if method == "POST" else "^PATCH .*NAMESPACE/events"

    async def work(lab: Lab) -> None:
        await prepare(lab)
        await lab.add(small_node(pods=9))
        async with lab.running():
            async with refused(lab, scope, write, code):
                await create(lab, "bad-one", BAD, cpu="99")
                # Each new node is a reason to retry: the event is repeated.
                for number in range(3):
                    await lab.add(small_node(f"n{number}"))
                    await asyncio.sleep(15.0)
            assert "Insufficient cpu" in message_of(lab, "bad-one")

    run_in_lab(work)


@cases
@scopes
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_a_refused_eviction_waits_for_the_backoff_and_an_event_says_why(
    method: str, scope: str, code: int
) -> None:
    suffix = "/status" if method == "PATCH" else ""

    async def work(lab: Lab) -> None:
        await prepare(lab)
        await lab.add(small_node(pods=1))
        async with lab.running():
            await create(lab, "bad-one", BAD)
            await lab.wait_until(lambda: lab.node_of("bad-one"))
            # For others; the preemptor does not fit on it.
            await lab.add(small_node("b", pods=9))
            amounts = {"status": {"allocatable": {"cpu": "20m"}}}
            await lab.user.patch("Node", "b", amounts, subresource="status")
            async with refused(lab, scope, f"^{method} .*NAMESPACE/pods/NAME{suffix} ", code):
                await create(lab, "high", cpu="1", priority="urgent")
            assert lab.node_of("high") == ""
            assert lab.node_of("bad-one") == "a"
            assert attempts_of(lab, "high", "default") <= ATTEMPTS_MAX
            text = f"preemption: cannot evict pod bad/bad-one: injected: {code}"
            assert text in notes(lab, "high")

            lab.network.repair()
            await lab.wait_until(lambda: _is_leaving(lab, "bad-one"), within_s=REPAIRED_S)

    run_in_lab(work)


def _is_leaving(lab: Lab, name: str) -> bool:
    pods = {pod.metadata.name: pod for pod in lab.store.pods.values()}
    return name not in pods or pods[name].metadata.deletion_timestamp is not None


@cases
def test_a_refused_nomination_does_not_stop_the_preemption(code: int) -> None:
    async def work(lab: Lab) -> None:
        await prepare(lab)
        await lab.add(small_node(pods=1))
        async with lab.running():
            await create(lab, "low", BAD)
            await lab.wait_until(lambda: lab.node_of("low"))
            lab.network.refuse("^PATCH .*/pods/high/status", code)
            await create(lab, "high", priority="urgent")
            await lab.wait_until(lambda: _is_leaving(lab, "low"), within_s=PROMPT_S)
            await lab.user.delete("Pod", "low", BAD, grace_period_s=0)
            await lab.wait_until(lambda: lab.node_of("high"), within_s=REPAIRED_S)
            no_problems(lab)

    run_in_lab(work)


@cases
@pytest.mark.parametrize("method", ["volume", "claim"])
def test_a_refused_write_of_a_volume_or_claim_gives_the_volume_back(method: str, code: int) -> None:
    class_name = "static" if method == "volume" else "provisioned"
    write = "^PATCH .*/persistentvolumes/" if method == "volume" else "^PATCH .*/bad-claim"

    async def work() -> None:
        lab = VolumeLab(1)
        await lab.prepare()
        async with lab.running(), asyncio.TaskGroup() as tasks:
            lab.controller.is_faulty = False
            controlling = tasks.create_task(lab.controller.run())
            lab.network.refuse(write, code)
            await post(lab, VOLUMES, volume("only", "static", ZONE, "a"))
            await _pod_with_claim(lab, "bad", class_name)
            await asyncio.sleep(REFUSED_S)
            no_problems(lab)
            assert f"injected: {code}" in message_of(lab, "bad")
            # It is in backoff: nothing is assumed.
            await lab.wait_until(
                lambda: lab.service.cache.storage.assumed() == ({}, {}), within_s=1.0
            )
            if method == "claim":
                await _pod_with_claim(lab, "other", class_name)
                await lab.wait_until(lambda: lab.node_of("other"), within_s=10.0)

            lab.network.repair()
            await lab.wait_until(lambda: lab.node_of("bad"), within_s=2 * REPAIRED_S)
            await asyncio.sleep(REPAIRED_S)
            assert lab.problems() == []
            controlling.cancel()
        lab.store.close()

    _run(work)


async def _pod_with_claim(lab: VolumeLab, name: str, class_name: str) -> None:
    claim_spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": class_name,
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{name}-claim"},
        "spec": claim_spec,
    }
    await post(lab, CLAIMS, claim)
    use = {"name": "v", "persistentVolumeClaim": {"claimName": f"{name}-claim"}}
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [use]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    await post(lab, "/api/v1/namespaces/default/pods", pod)


@cases
@pytest.mark.parametrize(
    "write",
    ["^PUT .*/resourceclaims/pod-1 ", "^PUT .*/resourceclaims/pod-1/status "],
    ids=["finalizer", "allocation"],
)
def test_a_refused_write_of_a_resource_claim_gives_the_devices_back(write: str, code: int) -> None:
    async def work() -> None:
        lab = DeviceLab(1)
        await lab.prepare()
        async with lab.running():
            lab.network.refuse(write, code)
            await lab.create_pod()
            await asyncio.sleep(10.0)
            # As many as there are devices: the refused one holds none.
            for _ in range(3):
                await lab.create_pod()
                await asyncio.sleep(1.0)
            names = [f"pod-{number}" for number in range(2, 5)]
            await lab.wait_until(lambda: all(map(lab.node_of, names)), within_s=30.0)
            await asyncio.sleep(REFUSED_S)
            no_problems(lab)
            assert lab.node_of("pod-1") == ""

            lab.network.repair()
            await lab.user.delete("Pod", "pod-2", "default", grace_period_s=0)
            await lab.user.delete("ResourceClaim", "pod-2", "default")
            claim = next(c for c in await lab.claims() if c["metadata"]["name"] == "pod-2")
            await lab.release(claim, [])
            await lab.wait_until(lambda: lab.node_of("pod-1"), within_s=REPAIRED_S)
            assert lab.problems == []
        lab.store.close()

    _run(work)


@cases
def test_a_refused_claim_for_extended_resources_gives_the_device_back(code: int) -> None:
    async def work() -> None:
        lab = DeviceLab(1)
        await lab.prepare()
        change = {"spec": {"extendedResourceName": BY_DEVICES}}
        await lab.direct.patch("DeviceClass", "gpu", change)
        async with lab.running():
            lab.network.refuse("^POST .*/namespaces/bad/resourceclaims ", code)
            metadata = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": BAD}}
            await post(lab, "/api/v1/namespaces", metadata)
            await _pod_with_device(lab, "bad-one", BAD)
            await asyncio.sleep(10.0)
            # As many as there are devices: the refused one holds none.
            names = [f"pod-{number}" for number in range(3)]
            for name in names:
                await _pod_with_device(lab, name, "default")
                await asyncio.sleep(1.0)
            await lab.wait_until(lambda: all(map(lab.node_of, names)), within_s=30.0)
            await asyncio.sleep(REFUSED_S)
            no_problems(lab)
            assert lab.node_of("bad-one") == ""
            assert attempts_of(lab, "bad-one") <= ATTEMPTS_MAX
            assert message_of(lab, "bad-one").startswith("0/3 nodes are available")
            assert any(f"injected: {code}" in note for note in notes(lab, "bad-one"))

            lab.network.repair()
            await lab.user.delete("Pod", "pod-0", "default", grace_period_s=0)
            for claim in await lab.claims():
                if claim["metadata"]["ownerReferences"][0]["name"] == "pod-0":
                    await lab.user.delete("ResourceClaim", claim["metadata"]["name"], "default")
                    deleted = next(
                        other
                        for other in await lab.claims()
                        if other["metadata"]["uid"] == claim["metadata"]["uid"]
                    )
                    await lab.release(deleted, [])
            await lab.wait_until(lambda: lab.node_of("bad-one"), within_s=REPAIRED_S)
            assert lab.problems == []
        lab.store.close()

    _run(work)


async def _pod_with_device(lab: DeviceLab, name: str, namespace: str) -> None:
    """Creates a pod that requests the extended resource of a device class."""
    container = {
        "name": "c",
        "image": "i",
        "resources": {"limits": {BY_DEVICES: "1"}},
    }
    spec = {"containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    await post(lab, f"/api/v1/namespaces/{namespace}/pods", pod)


def _run(work: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await work()

    with asyncio.Runner(loop_factory=partial(LimitedLoop, seeded_random(1))) as runner:
        runner.run(run())


def test_every_refused_status_has_a_reason() -> None:
    assert {REASONS[code] for code in CODES} == {"Forbidden", "Conflict", "Invalid"}

"""Claims of running pods: what is written in PreBind, and what becomes of conflicts and failures.

The rules are those of kube-scheduler v1.36.3, dynamicresources.go (bindClaim, PreBind, Unreserve).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.client.transport.transport import Request
from mooring.errors import Forbidden, OutcomeUnknown
from mooring.objects.codec.decode import convert
from mooring.objects.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    pod_as_user,
)
from mooring.testing import make_node, make_pod
from tests.helpers.devices import (
    DRIVER,
    exactly,
    make_claim,
    make_class,
    make_device,
    make_slice,
    result_of,
)
from tests.helpers.running_scheduler import Life, on, run_scheduler, virtually

FINALIZER = "resource.kubernetes.io/delete-protection"
CEL = f'device.driver == "{DRIVER}"'
STATUS = "/resourceclaims/gpu/status"


def gpus(node: str, count: int = 1, **device: Any) -> Any:
    devices = [make_device(f"gpu-{number}", **device) for number in range(count)]
    return make_slice(f"slice-{node}", devices, node=node)


def objects(*more: Any) -> list[Any]:
    """Returns a node with a GPU, and the class of GPUs."""
    return [make_node("a"), gpus("a"), make_class("gpu", CEL), *more]


def claiming(name: str, claim: str = "gpu", **spec: Any) -> Any:
    claims = [{"name": "c", "resourceClaimName": claim}]
    return make_pod(name, spec={"resourceClaims": claims, **spec})


async def claim_of(life: Life, name: str = "gpu") -> Any:
    path = f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}"
    return json.loads(await life.client.read(Request("GET", path, deadline_s=5.0)))


def users(claim: Any) -> list[str]:
    return [user["name"] for user in claim["status"].get("reservedFor", ())]


def devices_of(claim: Any) -> list[str]:
    allocation = claim["status"].get("allocation") or {"devices": {"results": []}}
    return [f"{item['pool']}/{item['device']}" for item in allocation["devices"]["results"]]


@virtually
async def test_a_claim_is_allocated_and_reserved_before_its_pod_is_bound() -> None:
    async with run_scheduler(*objects(make_claim("gpu", exactly()))) as life:
        await life.create(claiming("web"))
        await life.until_seen("bound", "web")
        claim = await claim_of(life)
        assert devices_of(claim) == ["a/gpu-0"]
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        (user,) = claim["status"]["reservedFor"]
        uid = (await life.raw("web"))["metadata"]["uid"]
        assert user == {"resource": "pods", "name": "web", "uid": uid}
        assert claim["status"]["allocation"]["allocationTimestamp"].startswith("2026-01-01T00:")
        selector = claim["status"]["allocation"]["nodeSelector"]
        field = selector["nodeSelectorTerms"][0]["matchFields"][0]
        assert (field["key"], field["values"]) == ("metadata.name", ["a"])
        methods = [sent.method for sent in life.wire.requests if "/resourceclaims/gpu" in sent.path]
        assert methods == ["PUT", "PUT"]


@virtually
async def test_a_second_pod_of_a_claim_is_added_to_its_users() -> None:
    async with run_scheduler(*objects(make_claim("gpu", exactly()))) as life:
        await life.create(claiming("one"))
        await life.until_seen("bound", "one")
        before = (await claim_of(life))["status"]["allocation"]
        await life.create(claiming("two"))
        await life.until_seen("bound", "two")
        claim = await claim_of(life)
        assert users(claim) == ["one", "two"]
        assert claim["status"]["allocation"] == before


@virtually
async def test_many_pods_of_a_claim_are_added_in_turn_without_a_conflict() -> None:
    async with run_scheduler(*objects(make_claim("gpu", exactly())), at_rest=False) as life:

        async def take_long(_: Request) -> None:
            await asyncio.sleep(0.2)

        life.wire.before.append(on("PUT", STATUS, times=100)(take_long))
        await life.create(claiming("first"))
        await life.until_seen("bound", "first")
        names = [f"pod-{number}" for number in range(20)]
        for name in names:
            await life.create(claiming(name))
        for name in names:
            await life.until_seen("bound", name)
        assert sorted(users(await claim_of(life))) == sorted(["first", *names])
        assert not life.observer.of("failed")
        sent = [sent.method for sent in life.wire.requests if sent.path.endswith(STATUS)]
        assert sent == ["PUT"] * (1 + len(names))


@virtually
async def test_a_conflict_is_followed_by_a_read_and_another_write() -> None:
    async with run_scheduler(*objects(make_claim("gpu", exactly()))) as life:

        async def touch(_: Request) -> None:
            life.wire.before.clear()
            labels = {"metadata": {"labels": {"touched": "yes"}}}
            await life.world.client.patch("ResourceClaim", "gpu", labels, namespace="default")

        life.wire.before.append(on("PUT", STATUS)(touch))
        await life.create(claiming("web"))
        await life.until_seen("bound", "web")
        claim = await claim_of(life)
        assert (devices_of(claim), users(claim)) == (["a/gpu-0"], ["web"])
        assert claim["metadata"]["labels"] == {"touched": "yes"}


@virtually
async def test_every_write_after_a_conflict_is_of_the_newest_version() -> None:
    async with run_scheduler(*objects(make_claim("gpu", exactly()))) as life:
        touched: list[str] = []

        async def touch(_: Request) -> None:
            if len(touched) == 3:
                return
            touched.append("yes")
            labels = {"metadata": {"labels": {f"touched-{len(touched)}": "yes"}}}
            await life.world.client.patch("ResourceClaim", "gpu", labels, namespace="default")

        life.wire.before.append(on("PUT", STATUS, times=4)(touch))
        await life.create(claiming("web"))
        await life.until_seen("bound", "web")
        claim = await claim_of(life)
        assert (devices_of(claim), users(claim)) == (["a/gpu-0"], ["web"])
        sent = [sent.method for sent in life.wire.requests if sent.path.endswith(STATUS)]
        assert sent == ["PUT"] * 4
        assert not life.observer.of("failed")


@virtually
async def test_a_claim_that_was_allocated_elsewhere_meanwhile_keeps_its_devices() -> None:
    world = [make_node("a"), gpus("a", 2), make_class("gpu", CEL), make_claim("gpu", exactly())]
    async with run_scheduler(*world) as life:

        async def allocate(_: Request) -> None:
            life.wire.before.clear()
            claim = await life.world.client.get("ResourceClaim", "gpu", "default")
            result = DeviceRequestAllocationResult(
                request="r", driver=DRIVER, pool="a", device="gpu-1"
            )
            allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
            status = replace(claim.status, allocation=allocation)
            await life.world.client.replace(replace(claim, status=status), subresource="status")

        life.wire.before.append(on("PUT", STATUS)(allocate))
        await life.create(claiming("web"))
        await life.until_seen("bound", "web")
        ((_, _, told),) = life.observer.of("failed")
        assert told.endswith("claim default/gpu got allocated elsewhere in the meantime")
        claim = await claim_of(life)
        assert (devices_of(claim), users(claim)) == (["a/gpu-1"], ["web"])


@virtually
async def test_a_claim_that_was_made_anew_meanwhile_is_not_the_reserved_one() -> None:
    async with run_scheduler(*objects(make_claim("gpu", exactly()))) as life:

        async def make_anew(_: Request) -> None:
            life.wire.before.clear()
            client = life.world.client
            no_finalizer = {"metadata": {"finalizers": None}}
            await client.patch("ResourceClaim", "gpu", no_finalizer, namespace="default")
            await client.delete("ResourceClaim", "gpu", "default")
            new = make_claim("gpu", exactly())
            made = await client.create(replace(new, metadata=replace(new.metadata, uid="")))
            allocated = make_claim("gpu", exactly(), allocated=[result_of("gpu-0", "a")], on="a")
            user = pod_as_user(convert(await life.raw("web"), "Pod").metadata)
            status = replace(allocated.status, reserved_for=(user,))
            await client.replace(replace(made, status=status), subresource="status")

        life.wire.before.append(on("PUT", STATUS)(make_anew))
        await life.create(claiming("web"))
        await life.until_seen("bound", "web")
        ((_, _, text),) = life.observer.of("failed")
        assert text.endswith("claim default/gpu got deleted in the meantime")
        claim = await claim_of(life)
        assert (devices_of(claim), users(claim)) == (["a/gpu-0"], ["web"])


@virtually
async def test_a_write_that_was_stored_without_an_answer_counts() -> None:
    async with run_scheduler(*objects(make_claim("gpu", exactly()))) as life:

        async def lose(request: Request) -> None:
            life.wire.after.clear()
            raise OutcomeUnknown(f"{request.path}: no response")

        life.wire.after.append(on("PUT", STATUS)(lose))
        await life.create(claiming("web"))
        await life.until_seen("bound", "web")
        assert users(await claim_of(life)) == ["web"]
        assert not life.observer.of("failed")


@virtually
async def test_devices_stay_in_use_while_it_is_unknown_whether_they_are_allocated() -> None:
    claims = [make_claim("gpu", exactly()), make_claim("other", exactly())]
    async with run_scheduler(*objects(*claims), at_rest=False) as life:

        async def lose(request: Request) -> None:
            raise OutcomeUnknown(f"{request.path}: no response")

        life.wire.before.append(on("PUT", STATUS)(lose))
        await life.create(claiming("web"))
        await life.until_seen("attempted", "web")
        await asyncio.sleep(60)
        await life.create(claiming("next", "other"))
        await life.until_seen("failed", "next")
        told = (await life.condition("next"))["message"]
        assert told.startswith("0/1 nodes are available: 1 cannot allocate all claims.")
        life.wire.before.clear()
        await life.until_seen("bound", "web")
        assert users(await claim_of(life)) == ["web"]
        assert devices_of(await claim_of(life, "other")) == []


@virtually
async def test_a_refused_write_fails_the_attempt_and_frees_the_devices() -> None:
    claims = [make_claim("gpu", exactly()), make_claim("other", exactly())]
    async with run_scheduler(*objects(*claims), at_rest=False) as life:

        async def refuse(request: Request) -> None:
            text = 'resourceclaims.resource.k8s.io "gpu" is forbidden'
            raise Forbidden(text, status=403, server_message=text)

        life.wire.before.append(on("PUT", STATUS)(refuse))
        await life.create(claiming("web"))
        await life.until_seen("failed", "web")
        text = (
            'running PreBind plugin "DynamicResources": add allocation and reservation to claim '
            'default/gpu: resourceclaims.resource.k8s.io "gpu" is forbidden'
        )
        condition = await life.condition("web")
        assert (condition["reason"], condition["message"]) == ("SchedulerError", text)
        await life.create(claiming("next", "other"))
        await life.until_seen("bound", "next")
        assert devices_of(await claim_of(life, "other")) == ["a/gpu-0"]


@virtually
async def test_a_pod_that_is_not_bound_is_removed_from_the_users() -> None:
    async with run_scheduler(*objects(make_claim("gpu", exactly())), at_rest=False) as life:

        async def refuse(request: Request) -> None:
            life.wire.before.clear()
            raise Forbidden("no", status=403, server_message="no")

        life.wire.before.append(on("POST", "/pods/web/binding")(refuse))
        await life.create(claiming("web"))
        await life.until_seen("failed", "web")
        await life.until(lambda: not len(life.service.handle.claim_writer))
        claim = await claim_of(life)
        assert (devices_of(claim), users(claim)) == (["a/gpu-0"], [])
        await life.until_seen("bound", "web")
        assert users(await claim_of(life)) == ["web"]


@virtually
async def test_extended_resources_by_devices_get_a_claim_of_their_own() -> None:
    resources = [
        make_node("a"),
        gpus("a", 2),
        make_class("gpu", CEL, resource="example.com/gpu"),
    ]
    both = {"example.com/gpu": "2"}
    async with run_scheduler(*resources) as life:
        await life.create(make_pod("web", requests=both, limits=both))
        await life.until_seen("bound", "web")
        status = (await life.raw("web"))["status"]["extendedResourceClaimStatus"]
        claim = await claim_of(life, status["resourceClaimName"])
        assert claim["metadata"]["name"].startswith("web-extended-resources-")
        annotation = "resource.kubernetes.io/extended-resource-claim"
        assert claim["metadata"]["annotations"] == {annotation: "true"}
        (owner,) = claim["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "web", True)
        assert devices_of(claim) == ["a/gpu-0", "a/gpu-1"]
        assert users(claim) == ["web"]
        (mapping,) = status["requestMappings"]
        assert mapping["resourceName"] == "example.com/gpu"
        assert mapping["requestName"] == "container-0-request-0"


@pytest.mark.parametrize("resource", ["example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"])
def test_without_the_gate_devices_serve_no_extended_resources(resource: str) -> None:
    @virtually
    async def run() -> None:
        resources = [make_node("a"), gpus("a"), make_class("gpu", CEL, resource="example.com/gpu")]
        amount = {resource: "1"}
        async with run_scheduler(*resources, feature_gates={"DRAExtendedResource": False}) as life:
            await life.create(make_pod("web", requests=amount, limits=amount))
            await life.until_seen("failed", "web")
            message = (await life.condition("web"))["message"]
            assert message.startswith(f"0/1 nodes are available: 1 Insufficient {resource}.")

    run()


# -- binding conditions ---------------------------------------------------------------------------

CONDITIONS: dict[str, Any] = {
    "bindingConditions": ["ready"],
    "bindingFailureConditions": ["broken"],
}


def attaching(*more: Any) -> list[Any]:
    """Returns objects whose GPU must become ready before the pod is bound."""
    claim = make_claim("gpu", exactly())
    return [make_node("a"), gpus("a", 1, **CONDITIONS), make_class("gpu", CEL), claim, *more]


async def report(life: Life, kind: str, status: str = "True") -> None:
    """Writes a condition of the device, as its driver does."""
    condition = {
        "type": kind,
        "status": status,
        "reason": "Attached",
        "message": 'it "works"',
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    device = {"driver": DRIVER, "pool": "a", "device": "gpu-0", "conditions": [condition]}
    patch = {"status": {"devices": [device]}}
    await life.world.client.patch(
        "ResourceClaim", "gpu", patch, namespace="default", subresource="status"
    )


@virtually
async def test_the_pod_waits_until_its_device_is_ready() -> None:
    async with run_scheduler(*attaching()) as life:
        await life.create(claiming("web"))
        await life.until_seen("attempted", "web")
        await asyncio.sleep(30)
        assert not await life.node_of("web")
        assert users(await claim_of(life)) == ["web"]
        await report(life, "ready")
        await life.until_seen("bound", "web")
        first = (await life.events("web"))[0]
        note = "waiting for binding conditions for device on node a"
        assert (first.type, first.reason, first.note) == (
            "Normal",
            "BindingConditionsPending",
            note,
        )


@virtually
async def test_a_device_that_fails_is_given_up() -> None:
    async with run_scheduler(*attaching(), at_rest=False) as life:
        await life.create(claiming("web"))
        await life.until_seen("attempted", "web")
        await asyncio.sleep(10)
        await report(life, "broken")
        await life.until_seen("failed", "web")
        text = (
            'running PreBind plugin "DynamicResources": device binding failed: claim=gpu, '
            'reason=Attached, message="it \\"works\\""'
        )
        assert ("failed", "web", text) in life.observer.lines
        # The next attempt frees the claim, and one after that allocates it again.
        await life.until(lambda: len(life.observer.of("attempted")) >= 3, deadline_s=120)
        await asyncio.sleep(5)
        await report(life, "ready")
        await life.until_seen("bound", "web")


@virtually
async def test_a_device_that_is_never_ready_times_out() -> None:
    async with run_scheduler(*attaching(), at_rest=False) as life:
        await life.create(claiming("web"))
        await life.until(lambda: life.observer.of("failed"), deadline_s=700)
        (_, _, text), *_ = [line for line in life.observer.lines if line[0] == "failed"]
        prefix = 'running PreBind plugin "DynamicResources": device binding timeout: '
        assert text in (f"{prefix}claim=gpu", f"{prefix}context deadline exceeded")

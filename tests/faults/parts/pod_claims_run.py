"""The claims of pods in every state: what PreEnqueue, PreFilter, Filter and PostFilter say of them.

Claims are absent, deleted, of another pod, not created yet, unallocated, or allocated for some
nodes or all, with users or without; some have requests that make no sense; device classes are
absent; pods request an extended resource that stands for a class, and may have the claim of an
earlier attempt for it. There are no devices, so that a claim without an allocation fits no node.
The rules are plain comparisons of documents.

Source: pkg/scheduler/framework/plugins/dynamicresources (PreEnqueue, PreFilter, Filter,
filterExtendedResources, PostFilter, validateDeviceClass); dynamic-resource-allocation resourceclaim
(Name, IsForPod).
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any, Final, NamedTuple

from mooring.clock import VirtualClock, seeded_random
from mooring.dra.features import DeviceFeatures
from mooring.errors import PluginError
from mooring.framework import SKIP, Attempt, Cycle, Diagnosis
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.objects.codec.decode import convert
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.simulation.offline import OfflineHandle
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import Harness, make_node

Document = dict[str, Any]

TRIALS: Final = 25
NODES: Final = ("node-0", "node-1", "node-2")
CLAIMS: Final = ("one", "two", "three")
CLASSES: Final = ("gpu", "nic")
RESOURCE: Final = "example.com/gpu"
ONE_DEVICE: Final = {"allocationMode": "ExactCount", "count": 1}
PLUGIN: Final = "DynamicResources"
SPECIAL: Final = "web-extended-resources-abc"
UNSUPPORTED: Final = "unsupported request type"
#: A term of a node selector that cannot be compiled, and why.
REFUSED: Final[tuple[Document, ...]] = (
    {"matchExpressions": [{"key": "disk", "operator": "In", "values": []}]},
)
REFUSAL: Final = "label 'disk': In needs at least one value"
ERRORS: Final = (UNSUPPORTED, REFUSAL)
#: A resource that stands for no class.
OTHER: Final = "example.com/other"
#: A resource that no node has, and that can never be devices: other plugins reject the nodes.
NATIVE: Final = "ephemeral-storage"
#: So many of the allocated claims have such a selector, or a broken device.
REFUSED_SHARE: Final = 0.05
BROKEN_SHARE: Final = 0.15
UNRESOLVABLE: Final = "UnschedulableAndUnresolvable"
NOT_AVAILABLE: Final = "resourceclaim not available on the node"
#: What is wrong with an entry of a pod, or a claim; mostly nothing.
FLAWS: Final = ("", "", "", "", "", "", "absent", "deleted", "foreign", "early", "empty", "none")
#: Requests that cannot be read, and how many of the claims have one.
FLAWS_SEED: Final = 1 << 43
FLAWED_SHARE: Final = 0.12
FLAWED: Final[tuple[Document, ...]] = (
    {"name": "no"},
    {"name": "unnamed", "exactly": {"deviceClassName": "", **ONE_DEVICE}},
    {"name": "first", "firstAvailable": [{"name": "gpu", "deviceClassName": "", **ONE_DEVICE}]},
)
#: The users of an allocated claim.
USERS: Final = ((), (), ("web",), ("other",), ("web", "other"))
#: The pod, another one, and one of the same name that is gone: name -> its own UID.
UIDS: Final = {"web": "web-uid", "other": "other-uid"}
NAMESAKE: Final = {"name": "web", "uid": "web-uid-before"}
NAMESAKES_SEED: Final = 1 << 44
NAMESAKE_SHARE: Final = 0.4


class Post(NamedTuple):
    """The answer of PostFilter: the reason, and the claim that is changed, or deleted."""

    reason: str
    claim: str = ""
    is_deletion: bool = False


class PodClaimRules:
    """The rules, over the documents of claims, the device classes and the nodes."""

    _claims: dict[str, Document]
    _classes: list[str]
    _cordoned: set[str]
    _plugged: set[str]
    _has_alternatives: bool
    _has_conditions: bool
    _with_other: set[str]

    def _problem_of_entries(self, pod: Document) -> str:
        """Returns why the first claim that cannot be used cannot; "" = all can."""
        names = {
            it["name"]: it.get("resourceClaimName") for it in pod["status"]["resourceClaimStatuses"]
        }
        for entry in pod["spec"]["resourceClaims"]:
            name, is_generated = entry.get("resourceClaimName"), False
            if name is None:
                if "resourceClaimTemplateName" not in entry:
                    kind = "none of the supported fields are set"
                    return f'pod "default/web", spec.resourceClaim "{entry["name"]}": {kind}'
                if entry["name"] not in names:
                    return 'pod "default/web": ResourceClaim not created yet'
                name, is_generated = names[entry["name"]], True
            if name is None:
                continue
            claim = self._claims.get(name)
            if claim is None:
                return f'could not find ResourceClaim "default/{name}"'
            if "deletionTimestamp" in claim["metadata"]:
                return f'resourceclaim "{name}" is being deleted'
            if is_generated and claim["metadata"]["ownerReferences"][0]["uid"] != UIDS["web"]:
                text = "was not created for Pod default/web (Pod is not owner)"
                return f"ResourceClaim default/{name} {text}"
        return ""

    def _claims_of(self, pod: Document) -> list[Document]:
        """Returns the claims of the entries of a pod."""
        names = {
            it["name"]: it.get("resourceClaimName") for it in pod["status"]["resourceClaimStatuses"]
        }
        of_pod = [
            it.get("resourceClaimName") or names.get(it["name"])
            for it in pod["spec"]["resourceClaims"]
        ]
        return [self._claims[name] for name in of_pod if name]

    def _needs_special(self, pod: Document) -> bool:
        return "resources" in pod["spec"]["containers"][0] and "gpu" in self._classes

    def _special(self) -> Document | None:
        claim = self._claims.get(SPECIAL)
        is_own = claim and claim["metadata"]["ownerReferences"][0]["uid"] == UIDS["web"]
        return claim if is_own else None

    def _problem_of_requests(self, pod: Document) -> str:
        """Returns what is wrong with a request of an unallocated claim, or with a selector."""
        unallocated = [it for it in self._claims_of(pod) if "allocation" not in it["status"]]
        for claim in unallocated:
            for request in claim["spec"]["devices"]["requests"]:
                if problem := self._problem_of_request(claim, request):
                    return problem
        special = self._special() if self._needs_special(pod) else None
        for claim in [*self._claims_of(pod), *([] if special is None else [special])]:
            selector = claim["status"].get("allocation", {}).get("nodeSelector", {})
            for term in selector.get("nodeSelectorTerms", ()):
                if term in REFUSED:
                    return REFUSAL
        return ""

    def _problem_of_request(self, claim: Document, request: Document) -> str:
        where = f"resource claim default/{claim['metadata']['name']}, request {request['name']}"
        if "firstAvailable" in request and not self._has_alternatives:
            return f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled"
        classes = _classes_of(request)
        if not classes:
            return f"{where}: unknown request type"
        for name, of_class in classes:
            if not of_class:
                return f"request {name}: {UNSUPPORTED}"
            if of_class not in self._classes:
                return f"request {name}: device class {of_class} does not exist"
        return ""

    def _rejected(self, node: str, pod: Document) -> str:
        """Returns why a node is rejected; "" = it fits."""
        claims = self._claims_of(pod)
        if node in self._cordoned:
            return "node(s) were unschedulable"
        if self._lacks_other(node, pod) and not self._is_stale(pod):
            return "cannot fit resource"
        by_devices = self._needs_special(pod) and node not in self._plugged
        if self._needs_special(pod):
            special = self._special()
            if special is not None and special["spec"]:
                return "cannot schedule extended resource claim"
            if not by_devices and not claims:
                return ""
            if special is not None:
                claims = [*claims, special]
        if any("allocation" not in claim["status"] for claim in self._claims_of(pod)):
            return "cannot allocate all claims"
        special = self._special()
        if by_devices and not (special is not None and "allocation" in special["status"]):
            return "cannot allocate all claims"
        is_excluded = any(self._excludes(claim, node) for claim in claims)
        return NOT_AVAILABLE if is_excluded else ""

    def _lacks_other(self, node: str, pod: Document) -> bool:
        """Returns whether a pod requests a resource without a class that the node has not."""
        requests = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
        return self._needs_special(pod) and OTHER in requests and node not in self._with_other

    def _is_stale(self, pod: Document) -> bool:
        special = self._special()
        return self._needs_special(pod) and special is not None and bool(special["spec"])

    def _excludes(self, claim: Document, node: str) -> bool:
        """Returns whether a claim is allocated for other nodes, or its device is broken."""
        allocation = claim["status"].get("allocation", {})
        is_broken = bool(allocation.get("devices", {}).get("results"))
        return _excludes(claim, node) or (is_broken and self._has_conditions)

    def _post(self, pod: Document, rejected: dict[str, str]) -> list[Post]:
        """Returns what PostFilter may return."""
        claims = self._claims_of(pod)
        if not claims and not self._needs_special(pod):
            return [Post("no new claims to deallocate")]
        nodes = [name for name, reason in rejected.items() if reason == NOT_AVAILABLE]
        for claim in claims:
            users = [it["uid"] for it in claim["status"].get("reservedFor", ())]
            is_unavailable = any(self._excludes(claim, node) for node in nodes)
            if is_unavailable and users in ([], [UIDS["web"]]):
                name = claim["metadata"]["name"]
                return [Post("deallocation of ResourceClaim completed", name)]
        if self._needs_special(pod) and self._special() is not None:
            return [Post("deletion of ResourceClaim completed", SPECIAL, is_deletion=True)]
        return [Post("still not schedulable")]


class PodClaimsRun(PodClaimRules):
    """One run.

    Attributes:
        problems: Differences to the rules.
        paths: What happened, and how often.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._rng = rng = seeded_random(seed)
        #: Of requests that no API server stores.
        self._flaws = seeded_random(seed + FLAWS_SEED)
        #: Of pods with the name of another one.
        self._namesakes = seeded_random(seed + NAMESAKES_SEED)
        #: Whether requests may have alternatives.
        self._has_alternatives = self._flaws.random() < 0.7
        self._has_conditions = self._flaws.random() < 0.7
        features = DeviceFeatures(
            has_alternatives=self._has_alternatives, has_binding_conditions=self._has_conditions
        )
        cache = Cache(features)
        handle = OfflineHandle(cache, VirtualClock(), seeded_random(seed + 1))
        self._plugin = DynamicResources(handle=handle)
        self._harness = Harness([], [NodeUnschedulable(), self._plugin])
        self._harness.cache = cache
        #: Of the nodes those that are cordoned, and those that have the resource by a plugin.
        share = rng.choice((0.0, 0.3, 0.3, 1.0))
        self._cordoned = {name for name in NODES if rng.random() < share}
        self._plugged = {name for name in NODES if rng.random() < 0.3}
        self._with_other = {name for name in NODES if self._flaws.random() < 0.6}
        self._classes = [name for name in CLASSES if rng.random() < 0.8]
        for name in NODES:
            allocatable = {"cpu": "4", "pods": "20"}
            allocatable |= {RESOURCE: "4"} if name in self._plugged else {}
            allocatable |= {OTHER: "4"} if name in self._with_other else {}
            node = make_node(name, allocatable=allocatable)
            if name in self._cordoned:
                node = make_node(name, allocatable=allocatable, spec={"unschedulable": True})
            cache.put_node(node)
        for name in self._classes:
            spec = {"extendedResourceName": RESOURCE} if name == "gpu" else {}
            cache.put_object(
                "DeviceClass", convert({"metadata": {"name": name}, "spec": spec}, "DeviceClass")
            )
        self._claims: dict[str, Document] = {}

    def run(self) -> None:
        """Makes all trials, until one differs."""
        for _ in range(TRIALS):
            self._remove_claims()
            pod = self._new_pod()
            self._compare(pod)
            if self.problems:
                return

    # -- what is drawn ----------------------------------------------------------------------------

    def _remove_claims(self) -> None:
        for name in self._claims:
            self._harness.cache.remove_object("ResourceClaim", f"default/{name}")
        self._claims.clear()

    def _new_pod(self) -> Document:
        rng = self._rng
        entries: list[Document] = []
        statuses: list[Document] = []
        for name in rng.sample(CLAIMS, rng.choice((0, 1, 1, 2, 3))):
            flaw = rng.choice(FLAWS)
            if rng.random() < 0.5 and flaw not in ("foreign", "early", "none"):
                field = {} if flaw == "empty" else {"resourceClaimName": name}
                entries.append({"name": name, **field})
            else:
                entries.append({"name": name, "resourceClaimTemplateName": "template"})
                if flaw == "none":
                    statuses.append({"name": name})
                elif flaw != "early":
                    statuses.append({"name": name, "resourceClaimName": name})
            if flaw not in ("absent", "none"):
                self._put_claim(name, flaw)
        spec: Document = {"containers": [{"name": "main"}], "resourceClaims": entries}
        if rng.random() < 0.4:
            requests = {RESOURCE: "1"} | ({OTHER: "1"} if self._flaws.random() < 0.4 else {})
            if self._namesakes.random() < 0.3:
                requests[NATIVE] = "1"
            spec["containers"][0]["resources"] = {"requests": requests}
            if rng.random() < 0.5:
                self._put_special()
        metadata = {"name": "web", "namespace": "default", "uid": UIDS["web"]}
        return {"metadata": metadata, "spec": spec, "status": {"resourceClaimStatuses": statuses}}

    def _put_claim(self, name: str, flaw: str) -> None:
        rng = self._rng
        owner = "other" if flaw == "foreign" else "web"
        metadata: Document = {"ownerReferences": [_owner(self._identity(owner))]}
        if flaw == "deleted":
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        requests: list[Document] = [
            {"name": "exact", "exactly": {"deviceClassName": rng.choice(CLASSES), **ONE_DEVICE}}
        ]
        if rng.random() < 0.2:
            names = [{"name": it, "deviceClassName": it, **ONE_DEVICE} for it in CLASSES]
            requests.append({"name": "first", "firstAvailable": names})
        if self._flaws.random() < FLAWED_SHARE:
            flawed = deepcopy(self._flaws.choice(FLAWED))
            requests.insert(self._flaws.randint(0, len(requests)), flawed)
        self._put(name, metadata, {"devices": {"requests": requests}})

    def _put_special(self) -> None:
        """Puts a claim for the extended resource; it is stale if it has requests."""
        owner = self._rng.choice(("web", "web", "other"))
        annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
        requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", **ONE_DEVICE}}]
        spec = {"devices": {"requests": requests}} if self._rng.random() < 0.7 else {}
        metadata = {"ownerReferences": [_owner(self._identity(owner))], "annotations": annotations}
        self._put(SPECIAL, metadata, spec)

    def _identity(self, pod: str) -> dict[str, str]:
        """Returns name and UID of a pod; instead of another one that of a namesake, at times."""
        if pod != "web" and self._namesakes.random() < NAMESAKE_SHARE:
            return NAMESAKE
        return {"name": pod, "uid": UIDS[pod]}

    def _put(self, name: str, metadata: Document, spec: Document) -> None:
        rng = self._rng
        status: Document = {}
        if rng.random() < 0.6:
            status["allocation"] = {"devices": {"results": []}}
            if rng.random() < 0.7:
                nodes = rng.sample(NODES, rng.choice((0, 1, 2)))
                status["allocation"]["nodeSelector"] = _selector([*nodes, "absent"])
                if self._flaws.random() < REFUSED_SHARE:
                    terms = status["allocation"]["nodeSelector"]["nodeSelectorTerms"]
                    terms.insert(self._flaws.randint(0, len(terms)), deepcopy(REFUSED[0]))
            if self._flaws.random() < BROKEN_SHARE:
                _break_device(status)
            users = rng.choice(USERS)
            identities = map(self._identity, users)
            status["reservedFor"] = [{"resource": "pods", **identity} for identity in identities]
        metadata |= {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        claim = {"metadata": metadata, "spec": spec, "status": status}
        self._claims[name] = claim
        self._harness.cache.put_object("ResourceClaim", convert(claim, "ResourceClaim"))

    # -- the plugin -------------------------------------------------------------------------------

    def _compare(self, pod: Document) -> None:
        info = PodInfo(convert(pod, "Pod"))
        problem = self._problem_of_entries(pod)
        gate = self._plugin.pre_enqueue(info)
        if (gate.message if gate is not None else "") != problem:
            self.problems.append(f"{gate}, not {problem}, for {pod}")
        snapshot, framework = self._harness.cache.snapshot(), self._harness.framework
        cycle = framework.new_cycle(info, snapshot)
        problem = problem or self._problem_of_requests(pod)
        try:
            result = schedule_pod(framework, cycle, Attempt(snapshot))
        except PluginError as error:
            self.paths["error"] += 1
            if not problem.endswith(ERRORS) or error.problem != problem:
                self.problems.append(f"{error}, not {problem!r}, for {pod}, {self._claims}")
            return
        if problem.endswith(ERRORS):
            self.problems.append(f"{result}, not {problem}, for {pod}")
        self._check_pre_flight(cycle, pod, is_refused=bool(problem))
        if problem:
            self.paths["pre-filtered"] += 1
            refusal = result.pre_filter if isinstance(result, Diagnosis) else None
            plain = refusal and (refusal.code.value, refusal.reasons, refusal.plugin)
            if plain != (UNRESOLVABLE, (problem,), PLUGIN):
                self.problems.append(f"{plain}, not {problem}, for {pod}")
            return
        rejected = {name: self._rejected(name, pod) for name in NODES}
        if not isinstance(result, Diagnosis):
            self.paths["placed"] += 1
            if rejected[result.node_name]:
                self.problems.append(f"placed on {result.node_name}: {rejected}, for {pod}")
            return
        statuses = {name: result.status_of(name) for name in NODES}
        reasons = {name: it.message if it is not None else "" for name, it in statuses.items()}
        if reasons != rejected or {it and it.code.value for it in statuses.values()} != {
            UNRESOLVABLE
        }:
            self.problems.append(f"{reasons}, not {rejected}, for {pod}, {self._claims}")
            return
        returned = self._plugin.post_filter(cycle, result)
        change = returned.claim_change
        post = Post(
            returned.status.message if returned.status is not None else "",
            change.claim.metadata.name if change is not None else "",
            change is not None and change.is_deletion,
        )
        self.paths[post.reason] += 1
        expected = self._post(pod, rejected)
        if post not in expected:
            self.problems.append(f"{post}, not {expected}, for {pod}, {self._claims}")

    def _check_pre_flight(self, cycle: Cycle, pod: Document, *, is_refused: bool) -> None:
        """Compares whether PreBind is skipped: for pods without claims, and those it rejected."""
        is_idle = is_refused or not (self._claims_of(pod) or self._needs_special(pod))
        skip = self._plugin.pre_bind_pre_flight(cycle, NODES[0])
        if (skip is SKIP) is not is_idle or (skip is None) is is_idle:
            self.problems.append(f"PreBindPreFlight returns {skip}, idle: {is_idle}, for {pod}")


def _classes_of(request: Document) -> list[tuple[str, str]]:
    """Returns the names of a request, or of its alternatives, with their classes."""
    if "exactly" in request:
        return [(request["name"], request["exactly"]["deviceClassName"])]
    alternatives = request.get("firstAvailable", ())
    return [(f"{request['name']}/{it['name']}", it["deviceClassName"]) for it in alternatives]


def _owner(identity: dict[str, str]) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", **identity, "controller": True}


def _selector(names: list[str]) -> Document:
    field = {"key": "metadata.name", "operator": "In"}
    return {"nodeSelectorTerms": [{"matchFields": [{**field, "values": [it]}]} for it in names]}


def _excludes(claim: Document, node: str) -> bool:
    """Returns whether a claim is allocated for other nodes than this."""
    selector = claim["status"].get("allocation", {}).get("nodeSelector")
    if selector is None:
        return False
    return all(
        node not in term["matchFields"][0]["values"]
        for term in selector["nodeSelectorTerms"]
        if term not in REFUSED
    )


def _break_device(status: Document) -> None:
    """Lets a claim have a device that can never be used."""
    device = {"driver": "d", "pool": "p", "device": "x"}
    status["allocation"]["devices"]["results"] = [
        {
            "request": "r",
            **device,
            "bindingConditions": ["ready"],
            "bindingFailureConditions": ["broken"],
        }
    ]
    at = "2026-01-01T00:00:00Z"
    condition = {"type": "broken", "status": "True", "reason": "x", "lastTransitionTime": at}
    status["devices"] = [{**device, "conditions": [condition]}]


def run_pod_claims(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a plugin's answer differs from the rules.
    """
    run = PodClaimsRun(seed)
    run.run()
    assert not run.problems, run.problems[0]

"""The invariants of volumes, checked at every write: claims, volumes, and the pods that use them.

::

    V1  a claim is bound to one volume, for ever
    V2  a volume is bound to one claim, as long as that exists
    V3  a pod is bound after all its claims are, to a node that their volumes allow
    V4  at the end nothing is reserved: no assumption, no volume for a claim that has another one

It reads the stored JSON alone, and shares no code with the plugins nor with the controller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mooring.apiserver import ApiServer
from mooring.apiserver.resources import BY_PATH

Object = dict[str, Any]

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"


class VolumeChecker:
    """Reads every write of nodes, pods, volumes and claims.

    Attributes:
        problems: The violations, in order.
        paths: Path -> how often it was taken.

    Args:
        api: The server.
        actor: Returns who writes now.
        scheduler: The name of the scheduler among the actors.
    """

    def __init__(self, api: ApiServer, actor: Callable[[], str], scheduler: str) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._actor = actor
        self._scheduler = scheduler
        self._objects: dict[str, dict[str, Object]] = {}
        self._listen(api, "nodes", lambda old, new: None)
        self._listen(api, "pods", self._on_pod)
        self._listen(api, "persistentvolumes", self._on_volume)
        self._listen(api, "persistentvolumeclaims", self._on_claim)

    def _listen(self, api: ApiServer, name: str, check: Callable[[Object, Object], None]) -> None:
        history = api.store.collection(BY_PATH["", "v1", name]).history
        objects = self._objects[name] = {}

        def on_write() -> None:
            (change,) = history.read(history.end - 1, 1)
            old = change.old.object() if change.old is not None else {}
            if change.new is None:
                del objects[old["metadata"]["name"]]
                return
            new = change.new.object()
            objects[new["metadata"]["name"]] = new
            check(old, new)

        history.listen(self, on_write)

    def objects(self, resource: str) -> dict[str, Object]:
        """Returns a copy of the stored objects of a resource, by name, in their order."""
        return dict(self._objects[resource])

    # -- every write ------------------------------------------------------------------------------

    def _on_claim(self, old: Object, new: Object) -> None:
        name, before, after = new["metadata"]["name"], _volume_of(old), _volume_of(new)
        is_same = old.get("metadata", {}).get("uid") == new["metadata"]["uid"]
        if is_same and before and before != after:
            self.problems.append(f"V1 claim {name} moved from {before} to {after!r}")
        if after and before != after:
            owners = [
                other["metadata"]["name"]
                for other in self.objects("persistentvolumeclaims").values()
                if _volume_of(other) == after and other["metadata"]["name"] != name
            ]
            if owners:
                self.problems.append(f"V2 volume {after} is bound to {name} and to {owners}")
        selected = _annotation(new, SELECTED_NODE)
        if self._actor() == self._scheduler and selected != _annotation(old, SELECTED_NODE):
            self.paths["scheduler selected a node"] += 1
            if after:
                self.problems.append(f"V1 claim {name} is bound, and a node was selected for it")

    def _on_volume(self, old: Object, new: Object) -> None:
        name, before, after = new["metadata"]["name"], _claim_ref(old), _claim_ref(new)
        uids = {
            claim["metadata"]["uid"] for claim in self.objects("persistentvolumeclaims").values()
        }
        if before and before != after and before in uids and self._actor() == self._scheduler:
            self.problems.append(f"V2 volume {name} was taken from an existing claim")
        if self._actor() == self._scheduler and after and before != after:
            self.paths["scheduler chose a volume"] += 1
        if new.get("status", {}).get("phase") == "Bound":
            bound = [
                other["metadata"]["name"]
                for other in self.objects("persistentvolumes").values()
                if _claim_ref(other) == after and other["status"].get("phase") == "Bound"
            ]
            if after in uids and len(bound) > 1:
                self.problems.append(f"V1 a claim is bound to the volumes {bound}")

    def _on_pod(self, old: Object, new: Object) -> None:
        node_name = new["spec"].get("nodeName", "")
        if not node_name or old.get("spec", {}).get("nodeName") or not claim_names(new):
            return
        if self._actor() != self._scheduler:
            return
        self.paths["pod with claims bound"] += 1
        name, claims = new["metadata"]["name"], self.objects("persistentvolumeclaims")
        volumes, nodes = self.objects("persistentvolumes"), self.objects("nodes")
        for claim_name in claim_names(new):
            claim = claims.get(claim_name)
            # It was deleted while the request was in transit: the scheduler cannot know.
            if claim is None:
                self.paths["claim deleted before its pod was bound"] += 1
                continue
            volume = volumes.get(_volume_of(claim))
            if volume is None or not is_bound(claim, volume):
                self.problems.append(f"V3 {name} is bound, but its claim {claim_name} is not")
            elif node_name in nodes and not allows(volume, nodes[node_name]):
                at = volume["metadata"]["name"]
                self.problems.append(f"V3 {name} is on {node_name}, where {at} is not reachable")

    # -- at the end -------------------------------------------------------------------------------

    def left_reserved(self) -> Iterator[str]:
        """Yields violations of V4 on the server."""
        claims = self.objects("persistentvolumeclaims")
        by_uid = {claim["metadata"]["uid"]: claim for claim in claims.values()}
        for name, volume in self.objects("persistentvolumes").items():
            owner = _claim_ref(volume)
            if not owner:
                continue
            claim = by_uid.get(owner)
            if claim is None:
                yield f"V4 volume {name} is reserved for a claim that does not exist"
            elif _volume_of(claim) not in ("", name):
                yield f"V4 volume {name} is reserved for a claim that has another volume"

    def unbound_pods(self) -> Iterator[str]:
        """Yields pods without a node that a node would accept, if it has a volume for each."""
        nodes, volumes = self.objects("nodes"), self.objects("persistentvolumes")
        claims = self.objects("persistentvolumeclaims")
        for name, pod in self.objects("pods").items():
            if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
                continue
            own = [claims[claim] for claim in claim_names(pod) if claim in claims]
            if len(own) < len(claim_names(pod)):
                continue
            if any("deletionTimestamp" in claim["metadata"] for claim in own):
                # Another pod still has it; VolumeBinding admits no new one.
                continue
            if any(claim["spec"].get("volumeName") and not _volume_of(claim) for claim in own):
                # The user named a volume that another claim has got.
                continue
            used = [volumes[_volume_of(claim)] for claim in own if _volume_of(claim) in volumes]
            fit = [at for at, node in nodes.items() if all(allows(v, node) for v in used)]
            if fit:
                yield f"L2 pod {name} is not bound, but {fit[0]} has its volumes"


def claim_names(pod: Mapping[str, Any]) -> list[str]:
    """Returns the names of a pod's claims."""
    volumes = pod["spec"].get("volumes", ())
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in volumes
        if "persistentVolumeClaim" in volume
    ]


def is_bound(claim: Object, volume: Object) -> bool:
    """Returns whether claim and volume are bound to each other, and marked as such."""
    is_owner: bool = _claim_ref(volume) == claim["metadata"]["uid"]
    return is_owner and _volume_of(claim) == volume["metadata"]["name"]


def allows(volume: Object, node: Object) -> bool:
    """Returns whether a volume can be reached from a node: one key with one value, or any node."""
    affinity = volume["spec"].get("nodeAffinity")
    if not affinity:
        return True
    (term,) = affinity["required"]["nodeSelectorTerms"]
    labels = node["metadata"].get("labels", {})
    return all(labels.get(rule["key"]) in rule["values"] for rule in term["matchExpressions"])


def _volume_of(claim: Object) -> str:
    """Returns the volume of a bound claim. A user may name one that another claim gets."""
    name: str = claim.get("spec", {}).get("volumeName", "")
    return name if _annotation(claim, BIND_COMPLETED) else ""


def _claim_ref(volume: Object) -> str:
    """Returns the UID of the claim that a volume names; "" = none."""
    uid: str = (volume.get("spec", {}).get("claimRef") or {}).get("uid", "")
    return uid


def _annotation(obj: Object, name: str) -> str:
    value: str = obj.get("metadata", {}).get("annotations", {}).get(name, "")
    return value

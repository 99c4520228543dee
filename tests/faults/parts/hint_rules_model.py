"""The pods that plugins queue after a change, over documents: the model of ``hint_rules``.

Source: pkg/scheduler/framework/plugins (EventsToRegister, and the hints of noderesources/fit.go,
interpodaffinity, podtopologyspread, nodevolumelimits/csi.go, volumebinding, volumerestrictions and
dynamicresources of v1.36.3), with the differences that the docstrings of mooring's hints note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, NamedTuple

Document = dict[str, Any]

#: The prefix of the resources that stand for a class of devices by its name.
CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
#: In-tree disk -> its driver, and whether kube-scheduler counts it as a volume of the driver.
DISKS: Final = {
    "gcePersistentDisk": ("pd.csi.storage.gke.io", True),
    "awsElasticBlockStore": ("ebs.csi.aws.com", True),
    "azureDisk": ("disk.csi.azure.com", True),
    "azureFile": ("file.csi.azure.com", False),
    "vsphereVolume": ("csi.vsphere.vmware.com", False),
}
#: A disk of this form cannot be translated, so that its driver is unknown.
UNTRANSLATABLE: Final = "dedicated"


class Change(NamedTuple):
    """A change of an object: None = it was not there, or is not any more."""

    kind: str
    old: Document | None
    new: Document | None

    @property
    def verb(self) -> str:
        """ "added", "updated" or "deleted"."""
        if self.old is None:
            return "added"
        return "updated" if self.new is not None else "deleted"


@dataclass
class Cluster:
    """The objects that hints look up.

    Attributes:
        pods: The placed pods, by UID.
        namespaces: Their labels.
        classes: Device classes by name.
        claims: ResourceClaims by namespace and name.
        ignored: Resources that NodeResourcesFit ignores, by name or by group.
    """

    pods: dict[str, Document] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    classes: dict[str, Document] = field(default_factory=dict)
    claims: dict[tuple[str, str], Document] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


def queues(cluster: Cluster, plugin: str, pod: Document, change: Change) -> bool:
    """Returns whether a plugin queues a pod after a change."""
    return _RULES[plugin](cluster, pod, change)


# -- NodeResourcesFit -----------------------------------------------------------------------------


def fit(cluster: Cluster, pod: Document, change: Change) -> bool:
    """Returns whether more of a resource is free that the pod requests."""
    old, new = change.old, change.new
    match change.kind, change.verb:
        case "Pod", "deleted":
            assert old is not None
            return _has_node(old)
        case "Pod", "updated":
            assert old is not None
            assert new is not None
            return _has_shrunk(pod, old, new)
        case "Node", "added" | "updated":
            assert new is not None
            return _node_has_more(cluster, pod, old, new)
        case "DeviceClass", "added" | "updated":
            assert new is not None
            return _class_helps(pod, old, new)
    return False


def _has_shrunk(pod: Document, old: Document, new: Document) -> bool:
    before, after = amounts(old), amounts(new)
    # A resource that is not requested any more has shrunk, too.
    if not any(after.get(name, -1) < amount for name, amount in before.items()):
        return False
    if _uid(new) == _uid(pod):
        return True
    has_less = [name for name, it in amounts(pod).items() if it > 0]
    return bool(new["spec"].get("nodeName")) and any(
        before.get(name, 0) > after.get(name, 0) for name in has_less
    )


def _node_has_more(cluster: Cluster, pod: Document, old: Document | None, new: Document) -> bool:
    after = new["status"]["allocatable"]
    before = old["status"]["allocatable"] if old is not None else {}
    if old is not None and before == after:
        return False
    ignored = [name for name in amounts(pod) if _is_ignored(cluster, name)]
    requested = {name: it for name, it in amounts(pod).items() if it > 0 and name not in ignored}
    by_devices = [
        name for name in requested if after.get(name, 0) <= 0 and _has_class(cluster, name)
    ]
    of_node = {name: it for name, it in requested.items() if name not in by_devices} | {"pods": 1}
    if any(after.get(name, 0) < amount for name, amount in of_node.items()):
        return False
    has_more = any(after.get(name, 0) > before.get(name, 0) for name in of_node)
    return old is None or bool(by_devices) or has_more


def _is_ignored(cluster: Cluster, resource: str) -> bool:
    return "/" in resource and (
        resource in cluster.ignored or resource.split("/")[0] in cluster.ignored
    )


def _has_class(cluster: Cluster, resource: str) -> bool:
    return any(resource in _resources_of(it) for it in cluster.classes.values())


def _resources_of(device_class: Document) -> list[str]:
    named = device_class["spec"].get("extendedResourceName")
    own = f"{CLASS_PREFIX}{device_class['metadata']['name']}"
    return [own] if named is None else [own, named]


def _class_helps(pod: Document, old: Document | None, new: Document) -> bool:
    names = set(_resources_of(new)) - set(_resources_of(old) if old is not None else ())
    return any(name in amounts(pod) for name in names)


# -- InterPodAffinity -----------------------------------------------------------------------------


def affinity(cluster: Cluster, pod: Document, change: Change) -> bool:
    """Returns whether a pod satisfies an affinity now, or ends a conflict."""
    if change.kind == "Node" and change.new is not None:
        return _domain_helps(cluster, pod, change.old, change.new)
    if change.kind != "Pod":
        return False
    old, new = change.old, change.new
    if old is not None and new is not None:
        if _labels(old) == _labels(new):
            return False
        if _uid(new) == _uid(pod):
            return True
    versions = [it for it in (old, new) if it is not None]
    if not all(map(_has_node, versions)):
        return False
    if old is not None and any(
        _selected(cluster, pod, term, old)
        and not (new is not None and _selected(cluster, pod, term, new))
        for term in _terms(pod, "podAntiAffinity")
    ):
        return True
    if old is not None and new is None and _rejects(cluster, old, pod):
        return True
    did_match, does_match = (_is_near(cluster, pod, it) for it in (old, new))
    return did_match != does_match and (does_match or _is_near(cluster, pod, pod))


def _domain_helps(cluster: Cluster, pod: Document, old: Document | None, new: Document) -> bool:
    near = [term["topologyKey"] for term in _terms(pod, "podAffinity")]
    far = [term["topologyKey"] for term in _terms(pod, "podAntiAffinity")]
    after = _labels(new)
    if old is None:
        return bool(far) or not near or any(key in after for key in near)
    before = _labels(old)
    if any(key in after and before.get(key) != after[key] for key in near):
        return True
    if any(key in before and key not in after for key in near) and _is_near(cluster, pod, pod):
        return True
    for other in cluster.pods.values():
        far += [term["topologyKey"] for term in _rejects(cluster, other, pod)]
    return any(key in before and before[key] != after.get(key) for key in far)


def _terms(pod: Document, sort: str) -> list[Document]:
    of_sort = pod["spec"].get("affinity", {}).get(sort, {})
    terms: list[Document] = of_sort.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    return terms


def _is_near(cluster: Cluster, pod: Document, other: Document | None) -> bool:
    """Returns whether another pod is what all affinity terms select; without terms none is."""
    terms = _terms(pod, "podAffinity")
    return (
        other is not None
        and bool(terms)
        and all(_selected(cluster, pod, term, other) for term in terms)
    )


def _rejects(cluster: Cluster, other: Document, pod: Document) -> list[Document]:
    """Returns the anti-affinity terms of another pod that select a pod."""
    namespace = pod["metadata"]["namespace"]
    labels = cluster.namespaces.get(namespace, {})
    return [
        term
        for term in _terms(other, "podAntiAffinity")
        if selects(term.get("labelSelector"), _labels(pod))
        and (
            namespace in _namespaces(other, term) or selects(term.get("namespaceSelector"), labels)
        )
    ]


def _selected(cluster: Cluster, pod: Document, term: Document, other: Document) -> bool:
    """Returns whether a term of a pod selects another pod.

    A selector that also selects a namespace without labels selects all, as upstream.
    """
    namespace, selector = other["metadata"]["namespace"], term.get("namespaceSelector")
    labels = cluster.namespaces.get(namespace)
    is_there = namespace in _namespaces(pod, term) or selects(selector, {})
    is_there = is_there or (labels is not None and selects(selector, labels))
    return is_there and selects(term.get("labelSelector"), _labels(other))


def _namespaces(pod: Document, term: Document) -> list[str]:
    names: list[str] = term.get("namespaces", [])
    is_own = not names and "namespaceSelector" not in term
    return [pod["metadata"]["namespace"]] if is_own else names


# -- PodTopologySpread ----------------------------------------------------------------------------


def spread(cluster: Cluster, pod: Document, change: Change) -> bool:
    """Returns whether the counts of a hard constraint may have changed."""
    del cluster
    constraints = [
        it
        for it in pod["spec"].get("topologySpreadConstraints", ())
        if it["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    if change.kind == "Node":
        return _spread_by_node(constraints, change)
    return change.kind == "Pod" and _spread_by_pod(pod, constraints, change)


def _spread_by_pod(pod: Document, constraints: list[Document], change: Change) -> bool:
    old, new = change.old, change.new
    for version in (old, new):
        if version is None or _uid(version) == _uid(pod):
            continue
        is_near = version["metadata"]["namespace"] == pod["metadata"]["namespace"]
        if not is_near or not _has_node(version):
            return False
    counts = [
        [it is not None and _counts(pod, constraint, it) for it in (old, new)]
        for constraint in constraints
    ]
    if old is None or new is None:
        return any(map(any, counts))
    if _labels(old) != _labels(new) and any(before != after for before, after in counts):
        return True
    return (
        _uid(new) == _uid(pod)
        and len(old["spec"]["tolerations"]) != len(new["spec"]["tolerations"])
        and any(it.get("nodeTaintsPolicy") == "Honor" for it in constraints)
    )


def _counts(pod: Document, constraint: Document, other: Document) -> bool:
    """Returns whether a constraint counts pods with the labels of another one."""
    own, labels = _labels(pod), _labels(other)
    keys = [key for key in constraint.get("matchLabelKeys", ()) if key in own]
    is_same = all(labels.get(key) == own[key] for key in keys)
    return is_same and selects(constraint.get("labelSelector"), labels)


def _spread_by_node(constraints: list[Document], change: Change) -> bool:
    old, new = change.old, change.new
    keys = [it["topologyKey"] for it in constraints]
    had, has = (it is not None and _labels(it).keys() >= set(keys) for it in (old, new))
    if old is None or new is None:
        return had or has
    has_moved = any(_labels(old).get(key) != _labels(new).get(key) for key in keys)
    has_turned = old["spec"]["taints"] != new["spec"]["taints"]
    is_event = has_turned or _labels(old) != _labels(new)
    return is_event and (had != has or (has and (has_moved or has_turned)))


# -- volumes --------------------------------------------------------------------------------------


def limits(cluster: Cluster, pod: Document, change: Change) -> bool:
    """Returns whether NodeVolumeLimits queues a pod."""
    del cluster
    old, new = change.old, change.new
    match change.kind, change.verb:
        case "CSINode", "added":
            return True
        case "CSINode", "updated":
            assert old is not None
            assert new is not None
            before, after = _limits(old), _limits(new)
            return any(limit > before.get(driver, 0) for driver, limit in after.items())
        case "Pod", "deleted":
            assert old is not None
            return _has_node(old) and any(map(_may_count, _volumes(old)))
        case "PersistentVolumeClaim", "added":
            assert new is not None
            return _has_claim(pod, new)
        case "VolumeAttachment", "deleted":
            assert old is not None
            return old["spec"]["attacher"] in _drivers(pod) or "any" in _drivers(pod)
    return False


def _limits(node: Document) -> dict[str, int]:
    drivers = node["spec"]["drivers"]
    return {it["name"]: (it.get("allocatable") or {}).get("count") or 0 for it in drivers}


def _may_count(volume: Document) -> bool:
    return bool(volume.keys() & {"persistentVolumeClaim", "ephemeral", *DISKS})


def _drivers(pod: Document) -> Iterator[str]:
    """Yields the drivers of the pod's disks; "any" for a claim, whose driver may be any."""
    for volume in _volumes(pod):
        if "persistentVolumeClaim" in volume:
            yield "any"
        for disk, (driver, is_counted) in DISKS.items():
            if disk in volume:
                is_odd = volume[disk].get("kind") == UNTRANSLATABLE.capitalize()
                yield "any" if is_odd and is_counted else driver


def binding(cluster: Cluster, pod: Document, change: Change) -> bool:
    """Returns whether VolumeBinding queues a pod."""
    del cluster
    old, new = change.old, change.new
    if new is None:
        return False
    match change.kind:
        case "StorageClass":
            key = "allowedTopologies"
            return old is None or old.get(key, []) != new.get(key, [])
        case "PersistentVolumeClaim":
            return _has_claim(pod, new)
        case "PersistentVolume":
            return True
        case "Node":
            return old is None or _labels(old) != _labels(new)
        case "CSINode":
            return old is None or _migrated(old) != _migrated(new)
        case "CSIDriver":
            names = [it["csi"]["driver"] for it in _volumes(pod) if "csi" in it]
            was_on = old is not None and old["spec"].get("storageCapacity")
            is_on = new["spec"].get("storageCapacity")
            return bool(was_on) and not is_on and new["metadata"]["name"] in names
        case "CSIStorageCapacity":
            return _has_more_capacity(old, new)
    return False


def _migrated(node: Document) -> str:
    text: str = node["metadata"].get("annotations", {}).get(MIGRATED, "")
    return text


def _has_more_capacity(old: Document | None, new: Document) -> bool:
    if old is None:
        return True
    before, after = (it.get("maximumVolumeSize", it.get("capacity")) for it in (old, new))
    if after is None:
        return False
    return before is None or int(after[:-2]) > int(before[:-2])


def restrictions(cluster: Cluster, pod: Document, change: Change) -> bool:
    """Returns whether VolumeRestrictions queues a pod."""
    del cluster
    old, new = change.old, change.new
    match change.kind, change.verb:
        case "Node", "added":
            return True
        case "PersistentVolumeClaim", "added":
            assert new is not None
            is_near = new["metadata"]["namespace"] == pod["metadata"]["namespace"]
            return is_near and new["metadata"]["name"] in _claim_names(pod)
        case "Pod", "deleted":
            assert old is not None
            is_near = old["metadata"]["namespace"] == pod["metadata"]["namespace"]
            shares = set(_claim_names(pod)) & set(_claim_names(old))
            return is_near and (bool(shares) or _disks_clash(pod, old))
    return False


def _disks_clash(pod: Document, other: Document) -> bool:
    """Returns whether two pods have the same disk, which both do not only read."""
    for disk, key in (("gcePersistentDisk", "pdName"), ("awsElasticBlockStore", "volumeID")):
        pairs = product(*([it[disk] for it in _volumes(of) if disk in it] for of in (pod, other)))
        for own, theirs in pairs:
            is_read = disk == "gcePersistentDisk" and own.get("readOnly")
            if own[key] == theirs[key] and not (is_read and theirs.get("readOnly")):
                return True
    return False


def _volumes(pod: Document) -> list[Document]:
    volumes: list[Document] = pod["spec"].get("volumes", [])
    return volumes


def _claim_names(pod: Document) -> list[str]:
    claims = [it.get("persistentVolumeClaim") for it in _volumes(pod)]
    return [claim["claimName"] for claim in claims if claim]


def _has_claim(pod: Document, claim: Document) -> bool:
    """Returns whether a claim is one of the pod's, also one that is made for it."""
    names = _claim_names(pod)
    names += [
        f"{pod['metadata']['name']}-{it['name']}" for it in _volumes(pod) if "ephemeral" in it
    ]
    is_near = claim["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return is_near and claim["metadata"]["name"] in names


# -- DynamicResources -----------------------------------------------------------------------------


def devices(cluster: Cluster, pod: Document, change: Change) -> bool:
    """Returns whether DynamicResources queues a pod."""
    old, new = change.old, change.new
    if new is None:
        return False
    match change.kind:
        case "DeviceClass" | "ResourceSlice":
            return True
        case "Node":
            return old is None or (
                _labels(old) != _labels(new)
                or old["status"]["allocatable"] != new["status"]["allocatable"]
            )
        case "ResourceClaim":
            return _claim_helps(own_claims(cluster, pod), old, new)
        case "Pod":
            key = "resourceClaimStatuses"
            has_event = old is not None and old["status"].get(key, []) != new["status"].get(key, [])
            is_own = _uid(pod) == _uid(new)
            return has_event and is_own and own_claims(cluster, new) is not None
    return False


def _claim_helps(own: list[Document] | None, old: Document | None, new: Document) -> bool:
    if own is None:
        return False
    before, after = (it["status"] if it is not None else {} for it in (old, new))
    if "allocation" in before and "allocation" not in after:
        return True
    return _uid(new) in map(_uid, own) and (old is None or before != after)


def own_claims(cluster: Cluster, pod: Document) -> list[Document] | None:
    """Returns the claims of a pod; None = one is absent, going, or another pod's."""
    claims, namespace = [], pod["metadata"]["namespace"]
    statuses = {it["name"]: it for it in pod["status"].get("resourceClaimStatuses", ())}
    for entry in pod["spec"].get("resourceClaims", ()):
        name = entry.get("resourceClaimName")
        is_made = name is None
        if is_made:
            if entry["name"] not in statuses or "resourceClaimTemplateName" not in entry:
                return None
            name = statuses[entry["name"]].get("resourceClaimName")
            if name is None:
                continue
        claim = cluster.claims.get((namespace, name))
        if claim is None or "deletionTimestamp" in claim["metadata"]:
            return None
        owners = [it["uid"] for it in claim["metadata"].get("ownerReferences", ())]
        if is_made and _uid(pod) not in owners:
            return None
        claims.append(claim)
    return claims


# -- documents ------------------------------------------------------------------------------------


def amounts(pod: Document) -> dict[str, int]:
    """Returns what the only container of a pod requests."""
    requests: dict[str, int] = pod["spec"]["containers"][0]["resources"]["requests"]
    return requests


def selects(selector: Document | None, labels: Mapping[str, str]) -> bool:
    """Returns whether a selector matches labels; none matches nothing, an empty one all."""
    if selector is None:
        return False
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for it in selector.get("matchExpressions", ()):
        value, values = labels.get(it["key"]), it.get("values", [])
        is_met = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[it["operator"]]
        if not is_met:
            return False
    return True


def _labels(obj: Document) -> dict[str, str]:
    labels: dict[str, str] = obj["metadata"].get("labels", {})
    return labels


def _uid(obj: Document) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def _has_node(pod: Document) -> bool:
    return bool(pod["spec"].get("nodeName") or pod["status"].get("nominatedNodeName"))


_RULES: Final[dict[str, Callable[[Cluster, Document, Change], bool]]] = {
    "NodeResourcesFit": fit,
    "InterPodAffinity": affinity,
    "PodTopologySpread": spread,
    "NodeVolumeLimits": limits,
    "VolumeBinding": binding,
    "VolumeRestrictions": restrictions,
    "DynamicResources": devices,
    # The plugins that have rejected the pod decide.
    "DefaultPreemption": lambda *_: False,
}

"""Adds nodes, CSINodes and attachments to ``volume_tables``, before their nodes, or after them.

A table of nodes begins with few rows, so that a pod on a node that is not there yet, or the next
node, is the first one of a longer table. What the columns of each driver say of a node is compared
with plain sums over the pods and attachments there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import Rng
from mooring.objects.codec.decode import convert
from mooring.objects.pod import Pod
from mooring.state.cache import Cache
from mooring.state.volumes.csi_nodes import NO_LIMIT
from mooring.testing import make_node

#: Drivers of the volumes that are drawn, and of attachments.
DRIVERS: Final = ("csi.example.com", "ebs.csi.aws.com", "cinder.csi.openstack.org")
PLUGINS: Final = ("kubernetes.io/aws-ebs", "kubernetes.io/cinder")
MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
#: The limit of a driver on a node; None = it has none, "" = the node does not have the driver.
LIMITS: Final[tuple[Any, ...]] = ("", None, 0, 1, 3, -2)
FIRST_ROWS: Final = (1, 2, 3, 64)
#: So many pods are not those that were evaluated last, but have their spec.
TWIN_SHARE: Final = 0.3

#: Volume -> its driver.
Volumes = Mapping[str, str]


class VolumeNodes:
    """Changes what a cache has of nodes beside their pods, and has plain copies of it.

    Args:
        cache: The cache.
        names: Of the nodes.
        rng: Of these changes alone.
    """

    def __init__(self, cache: Cache, names: Sequence[str], rng: Rng) -> None:
        self._cache = cache
        self._names = names
        self._rng = rng
        self._live: set[str] = set()
        #: Name -> driver -> limit, and the migrated plugins.
        self._csi_nodes: dict[str, tuple[dict[str, Any], list[str]]] = {}
        #: Name -> node, attacher, volume.
        self._attachments: dict[str, tuple[str, str, str]] = {}

    def change(self) -> None:
        """Changes a node, a CSINode or an attachment, in half of the calls."""
        rng = self._rng
        if rng.random() < 0.5:
            rng.choice((self._change_node, self._change_csi_node, self._change_attachment))()

    def node(self) -> str:
        """Returns the node of a pod, which may not be there."""
        return self._rng.choice(self._names)

    def twin(self, pod: Pod) -> tuple[Pod, str]:
        """Returns a pod and its name, or another pod with the same spec, in a part of the calls."""
        name = pod.metadata.name
        if self._rng.random() < TWIN_SHARE:
            name = f"{name}t"
            pod = replace(pod, metadata=replace(pod.metadata, name=name, uid=name))
        return pod, name

    def is_assumed(self) -> bool:
        """Returns whether the pod is placed by its scheduler, and not by the API server."""
        return self._rng.random() < 0.5

    def _change_node(self) -> None:
        name = self.node()
        if name in self._live and self._rng.random() < 0.4:
            self._live.remove(name)
            self._cache.remove_node(name)
        else:
            self._live.add(name)
            self._cache.put_node(make_node(name))

    def _change_csi_node(self) -> None:
        rng, name = self._rng, self.node()
        if rng.random() < 0.3:
            self._csi_nodes.pop(name, None)
            self._cache.remove_object("CSINode", name)
            return
        limits = {it: limit for it in DRIVERS if (limit := rng.choice(LIMITS)) != ""}
        plugins = [it for it in PLUGINS if rng.random() < 0.5]
        self._csi_nodes[name] = limits, plugins
        drivers = [
            {"name": it, "nodeID": name, **({} if n is None else {"allocatable": {"count": n}})}
            for it, n in limits.items()
        ]
        annotations = {MIGRATED: ",".join(plugins)} if plugins else {}
        body = {"metadata": {"name": name, "annotations": annotations}}
        self._cache.put_object(
            "CSINode", convert({**body, "spec": {"drivers": drivers}}, "CSINode")
        )

    def _change_attachment(self) -> None:
        rng = self._rng
        name = f"a{rng.randrange(5)}"
        if rng.random() < 0.3:
            self._attachments.pop(name, None)
            self._cache.remove_object("VolumeAttachment", name)
            return
        node, attacher, volume = self.node(), rng.choice((*DRIVERS, "")), rng.choice("0129")
        self._attachments[name] = node, attacher, f"v{volume}"
        source = {"persistentVolumeName": f"v{volume}"} if rng.random() < 0.9 else {}
        if not source:
            self._attachments[name] = node, attacher, ""
        spec = {"attacher": attacher, "nodeName": node, "source": source}
        body = {"metadata": {"name": name}, "spec": spec}
        self._cache.put_object("VolumeAttachment", convert(body, "VolumeAttachment"))

    # -- the rules --------------------------------------------------------------------------------

    def problems(
        self, used: Mapping[str, Volumes], volumes: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[str]:
        """Yields where a column, or what is attached, differs.

        Args:
            used: Node -> the volumes of its pods.
            volumes: The PersistentVolumes, as documents.
        """
        attached = self._attached(volumes)
        use = self._cache.storage.use.attached_volumes
        of_node = {name: {**used.get(name, {}), **attached.get(name, {})} for name in self._names}
        for name, there in of_node.items():
            for volume in there:
                if use.is_attached(volume, name) != (volume in attached.get(name, {})):
                    yield f"{volume} is attached to {name}: {use.is_attached(volume, name)}"
                users = sorted(use.nodes_of(volume))
                expected = sorted(at for at in used if volume in used[at])
                if users != expected:
                    yield f"{volume} is used on {users}, not {expected}"
            for driver in DRIVERS:
                count = list(there.values()).count(driver)
                if use.count(driver, name) != count:
                    yield f"{name} has {use.count(driver, name)} volumes of {driver}, not {count}"
        if self._rng.random() < 0.6:
            yield from self._columns(of_node)

    def _attached(self, volumes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
        """Returns node -> the volumes that are attached to it, of those that count."""
        attached: dict[str, dict[str, str]] = {}
        for node, attacher, name in self._attachments.values():
            source = volumes.get(name, {}).get("spec", {}).get("csi")
            if attacher and source is not None:
                attached.setdefault(node, {})[f"{attacher}/{source['volumeHandle']}"] = attacher
        return attached

    def _columns(self, of_node: Mapping[str, Volumes]) -> Iterator[str]:
        """Compares the columns of a drawn driver and plugin, on the nodes that are there."""
        cache, driver = self._cache, self._rng.choice(DRIVERS)
        plugin, csi_nodes = self._rng.choice(PLUGINS), cache.storage.csi_nodes
        columns = (
            cache.storage.use.attached_volumes.remaining_by_row(driver),
            csi_nodes.has_limits(),
            csi_nodes.has_csi_node_by_row(),
            csi_nodes.have_driver(driver),
            csi_nodes.have_migrated(plugin),
        )
        if any(len(column) != cache.nodes.capacity for column in columns):
            yield f"columns of {[*map(len, columns)]} rows, not {cache.nodes.capacity}"
        for name in sorted(self._live):
            limits, migrated = self._csi_nodes.get(name, ({}, []))
            limit = limits.get(driver)
            remaining = NO_LIMIT if limit is None else max(0, limit)
            expected = [
                remaining - list(of_node[name].values()).count(driver),
                any(it is not None for it in limits.values()),
                name in self._csi_nodes,
                driver in limits,
                plugin in migrated,
            ]
            row = cache.nodes.live_row(name)
            actual = [column.item(row) for column in columns]
            if actual != expected:
                what = f"{name}, {driver}, {plugin}: remaining, limits, CSINode, driver, migrated"
                yield f"{what} {actual}, not {expected}"

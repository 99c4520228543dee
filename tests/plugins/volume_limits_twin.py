"""NodeVolumeLimits once more, one node at a time, walking every pod and attachment.

Written from the reference page and the upstream source; see ``volume_twins``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mooring.framework import SKIP, Cycle, NodeInfo, Reject, Status
from mooring.framework.status import NodeError, Skip
from mooring.objects.meta import key
from mooring.objects.pod import Pod, Volume
from mooring.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tests.plugins.volume_twins import Twin, claim_of, class_of, not_owned

#: In-tree source -> (plugin, driver, is it taken for a volume of the driver).
IN_TREE = {
    "gce_persistent_disk": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", True),
    "aws_elastic_block_store": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com", True),
    "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org", True),
    "azure_disk": ("kubernetes.io/azure-disk", "disk.csi.azure.com", True),
    "azure_file": ("kubernetes.io/azure-file", "file.csi.azure.com", False),
    "vsphere_volume": ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", False),
    "portworx_volume": ("kubernetes.io/portworx-volume", "pxd.portworx.com", True),
}


# ---------------------------------------------------------------- NodeVolumeLimits


class Missing(Exception):
    """A claim that does not exist."""


class Broken(Exception):
    """Volumes that cannot be counted."""


class LimitsTwin(Twin):
    name = "NodeVolumeLimits"

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        for volume in cycle.pod.spec.volumes:
            if volume.persistent_volume_claim or volume.ephemeral or source_of(volume):
                return None
        return SKIP

    def status(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        csi_node: CSINode | None = self.facts.get("CSINode", node.name)
        try:
            new = self.attachable(cycle.pod.pod, csi_node, is_new=True)
        except Missing as error:
            return Reject(str(error), resolvable=False)
        except Broken as error:
            return NodeError(str(error))
        limits = {
            driver.name: driver.allocatable.count
            for driver in (csi_node.spec.drivers if csi_node else ())
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        if not new or not limits:
            return None
        held: dict[str, str] = {}
        for pod in node.pods:
            try:
                held.update(self.attachable(pod.pod, csi_node, is_new=False))
            except Broken as error:
                return NodeError(str(error))
        counts: dict[str, int] = {}
        for driver in [*held.values(), *self.attached_volumes(node.name, held).values()]:
            counts[driver] = counts.get(driver, 0) + 1
        wanted: dict[str, int] = {}
        for volume, driver in new.items():
            if volume not in held:
                wanted[driver] = wanted.get(driver, 0) + 1
        for driver, count in wanted.items():
            if driver in limits and counts.get(driver, 0) + count > limits[driver]:
                return Reject("node(s) exceed max volume count")
        return None

    def attached_volumes(self, node_name: str, held: Mapping[str, str]) -> dict[str, str]:
        found = {}
        for attachment in self.facts.all("VolumeAttachment"):
            name = attachment.spec.source.persistent_volume_name
            volume = self.facts.get("PersistentVolume", name or "")
            if attachment.spec.node_name != node_name or not attachment.spec.attacher:
                continue
            if volume is None or volume.spec.csi is None:
                continue
            called = f"{attachment.spec.attacher}/{volume.spec.csi.volume_handle}"
            if called not in held:
                found[called] = attachment.spec.attacher
        return found

    def attachable(self, pod: Pod, csi_node: CSINode | None, *, is_new: bool) -> dict[str, str]:
        found: dict[str, str] = {}
        for volume in pod.spec.volumes:
            name = claim_of(pod, volume)
            if name is None:
                found.update(inline(volume, csi_node))
                continue
            if not name:
                raise Broken("PersistentVolumeClaim had no name")
            at = f"{pod.metadata.namespace}/{name}"
            claim = self.facts.get("PersistentVolumeClaim", at)
            if claim is None and is_new:
                problem = f'persistentvolumeclaim "{name}" not found'
                raise Missing(f"looking up PVC {at}: {problem}")
            if claim is None:
                continue
            if volume.ephemeral is not None and volume.persistent_volume_claim is None:
                problem = not_owned(pod, claim)
                if problem:
                    raise Broken(problem)
            driver, handle = self.driver_of(claim, csi_node)
            if driver and handle:
                found[f"{driver}/{handle}"] = driver
        return found

    def driver_of(self, claim: PersistentVolumeClaim, csi_node: CSINode | None) -> tuple[str, str]:
        volume = self.facts.get("PersistentVolume", claim.spec.volume_name)
        if volume is not None and claim.spec.volume_name:
            if volume.spec.csi is not None:
                return volume.spec.csi.driver, volume.spec.csi.volume_handle
            source = source_of(volume.spec)
            if source is None or not IN_TREE[source][2] or csi_node is None:
                return "", ""
            try:
                return IN_TREE[source][1], translated(volume, source)
            except Broken:
                return "", ""
        found = self.facts.get("StorageClass", class_of(claim))
        if not class_of(claim) or found is None:
            return "", ""
        handle = f"random-{key(claim)}"
        for plugin, driver, is_migrated in IN_TREE.values():
            if plugin == found.provisioner:
                return (driver, handle) if is_migrated and csi_node is not None else ("", "")
        return found.provisioner, handle


def source_of(volume: Any) -> str | None:
    for name in IN_TREE:
        if getattr(volume, name, None) is not None:
            return name
    return None


def inline(volume: Volume, csi_node: CSINode | None) -> dict[str, str]:
    name = source_of(volume)
    if name is None or csi_node is None or not IN_TREE[name][2]:
        return {}
    source, driver = getattr(volume, name), IN_TREE[name][1]
    try:
        if name == "gce_persistent_disk":
            handle = f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{source.pd_name}"
        else:
            handle = handle_of(source, name)
    except Broken as error:
        text = f"converting volume({volume.name}) from inline to csi: {error}"
        raise Broken(text) from error
    return {f"{driver}/{handle}": driver}


def handle_of(source: Any, name: str) -> str:
    if name == "aws_elastic_block_store":
        if not source.volume_id.startswith("aws://"):
            return str(source.volume_id)
        found = re.fullmatch(r"aws://[^/]*/+(vol-[^/]*)/*", source.volume_id)
        if found is None:
            raise Broken(
                "failed to translate Kubernetes ID to EBS Volume ID "
                f"Invalid format for AWS volume ({source.volume_id})"
            )
        return found[1]
    if name == "azure_disk":
        if source.kind is not None and source.kind.lower() != "managed":
            raise Broken(f"kind({source.kind}) is not supported in csi migration")
        return str(source.disk_uri)
    return str(source.volume_id)


def translated(volume: PersistentVolume, name: str) -> str:
    source = getattr(volume.spec, name)
    if name != "gce_persistent_disk":
        return handle_of(source, name)
    labels = volume.metadata.labels
    written = labels.get("failure-domain.beta.kubernetes.io/zone") or labels.get(
        "topology.kubernetes.io/zone", ""
    )
    zones = written.split("__")
    if len(zones) == 1:
        where = f"zones/{zones[0] or 'UNSPECIFIED'}"
    else:
        regions = {"-".join(zone.split("-")[:2]) for zone in zones}
        if len(regions) != 1 or any(len(zone.split("-")) != 3 for zone in zones):
            raise Broken("failed to get region from zones")
        where = f"regions/{regions.pop()}"
    return f"projects/UNSPECIFIED/{where}/disks/{source.pd_name}"

"""Storage kinds: claims, volumes, classes, drivers, capacities and attachments.

The sources of volumes hold what identifies a disk: enough to tell two disks apart, to count them
against a node's limits, and to translate the old in-tree sources into their CSI drivers.
"""

from __future__ import annotations

from msgspec import field

from mooring.objects.meta import (
    AnyJson,
    ApiStruct,
    Int32,
    LabelSelector,
    NodeSelector,
    ObjectMeta,
    ObjectReference,
    RawQuantity,
    ResourceList,
    ResourceRequirements,
)


class GCEPersistentDisk(ApiStruct, frozen=True, kw_only=True):
    """A Google disk, by name."""

    pd_name: str = ""
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AWSElasticBlockStore(ApiStruct, frozen=True, kw_only=True):
    """An Amazon disk, by volume id."""

    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AzureDisk(ApiStruct, frozen=True, kw_only=True):
    """An Azure disk, by name and URI; not the same as an Azure file share."""

    disk_name: str = ""
    disk_uri: str = field(default="", name="diskURI")
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None


class AzureFile(ApiStruct, frozen=True, kw_only=True):
    """An Azure file share."""

    secret_name: str = ""
    share_name: str = ""
    read_only: bool = False
    secret_namespace: str | None = None


class Cinder(ApiStruct, frozen=True, kw_only=True):
    """An OpenStack disk, by volume id."""

    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class VsphereVolume(ApiStruct, frozen=True, kw_only=True):
    """A vSphere disk, by path."""

    volume_path: str = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = field(default="", name="storagePolicyID")


class PortworxVolume(ApiStruct, frozen=True, kw_only=True):
    """A Portworx volume, by id."""

    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class ISCSI(ApiStruct, frozen=True, kw_only=True):
    """An iSCSI disk: the same target name (``iqn``) is the same disk."""

    target_portal: str = ""
    iqn: str = ""
    lun: Int32 = 0
    read_only: bool = False


class RBD(ApiStruct, frozen=True, kw_only=True):
    """A Ceph disk: an image in a pool, reached through any of the monitors."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class CSIVolume(ApiStruct, frozen=True, kw_only=True):
    """A volume that a pod's own manifest describes to a CSI driver."""

    driver: str = ""
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] = field(default_factory=dict)


class CSIPersistentVolume(ApiStruct, frozen=True, kw_only=True):
    """A volume of a CSI driver, by handle."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: dict[str, str] = field(default_factory=dict)


class LocalVolume(ApiStruct, frozen=True, kw_only=True):
    """A disk or folder of one node."""

    path: str = ""
    fs_type: str | None = None


class TypedObjectReference(ApiStruct, frozen=True, kw_only=True):
    """The source of a volume's initial content."""

    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None


class PersistentVolumeClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """The requested volume, and its name once bound (``volume_name``)."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    data_source: TypedObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The status of a claim: Pending, Bound or Lost."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = field(default_factory=dict)


class PersistentVolumeClaim(ApiStruct, frozen=True, kw_only=True):
    """A claim for a volume."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "PersistentVolumeClaim")
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class PersistentVolumeClaimTemplate(ApiStruct, frozen=True, kw_only=True):
    """The claim that an ephemeral volume gets."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class VolumeNodeAffinity(ApiStruct, frozen=True, kw_only=True):
    """The nodes from which a volume can be reached; None = all of them."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(ApiStruct, frozen=True, kw_only=True):
    """A volume: its size, where it is, and the claim it belongs to."""

    capacity: ResourceList = field(default_factory=dict)
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    vsphere_volume: VsphereVolume | None = None
    portworx_volume: PortworxVolume | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    csi: CSIPersistentVolume | None = None
    local: LocalVolume | None = None
    host_path: AnyJson = None
    nfs: AnyJson = None
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    mount_options: tuple[str, ...] = ()
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeStatus(ApiStruct, frozen=True, kw_only=True):
    """The status of a volume: Pending, Available, Bound, Released or Failed."""

    phase: str = ""


class PersistentVolume(ApiStruct, frozen=True, kw_only=True):
    """A piece of storage."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "PersistentVolume")
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(ApiStruct, frozen=True, kw_only=True):
    """A label that must have one of the values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """Labels that a node must all have; an empty term selects no node."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(ApiStruct, frozen=True, kw_only=True):
    """The provisioning and binding of the volumes of a class."""

    api_version: str = field(default_factory=lambda: "storage.k8s.io/v1")
    kind: str = field(default_factory=lambda: "StorageClass")
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    reclaim_policy: str | None = None
    mount_options: tuple[str, ...] = ()
    allow_volume_expansion: bool | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(ApiStruct, frozen=True, kw_only=True):
    """The volume limit of a driver on a node; None = not limited."""

    count: Int32 | None = None


class CSINodeDriver(ApiStruct, frozen=True, kw_only=True):
    """A CSI driver on a node: the labels it places volumes by, and its limit."""

    name: str = ""
    node_id: str = field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(ApiStruct, frozen=True, kw_only=True):
    """The CSI drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(ApiStruct, frozen=True, kw_only=True):
    """The CSI drivers of a node; it has the node's name."""

    api_version: str = field(default_factory=lambda: "storage.k8s.io/v1")
    kind: str = field(default_factory=lambda: "CSINode")
    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(ApiStruct, frozen=True, kw_only=True):
    """The capabilities and options of a driver."""

    attach_required: bool | None = None
    volume_lifecycle_modes: tuple[str, ...] = ()
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(ApiStruct, frozen=True, kw_only=True):
    """A CSI driver of the cluster."""

    api_version: str = field(default_factory=lambda: "storage.k8s.io/v1")
    kind: str = field(default_factory=lambda: "CSIDriver")
    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiStruct, frozen=True, kw_only=True):
    """The free capacity of a class in one part of the cluster."""

    api_version: str = field(default_factory=lambda: "storage.k8s.io/v1")
    kind: str = field(default_factory=lambda: "CSIStorageCapacity")
    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: RawQuantity | None = None
    maximum_volume_size: RawQuantity | None = None


class VolumeAttachmentSource(ApiStruct, frozen=True, kw_only=True):
    """The volume that is attached: a PersistentVolume's name, or a volume described in place."""

    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(ApiStruct, frozen=True, kw_only=True):
    """The driver, volume and node of an attachment."""

    attacher: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()
    node_name: str = ""


class VolumeAttachmentStatus(ApiStruct, frozen=True, kw_only=True):
    """The status of an attachment."""

    attached: bool = False


class VolumeAttachment(ApiStruct, frozen=True, kw_only=True):
    """A request to attach a volume to a node, and its status."""

    api_version: str = field(default_factory=lambda: "storage.k8s.io/v1")
    kind: str = field(default_factory=lambda: "VolumeAttachment")
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()

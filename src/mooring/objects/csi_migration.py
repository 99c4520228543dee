"""Translation of in-tree volumes to the CSI drivers that replaced them.

An in-tree disk of a pod or a PersistentVolume (``gcePersistentDisk`` ...) is the same disk as the
one that its CSI driver identifies by a handle. Counting volumes per driver, and evaluating the
topology of a volume, require the translation.

Source: csi-translation-lib v0.36.3 (translate.go, plugins/*.go).
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from mooring.objects.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from mooring.objects.pod import Volume
from mooring.objects.storage import PersistentVolume, PersistentVolumeSpec

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"

#: The annotation of a CSINode with the migrated in-tree plugins, separated by commas.
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"

_ZONE_DELIMITER: Final = "__"
_MANAGED: Final = "managed"


class TranslationError(ValueError):
    """An in-tree volume that no CSI driver can serve; the text is kube-scheduler's."""


class InTree(NamedTuple):
    """One kind of in-tree volume.

    Attributes:
        field: The field of a volume's source, such as "gce_persistent_disk".
        plugin: The name of the in-tree plugin.
        driver: The CSI driver that replaced it.
        topology_key: The topology label of the driver; "" = none.
        is_migrated: True if kube-scheduler treats it as a volume of the driver.
    """

    field: str
    plugin: str
    driver: str
    topology_key: str
    is_migrated: bool


_TABLE: Final = (
    InTree(
        "gce_persistent_disk",
        "kubernetes.io/gce-pd",
        "pd.csi.storage.gke.io",
        "topology.gke.io/zone",
        True,
    ),
    InTree(
        "aws_elastic_block_store",
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        "topology.ebs.csi.aws.com/zone",
        True,
    ),
    InTree(
        "cinder",
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone",
        True,
    ),
    InTree("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com", "", True),
    InTree("azure_file", "kubernetes.io/azure-file", "file.csi.azure.com", "", False),
    InTree("vsphere_volume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", "", False),
    InTree("portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com", "", True),
)
_BY_PLUGIN: Final = {entry.plugin: entry for entry in _TABLE}


def in_tree(source: Volume | PersistentVolumeSpec) -> InTree | None:
    """Returns the kind of an in-tree volume; None if it is not one with a CSI driver."""
    for entry in _TABLE:
        if getattr(source, entry.field) is not None:
            return entry
    return None


def in_tree_plugin(name: str) -> InTree | None:
    """Returns the kind of the in-tree plugin ``name``; None if there is no such plugin."""
    return _BY_PLUGIN.get(name)


def inline_handle(volume: Volume, kind: InTree) -> str:
    """Returns the driver's handle of an inline disk of a pod.

    Raises:
        TranslationError: if it cannot be translated.
    """
    source = getattr(volume, kind.field)
    if kind.field == "gce_persistent_disk":
        return f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{source.pd_name}"
    return _handle(source, kind)


def volume_handle(volume: PersistentVolume, kind: InTree) -> str:
    """Returns the driver's handle of an in-tree PersistentVolume.

    Raises:
        TranslationError: if it cannot be translated.
    """
    source = getattr(volume.spec, kind.field)
    if kind.field != "gce_persistent_disk":
        return _handle(source, kind)
    labels = volume.metadata.labels
    zones = (labels.get(BETA_ZONE, "") or labels.get(ZONE, "")).split(_ZONE_DELIMITER)
    if len(zones) > 1:
        location = f"regions/{_gce_region(zones)}"
    else:
        location = f"zones/{zones[0] or 'UNSPECIFIED'}"
    return f"projects/UNSPECIFIED/{location}/disks/{source.pd_name}"


def translated_affinity(volume: PersistentVolume, kind: InTree) -> NodeSelector | None:
    """Returns the node selector of the translated volume; None = all nodes.

    Raises:
        TranslationError: if it cannot be translated.
    """
    volume_handle(volume, kind)  # upstream translates all or nothing
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    if not kind.topology_key:
        return required
    return _translated(required, volume.metadata.labels, kind.topology_key)


def _handle(source: Any, kind: InTree) -> str:
    if kind.field == "aws_elastic_block_store":
        return _aws_volume_id(source.volume_id)
    if kind.field == "azure_disk":
        if source.kind is not None and source.kind.lower() != _MANAGED:
            raise TranslationError(f"kind({source.kind}) is not supported in csi migration")
        return str(source.disk_uri)
    if kind.field in ("cinder", "portworx_volume"):
        return str(source.volume_id)
    raise TranslationError(f"could not find in-tree plugin translation logic for {kind.plugin}")


def _aws_volume_id(raw_id: str) -> str:
    """Returns the volume's own id: "vol-1" of "aws://zone/vol-1", and "vol-1" itself."""
    if not raw_id.startswith("aws://"):
        return raw_id
    try:
        path = unquote(urlsplit(raw_id).path)
    except ValueError as error:
        raise _aws_error(f"Invalid disk name ({raw_id}): {error}") from error
    volume_id = path.strip("/")
    if re.fullmatch(r"vol-[^/]*", volume_id, re.DOTALL) is None:
        raise _aws_error(f"Invalid format for AWS volume ({raw_id})")
    return volume_id


def _aws_error(problem: str) -> TranslationError:
    return TranslationError(f"failed to translate Kubernetes ID to EBS Volume ID {problem}")


def _gce_region(zones: list[str]) -> str:
    """Returns the one region of zones such as "us-east1-b"."""
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        names = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(
            "failed to get region from zones: multiple or no regions gotten from zones, "
            f"got: map[{names}]"
        )
    return regions.pop()


def _translated(
    required: NodeSelector | None, labels: dict[str, str], topology_key: str
) -> NodeSelector | None:
    """Returns the affinity with the driver's topology label, from affinity or volume labels."""
    terms = required.node_selector_terms if required is not None else ()
    keys = [expression.key for term in terms for expression in term.match_expressions]
    is_beta = _uses_beta_zone(keys, labels)
    zone = BETA_ZONE if is_beta else ZONE
    renamed = {BETA_REGION: REGION} if is_beta and _values(terms, BETA_REGION) else {}
    if _values(terms, zone):
        renamed[zone] = topology_key
    elif zone in labels:
        zones = sorted({part.strip() for part in labels[zone].split(_ZONE_DELIMITER)} - {""})
        if zones:
            added = NodeSelectorRequirement(key=topology_key, operator="In", values=tuple(zones))
            terms = tuple(
                replace(term, match_expressions=(*term.match_expressions, added))
                for term in terms or (NodeSelectorTerm(),)
            )
    if required is None and not terms:
        return None
    return NodeSelector(node_selector_terms=tuple(_renamed(term, renamed) for term in terms))


def _uses_beta_zone(keys: list[str], labels: dict[str, str]) -> bool:
    """Returns whether the volume uses the beta zone label: its affinity first, then its labels."""
    for names in (keys, labels):
        if ZONE in names:
            return False
        if BETA_ZONE in names:
            return True
    return False


def _values(terms: tuple[NodeSelectorTerm, ...], key: str) -> bool:
    """Returns whether some expression on ``key`` names a value."""
    return any(
        expression.key == key and expression.values
        for term in terms
        for expression in term.match_expressions
    )


def _renamed(term: NodeSelectorTerm, renamed: dict[str, str]) -> NodeSelectorTerm:
    expressions = tuple(
        replace(expression, key=renamed.get(expression.key, expression.key))
        for expression in term.match_expressions
    )
    return replace(term, match_expressions=expressions)

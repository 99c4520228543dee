"""ImageLocality: prefers nodes that already have the pod's images."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from mooring.framework import Cycle, NodeView
from mooring.framework.interface import MAX_SCORE, Scores
from mooring.objects.requests import normalized_image_name
from mooring.state import Change, PodInfo

MEBIBYTE = 1024 * 1024
#: Image bytes on a node up to this score 0.
MIN_THRESHOLD_BYTES = 23 * MEBIBYTE
#: Image bytes per container from this on score 100.
MAX_CONTAINER_THRESHOLD_BYTES = 1000 * MEBIBYTE


class ImageLocality:
    """Scores the bytes of the pod's images that a node has.

    Each image is scaled by the share of nodes that have it, so that an image on a single node does
    not attract all its pods to that node.

    Source: pkg/scheduler/framework/plugins/imagelocality/image_locality.go.
    """

    name = "ImageLocality"
    reads = Change.IMAGES
    signs_claim_names = False
    reads_other_nodes = Change.IMAGES | Change.EXISTENCE

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the pod's images, and the number of containers for the upper threshold."""
        return tuple(_images(pod)), _container_count(pod)

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns 0 up to 23 MiB of images, 100 from 1000 MiB per container on."""
        node_count = len(nodes.snapshot.nodes)
        total = np.zeros(len(nodes), dtype=np.int64)
        images = [image for name in _images(cycle.pod) if (image := nodes.image(name))[1]]
        if not images:  # the usual case
            return total
        for size_bytes, image_node_count, has_image in images:
            scaled_bytes = int(float(size_bytes) * (image_node_count / node_count))
            total += has_image * np.int64(scaled_bytes)
        highest = MAX_CONTAINER_THRESHOLD_BYTES * _container_count(cycle.pod)
        np.clip(total, MIN_THRESHOLD_BYTES, max(highest, MIN_THRESHOLD_BYTES), out=total)
        if highest <= MIN_THRESHOLD_BYTES:  # a pod without containers; the API server rejects it
            return np.zeros(len(nodes), dtype=np.int64)
        total -= MIN_THRESHOLD_BYTES
        total *= MAX_SCORE
        total //= highest - MIN_THRESHOLD_BYTES
        return total


def _images(pod: PodInfo) -> list[str]:
    """Returns the normalized image names of all containers and image volumes, with duplicates."""
    spec = pod.spec
    names = [container.image for container in (*spec.init_containers, *spec.containers)]
    names += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return [normalized_image_name(name) for name in names]


def _container_count(pod: PodInfo) -> int:
    return len(pod.spec.init_containers) + len(pod.spec.containers)

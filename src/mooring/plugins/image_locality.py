"""ImageLocality: a node that has the pod's images already starts it sooner."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from mooring.framework import Cycle, NodeView
from mooring.framework.interface import MAX_SCORE, Scores
from mooring.objects.requests import normalized_image_name
from mooring.state import Change, PodInfo

MEBIBYTE = 1024 * 1024
#: Less than this on a node counts as nothing.
MIN_THRESHOLD_BYTES = 23 * MEBIBYTE
#: More than this per container counts as everything.
MAX_CONTAINER_THRESHOLD_BYTES = 1000 * MEBIBYTE


class ImageLocality:
    """Scores the bytes of the pod's images that a node has.

    Each image is scaled by how many nodes have it, so that a rare one does not draw every pod to
    its one node.

    Source: pkg/scheduler/framework/plugins/imagelocality/image_locality.go.
    """

    name = "ImageLocality"
    reads = Change.IMAGES
    reads_other_nodes = Change.IMAGES | Change.EXISTENCE

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the pod's images, and how many containers share the upper threshold."""
        return tuple(_images(pod)), _container_count(pod)

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """0 at 23 MiB of images or less, 100 at 1000 MiB per container or more."""
        node_count = len(nodes.snapshot.nodes)
        total = np.zeros(len(nodes), dtype=np.int64)
        found = [image for name in _images(cycle.pod) if (image := nodes.image(name))[1]]
        if not found:  # mostly: nothing is under every threshold
            return total
        for size_bytes, spread, is_here in found:
            total += is_here * np.int64(int(float(size_bytes) * (spread / node_count)))
        highest = MAX_CONTAINER_THRESHOLD_BYTES * _container_count(cycle.pod)
        np.clip(total, MIN_THRESHOLD_BYTES, max(highest, MIN_THRESHOLD_BYTES), out=total)
        if highest <= MIN_THRESHOLD_BYTES:  # a pod without containers: the API server has none
            return np.zeros(len(nodes), dtype=np.int64)
        total -= MIN_THRESHOLD_BYTES
        total *= MAX_SCORE
        total //= highest - MIN_THRESHOLD_BYTES
        return total


def _images(pod: PodInfo) -> list[str]:
    """The normalized names of the images of all containers and image volumes, with repetition."""
    spec = pod.spec
    names = [container.image for container in (*spec.init_containers, *spec.containers)]
    names += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return [normalized_image_name(name) for name in names]


def _container_count(pod: PodInfo) -> int:
    return len(pod.spec.init_containers) + len(pod.spec.containers)

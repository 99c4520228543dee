"""The events of a kubelet about its pods and its node.

Images are there already: nothing is pulled.

Source: pkg/kubelet/kuberuntime/kuberuntime_container.go, images/image_manager.go,
container/ref.go, kubelet_node_status.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from mooring.devcluster.events.correlation import Reference
from mooring.devcluster.events.recorder import NORMAL, WARNING, EventRecorder, reference_to
from mooring.objects.kinds import kind_named

if TYPE_CHECKING:
    from mooring.objects.pod import Container, Pod

KUBELET: Final = "kubelet"
NODE_CONTROLLER: Final = "node-controller"
#: The fields of a pod's spec with containers.
INIT: Final = "initContainers"
MAIN: Final = "containers"
EPHEMERAL: Final = "ephemeralContainers"

_POD: Final = kind_named("Pod")


def record_start(
    recorder: EventRecorder, pod: Pod, field: str, containers: Iterable[Container]
) -> None:
    """Records that containers of a field of the spec were created and started."""
    for container in containers:
        image = f'Container image "{container.image}" already present on machine'
        _record(
            recorder,
            pod,
            f"spec.{field}{{{container.name}}}",
            ("Pulled", f"{image} and can be accessed by the pod"),
            ("Created", "Container created"),
            ("Started", "Container started"),
        )


def record_backoff(recorder: EventRecorder, pod: Pod, field: str, container: Container) -> None:
    """Records that a container that fails again and again waits for its next start."""
    message = f"Back-off restarting failed container {container.name} in pod {full_name(pod)}"
    reference = reference_to(_POD, pod.metadata, f"spec.{field}{{{container.name}}}")
    recorder.record(KUBELET, reference, WARNING, "BackOff", message, host=pod.spec.node_name)


def full_name(pod: Pod) -> str:
    """Returns the name of a pod in messages of kubelets: "web_shop(UID)"."""
    return f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"


def record_stop(recorder: EventRecorder, pod: Pod) -> None:
    """Records that the containers of a running pod are being stopped."""
    sidecars = [item for item in pod.spec.init_containers if item.restart_policy == "Always"]
    for field, containers in ((MAIN, pod.spec.containers), (INIT, sidecars)):
        for container in containers:
            path = f"spec.{field}{{{container.name}}}"
            _record(recorder, pod, path, ("Killing", f"Stopping container {container.name}"))


def _record(recorder: EventRecorder, pod: Pod, path: str, *events: tuple[str, str]) -> None:
    reference = reference_to(_POD, pod.metadata, path)
    for reason, message in events:
        recorder.record(KUBELET, reference, NORMAL, reason, message, host=pod.spec.node_name)


# -- nodes ----------------------------------------------------------------------------------------


def record_node_added(recorder: EventRecorder, name: str, uid: str) -> None:
    """Records that a kubelet has started, and that the node controller knows its node."""
    recorder.record(KUBELET, _node(name), NORMAL, "Starting", "Starting kubelet.", host=name)
    message = f"Node {name} event: Registered Node {name} in Controller"
    recorder.record(NODE_CONTROLLER, _node(name, uid), NORMAL, "RegisteredNode", message)


def record_node_removed(recorder: EventRecorder, name: str, uid: str) -> None:
    """Records that a node was deleted."""
    message = f"Node {name} event: Removing Node {name} from Controller"
    recorder.record(NODE_CONTROLLER, _node(name, uid), NORMAL, "RemovingNode", message)


def record_cordon(recorder: EventRecorder, name: str, *, is_unschedulable: bool) -> None:
    """Records that a node was cordoned, or is schedulable again."""
    reason = "NodeNotSchedulable" if is_unschedulable else "NodeSchedulable"
    message = f"Node {name} status is now: {reason}"
    recorder.record(KUBELET, _node(name), NORMAL, reason, message, host=name)


def _node(name: str, uid: str = "") -> Reference:
    return Reference("v1", "Node", "", name, uid)

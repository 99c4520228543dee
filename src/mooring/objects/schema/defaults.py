"""Defaults that the API server sets for absent fields.

One function per type of ``types``; ``decoding`` calls it for every object of that type, at any
depth: for the containers of a pod and those of a Deployment's template alike. Functions change
their argument.

Source: pkg/apis/{core,apps,batch,storage,scheduling,resource,discovery}/v1/defaults.go and the
``+default`` markers of k8s.io/api.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import convert

from mooring.objects.pod import DEFAULT_SCHEDULER_NAME, Pod
from mooring.objects.requests import pod_requests
from mooring.objects.types import Object

Default = Callable[[Object], None]

_HOST_PART = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_REFERENCE = re.compile(
    rf"(?P<name>(?:(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])(?::\d+)?/)?"
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
    r"(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z][\w.+-]*:[0-9a-fA-F]{32,})?"
)
#: A text that looks like the identifier of an image is not a name.
_IMAGE_ID = re.compile("[0-9a-f]{64}")
_IMAGE_PATH_MAX = 255
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
#: File modes of volumes: rw-r--r--.
_VOLUME_MODE = 0o644
#: The fields of a core.Volume that are not its source.
_VOLUME_NAME = frozenset(("name",))
#: Pod-level resources besides huge pages.
_COMPUTE_RESOURCES = ("cpu", "memory")
_TOKEN_S = 3600
_RBAC_GROUP = "rbac.authorization.k8s.io"
_HUGE_PAGES_PREFIX = "hugepages-"


def pull_policy_of(image: str) -> str:
    """Returns the pull policy: "Always" for images with the tag "latest" or without a tag."""
    reference = _REFERENCE.fullmatch(image)
    if reference is None:
        return "IfNotPresent"
    if _IMAGE_ID.fullmatch(image) or len(_path_of(reference["name"])) > _IMAGE_PATH_MAX:
        return "IfNotPresent"
    is_latest = reference["tag"] == "latest" or not (reference["tag"] or reference["digest"])
    return "Always" if is_latest else "IfNotPresent"


def _path_of(name: str) -> str:
    """Returns the name of an image without its registry, as it is on the default registry."""
    first, slash, rest = name.partition("/")
    if not slash:
        return f"library/{name}"
    has_registry = first == "localhost" or "." in first or ":" in first or first != first.lower()
    return rest if has_registry else name


def _constant(**values: Any) -> Default:
    """Returns a function that sets constants."""
    pairs = tuple(values.items())

    def fill(obj: Object) -> None:
        for name, value in pairs:
            if obj.get(name) is None:  # a pointer that is always printed is null
                obj[name] = value

    return fill


def _in(field: str, **values: Any) -> Default:
    """Returns a function that sets constants in a field, such as the spec."""
    fill = _constant(**values)
    return lambda obj: fill(obj[field])


def _container(obj: Object) -> None:
    if "imagePullPolicy" not in obj:
        obj["imagePullPolicy"] = pull_policy_of(obj.get("image", ""))
    if "terminationMessagePath" not in obj:
        obj["terminationMessagePath"] = "/dev/termination-log"
    if "terminationMessagePolicy" not in obj:
        obj["terminationMessagePolicy"] = "File"


def _volume(obj: Object) -> None:
    if obj.keys() <= _VOLUME_NAME:
        obj["emptyDir"] = {}
    image = obj.get("image")
    if image is not None and "pullPolicy" not in image:
        image["pullPolicy"] = pull_policy_of(image.get("reference", ""))


def _pod(obj: Object) -> None:
    spec = obj["spec"]
    for container in (*(spec.get("containers") or ()), *spec.get("initContainers", ())):
        resources = container["resources"]
        limits = resources.get("limits")
        if limits:
            resources["requests"] = {**limits, **resources.get("requests", {})}
        ports = container.get("ports", ()) if spec.get("hostNetwork") else ()
        for port in ports:
            port["hostPort"] = port.get("hostPort") or port["containerPort"]
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    if "resources" in spec:
        _pod_level_resources(obj)


def _pod_level_resources(obj: Object) -> None:
    """Completes limits and requests of the pod as a whole from those of the containers.

    Source: pkg/apis/core/v1/defaults.go, with PodLevelResources on, as by default.
    """
    spec = obj["spec"]
    resources = spec["resources"]
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    if limits or requests:
        for name, amount in _total(spec, "limits").items():
            if name.startswith(_HUGE_PAGES_PREFIX) and name not in requests:
                limits.setdefault(name, amount)
    if limits:
        for name, amount in _total(spec, "requests").items():
            if name in _COMPUTE_RESOURCES:
                requests.setdefault(name, amount)
        for name, amount in limits.items():
            if name in _COMPUTE_RESOURCES or name.startswith(_HUGE_PAGES_PREFIX):
                requests.setdefault(name, amount)
    for part, amounts in (("limits", limits), ("requests", requests)):
        if amounts:
            resources[part] = amounts


def _total(spec: Object, part: str) -> dict[str, str]:
    """Returns the sum of the containers' limits or requests, by the rules for requests.

    Only the fields for it are read; validation reports errors in the others later.
    """
    reduced_spec: Object = {}
    for name in ("containers", "initContainers"):
        reduced_spec[name] = [
            {
                "resources": {"requests": container["resources"].get(part) or {}},
                "restartPolicy": container.get("restartPolicy"),
            }
            for container in spec.get(name) or ()
        ]
    totals = pod_requests(convert({"spec": reduced_spec}, Pod))
    return {name: str(amount) for name, amount in totals.items()}


def _service(obj: Object) -> None:
    spec = obj["spec"]
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        timeout = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        timeout.setdefault("timeoutSeconds", 10800)
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports", ()):
        if port["targetPort"] in (0, ""):
            port["targetPort"] = port["port"]
    has_addresses = kind == "ClusterIP" and bool(spec.get("externalIPs"))
    if kind in ("NodePort", "LoadBalancer") or has_addresses:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for address in obj.get("status", {}).get("loadBalancer", {}).get("ingress") or ():
            if address.get("ip"):
                address.setdefault("ipMode", "VIP")


def _namespace(obj: Object) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _node_status(obj: Object) -> None:
    if "allocatable" not in obj and "capacity" in obj:
        obj["allocatable"] = dict(obj["capacity"])


def _replication_controller(obj: Object) -> None:
    spec = obj["spec"]
    labels = spec.get("template", {}).get("metadata", {}).get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        obj["metadata"].setdefault("labels", dict(labels))
    spec.setdefault("replicas", 1)


def _rolling_update(strategy: Object, **values: Any) -> None:
    """Makes "RollingUpdate" the default of a strategy, and sets the constants of its parameters."""
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        _constant(**values)(strategy.setdefault("rollingUpdate", {}))


def _deployment(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    _rolling_update(spec["strategy"], maxUnavailable="25%", maxSurge="25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _daemon_set(obj: Object) -> None:
    spec = obj["spec"]
    # A field of earlier API versions, which upstream stores as an annotation.
    obj["metadata"].setdefault("annotations", {}).setdefault(TEMPLATE_GENERATION, "0")
    _rolling_update(spec["updateStrategy"], maxUnavailable=1, maxSurge=0)
    spec.setdefault("revisionHistoryLimit", 10)


def _stateful_set(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec["updateStrategy"]
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)


def _job(obj: Object) -> None:
    spec = obj["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        # As upstream the same map: it gets the labels that are generated for the template.
        obj["metadata"].setdefault("labels", labels)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    policy = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", policy)
    spec.setdefault("manualSelector", False)


def _condition_pattern(obj: Object) -> None:
    if not obj.get("status"):  # the field is always encoded
        obj["status"] = "True"


def _csi_driver(obj: Object) -> None:
    _csi_driver_constants(obj)
    obj["spec"].setdefault("volumeLifecycleModes", ["Persistent"])


_csi_driver_constants = _in(
    "spec",
    attachRequired=True,
    podInfoOnMount=False,
    storageCapacity=False,
    fsGroupPolicy="ReadWriteOnceWithFSType",
    requiresRepublish=False,
    seLinuxMount=False,
)


def _device_request(obj: Object) -> None:
    if obj.setdefault("allocationMode", "ExactCount") == "ExactCount":
        obj.setdefault("count", 1)


_in_volume_spec = _in("spec", persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")


def _persistent_volume(obj: Object) -> None:
    obj["status"].setdefault("phase", "Pending")
    _in_volume_spec(obj)


def _pod_spec(obj: Object) -> None:
    # One field with two names; the deprecated one is still set.
    account = obj.get("serviceAccountName") or obj.get("serviceAccount")
    if account:
        obj["serviceAccountName"] = obj["serviceAccount"] = account
    if "dnsPolicy" not in obj:
        obj["dnsPolicy"] = "ClusterFirst"
    if "restartPolicy" not in obj:
        obj["restartPolicy"] = "Always"
    if "securityContext" not in obj:
        obj["securityContext"] = {}
    if "terminationGracePeriodSeconds" not in obj:
        obj["terminationGracePeriodSeconds"] = 30
    if "schedulerName" not in obj:
        obj["schedulerName"] = DEFAULT_SCHEDULER_NAME


def _pod_status(obj: Object) -> None:
    # One address with two names; if both are given and differ, the older one counts.
    address, addresses = obj.get("podIP"), obj.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        obj["podIPs"] = [{"ip": address}]
    elif addresses:
        obj["podIP"] = addresses[0].get("ip", "")


def _role_binding(obj: Object) -> None:
    obj["roleRef"]["apiGroup"] = obj["roleRef"].get("apiGroup") or _RBAC_GROUP


def _autoscaler(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if "behavior" in spec:
        behavior = spec["behavior"]
        up = {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [_scaling_policy("Pods", 4), _scaling_policy("Percent", 100)],
        }
        down = {"selectPolicy": "Max", "policies": [_scaling_policy("Percent", 100)]}
        for name, defaults in (("scaleUp", up), ("scaleDown", down)):
            behavior[name] = {**defaults, **behavior.get(name, {})}


def _scaling_policy(kind: str, value: int) -> Object:
    return {"type": kind, "value": value, "periodSeconds": 15}


def _limit_range_item(obj: Object) -> None:
    if obj.get("type") != "Container":
        return
    default = {**obj.get("max", {}), **obj.get("default", {})}
    request = {**obj.get("min", {}), **default, **obj.get("defaultRequest", {})}
    if default:
        obj["default"] = default
    if request:
        obj["defaultRequest"] = request


def _network_policy(obj: Object) -> None:
    spec = obj["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _ingress_class(obj: Object) -> None:
    parameters = obj["spec"].get("parameters")
    if parameters is not None and parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


def _token_request(obj: Object) -> None:
    if obj.get("expirationSeconds") is None:
        obj["expirationSeconds"] = _TOKEN_S


def _subject(obj: Object) -> None:
    if obj.get("kind") in ("User", "Group") and not obj.get("apiGroup"):
        obj["apiGroup"] = _RBAC_GROUP


def _node_spec(obj: Object) -> None:
    """Makes the range of older clients the first one; if they differ, it counts."""
    first, ranges = obj.get("podCIDR"), obj.get("podCIDRs")
    if first and (not ranges or ranges[0] != first):
        obj["podCIDRs"] = [first]
    elif ranges:
        obj["podCIDR"] = ranges[0]


def _secret(obj: Object) -> None:
    if "type" not in obj:
        obj["type"] = "Opaque"
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {name: b64encode(text.encode()).decode() for name, text in plain.items()}
        obj["data"] = {**obj.get("data", {}), **encoded}


_file_mode = _constant(defaultMode=_VOLUME_MODE)
_tcp = _constant(protocol="TCP")
_ceph = _constant(pool="rbd", user="admin", keyring="/etc/ceph/keyring")
_scale_io = _constant(storageMode="ThinProvisioned", fsType="xfs")


def _definition_spec(spec: Object) -> None:
    names = spec["names"]
    if not names.get("singular") and names["kind"]:
        names["singular"] = names["kind"].lower()
    if not names.get("listKind") and names["kind"]:
        names["listKind"] = f"{names['kind']}List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    webhook = spec["conversion"].get("webhook") or {}
    service = (webhook.get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def _selectors(obj: Object) -> None:
    obj.setdefault("namespaceSelector", {})
    obj.setdefault("objectSelector", {})
    obj.setdefault("matchPolicy", "Equivalent")


def _webhook(obj: Object) -> None:
    _selectors(obj)
    _webhook_constants(obj)


def _mutating_webhook(obj: Object) -> None:
    _webhook(obj)
    obj.setdefault("reinvocationPolicy", "Never")


_webhook_constants = _constant(failurePolicy="Fail", timeoutSeconds=10)
_all_scopes = _constant(scope="*")

#: Type -> the function that sets its defaults.
DEFAULTS: Mapping[str, Default] = MappingProxyType(
    {
        "admissionregistration.MatchResources": _selectors,
        "admissionregistration.MutatingAdmissionPolicySpec": _constant(failurePolicy="Fail"),
        "admissionregistration.MutatingWebhook": _mutating_webhook,
        "admissionregistration.NamedRuleWithOperations": _all_scopes,
        "admissionregistration.RuleWithOperations": _all_scopes,
        "admissionregistration.ServiceReference": _constant(port=443),
        "admissionregistration.ValidatingAdmissionPolicySpec": _constant(failurePolicy="Fail"),
        "admissionregistration.ValidatingWebhook": _webhook,
        "apiextensions.CustomResourceDefinitionSpec": _definition_spec,
        "apps.DaemonSet": _daemon_set,
        "apps.Deployment": _deployment,
        "apps.ReplicaSet": _in("spec", replicas=1),
        "apps.StatefulSet": _stateful_set,
        "authentication.TokenRequestSpec": _token_request,
        "autoscaling.HorizontalPodAutoscaler": _autoscaler,
        "batch.CronJob": _in(
            "spec",
            concurrencyPolicy="Allow",
            suspend=False,
            successfulJobsHistoryLimit=3,
            failedJobsHistoryLimit=1,
        ),
        "batch.Job": _job,
        "batch.PodFailurePolicyOnPodConditionsPattern": _condition_pattern,
        "core.ConfigMapVolumeSource": _file_mode,
        "core.Container": _container,
        "core.ContainerPort": _tcp,
        "core.DownwardAPIVolumeSource": _file_mode,
        "core.EndpointPort": _tcp,
        "core.EphemeralContainer": _container,
        "core.GRPCAction": _constant(service=""),
        "core.HTTPGetAction": _constant(path="/", scheme="HTTP"),
        "core.HostPathVolumeSource": _constant(type=""),
        "core.AzureDiskVolumeSource": _constant(
            cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared"
        ),
        "core.ISCSIPersistentVolumeSource": _constant(iscsiInterface="default"),
        "core.ISCSIVolumeSource": _constant(iscsiInterface="default"),
        "core.LimitRangeItem": _limit_range_item,
        "core.Namespace": _namespace,
        "core.NamespaceStatus": _constant(phase="Active"),
        "core.NodeStatus": _node_status,
        "core.ObjectFieldSelector": _constant(apiVersion="v1"),
        "core.PersistentVolume": _persistent_volume,
        "core.PersistentVolumeClaim": _in("status", phase="Pending"),
        "core.PersistentVolumeClaimSpec": _constant(volumeMode="Filesystem"),
        "core.Pod": _pod,
        "core.PodSpec": _pod_spec,
        "core.PodStatus": _pod_status,
        "core.Probe": _constant(
            timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3
        ),
        "core.ProjectedVolumeSource": _file_mode,
        "core.RBDPersistentVolumeSource": _ceph,
        "core.RBDVolumeSource": _ceph,
        "core.ReplicationController": _replication_controller,
        "core.ScaleIOPersistentVolumeSource": _scale_io,
        "core.ScaleIOVolumeSource": _scale_io,
        "core.NodeSpec": _node_spec,
        "core.Secret": _secret,
        "core.SecretVolumeSource": _file_mode,
        "core.Service": _service,
        "core.ServiceAccountTokenProjection": _constant(expirationSeconds=3600),
        "core.ServicePort": _tcp,
        "core.Volume": _volume,
        "discovery.EndpointPort": _constant(name="", protocol="TCP"),
        "networking.IngressClass": _ingress_class,
        "networking.NetworkPolicy": _network_policy,
        "networking.NetworkPolicyPort": _tcp,
        "rbac.ClusterRoleBinding": _role_binding,
        "rbac.RoleBinding": _role_binding,
        "rbac.Subject": _subject,
        "resource.DeviceSubRequest": _device_request,
        "resource.DeviceToleration": _constant(operator="Equal"),
        "resource.ExactDeviceRequest": _device_request,
        "scheduling.PriorityClass": _constant(preemptionPolicy="PreemptLowerPriority"),
        "storage.CSIDriver": _csi_driver,
        "storage.StorageClass": _constant(reclaimPolicy="Delete", volumeBindingMode="Immediate"),
    }
)

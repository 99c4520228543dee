"""Random scenarios with every kind of arrival, workload, trace, node and disruption."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec

from tests.helpers.random_scenarios import CLASSES, budget
from tests.helpers.scenario_files import Spec, deployment, job, nodes, pod, write

ZONES = ("a", "b", "c")
TAINT = {"key": "team", "value": "ml", "effect": "NoSchedule"}
TOLERATION = {"key": "team", "operator": "Exists"}
EXPANDERS = ("random", "most-pods", "least-waste", "least-nodes", "price", "priority")


def write_rich(folder: Path, rng: random.Random) -> tuple[Path, Spec]:
    """Writes a scenario and the files that it names; returns its file and spec."""
    objects = [*CLASSES, *cluster_objects(rng)]
    (folder / "cluster.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), encoding="utf-8"
    )
    write_traces(folder)
    spec = rich_spec(rng)
    return write(folder, spec), spec


def cluster_objects(rng: random.Random) -> list[Spec]:
    """Returns nodes with pods of their own, in racks."""
    objects: list[Spec] = []
    for number in range(rng.randint(0, 3)):
        name = f"old-{number}"
        labels = {"rack": rng.choice(ZONES), "kubernetes.io/hostname": name}
        own = {"cpu": "3500m", "memory": "7Gi", "pods": rng.choice(["3", "110"])}
        spec: Spec = {"taints": [TAINT]} if rng.random() < 0.3 else {}
        objects.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "spec": spec,
                "status": {"allocatable": own},
            }
        )
        if rng.random() < 0.5:
            bound = pod(rng.choice(["500m", "1"]), nodeName=name)
            objects.append({**bound, "metadata": {"name": f"bound-{number}"}})
    if rng.random() < 0.5:
        objects.append({**pod("700m"), "metadata": {"name": "waits"}})
    return objects


def rich_spec(rng: random.Random) -> Spec:
    """Returns a scenario with some of everything."""
    group_count = rng.choice([0, 0, 1, 2, 3])
    spec: Spec = {
        "seed": rng.randint(0, 999),
        "end": {"at": rng.choice(["60m", "2h", "4500s"])},
        "cluster": {
            "files": ["cluster.json"],
            "nodes": [labelled(rng, entry) for entry in own_nodes(rng)],
            "groups": [group(rng, number) for number in range(group_count)],
        },
        "pods": {
            "start": rng.choice(["0s", "3s", "20s"]),
            "duration": {"lognormal": {"median": "5m", "p99": "40m"}},
            "failure": rng.choice([0.0, 0.1]),
        },
        "autoscaler": {
            "expander": rng.sample(EXPANDERS, rng.randint(1, 3)),
            "scaleDownUnneededTime": "3m",
            "scaleDownDelayAfterAdd": "2m",
        },
        "workload": [rich_item(rng, number) for number in range(rng.randint(4, 10))],
    }
    if rng.random() < 0.3:
        openb = {"name": "openb", "trace": "openb:default", "limit": 20, "stretch": 0.001}
        spec["workload"].append(openb)
    if rng.random() < 0.5:
        spec["failures"] = [
            {"mtbf": "2h", "mttr": rng.choice(["30s", "10m"]), "matchLabels": {"rack": "a"}},
            {
                "mtbf": {"weibull": {"shape": 0.7, "scale": "3h"}},
                "mttr": {"uniform": {"min": "20s", "max": "12m"}},
                "together": "rack",
            },
        ][: rng.randint(1, 2)]
    if rng.random() < 0.4:
        spec["scheduler"] = rng.choice([{"attemptTime": "1500ms"}, {"podsPerSecond": 0.7}])
    return spec


def own_nodes(rng: random.Random) -> list[Spec]:
    """Returns entries of nodes, some with devices, taints and prices."""
    entries = [nodes(rng.randint(1, 4), cpu="4"), nodes(rng.randint(0, 2), "gpu-", cpu="8")]
    entries[1]["template"]["status"]["allocatable"]["nvidia.com/gpu"] = "4"
    for entry in entries:
        if rng.random() < 0.6:
            entry["price"] = rng.choice([0.25, 1.5])
        if rng.random() < 0.2:
            entry["template"]["spec"] = {"taints": [TAINT]}
    return entries


def labelled(rng: random.Random, entry: Spec) -> Spec:
    entry["template"]["metadata"] = {"labels": {"rack": rng.choice(ZONES)}}
    return entry


def group(rng: random.Random, number: int) -> Spec:
    """Returns a group of the autoscaler."""
    [template] = [nodes(1, cpu=rng.choice(["2", "4", "16"]))["template"]]
    if rng.random() < 0.3:
        template["status"]["allocatable"]["nvidia.com/gpu"] = "2"
    return {
        "name": f"g{number}",
        "min": rng.randint(0, 1),
        "max": rng.randint(1, 4),
        "price": rng.choice([0.0, 1.0, 2.5]),
        "priority": rng.randint(0, 2),
        "provision": rng.choice(["30s", {"lognormal": {"median": "90s", "p99": "20m"}}]),
        "template": template,
    }


def rich_pod(rng: random.Random) -> Spec:
    """Returns a pod with some of priority, grace, devices, tolerations and init containers."""
    made = pod(rng.choice(["250m", "1", "1500m", "3"]))
    spec = made["spec"]
    if rng.random() < 0.5:
        spec["priorityClassName"] = rng.choice(["low", "high"])
    if rng.random() < 0.4:
        spec["terminationGracePeriodSeconds"] = rng.choice([0, 7, 90])
    resources = spec["containers"][0]["resources"]
    if rng.random() < 0.3:
        resources["limits"] = {"nvidia.com/gpu": str(rng.randint(1, 2))}
    if rng.random() < 0.3:
        resources["requests"]["memory"] = rng.choice(["512Mi", "3Gi"])
    if rng.random() < 0.3:
        spec["tolerations"] = [TOLERATION]
    if rng.random() < 0.3:
        init = {"name": "init", "image": "x", "resources": {"requests": {"cpu": "2"}}}
        if rng.random() < 0.5:
            init["restartPolicy"] = "Always"
            init["resources"] = {"requests": {"cpu": "100m"}}
        spec["initContainers"] = [init]
    if rng.random() < 0.2:
        spec["schedulingGates"] = [{"name": "example.com/wait"}]
    if rng.random() < 0.2:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "rack",
                "whenUnsatisfiable": rng.choice(["DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": {"matchLabels": {"app": "x"}},
            }
        ]
    return made


def rich_arrival(rng: random.Random) -> Spec:
    """Returns an arrival process."""
    until = rng.choice(["40m", "1h"])
    return rng.choice(
        [
            {"poisson": {"rate": rng.choice(["20/h", "1/min"]), "until": until}},
            {"interval": {"every": "4m", "from": "30s", "until": until}},
            {"uniform": {"count": rng.randint(3, 30), "until": until}},
            {"bursts": {"size": rng.randint(2, 8), "every": "15m", "until": until}},
            {"hourly": {"rates": ["10/h", "1/min"] * 12, "until": until}},
            {"at": ["0s", "10m", "10m", "1500500ms"]},
        ]
    )


def rich_item(rng: random.Random, number: int) -> Spec:
    """Returns an item of the workload."""
    name, at = f"item-{number}", f"{rng.randint(0, 55)}m"
    which = rng.randint(0, 11)
    cpu = rng.choice(["250m", "1", "2"])
    if which <= 2:
        return {"name": name, "arrive": rich_arrival(rng), "object": rich_pod(rng)}
    if which == 3:
        own = job(name, cpu, parallelism=2, completions=rng.randint(1, 4))
        own["spec"] |= rng.choice(
            [{}, {"completionMode": "Indexed"}, {"ttlSecondsAfterFinished": 30}]
        )
        own["spec"] |= rng.choice([{}, {"backoffLimit": 0}, {"activeDeadlineSeconds": 400}])
        item: Spec = {"name": name, "arrive": rich_arrival(rng), "object": own}
        if rng.random() < 0.4:
            item["failure"] = 0.5
        return item
    if which == 4:
        trace = rng.choice(TRACES)
        return {"name": name, "trace": trace, "copies": rng.randint(1, 3), "stretch": 0.7}
    if which <= 8:
        return {"name": name, "at": at, "create": controller(rng, number, cpu)}
    return {"name": name, "at": at, **disruption(rng, number)}


def controller(rng: random.Random, number: int, cpu: str) -> Any:
    """Returns a workload, with a budget or without."""
    name = f"web-{number}"
    made = deployment(name, rng.randint(1, 5), cpu)
    kind = rng.choice(["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "CronJob"])
    if kind == "CronJob":
        template = {"spec": job(name, cpu)["spec"]}
        spec: Spec = {"schedule": "*/7 * * * *", "jobTemplate": template}
        spec["concurrencyPolicy"] = rng.choice(["Allow", "Forbid", "Replace"])
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    made["kind"] = kind
    if kind == "StatefulSet":
        made["spec"]["serviceName"] = name
        made["spec"]["podManagementPolicy"] = rng.choice(["Parallel", "OrderedReady"])
    if kind == "DaemonSet":
        del made["spec"]["replicas"]
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = rng.choice([0, 30])
    return [budget(name), made] if rng.random() < 0.5 else made


def disruption(rng: random.Random, number: int) -> Spec:
    """Returns what happens to a node, a workload or pods."""
    own = rng.choice(["node-0", "node-1", "gpu-0", "old-0", "g0-0"])
    return rng.choice(
        [
            {"drain": {"node": own}},
            {"drain": {"matchLabels": {"rack": rng.choice(ZONES)}}},
            {"cordon": {"node": own}},
            {"uncordon": {"node": own}},
            {"fail": {"node": own, "duration": rng.choice(["20s", "3m", "15m"])}},
            {"fail": {"matchLabels": {"rack": rng.choice(ZONES)}}},
            {"delete": {"kind": "Node", "name": own}},
            {"delete": {"kind": "Deployment", "name": f"web-{number - 1}"}},
            {"delete": {"matchLabels": {"app": f"web-{number - 1}"}}},
            {"scale": {"name": f"web-{number - 1}", "replicas": rng.randint(0, 6)}},
            {"create": deployment(f"web-{number - 1}", rng.randint(0, 3), "1")},
        ]
    )


TRACES = ("jobs.swf", "batsim.json", "simkube.bin", "pods.csv")


def write_traces(folder: Path) -> None:
    """Writes a small trace of each format."""
    lines = ["; a small trace"] + [
        f"{n} {60 * n} -1 {100 + 7 * n} {1 + n % 3} -1 -1 -1 -1 -1 1 1 -1 -1 1 1 -1 -1"
        for n in range(1, 12)
    ]
    (folder / "jobs.swf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    batsim = {
        "nb_res": 4,
        "jobs": [
            {"id": n, "subtime": 45.5 * n, "res": 1 + n % 2, "profile": "p"} for n in range(9)
        ],
        "profiles": {"p": {"type": "delay", "delay": 200}},
    }
    (folder / "batsim.json").write_text(json.dumps(batsim), encoding="utf-8")
    web = deployment("web", 3, "500m")
    web["metadata"]["namespace"] = "shop"
    simkube = {
        "version": 2,
        "config": {"trackedObjects": {}},
        "events": [
            {"ts": 1000, "applied_objs": [web], "deleted_objs": []},
            {"ts": 1900, "applied_objs": [], "deleted_objs": [web]},
        ],
        "index": {},
        "pod_lifecycles": {},
    }
    simkube["events"][1]["deleted_objs"] = []  # type: ignore[index]
    (folder / "simkube.bin").write_bytes(msgspec.msgpack.encode(simkube))
    table = ["submit_s,duration_s,cpu_milli,memory_bytes,group"]
    table += [f"{37 * n},{90 + n},{200 + 50 * n},1073741824,team" for n in range(12)]
    (folder / "pods.csv").write_text("\n".join(table) + "\n", encoding="utf-8")

"""Compares mooring with kube-scheduler by Kubernetes' own end-to-end specs.

A spec counts if it passes with kube-scheduler on the same cluster: others need containers that
really run. The suite ``api`` tests the API server of ``mooring start`` alone. The specs are those
of Kubernetes v1.36.3; Go is needed to build them.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench.e2e.build import build
from bench.e2e.run import SCHEDULERS, Outcome, Suite, run, run_embedded

DEFAULTS_ONLY: Final = "!Feature:OffByDefault"

#: Specs of the kubelet and of its connection to a driver.
NEEDS_KUBELET: Final = (
    "NodePrepareResources|(rolling|failed|sequential) update|force-delete|health"
    "|must manage ResourceSlices|must not run a pod if a claim is not ready"
)

#: Specs of what the embedded API server does not have: docs/reference/apiserver.md.
NOT_SERVED: Final = "|".join(
    (
        "[Ww]ebhook|AdmissionPolicy|[Aa]ggregat",  # nothing is called
        "etcd",  # there is none
        "StorageVersion|priority and fairness|metadata ?(informer|client)",  # lists in protobuf
        'accept "application/vnd.kubernetes.protobuf"|within each APIGroup',  # APIServices
        "health handlers|sample-apiserver",  # checks of parts that it does not have
        "CustomResourceFieldSelectors",  # they need the webhook of a pod
        "pvc with different volume attributes",  # nothing changes the class of a volume
        "cost limit|property that do not exist",  # rules in CEL are not typed
        "Slow|Disruptive|same resource name as built-in",  # minutes; nodes; marked as flaky
    )
)

#: Specs whose containers have to run what is in their images, or more than simple programs.
NEEDS_PROGRAMS: Final = "|".join(
    (
        "basic image|load-balancer|proportional scaling|clustered applications|DaemonRestart",
        "InClusterConfig|mount|OIDC discovery|ownership and permission|main port 10250|kubelet can",
        "Port forwarding|port-forward|Guestbook|Update Demo|copy|exec|logs|attach|in-cluster",
        "last line of the log|AdmissionPolicy|client with a CSR",
        r"StatefulSetBasic\] (Burst|Scaling|should (perform|implement|provide basic|not deadlock))",
        "recreate evicted|sometimes fail|some failing|FailIndex|failed indexes exceeds",
        "ignore failure|remain pending|Kubectl run|services for rc|workload the node has access",
        # An image that cannot be pulled, and scripts with a condition or a random number.
        "rollback without unnecessary restarts|container restart policy should not trigger",
        "exit code to fail the job early|deleted once it finishes after TTL",
    )
)

SUITES: Final = {
    "scheduling": Suite(r"\[sig-scheduling\]", labels=DEFAULTS_ONLY),
    "dra": Suite(r"\[sig-node\] \[DRA\]", labels=DEFAULTS_ONLY, skip=NEEDS_KUBELET),
    "gates": Suite(
        r"\[sig-scheduling\]|\[sig-node\] \[DRA\]",
        labels="Feature:OffByDefault",
        skip=NEEDS_KUBELET,
        gates=(
            "GenericWorkload=true",
            "GangScheduling=true",
            "DRAWorkloadResourceClaims=true",
            "DRADeviceTaintRules=true",
            "DRAResourcePoolStatus=true",
        ),
        apis="api/all=true",
    ),
    "apps": Suite(r"\[sig-apps\]", labels=DEFAULTS_ONLY, skip=NEEDS_PROGRAMS, is_embedded=True),
    "auth": Suite(r"\[sig-auth\]", labels=DEFAULTS_ONLY, skip=NEEDS_PROGRAMS, is_embedded=True),
    "cli": Suite(r"\[sig-cli\]", labels=DEFAULTS_ONLY, skip=NEEDS_PROGRAMS, is_embedded=True),
    "api": Suite(r"\[sig-api-machinery\]", labels=DEFAULTS_ONLY, skip=NOT_SERVED, is_embedded=True),
}


def main() -> None:
    """Runs the suites and prints a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.e2e", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"{', '.join(SUITES)}; or all")
    parser.add_argument("--focus", help="only specs that match this regular expression")
    parser.add_argument("--scheduler", action="append", choices=SCHEDULERS, help="default: both")
    parser.add_argument("--nodes", type=int, default=4, help="number of nodes")
    parser.add_argument("--folder", type=Path, help="for logs; must be empty or missing")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.suites if name not in SUITES]:
        parser.error(f"no suite {unknown[0]!r}; there are {', '.join(SUITES)}")
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="mooring-e2e-"))
    # Ends the programs of a run as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"logs: {folder}")
    program = build()
    schedulers = arguments.scheduler or SCHEDULERS
    for name in arguments.suites or SUITES:
        suite = SUITES[name]
        if arguments.focus:
            suite = suite._replace(focus=f"(?:{suite.focus}).*(?:{arguments.focus})")
        results = {}
        if suite.is_embedded:
            place = folder / name
            place.mkdir(parents=True)
            results["mooring start"] = run_embedded(
                suite, program=program, folder=place, nodes=arguments.nodes
            )
        for scheduler in () if suite.is_embedded else schedulers:
            place = folder / name / scheduler
            place.mkdir(parents=True)
            results[scheduler] = run(
                suite, scheduler, program=program, folder=place, nodes=arguments.nodes
            )
        print_table(name, results)


def print_table(title: str, results: dict[str, dict[str, Outcome]]) -> None:
    """Prints a line for each spec, and what counts."""
    specs = list(dict.fromkeys(spec for found in results.values() for spec in found))
    missing = Outcome("missing")
    print(f"\n## {title}\n\n| Spec | {' | '.join(results)} |\n|---|{'---|' * len(results)}")
    for spec in specs:
        states = " | ".join(found.get(spec, missing).state for found in results.values())
        print(f"| {spec} | {states} |")
    for scheduler, found in results.items():
        passed = sum(outcome.state == "passed" for outcome in found.values())
        print(f"\n{scheduler}: {passed} of {len(specs)} passed")


if __name__ == "__main__":
    main()

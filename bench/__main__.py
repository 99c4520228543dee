"""``python -m bench [NAME] [options]``: one benchmark, or all of ``BENCHMARKS``."""

from __future__ import annotations

import importlib
import sys

BENCHMARKS = (
    "ladder", "metrics_cost", "poison", "against_peer", "queue", "client", "apiserver",
    "side_by_side", "extenders", "audit_pause", "large_requests", "loop_holds",
)  # fmt: skip

#: Run only if named, because they take long.
LONG = (
    "soak", "load", "kills", "fuzz", "server_fuzz", "scenarios", "page", "python_versions",
    "mutants",
)  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run the benchmark that is named first, or each of them; 1 if a bar is missed."""
    named, options = (arguments[:1], arguments[1:]) if arguments else ([], [])
    if named and named[0] not in BENCHMARKS + LONG:
        named, options = ["ladder"], arguments
    results = []
    for name in named or BENCHMARKS:
        print(f"== {name}", flush=True)
        results.append(int(importlib.import_module(f"bench.{name}").main(options)))
    return max(results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

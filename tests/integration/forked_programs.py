"""``mooring`` many times, each in a process of its own that has imported it already.

Importing takes longer than most command lines do. So a parent imports once, and forks for each of
them: it has one thread, and runs nothing but the fork.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_PARENT: Final = """
import json, os, signal, sys
import mooring.cli.run, mooring.cli.scheduler_app
from mooring.cli import main
for line in sys.stdin:
    words, folder, out, err = json.loads(line)
    child = os.fork()
    if not child:
        signal.alarm(60)  # it has hung
        os.chdir(folder)
        for name, descriptor in ((os.devnull, 0), (out, 1), (err, 2)):
            file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(file, descriptor)
        sys.argv = ["mooring", *words]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Forked:
    """Runs command lines of ``mooring``.

    Args:
        parent: The process that forks.
        folder: For their output.
    """

    def __init__(self, parent: subprocess.Popen[str], folder: Path) -> None:
        self._parent = parent
        self._out, self._err = folder / "forked-out", folder / "forked-err"

    def run(self, folder: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Runs ``mooring WORDS`` in a folder, and returns how it ended."""
        request: Any = [list(words), str(folder), str(self._out), str(self._err)]
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(request) + "\n")
        self._parent.stdin.flush()
        code = int(self._parent.stdout.readline())
        texts = self._out.read_text(), self._err.read_text()
        return subprocess.CompletedProcess(request[0], code, *texts)


@contextmanager
def forked(folder: Path, environment: Mapping[str, str]) -> Iterator[Forked]:
    """Gives what runs command lines with these variables; it ends with the block."""
    # The library of numpy would start threads, which a fork does not have.
    variables = {**environment, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        try:
            yield Forked(parent, folder)
        finally:
            parent.kill()

"""Installs this checkout into the virtual environment of the Python that runs this file.

The result is what ``pip install --editable .`` leaves: the command ``mooring``, the entry points of
its plugins, and a path file that names ``src``. It takes a tenth of a second and needs no build
backend, so ``make start`` installs nothing but the runtime requirements. ``pip uninstall mooring``
undoes it.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import sysconfig
import tomllib
from importlib.metadata import distributions
from os.path import normpath
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]

#: Runs through sh, because the kernel limits the length of the interpreter's path and splits it at
#: spaces.
SCRIPT: Final = """\
#!/bin/sh
'''exec' {python} "$0" "$@"
' '''
import sys

from {module} import {function}

sys.exit({function}())
"""


def install(root: Path, *, packages: Path, scripts: Path, python: str) -> None:
    """Installs the project in ``root``, in place of an earlier installation.

    Args:
        root: Has ``pyproject.toml`` and ``src``.
        packages: The site-packages folder.
        scripts: The folder of commands.
        python: The interpreter that runs them.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    uninstall(project["name"], packages)
    files = {packages / f"_{project['name']}_checkout.pth": f"{root / 'src'}\n"}
    for name, target in project["scripts"].items():
        module, _, function = target.partition(":")
        files[scripts / name] = SCRIPT.format(
            python=shlex.quote(python), module=module, function=function
        )
    version = version_of(root / "src" / project["name"] / "__init__.py")
    about = packages / f"{project['name']}-{version}.dist-info"
    files[about / "METADATA"] = metadata(project, version)
    files[about / "INSTALLER"] = "checkout\n"
    files[about / "entry_points.txt"] = entry_points(project)
    files[about / "direct_url.json"] = json.dumps(
        {"dir_info": {"editable": True}, "url": root.as_uri()}
    )
    record = about / "RECORD"
    files[record] = "".join(f"{relative(file, packages)},,\n" for file in [*files, record])
    about.mkdir()
    for file, text in files.items():
        file.write_text(text)
    for name in project["scripts"]:
        (scripts / name).chmod(0o755)


def uninstall(name: str, packages: Path) -> None:
    """Removes all files of an installed distribution, and the folders that are empty then."""
    for distribution in distributions(name=name, path=[str(packages)]):
        files = [Path(normpath(str(file.locate()))) for file in distribution.files or ()]
        for file in files:
            file.unlink(missing_ok=True)
        inside = {parent for file in files for parent in file.parents if packages in parent.parents}
        for folder in sorted(inside, key=lambda folder: len(folder.parts), reverse=True):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def version_of(module: Path) -> str:
    """Returns the version that a module declares."""
    match = re.search(r'^__version__ = "(.+)"$', module.read_text(), re.MULTILINE)
    assert match is not None, f"no __version__ in {module}"
    return match[1]


def metadata(project: dict[str, Any], version: str) -> str:
    """Returns the core metadata that ``pip check`` and ``pip list`` read."""
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}"]
    lines.append(f"Requires-Python: {project['requires-python']}")
    lines += [f"Requires-Dist: {requirement}" for requirement in project["dependencies"]]
    return "\n".join(lines) + "\n"


def entry_points(project: dict[str, Any]) -> str:
    """Returns the commands and the entry points in the format of ``entry_points.txt``."""
    groups = {"console_scripts": project["scripts"], **project.get("entry-points", {})}
    lines = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items()), ""]
    return "\n".join(lines)


def relative(file: Path, folder: Path) -> str:
    """Returns the path of ``file`` as seen from ``folder``, with ``..`` where needed."""
    shared = next(parent for parent in [folder, *folder.parents] if parent in file.parents)
    up = len(folder.parts) - len(shared.parts)
    return "/".join([".."] * up + list(file.relative_to(shared).parts))


if __name__ == "__main__":
    if sys.prefix == sys.base_prefix:
        sys.exit("install_checkout: run this with the Python of a virtual environment")
    paths = sysconfig.get_paths()
    install(
        ROOT,
        packages=Path(paths["purelib"]),
        scripts=Path(paths["scripts"]),
        python=sys.executable,
    )

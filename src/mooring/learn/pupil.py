"""The learner's own files: copies of steps, a changed step as a module, and its mistakes."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from mooring.errors import ConfigError, InvariantViolation, PluginError, SchedulerError
from mooring.files import replaced_file

#: The steps as they are installed.
STEPS_FOLDER: Final = Path(__file__).parent / "steps"

#: The name under which a learner's file is imported.
MODULE: Final = "mooring_learn_file"


def copy_steps(folder: Path, numbers: tuple[int, ...]) -> list[Path]:
    """Copies the files of some steps to a folder, which is created; returns the copies.

    Raises:
        ConfigError: a file exists already, or cannot be written.
    """
    copies = [folder / f"my_step_{number}.py" for number in numbers]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for copy in copies:
            if copy.exists():
                raise ConfigError("exists already; it is not overwritten", path=str(copy))
        for number, copy in zip(numbers, copies, strict=True):
            source = STEPS_FOLDER / f"step_{number}.py"
            with replaced_file(copy) as file:
                file.write(source.read_bytes())
    except OSError as error:
        raise ConfigError(error.strerror or str(error), path=str(folder)) from error
    return copies


def step_of(file: Path) -> int | None:
    """Returns the number at the end of a file's name; None = there is none.

    Example:
        >>> step_of(Path("my_step_3.py"))
        3
    """
    digit = file.stem[-1:]
    return int(digit) if digit.isdigit() else None


def load(file: Path) -> ModuleType:
    """Imports a learner's file.

    Raises:
        ConfigError: it cannot be read, or has no class Scheduler.
        Exception: what its code raises.
    """
    if not file.is_file():
        raise ConfigError("no such file", path=str(file))
    spec = importlib.util.spec_from_file_location(MODULE, file.resolve())
    if spec is None or spec.loader is None:
        raise ConfigError("must be a Python file: its name must end in .py", path=str(file))
    module = importlib.util.module_from_spec(spec)
    linecache.checkcache(str(file.resolve()))
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "Scheduler"):
        raise ConfigError("must have a class Scheduler", path=str(file))
    return module


def mistake_of(error: BaseException, file: Path | None) -> str | None:
    """Returns an error as the line of the learner's file that raised it; None = it did not.

    Args:
        error: The error.
        file: The learner's file; None = the installed steps.
    """
    if isinstance(error, SyntaxError) and file is not None and _is_in(error.filename, file):
        text = (error.text or "").strip()
        return f"{file}, line {error.lineno}: {type(error).__name__}: {error.msg}\n    {text}"
    # An unknown event is a mistake; what the API server and files raise is none.
    mistakes = PluginError if file is None else (PluginError, InvariantViolation)
    if isinstance(error, SchedulerError) and not isinstance(error, mistakes):
        return None
    cause: BaseException = error
    if isinstance(error, PluginError) and error.__cause__ is not None:
        cause = error.__cause__
    frames = traceback.extract_tb(cause.__traceback__)
    own = [frame for frame in frames if _is_in(frame.filename, file)]
    if not own:
        return None
    frame = own[-1]
    name = file if file is not None else Path(frame.filename).name
    message = f"{type(cause).__name__}: {cause}"
    return f"{name}, line {frame.lineno}, in {frame.name}: {message}\n    {frame.line}"


def _is_in(filename: Any, file: Path | None) -> bool:
    if not filename:
        return False
    path = Path(filename).resolve()
    return path.parent == STEPS_FOLDER.resolve() if file is None else path == file.resolve()

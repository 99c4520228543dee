"""Feeds a whole cluster file to the product: read, simulate, save a recording, replay, explain.

A file is accepted, or refused with an error that says where: file, and line or path. Whatever else
is raised is a failure, and so is an exception that a scheduling cycle turned into an outcome.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from pathlib import Path
from typing import Final

from mooring import Cluster
from mooring.cli.inputs import for_plugins
from mooring.errors import ConfigError, ConfigErrors
from mooring.explain.from_recording import explain_recording
from mooring.explain.offline import Source, explain_offline
from mooring.recordings.format import RecordingReader, RecordingWriter
from mooring.simulation.build import driver_of
from mooring.simulation.engine.recorder import StepRecorder
from mooring.simulation.generated_claims import with_controller_results
from mooring.simulation.inputs.missing_objects import missing_objects, notes_of
from mooring.simulation.replay import replay
from mooring.simulation.results import FAILED
from mooring.simulation.run import SimulationOptions, run_simulation
from mooring.simulation.simulate import node_order, recording_header
from mooring.simulation.workload import Workload, read_workload

#: Larger files are read, but not simulated: a Deployment may have 500 000 replicas.
PODS_MAX: Final = 40

#: How many pods of a file are explained.
EXPLAINED_MAX: Final = 3

#: An exception in the message of an outcome, except those about selectors and quantities, which
#: only files that are not validated can have: kube-scheduler has errors there too.
_RAISED: Final = re.compile(r"\b(?!Selector|Quantity)[A-Z]\w*(?:Error|Exception|Violation)\b:")

#: Errors that are about a whole file.
_ABOUT_FILES: Final = ("contains no objects", "is not text that YAML allows", "is not UTF-8 text")


def feed(data: bytes) -> None:
    """Reads a file with validation and without, and simulates what is accepted.

    Raises:
        AssertionError: an error does not say where, or an outcome is an exception.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.yaml"
        file.write_bytes(data)
        for skips in (False, True):
            try:
                workload = read_workload([str(file)], skip_validation=skips)
            except ConfigError as error:
                _check_place(error, str(file))
                continue
            if workload.expected_pods <= PODS_MAX:
                _simulate(file, workload, skips=skips)
                return


def _check_place(error: ConfigError, file: str) -> None:
    for own in error.errors if isinstance(error, ConfigErrors) else [error]:
        assert own.file == file, f"no file: {own}"
        has_place = own.line is not None or bool(own.path)
        assert has_place or own.problem.startswith(_ABOUT_FILES), f"no line and no path: {own}"


def _simulate(file: Path, read: Workload, *, skips: bool) -> None:
    workload = for_plugins(with_controller_results(read), None, (), command="fuzz")
    notes_of(missing_objects(workload))
    recording = file.with_name("recording.json")
    header = recording_header(
        workload, upstream="fuzz", seed=0, node_order=node_order(workload), config=None
    )
    with RecordingWriter(str(recording), header) as writer:
        options = SimulationOptions(with_scores=True, recorder=StepRecorder(writer))
        simulation = run_simulation(workload, options)
    for result in simulation.results:
        assert not (result.outcome == FAILED and _RAISED.search(result.message)), result.message
    with RecordingReader(str(recording)) as reader:
        driver = driver_of(reader.header, config=None, file=str(recording), gates={})
        steps = replay(reader, driver, objects=reader.header.objects, only=None, config=None)
        different = [str(item) for step in steps for item in step.differences]
    assert not different, f"the replay differs: {different[0]}"
    for pod in [own.pod for own in simulation.results if own.attempts][:EXPLAINED_MAX]:
        assert explain_recording(str(recording), pod)
    for pod_object in [*workload.pods, *workload.omitted][-EXPLAINED_MAX:]:
        assert explain_offline(pod_object, Source(workload, None), is_json=skips)
    _study(file, skips=skips)


def _study(file: Path, *, skips: bool) -> None:
    """Uses the Python API, as a notebook does."""
    cluster = Cluster.read(file, skip_validation=skips)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = cluster.simulate()
        assert repr(result)
        for table in (result.placements, result.refused, result.evicted, result.fill()):
            assert repr(table)
        for pod in [own for own in result if not own.node][:1]:
            assert str(pod.explain())
            cluster.what_would_help(pod.pod)

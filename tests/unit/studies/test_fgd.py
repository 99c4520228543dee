"""The policies of the fragmentation study, and one run of it beside the published ones."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from mooring.errors import ConfigError
from mooring.traces.openb import GPU_MODEL_LABEL, read_nodes
from studies.fgd import in_time
from studies.fgd.devices import DEVICES_MAX, Devices, GpuDevices
from studies.fgd.experiment import LAST, Result, inflated, run
from studies.fgd.fragmentation import Fragmentation
from studies.fgd.pods import Shape, Typical, make_pod, read_shapes, typical_of
from studies.fgd.policies import FGD, BestFit, Clustering, DotProd, Packing, Policy
from studies.fgd.published import read_published
from studies.fgd.report import FULL, cells_of, headline, table, verdict
from studies.fgd.store import Store

G2 = next(node for node in read_nodes() if node.metadata.labels.get(GPU_MODEL_LABEL) == "G2")
TYPICAL = typical_of(read_shapes("default"))
MODELS = ["A10", "G2", "G3", "P100", "T4", "V100M16", "V100M32"]
FRAGMENTATION = Fragmentation(TYPICAL, MODELS)


def lost(idle: list[int], cpu_free: int) -> float:
    """Returns F of one node."""
    columns = np.array([[*idle, *[0] * (DEVICES_MAX - len(idle))]])
    return float(FRAGMENTATION.of(columns, np.array([cpu_free]), np.array([1]))[0])


# -- typical pods and fragmentation ---------------------------------------------------------------


def test_the_most_frequent_pods_are_typical() -> None:
    assert len(TYPICAL.shares) == 35
    assert math.isclose(TYPICAL.shares.sum(), 1.0)
    first = zip(TYPICAL.cpu, TYPICAL.gpu_milli, TYPICAL.n_gpu, TYPICAL.shares.round(4), strict=True)
    assert [tuple(row) for row in first][:3] == [
        (3152, 810, 1, 0.1348),
        (11300, 1000, 1, 0.1125),
        (11400, 1000, 1, 0.0771),
    ]
    assert len(typical_of(read_shapes("gpuspec33")).shares) == 127


@pytest.mark.parametrize(
    ("idle", "cpu_free", "expected"),
    [
        ([1000] * 8, 96_000, 1087.819),
        ([1000] * 2, 104_000, 271.955),
        ([1000], 8_000, 605.202),
        ([1000, 540, 190, 0, 0, 0, 0, 0], 20_000, 775.622),
        ([1000, 1000, 1000, 0, 0, 0, 0, 0], 0, 3000.0),
        ([190, 1000, 1000, 1000, 530, 1000, 1000, 1000], 60_000, 1436.541),
    ],
)
def test_fragmentation_of_a_node(idle: list[int], cpu_free: int, expected: float) -> None:
    assert round(lost(idle, cpu_free), 3) == expected


def test_fragmentation_equals_its_definition() -> None:
    typical = typical_of(read_shapes("gpuspec25"))
    fragmentation = Fragmentation(typical, MODELS)
    rng = random.Random(3)
    for _ in range(300):
        k = rng.choice([1, 2, 4, 8])
        idle = [rng.choice([0, 50, 470, 540, 810, 999, 1000]) for _ in range(k)]
        cpu_free, model = rng.choice([0, 3000, 11_300, 64_000]), rng.randrange(len(MODELS))
        columns = np.array([[*idle, *[0] * (DEVICES_MAX - k)]])
        own = fragmentation.of(columns, np.array([cpu_free]), np.array([model]))[0]
        assert math.isclose(own, slowly(typical, idle, cpu_free, MODELS[model]), abs_tol=1e-6)


def slowly(typical: Typical, idle: list[int], cpu_free: int, model: str) -> float:
    """Returns F as the sum of its definition."""
    result = 0.0
    for share, cpu, milli, count, models in zip(*typical, strict=True):
        fitting = [device for device in idle if device >= milli]
        can_run = count > 0 and cpu <= cpu_free and len(fitting) >= count
        can_run = can_run and (not models or model in models.split("|"))
        result += share * (sum(idle) - (sum(fitting) if can_run else 0))
    return result


# -- policies -----------------------------------------------------------------------------------


def devices_with(*idle: list[int]) -> Devices:
    """Returns the devices of nodes with eight G2, or as many as given."""
    devices = Devices([G2] * len(idle))
    for row, amounts in enumerate(idle):
        devices.idle[row] = [*amounts, *[0] * (DEVICES_MAX - len(amounts))]
        devices.counts[row] = len(amounts)
    return devices


def score(policy: Policy, shape: Shape, cpu_free: int = 96_000) -> list[int]:
    rows = np.arange(len(policy.devices.counts))
    scores: list[int] = policy.evaluate(shape, rows, np.full(len(rows), cpu_free)).tolist()
    return scores


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (Shape(11_300, 1000, 1), 53),
        (Shape(3_152, 810, 1), 48),
        (Shape(64_200, 1000, 8), 74),
        (Shape(12_500, 0, 0), 50),
    ],
)
def test_gradient_descent_on_an_empty_node(shape: Shape, expected: int) -> None:
    policy = FGD(devices_with([1000] * 8), Fragmentation(TYPICAL, ["G2"]))
    assert score(policy, shape) == [expected]


@pytest.mark.parametrize(
    ("shape", "expected", "device"),
    [
        (Shape(11_908, 470, 1), 59, 4),
        (Shape(4_000, 160, 1), 53, 0),
        (Shape(11_300, 1000, 1), 53, 0),
    ],
)
def test_gradient_descent_selects_the_device(shape: Shape, expected: int, device: int) -> None:
    idle = [190, 1000, 1000, 1000, 530, 1000, 1000, 1000]
    policy = FGD(devices_with(idle), Fragmentation(TYPICAL, ["G2"]))
    states = np.array([[*idle, 60_000, 0]])
    scores = policy.device_scores(shape, states)[0]
    assert (int(scores.max()), int(scores.argmax())) == (expected, device)
    assert score(policy, shape, 60_000) == [expected]


@pytest.mark.parametrize(
    ("idle", "shape", "expected"),
    [
        ([200, 1000, 1000, 500], Shape(1, 1000, 2), 48),
        ([200, 1000, 1000, 500], Shape(1, 200, 2), 93),
        ([1000] * 4, Shape(1, 1000, 1), 29),
        ([1000] * 8, Shape(1, 1000, 1), 25),
        ([1000] * 8, Shape(1, 0, 0), 0),
    ],
)
def test_packing(idle: list[int], shape: Shape, expected: int) -> None:
    assert score(Packing(devices_with(idle)), shape) == [expected]


def test_clustering_prefers_the_own_class() -> None:
    devices = devices_with([1000] * 8, [500, *[1000] * 7], [0, 500, *[1000] * 6])
    devices.classes[1] = [1, 0, 0, 0, 0]
    devices.classes[2] = [1, 1, 0, 0, 0]
    policy = Clustering(devices)
    assert score(policy, Shape(1, 300, 1)) == [
        25,
        76,
        54,
    ]
    assert score(policy, Shape(1, 1000, 2)) == [25, 1, 4]
    assert score(policy, Shape(1, 0, 0)) == [0, 0, 0]


def test_products_and_remnants_are_cut_to_whole_numbers() -> None:
    devices = devices_with([1000] * 8, [1000] * 2)
    shape = Shape(12_800, 1000, 2)
    assert score(DotProd(devices), shape, 64_000) == [
        int(100 * (1 - (0.5 * 0.1 + 1.0 * 0.25) / 2)),
        int(100 * (1 - (0.5 * 0.1 + 0.25 * 0.25) / 2)),
    ]
    assert score(BestFit(devices), shape, 64_000) == [
        int(100 * (1 - 0.5 * 51_200 / 128_000 - 0.5 * 0.75)),
        int(100 * (1 - 0.5 * 51_200 / 128_000)),
    ]


def test_a_share_takes_the_fullest_device_that_fits() -> None:
    devices = devices_with([1000, 300, 470, 470])
    assert BestFit(devices).device(None, Shape(1, 400, 1), 0) == 2  # type: ignore[arg-type]


def test_devices_are_put_back() -> None:
    devices = devices_with([1000, 400])
    shape = Shape(1, 300, 1)
    devices.take(0, [1], shape)
    assert (devices.idle[0, 1], devices.classes[0].tolist()) == (100, [1, 0, 0, 0, 0])
    devices.put_back(0, [1], shape)
    assert (devices.idle[0, 1], devices.classes[0].tolist()) == (400, [0, 0, 0, 0, 0])
    plugin = GpuDevices(devices, Packing(devices))
    plugin.release("unknown")  # a pod without devices


def test_models_are_regarded() -> None:
    devices = devices_with([1000], [1000])
    assert devices.fits(Shape(1, 500, 1, "G2|T4"), np.array([0, 1])).tolist() == [True, True]
    assert devices.fits(Shape(1, 500, 1, "T4"), np.array([0, 1])).tolist() == [False, False]


# -- the experiment -----------------------------------------------------------------------------


@pytest.mark.parametrize(("pods", "mean"), [("default", 10_830), ("gpushare100", 16_649)])
def test_pods_are_added_until_130_per_cent_are_requested(pods: str, mean: int) -> None:
    shapes = read_shapes(pods)
    arrivals = inflated(shapes, 6_212_000, random.Random(1))
    assert abs(len(arrivals) - mean) < 0.02 * mean
    requested = sum(shape.request for shape in arrivals)
    assert 1.28 * 6_212_000 < requested <= 1.3 * 6_212_000 + 7_000
    fewer = inflated(read_shapes("multigpu50"), 6_212_000, random.Random(1))
    assert sum(shape.request for shape in fewer) <= 1.3 * 6_212_000


def test_a_pod_has_its_annotations() -> None:
    pod = make_pod(7, Shape(1500, 470, 1, "G2|P100", 512))
    assert pod.metadata.name == "pod-00007"
    assert pod.metadata.annotations == {
        "alibabacloud.com/gpu-count": "1",
        "alibabacloud.com/gpu-milli": "470",
        "alibabacloud.com/gpu-card-model": "G2|P100",
    }


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "tolerance"), [("FGD", 0.4), ("BestFit", 0.5)])
def test_one_run_agrees_with_the_published_mean(policy: str, tolerance: float) -> None:
    published = read_published()
    result = run("default", policy, 42)
    for measure, values in (("allocated", result.allocated), ("fragmented", result.fragmented)):
        mean = published[measure]["default"][policy].mean
        # At 90 % the cluster is not full yet: there every policy has placed nearly all pods.
        for percent in (50, 80, 100, 130):
            assert abs(values[percent] - mean[percent]) < tolerance, (measure, percent)


# -- results ------------------------------------------------------------------------------------


def a_result(policy: str, seed: int, unallocated: float) -> Result:
    curve = [FULL - unallocated] * (LAST + 1)
    return Result("default", policy, seed, curve, curve, curve)


def test_results_are_kept_and_a_torn_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    store = Store(path)
    store.add(a_result("FGD", 42, 5.0))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    again = Store(path)
    assert list(again.results) == [("default", "FGD", 42)]
    again.add(a_result("FGD", 43, 5.0))
    assert len(Store(path).results) == 2
    path.write_bytes(b"{}\n" + whole)
    with pytest.raises(ConfigError, match="line 1"):
        Store(path)


def test_tables_name_what_is_far_from_the_published() -> None:
    published = read_published()
    results = {
        ("default", "FGD", 42): a_result("FGD", 42, 4.8),
        ("default", "DotProd", 42): a_result("DotProd", 42, 12.0),
    }
    cells = cells_of(results, published)
    assert "| default |  | 12.00 / 9.38 |  |  |  | 4.80 / 4.77 |" in table(cells)
    text = verdict(cells)
    assert "2 of 102 cells, seeds in each: 1" in text
    assert "default DotProd: 12.00, published 9.38" in text
    assert headline(results) == (
        "FGD beside DotProd: 60.0% fewer unallocated GPUs, 447 more in use"
    )


def test_the_published_headline() -> None:
    curves = read_published()["allocated"]["default"]
    dot, fgd = (FULL - curves[policy].median[FULL] for policy in ("DotProd", "FGD"))
    assert (round(dot, 2), round(fgd, 2)) == (9.44, 4.77)
    assert round(100 * (dot - fgd) / dot, 1) == 49.5
    assert sum(len(policies) for policies in read_published()["allocated"].values()) == 102


@pytest.mark.slow
def test_pods_that_leave_give_their_devices_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_time, "WARM_UP", 0.3)
    monkeypatch.setattr(in_time, "MEASURED", 0.3)
    light = in_time.run_in_time("gpushare40", "BestFit", 42, load=0.05)
    assert light.lost == 0.0
    # After 0.3 to 0.6 mean lifetimes, 1 - exp(-t) of the load is there.
    assert 0.05 * 26 < light.allocated < 0.05 * 45

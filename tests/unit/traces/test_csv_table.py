"""CSV by a map of columns, and the lists of openb."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.traces.csv_table import read_csv, read_openb_csv

TABLE = b"""\
arrival,runtime_min,cores,gib,queue,who
1700000010,2,0.1,1.5,batch,"Ann, B."
1700000000,,4,,web,
"""
COLUMNS = {
    "submit_s": "arrival",
    "duration_s": "runtime_min*60",
    "cpu_milli": "cores * 1000",
    "memory_bytes": "gib*1073741824",
    "group": "queue",
    "user": "who",
}
OPENB = b"""\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0001,6000,12288,1,460,V100M16|V100M32,LS,Running,150,350.0,200
openb-pod-0000,12000,16384,2,1000,,Burstable,Pending,100,,
"""


def test_columns_are_mapped_and_converted() -> None:
    trace = read_csv(TABLE, "t.csv", COLUMNS)

    assert trace.format == "csv"
    assert trace.submit_s.tolist() == [0.0, 10.0]
    assert trace.duration_s.tolist() == pytest.approx([math.nan, 120.0], nan_ok=True)
    assert trace.cpu_milli.tolist() == [4000, 100]
    assert trace.memory_bytes.tolist() == [0, 3 << 29]
    assert trace.group.tolist() == ["web", "batch"]
    assert trace.user.tolist() == ["", "Ann, B."]


def test_without_a_map_columns_are_read_by_their_name() -> None:
    text = b"submit_s,priority,count,names,comment\r\n0,-5,3,a,x\r\n\r\n2,,,b,y\r\n"

    trace = read_csv(text, "t.csv")

    assert trace.priority.tolist() == [-5, 0]
    assert trace.count.tolist() == [3, 1]
    assert trace.names.tolist() == ["a", "b"]


def test_submissions_may_be_dates_with_times() -> None:
    text = b"t\n2026-03-29T03:00:00+02:00\n2026-03-29 00:59:59.5\n2026-03-29T01:00:01Z\n"

    trace = read_csv(text, "t.csv", {"submit_s": "t"})

    assert trace.submit_s.tolist() == [0.0, 0.5, 1.5]


@pytest.mark.parametrize("text", ["2026-03-29", "2026-13-01T00:00:00Z", "29.03.2026 01:00"])
def test_other_dates_are_errors(text: str) -> None:
    with pytest.raises(ConfigError, match="line 2: submit_s: must be a number"):
        read_csv(f"submit_s\n{text}\n".encode(), "t.csv")


def test_amounts_are_rounded_up() -> None:
    text = b"t,c\n0,0.0001\n0,0.29\n0,1.0005\n"

    trace = read_csv(text, "t.csv", {"submit_s": "t", "cpu_milli": "c*1000"})

    assert trace.cpu_milli.tolist() == [1, 290, 1001]


def test_a_column_may_have_a_star_in_its_name() -> None:
    trace = read_csv(b"t*2\n3\n5\n", "t.csv", {"submit_s": "t*2"})

    assert trace.submit_s.tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (b"", None, "line 1: needs a column for submit_s"),
        (b"time\n1\n", None, "line 1: needs a column for submit_s, got 'time'"),
        (b"submit_s\n", None, "t.csv: has no pods"),
        (b"submit_s,submit_s\n1,2\n", None, "line 1: has a column twice, got 'submit_s'"),
        (b"submit_s,cpu_milli\n1\n", None, "line 2: must have 2 cells as the header, has 1"),
        (b"submit_s\n\nsoon\n", None, "line 3: submit_s: must be a number, got 'soon'"),
        (b"submit_s,count\n,1\n", None, "line 2: submit_s: must be a number, got ''"),
        (b"submit_s,count\n1,0\n", None, "line 2: count: must be a number from 1"),
        (b"submit_s,duration_s\n1,-3\n", None, "line 2: duration_s: must be a number from 0"),
        (b"submit_s\ninf\n", None, "line 2: submit_s: must be a number from -9"),
        (b"submit_s\n1_0\n", None, "line 2: submit_s: must be a number, got '1_0'"),
        (b"submit_s\n\xff\n", None, "line 2: is not UTF-8 text"),
        (b'submit_s,names\n1,"a\n', None, "is not CSV"),
        (
            b"t\n1\n",
            {"submit_s": "T"},
            "columns.submit_s: is not a column of the file (t), got 'T'",
        ),
        (b"t\n1\n", {"submits": "t"}, "(did you mean 'submit_s'?)"),
        (b"t\n1\n", {"submit_s": 3}, "columns.submit_s: must be a string"),
        (b"t\n1\n", {"submit_s": "t*x"}, "columns.submit_s: must be a number, got 'x'"),
        (b"t\n1\n", {"submit_s": "t*0"}, "columns.submit_s: must have a factor above 0"),
        (b"t\n1\n", {"submit_s": "t", "user": "t*2"}, "columns.user: a text has no factor"),
        (b"t\n99\n", {"submit_s": "t*1e15"}, "line 2: t: must be at most 9007199254740992 with"),
    ],
)
def test_a_malformed_table_is_an_error_with_line_and_value(
    text: bytes, columns: Any, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_csv(text, "t.csv", columns)

    assert message in str(caught.value)


def test_a_pod_of_openb_runs_from_its_scheduling_to_its_deletion() -> None:
    trace = read_openb_csv(OPENB, "openb.csv")

    assert trace.format == "openb-csv"
    assert trace.names.tolist() == ["openb-pod-0000", "openb-pod-0001"]
    assert trace.submit_s.tolist() == [0.0, 50.0]
    assert trace.duration_s.tolist() == pytest.approx([math.nan, 150.0], nan_ok=True)
    assert trace.memory_bytes.tolist() == [16384 << 20, 12288 << 20]
    assert trace.gpu_count.tolist() == [2, 1]
    assert trace.gpu_milli.tolist() == [1000, 460]
    assert trace.gpu_models.tolist() == ["", "V100M16|V100M32"]
    assert trace.group.tolist() == ["Burstable", "LS"]


def test_a_list_of_openb_without_times_has_all_pods_at_once() -> None:
    text = b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\nb,1,1,0,0\na,1,1,0,0\n"

    trace = read_openb_csv(text, "openb.csv")

    assert trace.names.tolist() == ["b", "a"]
    assert trace.submit_s.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            b"num_gpu",
            b"gpus",
            "line 1: is not a pod list of openb: a column is missing, got 'num_gpu'",
        ),
        (b"12000", b"12e", "line 3: cpu_milli: must be a number, got '12e'"),
        (b"350.0", b"-1", "line 2: deletion_time: must be a number from 0"),
        (b"16384", b"9007199254740992", "line 3: memory_bytes: must be from 0 to"),
    ],
)
def test_a_malformed_list_of_openb(old: bytes, new: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_openb_csv(OPENB.replace(old, new), "openb.csv")

    assert message in str(caught.value)


@pytest.mark.parametrize("priority", [5_000_000_000, 2**31, -(2**31) - 1])
def test_a_priority_of_more_than_32_bits_is_refused(priority: int) -> None:
    with pytest.raises(ConfigError) as caught:
        read_csv(f"submit_s,priority\n0,1\n0,{priority}\n".encode(), "t.csv")
    problem = f"line 3: priority: must be from -2147483648 to 2147483647, got {priority}"
    assert str(caught.value) == problem
    own = read_csv(b"submit_s,priority\n0,2147483647\n0,-2147483648\n", "t.csv")
    assert own.priority.tolist() == [2**31 - 1, -(2**31)]


def test_devices_without_an_amount_are_whole_and_an_amount_without_devices_is_of_one() -> None:
    text = b"submit_s,gpu_count,gpu_milli\n0,2,\n1,,300\n2,2,500\n3,,\n4,0,0\n"
    trace = read_csv(text, "t.csv")
    devices = list(zip(trace.gpu_count.tolist(), trace.gpu_milli.tolist(), strict=True))
    assert devices == [(2, 1000), (1, 300), (2, 500), (0, 0), (0, 0)]
    assert read_csv(b"submit_s,gpu_count\n0,2\n", "t.csv").gpu_milli.tolist() == [1000]


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        ("2026-01-31T09:30:00Z", "1769851800", "must be a date as in the rows before"),
        ("1769851800", "2026-01-31T09:30:00Z", "must be a number as in the rows before"),
    ],
)
def test_numbers_and_dates_are_not_mixed(first: str, second: str, problem: str) -> None:
    text = f"submit_s\n{first}\n{second}\n".encode()
    with pytest.raises(ConfigError, match=rf"line 3: submit_s: {problem}, got '{second}'"):
        read_csv(text, "t.csv")


def test_columns_that_are_not_read_are_noted_unless_a_map_names_those_that_are() -> None:
    table = b"submit_s,cores,duration\n0,1,2\n"

    assert read_csv(table, "t.csv").notes == (
        "fields that have no effect: cores (1 x, at line 1), duration (1 x, at line 1)",
    )
    assert read_csv(table, "t.csv", {"submit_s": "submit_s"}).notes == ()


def test_columns_of_openb_that_are_not_read_are_noted() -> None:
    table = b"name,cpu_milli,memory_mib,num_gpu,gpu_milli,pod_phase\na,1,1,0,0,Running\n"

    assert read_openb_csv(table, "t.csv").notes == (
        "fields that have no effect: pod_phase (1 x, at line 1)",
    )


def test_the_name_of_a_column_without_effect_is_cut() -> None:
    text = f"submit_s,{'x' * 5000}\n0,1\n".encode()

    (note,) = read_csv(text, "t.csv").notes

    assert note.startswith(f"fields that have no effect: {'x' * 60}... (1 x, at line ")
    assert len(note) < 300

"""Values that Python's own parsers take and Go's do not: digits of other scripts, blanks, lines.

The messages are kube-apiserver's.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.api import CONFIG_MAPS, PODS, Api, config_map, pod
from tests.unit.apiserver.custom.test_definition_requests import (
    DEFINITIONS,
    OBJECTS,
    definition,
    widget,
)

THREE = "\N{ARABIC-INDIC DIGIT THREE}"
#: More digits than Python converts to a number.
NINES = "9" * 5_000
JOB = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SERVICES = "/api/v1/namespaces/default/services"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def refusal(path: str, body: dict[str, Any], method: str = "POST") -> tuple[int, str]:
    """Returns the code and the message for a request to a new server."""
    code, answer = Api().ask(method, path, {"metadata": {"name": "a"}, **body})
    return code, answer.get("message", "")


@pytest.mark.parametrize(
    ("time", "problem"),
    [
        (f"202{THREE}-01-02T03:04:05Z", "cannot parse"),
        ("2026-13-02T03:04:05Z", "month out of range"),
        ("2026-02-30T03:04:05Z", "day out of range"),
        ("2026-00-10T03:04:05Z", "month out of range"),
        ("2026-01-02T24:00:00Z", "hour out of range"),
        ("2026-01-02T03:60:05Z", "minute out of range"),
        ("2026-01-02T03:04:60Z", "second out of range"),
        ("2026-01-02T03:04:05Z\n", r'extra text: "\x0a"'),
    ],
)
def test_a_time_that_does_not_exist_is_refused(time: str, problem: str) -> None:
    for fields in ({"deletionTimestamp": time}, {"creationTimestamp": time}):
        code, message = refusal(PODS, {**pod("a"), "metadata": {"name": "a", **fields}})
        assert code == 400
        assert problem in message
    micros = time.replace("Z", ".000000Z")
    assert refusal(LEASES, {"spec": {"renewTime": micros}})[0] == 400


@pytest.mark.parametrize(
    ("time", "stored"),
    [
        ("2026-01-02T3:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.1234567890123Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+24:00", "2026-01-01T03:04:05Z"),
        ("2026-01-02T03:04:05-01:30", "2026-01-02T04:34:05Z"),
    ],
)
def test_a_time_that_go_reads_is_stored_in_canonical_form(time: str, stored: str) -> None:
    api, taint = Api(), {"key": "a", "effect": "NoExecute", "timeAdded": time}
    node = api.post("/api/v1/nodes", {"metadata": {"name": "a"}, "spec": {"taints": [taint]}})
    assert node["spec"]["taints"][0]["timeAdded"] == stored


@pytest.mark.parametrize(
    ("time", "problem"),
    [
        ("2026-01-02T03:04:05Z", ' as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as'
         ' ".000000"'),
        ("2026-01-02T03:04:05.1234567Z", ' as "2006-01-02T15:04:05.000000Z07:00": cannot parse'
         ' "7Z" as "Z07:00"'),
        ("2026-01-02T03:04:05.000000+25:00", ": time zone offset hour out of range"),
        ("2026-01-02T03:04:05.000000+01:60", ": time zone offset minute out of range"),
        ("2026-01-02T03:04:05.000000Z\n", r': extra text: "\x0a"'),
    ],
)  # fmt: skip
def test_a_time_in_microseconds_has_six_digits(time: str, problem: str) -> None:
    code, message = refusal(LEASES, {"spec": {"renewTime": time}})
    assert code == 400
    assert message.endswith(problem)


def test_years_and_leap_days_that_exist_are_accepted() -> None:
    for time in ("0000-02-29T00:00:00Z", "2028-02-29T23:59:59Z", "9999-12-31T23:59:59Z"):
        body = {**pod("a"), "metadata": {"name": "a", "creationTimestamp": time}}
        assert refusal(PODS, body)[0] == 201


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        (THREE, "invalid syntax"),
        ("1_0", "invalid syntax"),
        (" 1", "invalid syntax"),
        (NINES, "value out of range"),
        (str(2**64), "value out of range"),
    ],
)
def test_a_version_of_an_object_is_an_unsigned_int64(version: str, problem: str) -> None:
    api = Api()
    api.post(CONFIG_MAPS, config_map("a"))

    body = {"metadata": {"name": "a", "resourceVersion": version}}
    code, answer = api.ask("PUT", f"{CONFIG_MAPS}/a", body)

    assert code == 500
    assert answer["message"] == f'strconv.ParseUint: parsing "{version}": {problem}'


def test_a_version_may_have_zeros_in_front() -> None:
    api = Api()
    version = api.post(CONFIG_MAPS, config_map("a"))["metadata"]["resourceVersion"]
    long = "0" * 5_000 + version
    api.put(f"{CONFIG_MAPS}/a", {"metadata": {"name": "a", "resourceVersion": long}})


@pytest.mark.parametrize("length", [THREE, "8\n", " 8", "+8", "255.0.0.0", NINES, "0" * 5_000])
def test_the_length_of_a_range_of_addresses_is_a_small_number(length: str) -> None:
    spec = {
        "ports": [{"port": 80}],
        "type": "LoadBalancer",
        "loadBalancerSourceRanges": [f"10.0.0.0/{length}a"[:-1]],
    }
    code, _ = refusal(SERVICES, {"spec": spec})
    # Upstream removes blanks at the end of these.
    assert code == (201 if length == "8\n" else 422)
    code, _ = refusal("/api/v1/nodes", {"spec": {"podCIDR": f"10.0.0.0/{length}"}})
    assert code == 422


@pytest.mark.parametrize("percent", [f"{THREE}%", f"{NINES}%", "5%\n", "1_0%", "101%"])
def test_a_percentage_has_decimal_digits(percent: str) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("a")["spec"]}
    spec = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": template,
        "strategy": {"rollingUpdate": {"maxUnavailable": percent}},
    }
    assert refusal(DEPLOYMENTS, {"spec": spec})[0] == 422
    assert refusal(DEPLOYMENTS, {"spec": {**spec, "strategy": {}}})[0] == 201


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("@every 1x", 'failed to parse duration @every 1x: time: unknown unit "x" in duration'),
        (f"@every {THREE}h", "failed to parse duration @every"),
        ("*\x1c* * * *", "expected exactly 5 fields, found 4"),
        (f"{THREE} * * * *", "strconv.Atoi: parsing"),
        (f"{NINES} * * * *", "value out of range"),
        (f"0-{NINES} * * * *", "value out of range"),
    ],
)
def test_a_schedule_is_what_go_parses(schedule: str, problem: str) -> None:
    spec = {"schedule": schedule, "jobTemplate": {"spec": {"template": JOB}}}
    code, message = refusal(CRON_JOBS, {"spec": spec})
    assert code == 422
    assert problem in message


@pytest.mark.parametrize("schedule", ["@every 1h30m", "*\N{NO-BREAK SPACE}* * * *", "@daily"])
def test_a_schedule_that_go_parses_is_accepted(schedule: str) -> None:
    spec = {"schedule": schedule, "jobTemplate": {"spec": {"template": JOB}}}
    assert refusal(CRON_JOBS, {"spec": spec})[0] == 201


@pytest.mark.parametrize("index", [NINES, f"0-{NINES}", THREE, "1_0"])
def test_an_index_of_a_job_is_an_int64(index: str) -> None:
    spec = {
        "completionMode": "Indexed",
        "completions": 5,
        "parallelism": 1,
        "successPolicy": {"rules": [{"succeededIndexes": index}]},
        "template": JOB,
    }
    code, message = refusal(JOBS, {"spec": spec})
    assert code == 422
    assert "cannot convert string to integer for index" in message


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("iqn.2001-04.com.example:a", 201),
        ("iqn.2001-04.com.example:a\vb", 201),
        ("iqn.2001-04.com.example:a\n", 422),
        (f"iqn.200{THREE}-04.com.example:a", 422),
        ("eui.0123456789ABCDEF", 201),
        ("eui.0123456789ABCDEF\n", 422),
        (f"naa.{'0' * 32}", 201),
        (f"naa.{'0' * 32}\n", 422),
    ],
)
def test_the_name_of_an_iscsi_target_has_no_line_behind_it(name: str, code: int) -> None:
    disk = {"targetPortal": "1.2.3.4", "iqn": name, "lun": 1}
    assert refusal(PODS, pod("a", volumes=[{"name": "v", "iscsi": disk}]))[0] == code


@pytest.mark.parametrize(
    ("cpu", "code"),
    [(" 1 ", 201), ("1\N{NO-BREAK SPACE}", 400), ("1\x1c", 400), ("1\n", 400), ("1\t", 400)],
)
def test_blanks_around_a_quantity_are_spaces(cpu: str, code: int) -> None:
    """A tab or line is escaped in JSON, and upstream parses the text with its escapes."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    assert refusal(PODS, {"spec": {"containers": [container]}})[0] == code


@pytest.mark.parametrize(
    ("key", "problems"),
    [
        ("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}a", 0),
        ("\N{LATIN SMALL LETTER E WITH ACUTE}" * 31, 1),
        ("\N{LATIN SMALL LETTER E WITH ACUTE}" * 32, 2),
    ],
)
def test_keys_are_measured_in_bytes_and_have_the_small_letters_of_go(
    key: str, problems: int
) -> None:
    body = {"metadata": {"name": "a", "annotations": {key: "x"}}}
    code, answer = Api().ask("POST", CONFIG_MAPS, body)
    assert code == (422 if problems else 201)
    assert len(answer.get("details", {}).get("causes", [])) == problems


@pytest.mark.parametrize(
    ("form", "accepted", "refused"),
    [
        ("date", ["2024-01-01", "0000-02-29"], ["2024-1-1", f"202{THREE}-01-01", "2024-02-30"]),
        (
            "date-time",
            ["2024-01-01T00:00:00Z", "2024-01-01t23:59:59.5+01:00"],
            ["2024-01-01 00:00:00Z", "2024-01-01T24:00:00Z", "2024-13-01T00:00:00Z",
             f"202{THREE}-01-01T00:00:00Z", "2024-01-01T00:00:00+0100", "2024-01-01T00:00:60Z"],
        ),
        ("ipv6", ["::1", "::ffff:1.2.3.4"], ["fe80::1%eth0", "1.2.3.4"]),
        ("cidr", ["1.2.3.4/8", "::1/64"], ["1.2.3.4/255.0.0.0", "1.2.3.4", f"1.2.3.4/{NINES}",
                                           "fe80::1%a/64", f"1.2.3.4/{THREE}"]),
    ],
)  # fmt: skip
def test_formats_of_custom_resources_are_those_of_go(
    form: str, accepted: list[str], refused: list[str]
) -> None:
    api = Api()
    api.post(DEFINITIONS, definition({"v": {"type": "string", "format": form}}))
    path = f"{OBJECTS}?dryRun=All"
    assert {text: api.ask("POST", path, widget("a", {"v": text}))[0]
            for text in accepted} == dict.fromkeys(accepted, 201)  # fmt: skip
    assert {text: api.ask("POST", path, widget("a", {"v": text}))[0]
            for text in refused} == dict.fromkeys(refused, 422)  # fmt: skip


@pytest.mark.parametrize("index", [NINES, f"-{NINES}:", f":{NINES}", f"0:1:{NINES}"])
def test_columns_with_a_huge_index_are_left_out(index: str) -> None:
    api = Api()
    column = {"name": "x", "type": "string", "jsonPath": f".spec.a[{index}]"}
    array = {"type": "array", "items": {"type": "string"}}
    api.post(DEFINITIONS, definition({"a": array}, additionalPrinterColumns=[column]))
    api.post(OBJECTS, widget("a", {"a": ["b"]}))

    code, table = api.ask("GET", OBJECTS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")

    assert code == 200
    assert table["rows"][0]["cells"] == ["a"]


@pytest.mark.parametrize("digits", [61, 100, 5_000])
def test_a_huge_quantity_is_stored_as_a_huge_one(digits: int) -> None:
    """It is limited; the text of the limit itself would be that of one unit."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "9" * digits}}}
    stored = Api().post(PODS, {"metadata": {"name": "a"}, "spec": {"containers": [container]}})
    cpu = stored["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    assert cpu == "9" * 60

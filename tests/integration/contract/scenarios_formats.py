"""Formats of strings in the schema of a CustomResourceDefinition."""

from __future__ import annotations

from typing import Final

from tests.integration.contract.api import Api
from tests.integration.contract.scenario import path, scenario
from tests.integration.contract.scenarios_customs import custom, definition, install, remove

#: Format -> values that have it, and values that do not.
VALUES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "bsonobjectid": (("507f1f77bcf86cd799439011", "A" * 24), ("", "a" * 23, "g" * 24, "a" * 26)),
    "uri": (
        ("http://a.example.com/b?c=d", "/a/b", "mailto:a@b", "x:", "http://[::1]:80/", "*"),
        ("", "a", "a/b", "http://a b", ":x", "http://[::1", "http://a:x", "/%zz", "/a\tb"),
    ),
    "email": (("a@example.com", "a.b+c@d"), ("", "a", "@b", "a@")),
    "hostname": (
        ("a", "a-b", "a-", "localhost", "my.host-1.example.com", "é.example", "1.ab", "a.b.cd"),
        ("", "my-host", "a.b", "a.b1", "-a", "a_b", "a..bc", "a.b-.cd", "é" * 32, "a." * 128 + "b"),
    ),
    "ipv4": (
        ("10.0.0.1", "010.0.0.1", "::ffff:1.2.3.4"),
        ("", "10.0.0", "10.0.0.256", "::1", "1.2.3.4/8", " 1.2.3.4"),
    ),
    "ipv6": (("::1", "2001:db8::a", "::ffff:1.2.3.4"), ("", "1.2.3.4", "::1%lo", ":::", "12345::")),
    "cidr": (
        ("10.0.0.0/8", "10.0.0.1/32", "010.0.0.0/08", "::1/128"),
        ("", "10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "10.0.0.0/a", "/8"),
    ),
    "mac": (
        ("01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab", "01:23:45:67:89:ab:cd:ef"),
        ("", "01:23:45:67:89", "01:23:45:67:89-ab", "0123:4567:89ab", "01:23:45:67:89:ag", "1.2.3"),
    ),
    "uuid": (
        ("123e4567-e89b-12d3-a456-426614174000", "123E4567e89b12d3a456426614174000"),
        ("", "123e4567-e89b-12d3-a456-42661417400", "g23e4567-e89b-12d3-a456-426614174000"),
    ),
    "uuid3": (
        ("123e4567-e89b-32d3-0456-426614174000",),
        ("123e4567-e89b-42d3-0456-426614174000",),
    ),
    "uuid4": (
        ("123e4567-e89b-42d3-B456-426614174000",),
        ("123e4567-e89b-42d3-c456-426614174000", "123e4567-e89b-52d3-a456-426614174000"),
    ),
    "uuid5": (
        ("123e4567-e89b-52d3-8456-426614174000",),
        ("123e4567-e89b-42d3-8456-426614174000",),
    ),
    "isbn": (("0321751043", "978-0321751041"), ("", "0321751044", "978-0321751042")),
    "isbn10": (("0-321-75104 3", "080442957X"), ("978-0321751041", "080442957x", "0804429570")),
    "isbn13": (("978-0321751041", "9780321751041"), ("0321751043", "978032175104X")),
    "creditcard": (
        ("4111 1111 1111 1111", "378282246310005", "5105-1051-0510-5100", "a4111111111111111"),
        ("", "4111111111111112", "1234567890123456", "411111111111111"),
    ),
    "ssn": (("111-22-3333", "111 22 3333", "111-22 3333"), ("", "111223333", "111-22-333", "a")),
    "hexcolor": (("#fff", "ABCDEF", "#012345"), ("", "#ff", "#ggg", "#12345")),
    "rgbcolor": (
        ("rgb(0,128,255)", "rgb( 1 , 2 , 99 )"),
        ("", "rgb(0,0,256)", "rgb(00,0,0)", "rgb(1,2)", "rgb (1,2,3)", "RGB(1,2,3)"),
    ),
    "byte": (("aGVsbG8=", "aGVsbG8h", "YQ=="), ("", "a", "aGVsbG8", "aGVs-G8=", "aGVs bG8=")),
    "password": (("", "any thing"), ()),
    "date": (("2026-02-28", "2024-02-29"), ("", "2026-02-30", "2026-2-3", "26-02-03")),
    "date-time": (
        ("2026-01-02T03:04:05Z", "2026-01-02t03:04:05.5+01:00", "2026-01-02T03:04:05Zt"),
        ("", "2026-01-02", "2026-01-02T24:00:00Z", "2026-01-02T03:04:05"),
    ),
    "duration": (
        ("1h30m", "0", "-5s", "3 days", "2 Weeks", "5sec", "1 hr and 2 minutes", "x 3d", "1.5d"),
        ("", "1", "abc", "5 years", "99999999999999999999 days", "1 hrs", "3 mo"),
    ),
    "k8s-short-name": (("a-b", "a" * 63), ("", "A", "a.b", "-a", "a" * 64)),
    "k8s-long-name": (("a.b-c", "a" * 253), ("", "A", "a..b", "a.-b", "a" * 254)),
    "other": (("", "any"), ()),
    "u-u-i-d": (("123e4567-e89b-12d3-a456-426614174000",), ("x",)),
}


@scenario
def strings_have_the_formats_of_the_schema(api: Api, namespace: str) -> None:
    properties = {name: {"type": "string", "format": name} for name in VALUES}
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    }
    install(api, definition("formatteds", schema={"openAPIV3Schema": schema}))
    try:
        url = path("apis/contract.example.com/v1", namespace, "formatteds")
        for name, (valid, invalid) in VALUES.items():
            codes = {
                value: api.post(url, custom("Formatted", "a", {name: value}), dryRun="All").code
                for value in (*valid, *invalid)
            }
            assert codes == {**dict.fromkeys(valid, 201), **dict.fromkeys(invalid, 422)}, name
    finally:
        remove(api, "formatteds")

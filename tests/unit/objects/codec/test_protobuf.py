"""The wire format of protocol buffers."""

from __future__ import annotations

from mooring.objects.codec.protobuf import bytes_field, int_field, packed_field, varint


def test_numbers() -> None:
    assert [varint(number).hex() for number in (0, 1, 127, 128, 300, 2**63)] == [
        *("00", "01", "7f", "8001", "ac02", "80808080808080808001"),
    ]


def test_fields() -> None:
    # The examples of the specification of the format.
    assert int_field(1, 150).hex() == "089601"
    assert bytes_field(2, b"testing").hex() == "120774657374696e67"
    assert packed_field(6, [3, 270, 86942]).hex() == "3206038e029ea705"

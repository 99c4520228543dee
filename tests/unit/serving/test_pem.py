"""PEM as Go reads it; the errors are compared with the peer elsewhere."""

from __future__ import annotations

import pytest

from mooring.errors import ConfigError
from mooring.serving.pem import certificates_in, key_pair
from tests.helpers.certificates import authority, sign

CA = authority("ca")
CLIENT = sign(CA, "jane")


def test_what_is_around_blocks_is_ignored() -> None:
    content = b"Subject: jane\n" + CLIENT.pem + b"\nIssuer:\n" + CA.key_pem + CA.pem + b"end"
    assert certificates_in(content) == [CLIENT.certificate, CA.certificate]
    assert certificates_in(content.replace(b"\n", b"\r\n")) == [CLIENT.certificate, CA.certificate]
    assert certificates_in(b"") == []


def test_one_file_can_have_both() -> None:
    both = CLIENT.key_pem + CLIENT.pem + CA.pem
    chain, key = key_pair(both, both)
    assert chain == [CLIENT.certificate, CA.certificate]
    assert key.public_key() == CLIENT.certificate.public_key()


@pytest.mark.parametrize(
    ("certificate", "key", "text"),
    [
        (CLIENT.pem, CA.key_pem, "tls: private key does not match public key"),
        (CLIENT.pem, b"", "tls: failed to find any PEM data in key input"),
        (b"", CLIENT.key_pem, "tls: failed to find any PEM data in certificate input"),
        (
            CLIENT.pem,
            b"-----BEGIN PRIVATE KEY-----\nZ2FyYmFnZQ==\n-----END PRIVATE KEY-----\n",
            "tls: failed to parse private key",
        ),
    ],
)
def test_what_is_no_pair(certificate: bytes, key: bytes, text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        key_pair(certificate, key)
    assert str(raised.value) == text

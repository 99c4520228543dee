"""Client certificates: those that are accepted, and their users."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mooring.errors import ConfigError
from mooring.serving.client_ca import (
    Authority,
    AuthorityFile,
    CertificateRejected,
    common_name,
    user_of,
)
from tests.helpers.certificates import SERVERS, Signed, authority, sign

ROOT = authority("root")
AUTHORITY = Authority(ROOT.pem)


def now_s() -> float:
    """Returns the time of the test: hours after the import, as the start of its certificates."""
    return datetime.now(UTC).timestamp()


def verified(*chain: Signed, by: Authority = AUTHORITY, after_s: float = 0.0) -> str:
    return common_name(by.verify([item.der for item in chain], now_s() + after_s))


def test_certificates_of_the_authority() -> None:
    assert verified(sign(ROOT, "jane")) == "jane"
    assert verified(sign(ROOT, "jane", usages=())) == "jane"


def test_an_intermediate_authority_is_needed_and_used() -> None:
    middle = authority("middle", signer=ROOT)
    client = sign(middle, "jane")
    assert verified(client, middle) == "jane"
    with pytest.raises(CertificateRejected):
        verified(client)
    # It may also be trusted itself, although it is not signed by itself.
    assert verified(client, by=Authority(middle.pem)) == "jane"


@pytest.mark.parametrize(
    "client",
    [
        sign(authority("root"), "jane"),
        sign(None, "jane"),
        sign(ROOT, "jane", usages=SERVERS),
        sign(ROOT, "jane", starts=datetime.now(UTC) + timedelta(days=1)),
        sign(ROOT, "jane", starts=datetime.now(UTC) - timedelta(days=9), valid=timedelta(days=1)),
        sign(sign(ROOT, "no authority"), "jane"),
    ],
    ids=["same name", "own", "server", "early", "late", "signer is no authority"],
)
def test_all_others_are_rejected(client: Signed) -> None:
    with pytest.raises(CertificateRejected, match=r"^x509: "):
        verified(client)


def test_a_certificate_expires_by_the_clock_that_is_given() -> None:
    client = sign(ROOT, "jane", valid=timedelta(days=2))
    verified(client)
    with pytest.raises(CertificateRejected, match="expired"):
        verified(client, after_s=3 * 86400)


def test_what_is_no_certificate_is_rejected() -> None:
    with pytest.raises(CertificateRejected):
        AUTHORITY.verify([b"nonsense"], now_s())


def test_the_user() -> None:
    client = sign(ROOT, "jane", groups=["a", "b"], uids=["u-1"])
    user = user_of(client.certificate, client.der)
    assert user is not None
    assert (user.name, user.uid, user.groups) == ("jane", "u-1", ("a", "b"))
    digest = hashlib.sha256(client.der).hexdigest()
    assert user.extra == {"authentication.kubernetes.io/credential-id": [f"X509SHA256={digest}"]}


def test_no_name_is_no_user_and_two_uids_are_an_error() -> None:
    nameless = sign(ROOT, "", groups=["system:masters"])
    assert user_of(nameless.certificate, nameless.der) is None
    double = sign(ROOT, "jane", uids=["1", "2"])
    with pytest.raises(CertificateRejected, match=r"expected 1 UID, but found multiple: \[1 2\]"):
        user_of(double.certificate, double.der)


def test_a_file_is_read_again_and_an_invalid_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(ROOT.pem)
    file = AuthorityFile(str(path), name="client-ca-bundle")
    assert file.current().pem == ROOT.pem
    path.write_bytes(b"nonsense")
    assert file.current().pem == ROOT.pem
    other = authority("other").pem
    path.write_bytes(other)
    assert file.current().pem == other


def test_files_without_certificates_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    with pytest.raises(ConfigError, match="no such file or directory"):
        AuthorityFile(str(path), name="client-ca-bundle")
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match='missing content for CA bundle "client-ca-bundle::'):
        AuthorityFile(str(path), name="client-ca-bundle")
    path.write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match='error loading CA bundle for "client-ca-bundle::'):
        AuthorityFile(str(path), name="client-ca-bundle")

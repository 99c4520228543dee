"""TLS of extenders: what is trusted, which certificate is sent, and where they must not be.

The handshakes are in memory. The rules are client-go's (transport.TLSConfigFor).
"""

from __future__ import annotations

import logging
import ssl
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from mooring.config.types import Extender, ExtenderTLSConfig
from mooring.errors import ConfigError
from mooring.extenders.tls import (
    ClientPair,
    check_trust,
    client_pair,
    is_forbidden,
    tls_context,
    without_password,
)
from tests.helpers.certificates import SERVERS, Signed, authority, sign

CA = authority()
SERVER = sign(CA, "server", usages=SERVERS, hosts=["one"])
OURS = sign(CA, "ours")


def extender(url: str = "https://one", *, enable_https: bool = True, **tls: Any) -> Extender:
    config = ExtenderTLSConfig(**tls) if tls else None
    return Extender(url_prefix=url, enable_https=enable_https, tls_config=config)


def data(content: bytes) -> str:
    return b64encode(content).decode()


def handshake(context: ssl.SSLContext, folder: Path, name: str = "one") -> str:
    """Returns the name in the client certificate that the server sees, or "" without one.

    Raises:
        SSLError: a side does not trust the other one.
    """
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(*SERVER.write(folder, "server"))
    server_context.load_verify_locations(cadata=CA.pem.decode())
    server_context.verify_mode = ssl.CERT_OPTIONAL
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname=name)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    subject: Any = (server.getpeercert() or {}).get("subject", ())
    return "".join(value for part in subject for key, value in part if key == "commonName")


# ---- whom it trusts ----


@pytest.mark.parametrize("is_file", [True, False])
def test_a_server_is_verified_by_the_configured_authority(tmp_path: Path, is_file: bool) -> None:
    def trusting(ca: Signed) -> ssl.SSLContext:
        path = ca.write(tmp_path, "ca")[0]
        tls: dict[str, Any] = {"ca_file": path} if is_file else {"ca_data": data(ca.pem)}
        return tls_context(extender(**tls), "extenders[0]")

    assert handshake(trusting(CA), tmp_path) == ""
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(trusting(CA), tmp_path, "two")
    with pytest.raises(ssl.SSLCertVerificationError, match="CERTIFICATE_VERIFY_FAILED"):
        handshake(trusting(authority("another")), tmp_path)


def test_inline_data_count_for_more_than_files(tmp_path: Path) -> None:
    tls: dict[str, Any] = {"ca_data": data(CA.pem), "ca_file": "/nowhere"}
    context = tls_context(extender(**tls), "extenders[0]")
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert handshake(context, tmp_path) == ""


def test_an_inline_certificate_and_key_count_for_more_than_files(tmp_path: Path) -> None:
    tls: dict[str, Any] = {"ca_data": data(CA.pem)}
    tls |= {"cert_data": data(OURS.pem), "key_data": data(OURS.key_pem)}
    context = tls_context(extender(**tls, cert_file="/nowhere", key_file="/nowhere"), "x")
    assert handshake(context, tmp_path) == "ours"


@pytest.mark.parametrize(
    ("config", "warns"),
    [
        (extender(), True),
        (extender(server_name="two"), True),
        (extender(insecure=True), False),
        (extender(enable_https=False), False),
    ],
)
def test_without_an_authority_nothing_is_verified_and_that_is_logged(
    config: Extender, warns: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = tls_context(config, "extenders[0]")
    assert handshake(context, tmp_path, "two") == ""
    lines = [vars(record) for record in caplog.records]
    assert [(line["levelno"], line["extender"]) for line in lines] == [
        (logging.WARNING, "https://one")
    ] * warns


def test_insecure_counts_for_more_than_an_authority(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = extender(ca_data=data(authority().pem), insecure=True)
    assert handshake(tls_context(config, "extenders[0]"), tmp_path, "two") == ""
    assert caplog.records == []


def test_an_authority_is_no_reason_for_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    tls_context(extender(ca_data=data(CA.pem)), "extenders[0]")
    assert caplog.records == []


def test_no_version_before_tls_1_2_is_spoken() -> None:
    for config in (extender(), extender(ca_data=data(CA.pem))):
        assert tls_context(config, "x").minimum_version is ssl.TLSVersion.TLSv1_2


# ---- which certificate it sends ----


@pytest.mark.parametrize("is_file", [True, False])
def test_the_client_certificate_is_sent(tmp_path: Path, is_file: bool) -> None:
    certificate, key = OURS.write(tmp_path, "our")
    tls: dict[str, Any] = {"cert_file": certificate, "key_file": key}
    if not is_file:
        tls = {"cert_data": data(OURS.pem), "key_data": data(OURS.key_pem)}
    context = tls_context(extender(ca_data=data(CA.pem), **tls), "extenders[0]")
    assert handshake(context, tmp_path) == "ours"


@pytest.mark.parametrize(
    ("tls", "path", "problem"),
    [
        ({"ca_file": "/nowhere/ca"}, "caFile", "open /nowhere/ca: no such file or directory"),
        ({"cert_file": "/nowhere"}, "certFile", "open /nowhere: no such file or directory"),
        ({"key_file": "/nowhere"}, "keyFile", "open /nowhere: no such file or directory"),
        ({"cert_data": data(OURS.pem)}, "keyFile", "is needed, too"),
        ({"key_data": data(OURS.key_pem)}, "certFile", "is needed, too"),
        (
            {"ca_data": data(b"junk")},
            "caData",
            "unable to load root certificates: it holds no certificate that can be read",
        ),
        (
            {"ca_data": data("ä".encode())},
            "caData",
            "unable to load root certificates: it holds no certificate that can be read",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error_with_its_path(
    tls: dict[str, Any], path: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        tls_context(extender(**tls), "extenders[7]")
    assert (caught.value.path, caught.value.problem) == (
        f"extenders[7].tlsConfig.{path}",
        problem,
    )


def test_a_file_without_a_certificate_is_named_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(ConfigError) as caught:
        tls_context(extender(ca_file=str(tmp_path / "junk")), "extenders[0]")
    assert caught.value.path == "extenders[0].tlsConfig.caFile"


def test_a_key_of_another_certificate_is_an_error() -> None:
    other = sign(CA, "other")
    tls: dict[str, Any] = {"cert_data": data(OURS.pem), "key_data": data(other.key_pem)}
    with pytest.raises(ConfigError) as caught:
        tls_context(extender(**tls), "extenders[1]")
    assert caught.value.path == "extenders[1].tlsConfig"
    assert caught.value.problem.startswith("cannot be used: ")


@pytest.mark.parametrize(
    ("tls", "is_reloaded"),
    [
        (None, False),
        ({"cert_file": "c", "key_file": "k"}, True),
        ({"cert_file": "c"}, False),
        ({"key_file": "k"}, False),
        ({"cert_file": "c", "key_file": "k", "cert_data": "x"}, False),
        ({"cert_file": "c", "key_file": "k", "key_data": "x"}, False),
        ({"insecure": True}, False),
    ],
)
def test_certificates_are_read_again_if_both_are_files(
    tls: dict[str, Any] | None, is_reloaded: bool
) -> None:
    pair = client_pair(extender(**(tls or {})), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    assert (pair is not None) == is_reloaded


class CountingContext(ssl.SSLContext):
    """A context that counts the certificates that it loads."""

    loads = 0

    def load_cert_chain(self, *arguments: Any, **named: Any) -> None:
        self.loads += 1
        super().load_cert_chain(*arguments, **named)


def test_files_are_loaded_when_they_have_changed(tmp_path: Path) -> None:
    context = CountingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=CA.pem.decode())
    pair = ClientPair(context, *OURS.write(tmp_path, "our"))
    pair.refresh()
    pair.refresh()
    assert (context.loads, handshake(context, tmp_path)) == (1, "ours")
    newer = sign(CA, "newer")
    newer.write(tmp_path, "our")
    pair.refresh()
    pair.refresh()
    assert (context.loads, handshake(context, tmp_path)) == (2, "newer")
    # One of the two is replaced before the other.
    certificate, _ = OURS.write(tmp_path, "new")
    (tmp_path / "our.crt").write_bytes(Path(certificate).read_bytes())
    with pytest.raises(OSError, match=f"client certificate {tmp_path}/our.crt: cannot be used: "):
        pair.refresh()
    # What was loaded before is loaded again, since the context may have half of the other one.
    newer.write(tmp_path, "our")
    pair.refresh()
    assert handshake(context, tmp_path) == "newer"
    (tmp_path / "our.key").unlink()
    with pytest.raises(FileNotFoundError):
        pair.refresh()


def test_files_that_cannot_be_used_are_an_error_each_time_until_they_are_replaced(
    tmp_path: Path,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=CA.pem.decode())
    pair = ClientPair(context, *OURS.write(tmp_path, "our"))
    pair.refresh()
    key_file = tmp_path / "our.key"
    key_file.write_bytes(sign(CA, "other").key_pem)
    for _ in range(2):  # no connection goes out with half of a pair
        with pytest.raises(OSError, match="cannot be used"):
            pair.refresh()
    key_file.write_bytes(OURS.key_pem)
    pair.refresh()
    assert handshake(context, tmp_path) == "ours"


@pytest.mark.parametrize("number", [0, 1])
def test_a_file_that_is_missing_for_a_while_needs_no_second_load(
    tmp_path: Path, number: int
) -> None:
    context = CountingContext(ssl.PROTOCOL_TLS_CLIENT)
    files = OURS.write(tmp_path, "our")
    pair = ClientPair(context, *files)
    pair.refresh()
    content = Path(files[number]).read_bytes()
    Path(files[number]).unlink()
    with pytest.raises(FileNotFoundError):
        pair.refresh()
    Path(files[number]).write_bytes(content)
    pair.refresh()
    assert context.loads == 1


# ---- addresses ----


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("169.254.169.254", True),
        ("169.254.0.1", True),
        ("169.253.169.254", False),
        ("::ffff:169.254.169.254", True),
        ("::ffff:10.0.0.1", False),
        ("::ffff:100.100.100.200", True),
        ("fe80::1", True),
        ("fe80::1%eth0", True),
        ("fd00:ec2::254", True),
        ("fd00:ec2::254%eth0", True),
        ("169.254.169.254%eth0", True),
        ("fd00:ec2::255", False),
        ("100.100.100.200", True),
        ("168.63.129.16", True),
        ("10.0.0.1", False),
        ("127.0.0.1", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_link_local_and_metadata_addresses_are_forbidden(address: str, expected: bool) -> None:
    assert is_forbidden(address) is expected


@pytest.mark.parametrize(
    ("url", "is_refused"),
    [
        ("http://169.254.169.254/latest", True),
        ("https://[fe80::1]:443", True),
        ("https://me:pw@100.100.100.200", True),
        ("https://10.0.0.1", False),
        ("https://one/169.254.169.254", False),
        ("https://[bad", False),
        ("", False),
    ],
)
def test_a_url_must_not_name_one(url: str, is_refused: bool) -> None:
    configs = [extender(), extender(url)]
    if not is_refused:
        check_trust(configs)
        return
    with pytest.raises(ConfigError) as caught:
        check_trust(configs)
    assert caught.value.path == "extenders[1].urlPrefix"
    assert caught.value.problem == ("an extender must not be at a link-local or metadata address")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://me:secret@there/x", "https://me:***@there/x"),
        ("https://me:secret@there/x:secret@", "https://me:***@there/x:secret@"),
        ("https://me@there", "https://me@there"),
        ("https://me:@there", "https://me:@there"),
        ("https://there:80", "https://there:80"),
        ("https://[bad", "https://[bad"),
    ],
)
def test_a_password_is_masked(url: str, expected: str) -> None:
    assert without_password(url) == expected

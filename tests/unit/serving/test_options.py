"""TLS versions and cipher suites by Go's names."""

from __future__ import annotations

import pytest
from OpenSSL import SSL

from mooring.errors import ConfigError
from mooring.serving.options import (
    _CIPHERS,
    _INSECURE_CIPHERS,
    TLS_VERSIONS,
    ServingOptions,
    cipher_list,
    tls_version,
)


def test_defaults_are_kube_schedulers() -> None:
    options = ServingOptions()
    assert (options.bind_address, options.port) == ("0.0.0.0", 10259)
    assert options.always_allow_paths == ("/healthz", "/readyz", "/livez")
    assert options.token_cache_ttl_s == options.authorized_ttl_s == 10.0


def test_versions() -> None:
    assert tls_version("") == tls_version("VersionTLS12") == SSL.TLS1_2_VERSION
    assert tls_version("VersionTLS13") == SSL.TLS1_3_VERSION
    assert list(TLS_VERSIONS) == [f"VersionTLS1{minor}" for minor in range(4)]
    with pytest.raises(ConfigError, match=r'^unknown tls version "TLS12"$'):
        tls_version("TLS12")


def test_cipher_suites() -> None:
    names = ("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    assert cipher_list(names) == ("ECDHE-RSA-AES128-GCM-SHA256", [])
    insecure = "TLS_RSA_WITH_AES_128_CBC_SHA"
    assert cipher_list((insecure,)) == ("AES128-SHA", [insecure])
    with pytest.raises(ConfigError, match=r"^Cipher suite X not supported or doesn't exist$"):
        cipher_list(("X",))


@pytest.mark.parametrize("name", [*_CIPHERS, *_INSECURE_CIPHERS])
def test_openssl_knows_the_suites(name: str) -> None:
    if "RC4" in name or "3DES" in name:
        pytest.skip("not in OpenSSL any more")
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_cipher_list(f"{cipher_list((name,))[0]}:@SECLEVEL=0".encode())

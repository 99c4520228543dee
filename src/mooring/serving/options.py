"""Options of the HTTPS server and of its authentication and authorization.

The names are those of kube-scheduler's flags. The parser of the command line has checked the types;
what depends on files, the network or the TLS library is checked by ``SecureServer``.

Source: k8s.io/apiserver pkg/server/options (serving.go, authentication.go, authorization.go),
k8s.io/component-base cli/flag (ciphersuites_flag.go, tls_versions of it).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from OpenSSL import SSL

from mooring.errors import ConfigError

#: Name of a TLS version -> its number in the TLS library.
TLS_VERSIONS: Final = {
    "VersionTLS10": SSL.TLS1_VERSION,
    "VersionTLS11": SSL.TLS1_1_VERSION,
    "VersionTLS12": SSL.TLS1_2_VERSION,
    "VersionTLS13": SSL.TLS1_3_VERSION,
}
DEFAULT_TLS_VERSION: Final = "VersionTLS12"

#: Cipher suites of TLS 1.3: always on, as in Go.
_TLS13_CIPHERS: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)

#: Name of a cipher suite of TLS 1.2 -> OpenSSL's name.
_CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}

#: The same for suites that are accepted with a warning. OpenSSL has no RC4 any more.
_INSECURE_CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}

#: The default suites of TLS 1.2 are Go's: forward secrecy only.
_DEFAULT_CIPHERS: Final = (
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:"
    "ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA:ECDHE-RSA-AES256-SHA"
)


@dataclass(frozen=True, slots=True)
class SniCertificate:
    """A certificate for some host names: ``--tls-sni-cert-key``.

    Attributes:
        cert_file: PEM, with intermediate certificates.
        key_file: PEM.
        names: Host names, ``*.`` allowed, or IP addresses; () = those in the certificate.
    """

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """Options of ``SecureServer``; the defaults are kube-scheduler's.

    Attributes:
        port: 0 = no server.
        always_allow_paths: Exact, or with a ``*`` at the end.
    """

    bind_address: str = "0.0.0.0"  # noqa: S104 - kube-scheduler's default
    port: int = 10259
    cert_dir: str = ""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    tls_sni_cert_keys: tuple[SniCertificate, ...] = ()
    permit_port_sharing: bool = False
    permit_address_sharing: bool = False

    authentication_skip_lookup: bool = False
    authentication_tolerate_lookup_failure: bool = True
    token_cache_ttl_s: float = 10.0
    client_ca_file: str = ""
    requestheader_client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("x-remote-user",)
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ("x-remote-group",)
    requestheader_extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)

    authorized_ttl_s: float = 10.0
    unauthorized_ttl_s: float = 10.0
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")


def tls_version(name: str) -> int:
    """Returns the TLS library's number of a version; "" = the default.

    Raises:
        ConfigError: there is no such version.
    """
    number = TLS_VERSIONS.get(name or DEFAULT_TLS_VERSION)
    if number is None:
        raise ConfigError(f'unknown tls version "{name}"')
    return int(number)


def cipher_list(names: tuple[str, ...]) -> tuple[str, list[str]]:
    """Returns OpenSSL's list for TLS 1.2, and the names of insecure suites in it.

    Raises:
        ConfigError: there is no such suite.
    """
    if not names:
        return _DEFAULT_CIPHERS, []
    chosen, insecure = [], []
    for name in names:
        if name in _TLS13_CIPHERS:
            continue
        cipher = _CIPHERS.get(name) or _INSECURE_CIPHERS.get(name)
        if cipher is None:
            raise ConfigError(f"Cipher suite {name} not supported or doesn't exist")
        chosen.append(cipher)
        if name in _INSECURE_CIPHERS:
            insecure.append(name)
    return ":".join(chosen), insecure

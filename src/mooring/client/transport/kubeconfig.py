"""Server address and credentials from kubeconfig files, or from inside a pod.

Files are merged as in kubectl: the first file with an entry for a cluster, user or context counts,
and relative paths are relative to their file.

Source: client-go's tools/clientcmd (loader.go, client_config.go) and rest/config.go. *Differs:* an
unverified server, basic authentication and auth-provider are refused.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from mooring.client.transport.impersonation import HeaderPairs, field_or, impersonation_headers
from mooring.errors import ConfigError
from mooring.objects.files.documents import yaml_documents
from mooring.objects.files.limits import ALIASED_VALUES_MAX
from mooring.objects.files.paths import read_bytes

SERVICE_ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

FILE_BYTES_MAX: Final = 1 << 20

#: What no host of a URL contains: spaces, control characters, quotes; escapes only in a zone.
_NO_HOST: Final = re.compile(r"[\s\x00-\x1f\x7f\"<>\\^`{|}]|%(?![^\[]*\])")

#: Unsupported fields of a user entry; better an error than another identity.
_REFUSED: Final = {
    "username": "basic authentication is not supported",
    "auth-provider": "auth-provider is not supported: use an exec plugin",
}


@dataclass(frozen=True)
class ExecPlugin:
    """A program that prints credentials: ``exec`` of a user entry."""

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    api_version: str
    install_hint: str
    #: The cluster information passed to the plugin, or None.
    cluster: Mapping[str, Any] | None


@dataclass(frozen=True)
class Access:
    """One server and one identity. PEM data is bytes, or the path of a file that may change."""

    server: str
    authority: bytes | Path | None = None
    server_name: str | None = None
    #: A URL, which may have a password.
    proxy: str | None = field(default=None, repr=False)
    is_unverified: bool = False
    warns_unverified: bool = True
    certificate: bytes | Path | None = field(default=None, repr=False)
    key: bytes | Path | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    plugin: ExecPlugin | None = field(default=None, repr=False)
    impersonation: HeaderPairs = ()
    namespace: str = "default"

    def at(self, server: str) -> Access:
        """Returns the same identity at another server; none of it is sent without TLS."""
        if server.startswith("https://"):
            return replace(self, server=server)
        return Access(server=server, proxy=self.proxy, namespace=self.namespace)


class NoAccess(ConfigError):
    """There is no kubeconfig, and this process is not in a pod."""


def find_access(
    kubeconfig: str | None = None,
    *,
    context: str | None = None,
    environment: Mapping[str, str],
    allow_unverified: bool = False,
) -> Access:
    """Returns the access from ``kubeconfig``, else $KUBECONFIG, ~/.kube/config, or our own pod.

    Args:
        kubeconfig: Path of one file, which must exist.
        context: Instead of the current context.
        environment: KUBECONFIG, HOME and the variables of every pod.
        allow_unverified: Accept ``insecure-skip-tls-verify``; else it is an error.

    Raises:
        ConfigError: there is none, or it cannot be used.
    """
    if kubeconfig is not None:
        paths = [kubeconfig]
    else:
        listed = environment.get("KUBECONFIG", "")
        candidates = [path for path in listed.split(os.pathsep) if path]
        if not candidates and environment.get("HOME"):
            # Never one in the working directory: it names programs to run.
            candidates = [os.path.join(environment["HOME"], ".kube", "config")]
        paths = [path for path in candidates if os.path.exists(path)]
    if paths:
        return read_kubeconfig(paths, context=context, allow_unverified=allow_unverified)
    if "KUBERNETES_SERVICE_HOST" in environment:
        return in_cluster(environment)
    raise NoAccess(
        "there is no kubeconfig file, and this is not a pod", path="KUBECONFIG", value=candidates
    )


def in_cluster(environment: Mapping[str, str], *, folder: Path = SERVICE_ACCOUNT_FOLDER) -> Access:
    """Returns the access to the API server of the cluster in which this process is a pod.

    Raises:
        ConfigError: this is not a pod, or it has no service account.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be set")
    for name in ("token", "ca.crt"):
        if not (folder / name).is_file():
            raise ConfigError("the pod has no service account", file=str(folder / name))
    namespace = folder / "namespace"
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        authority=folder / "ca.crt",
        token_file=folder / "token",
        namespace=namespace.read_text("utf-8").strip() if namespace.is_file() else "default",
    )


def read_kubeconfig(
    paths: list[str], *, context: str | None = None, allow_unverified: bool = False
) -> Access:
    """Returns the server and identity of a context in kubeconfig files, merged in this order.

    Raises:
        ConfigError: a file cannot be read, or refers to a missing entry.
    """
    merged = _Merged()
    for path in paths:
        merged.add(path)
    files = os.pathsep.join(paths)
    name = context or merged.current
    if not name:
        raise ConfigError("there is no current-context", file=files, path="current-context")
    chosen = merged.entry("contexts", name, files)
    cluster = merged.entry("clusters", chosen.text("cluster"), files)
    user = merged.entry("users", chosen.text("user"), files) if chosen.text("user") else _EMPTY
    for word, problem in _REFUSED.items():
        if user.values.get(word):
            raise user.wrong(problem, word)
    is_unverified = bool(cluster.values.get("insecure-skip-tls-verify"))
    if is_unverified and not allow_unverified:
        raise cluster.wrong(
            "the server would not be verified; give its certificate-authority instead",
            "insecure-skip-tls-verify",
        )
    token_file = user.path("tokenFile")
    return Access(
        server=_server(cluster, allow_unverified=allow_unverified),
        authority=cluster.content("certificate-authority"),
        server_name=cluster.text("tls-server-name") or None,
        proxy=_proxy(cluster),
        is_unverified=is_unverified,
        certificate=user.content("client-certificate"),
        key=user.content("client-key"),
        # The file takes precedence, as in client-go.
        token=None if token_file else _token(user),
        token_file=token_file,
        plugin=_plugin(user, cluster),
        impersonation=_impersonation(user),
        namespace=chosen.text("namespace") or "default",
    )


@dataclass(frozen=True)
class _Entry:
    """A cluster, user or context entry, and its file."""

    group: str
    name: str
    file: str
    values: Mapping[str, Any]

    def wrong(self, problem: str, word: str = "", *, value: Any = None) -> ConfigError:
        """Returns an error about a field; ``value`` must not be a secret."""
        path = f"{self.group}[{self.name}]" + (f".{word}" if word else "")
        return ConfigError(problem, file=self.file, path=path, value=value)

    def text(self, word: str) -> str:
        value = self.values.get(word)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.wrong("must be a string", word)
        return value

    def path(self, word: str) -> Path | None:
        text = self.text(word)
        return Path(self.file).absolute().parent / text if text else None

    def content(self, word: str) -> bytes | Path | None:
        """Returns the PEM data of ``word-data``, else the path in ``word``."""
        data = self.text(f"{word}-data")
        if not data:
            return self.path(word)
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except ValueError as error:
            raise self.wrong(f"is not base64: {error}", f"{word}-data") from None


_EMPTY: Final = _Entry("users", "", "", {})


class _Merged:
    """The entries of several files; the first of a name counts."""

    def __init__(self) -> None:
        self.current = ""
        self._entries: dict[tuple[str, str], _Entry] = {}

    def add(self, path: str) -> None:
        try:
            documents = list(yaml_documents(_read(path), aliased_max=ALIASED_VALUES_MAX))
        except ConfigError as error:
            raise error.located(file=path) from None
        if not documents:
            return
        content = documents[0].value
        if not isinstance(content, dict):
            raise ConfigError("is not a kubeconfig", file=path)
        current = field_or(content, "current-context", "")
        if not isinstance(current, str):
            raise ConfigError("must be a string", file=path, path="current-context", value=current)
        self.current = self.current or current
        for group, inner in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            items = field_or(content, group, [])
            if not isinstance(items, list):
                raise ConfigError("must be a list", file=path, path=group)
            for number, item in enumerate(items):
                if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                    raise ConfigError("must have a name", file=path, path=f"{group}[{number}]")
                entry = _Entry(group, item["name"], path, field_or(item, inner, {}))
                if not isinstance(entry.values, dict):
                    raise entry.wrong("must be a mapping", inner)
                self._entries.setdefault((group, entry.name), entry)

    def entry(self, group: str, name: str, files: str) -> _Entry:
        entry = self._entries.get((group, name))
        if entry is None:
            names = ", ".join(
                sorted(entry_name for kind, entry_name in self._entries if kind == group)
            )
            problem = f"no {group.removesuffix('s')} {name!r}; existing: {names or 'none'}"
            raise ConfigError(problem, file=files)
        return entry


def _read(path: str) -> bytes:
    try:
        return read_bytes(path, bytes_max=FILE_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=path) from error


def _proxy(cluster: _Entry) -> str | None:
    proxy = cluster.text("proxy-url")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise cluster.wrong("only http and https proxies are supported", "proxy-url")
    if proxy and not _has_host_name(proxy):
        raise cluster.wrong("must be a URL with a host", "proxy-url")
    return proxy or None


def _server(cluster: _Entry, *, allow_unverified: bool) -> str:
    server = cluster.text("server")
    if not server:
        raise cluster.wrong("has no server")
    url = _http_url(server)
    if url is None or not url.hostname:
        raise cluster.wrong("must be a URL that begins with https://", "server", value=server)
    is_local = url.hostname == "localhost" or _is_loopback(url.hostname)
    if url.scheme == "http" and not is_local and not allow_unverified:
        # An attacker on the network could read our credentials, and impersonate the server.
        raise cluster.wrong("must begin with https:// unless it is this machine", "server")
    return server


def master_url(text: str, *, has_tls: bool) -> str:
    """Returns the URL of an API server that was given as a URL, or as a host with or without port.

    Args:
        text: The value of ``--master``.
        has_tls: True if a host without a scheme is one of https.

    Raises:
        ConfigError: it is neither.

    Source: client-go's rest/url_utils.go (DefaultServerURL).
    """
    if (url := _http_url(text)) is not None and url.hostname:
        return text
    whole = f"{'https' if has_tls else 'http'}://{text.removesuffix('/')}"
    url = None if "://" in text else _http_url(whole)
    if url is None or not url.hostname or url.path:
        raise ConfigError(f"host must be a URL or a host:port pair: {json.dumps(text)}")
    return whole


def _http_url(text: str) -> SplitResult | None:
    """Returns the parts of a URL; None if its scheme, host or port is none of an HTTP server."""
    try:
        url = urlsplit(text)
        is_port = url.port is None or url.port > 0
    except ValueError:  # a port that is no number or too large, or a bracket without its pair
        return None
    is_host = not _NO_HOST.search(url.netloc) and _has_host_name(text)
    return url if url.scheme in ("http", "https") and is_host and is_port else None


def _has_host_name(url: str) -> bool:
    """Returns whether a URL has a host whose name can be looked up, or an address."""
    try:
        return bool((urlsplit(url).hostname or "").encode("idna"))
    except ValueError:  # also of the codec: a label is empty, or longer than 63 characters
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _token(user: _Entry) -> str | None:
    token = user.text("token")
    if token and not is_sendable(token):
        raise user.wrong("must be ASCII text without spaces", "token")
    return token or None


def _impersonation(user: _Entry) -> HeaderPairs:
    try:
        return impersonation_headers(user.values)
    except ValueError as error:
        field, _, problem = str(error).partition(": ")
        raise user.wrong(problem, field) from None


def is_sendable(token: str) -> bool:
    """Returns whether a token can be sent in a header."""
    return bool(token) and all("!" <= character <= "~" for character in token)


def _plugin(user: _Entry, cluster: _Entry) -> ExecPlugin | None:
    plugin = user.values.get("exec")
    if not plugin:
        return None
    if not isinstance(plugin, dict) or not isinstance(plugin.get("command"), str):
        raise user.wrong("must have a command", "exec")
    version = plugin.get("apiVersion")
    if version not in ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"):
        raise user.wrong("is not supported", "exec.apiVersion", value=version)
    if plugin.get("interactiveMode") == "Always":
        raise user.wrong("needs a terminal, and a scheduler has none", "exec.interactiveMode")
    command = plugin["command"]
    if os.sep in command:
        command = str(Path(user.file).absolute().parent / command)
    arguments = field_or(plugin, "args", [])
    if not isinstance(arguments, list) or not all(isinstance(text, str) for text in arguments):
        raise user.wrong("must be a list of texts", "exec.args")
    return ExecPlugin(
        command=command,
        arguments=tuple(arguments),
        environment=_variables(user, field_or(plugin, "env", [])),
        api_version=version,
        install_hint=str(plugin.get("installHint") or ""),
        cluster=_cluster_info(cluster) if plugin.get("provideClusterInfo") else None,
    )


def _variables(user: _Entry, listed: Any) -> dict[str, str]:
    variables = {}
    for item in listed if isinstance(listed, list) else [listed]:
        match item:
            case {"name": str(name), "value": str(value)}:
                variables[name] = value
            case _:
                raise user.wrong("must be a list of names and values", "exec.env")
    return variables


def _cluster_info(cluster: _Entry) -> dict[str, Any]:
    """Returns the cluster information for a plugin; its own config is in the extensions."""
    message: dict[str, Any] = {"server": cluster.text("server")}
    for word in ("tls-server-name", "insecure-skip-tls-verify", "proxy-url"):
        if cluster.values.get(word):
            message[word] = cluster.values[word]
    authority = cluster.content("certificate-authority")
    if authority is not None:
        pem = authority if isinstance(authority, bytes) else _read(str(authority))
        message["certificate-authority-data"] = base64.b64encode(pem).decode()
    extensions = field_or(cluster.values, "extensions", [])
    for extension in extensions if isinstance(extensions, list) else [None]:
        match extension:
            case {"name": "client.authentication.k8s.io/exec", "extension": config}:
                message["config"] = config
            case {"name": str()}:
                continue
            case _:
                raise cluster.wrong("must be a list of names and extensions", "extensions")
    return message

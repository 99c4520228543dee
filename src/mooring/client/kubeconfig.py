"""How to reach a server and who we are there: from kubeconfig files, or from inside of a pod.

Files are merged as kubectl does it: the first one that says something about a cluster, a user or a
context counts, and relative paths start at the file that they stand in.

Source: client-go's tools/clientcmd (loader.go, client_config.go) and rest/config.go. *Differs:* an
unverified server, basic authentication, auth-provider and impersonation are refused.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mooring.errors import ConfigError
from mooring.objects.documents import yaml_documents
from mooring.objects.files import read_bytes

SERVICE_ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

FILE_BYTES_MAX: Final = 1 << 20

#: What a user entry may say that we do not do; better an error than being somebody else.
_REFUSED: Final = {
    "username": "basic authentication is not supported",
    "auth-provider": "auth-provider is not supported: use an exec plugin",
    "as": "impersonation is not supported",
    "as-uid": "impersonation is not supported",
    "as-groups": "impersonation is not supported",
    "as-user-extra": "impersonation is not supported",
}


@dataclass(frozen=True)
class ExecPlugin:
    """A program that prints credentials: ``exec`` of a user entry."""

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    api_version: str
    install_hint: str
    #: What the plugin is told of the cluster, or None.
    cluster: Mapping[str, Any] | None


@dataclass(frozen=True)
class Access:
    """One server and one identity. PEM texts are bytes, or the path of a file that may change."""

    server: str
    authority: bytes | Path | None = None
    server_name: str | None = None
    proxy: str | None = None
    is_unverified: bool = False
    certificate: bytes | Path | None = field(default=None, repr=False)
    key: bytes | Path | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    plugin: ExecPlugin | None = field(default=None, repr=False)
    namespace: str = "default"


def find_access(
    kubeconfig: str | None = None,
    *,
    context: str | None = None,
    environment: Mapping[str, str],
    allow_unverified: bool = False,
) -> Access:
    """The server that is meant: the given file, else $KUBECONFIG, ~/.kube/config, or our own pod's.

    Args:
        kubeconfig: Path of one file, which must exist.
        context: Instead of the current one.
        environment: KUBECONFIG, HOME and the variables that every pod has.
        allow_unverified: Accept ``insecure-skip-tls-verify``; else it is an error.

    Raises:
        ConfigError: none is found, or what is found cannot be used.
    """
    if kubeconfig is not None:
        paths = [kubeconfig]
    else:
        listed = environment.get("KUBECONFIG", "")
        default = os.path.join(environment.get("HOME", ""), ".kube", "config")
        wanted = [path for path in listed.split(os.pathsep) if path] or [default]
        paths = [path for path in wanted if os.path.exists(path)]
    if paths:
        return read_kubeconfig(paths, context=context, allow_unverified=allow_unverified)
    if "KUBERNETES_SERVICE_HOST" in environment:
        return in_cluster(environment)
    raise ConfigError(
        "there is no kubeconfig file, and this is not a pod", path="KUBECONFIG", value=wanted
    )


def in_cluster(environment: Mapping[str, str], *, folder: Path = SERVICE_ACCOUNT_FOLDER) -> Access:
    """The API server of the cluster that this process is a pod of.

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
    """The server and identity of a context in kubeconfig files, merged in this order.

    Raises:
        ConfigError: a file cannot be read, or names something that is not there.
    """
    merged = _Merged()
    for path in paths:
        merged.add(path)
    shown = os.pathsep.join(paths)
    name = context or merged.current
    if not name:
        raise ConfigError("there is no current-context", file=shown, path="current-context")
    chosen = merged.entry("contexts", name, shown)
    cluster = merged.entry("clusters", chosen.text("cluster"), shown)
    user = merged.entry("users", chosen.text("user"), shown) if chosen.text("user") else _EMPTY
    for word, problem in _REFUSED.items():
        if user.values.get(word):
            raise ConfigError(problem, file=user.file, path=f"users[{user.name}].{word}")
    is_unverified = bool(cluster.values.get("insecure-skip-tls-verify"))
    if is_unverified and not allow_unverified:
        raise ConfigError(
            "the server would not be verified; give its certificate-authority instead",
            file=cluster.file,
            path=f"clusters[{cluster.name}].insecure-skip-tls-verify",
        )
    if not cluster.text("server"):
        raise ConfigError("has no server", file=cluster.file, path=f"clusters[{cluster.name}]")
    token_file = user.path("tokenFile")
    return Access(
        server=cluster.text("server"),
        authority=cluster.content("certificate-authority"),
        server_name=cluster.text("tls-server-name") or None,
        proxy=_proxy(cluster),
        is_unverified=is_unverified,
        certificate=user.content("client-certificate"),
        key=user.content("client-key"),
        # The file counts if there are both, as in client-go.
        token=None if token_file else user.text("token") or None,
        token_file=token_file,
        plugin=_plugin(user, cluster),
        namespace=chosen.text("namespace") or "default",
    )


@dataclass(frozen=True)
class _Entry:
    """A cluster, user or context, and the file that it stands in."""

    name: str
    file: str
    values: Mapping[str, Any]

    def text(self, word: str) -> str:
        value = self.values.get(word)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigError("must be text", file=self.file, path=f"{self.name}.{word}")
        return value

    def path(self, word: str) -> Path | None:
        text = self.text(word)
        return Path(self.file).absolute().parent / text if text else None

    def content(self, word: str) -> bytes | Path | None:
        """PEM: that of ``word-data``, else the file that ``word`` names."""
        data = self.text(f"{word}-data")
        if not data:
            return self.path(word)
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except binascii.Error as error:
            where = f"{self.name}.{word}-data"
            raise ConfigError(f"is not base64: {error}", file=self.file, path=where) from None


_EMPTY: Final = _Entry("", "", {})


class _Merged:
    """The entries of several files, the first of a name counts."""

    def __init__(self) -> None:
        self.current = ""
        self._entries: dict[tuple[str, str], _Entry] = {}

    def add(self, path: str) -> None:
        documents = list(yaml_documents(_read(path)))
        if not documents:
            return
        content = documents[0].value
        if not isinstance(content, dict):
            raise ConfigError("is not a kubeconfig", file=path)
        current = content.get("current-context") or ""
        if not isinstance(current, str):
            raise ConfigError("must be text", file=path, path="current-context", value=current)
        self.current = self.current or current
        for group, inner in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for number, item in enumerate(content.get(group) or ()):
                if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                    raise ConfigError("must have a name", file=path, path=f"{group}[{number}]")
                entry = _Entry(item["name"], path, item.get(inner) or {})
                self._entries.setdefault((group, entry.name), entry)

    def entry(self, group: str, name: str, shown: str) -> _Entry:
        found = self._entries.get((group, name))
        if found is None:
            known = ", ".join(sorted(known for kind, known in self._entries if kind == group))
            problem = f"is not there; there are: {known or 'none'}"
            raise ConfigError(problem, file=shown, path=group, value=name)
        return found


def _read(path: str) -> bytes:
    try:
        return read_bytes(path, bytes_max=FILE_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=path) from error


def _proxy(cluster: _Entry) -> str | None:
    proxy = cluster.text("proxy-url")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise ConfigError(
            "only http and https proxies are supported",
            file=cluster.file,
            path=f"clusters[{cluster.name}].proxy-url",
        )
    return proxy or None


def _plugin(user: _Entry, cluster: _Entry) -> ExecPlugin | None:
    found = user.values.get("exec")
    if not found:
        return None
    where = f"users[{user.name}].exec"
    if not isinstance(found, dict) or not isinstance(found.get("command"), str):
        raise ConfigError("must have a command", file=user.file, path=where)
    version = found.get("apiVersion")
    if version not in ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"):
        path = f"{where}.apiVersion"
        raise ConfigError("is not supported", file=user.file, path=path, value=version)
    if found.get("interactiveMode") == "Always":
        problem = "needs a terminal, and a scheduler has none"
        raise ConfigError(problem, file=user.file, path=f"{where}.interactiveMode")
    command = found["command"]
    if os.sep in command:
        command = str(Path(user.file).absolute().parent / command)
    variables = {item["name"]: item["value"] for item in found.get("env") or ()}
    return ExecPlugin(
        command=command,
        arguments=tuple(found.get("args") or ()),
        environment=variables,
        api_version=version,
        install_hint=str(found.get("installHint") or ""),
        cluster=_told(cluster) if found.get("provideClusterInfo") else None,
    )


def _told(cluster: _Entry) -> dict[str, Any]:
    """What a plugin is told of the cluster: its own configuration stands among the extensions."""
    told: dict[str, Any] = {"server": cluster.text("server")}
    for word in ("tls-server-name", "insecure-skip-tls-verify", "proxy-url"):
        if cluster.values.get(word):
            told[word] = cluster.values[word]
    authority = cluster.content("certificate-authority")
    if authority is not None:
        pem = authority if isinstance(authority, bytes) else authority.read_bytes()
        told["certificate-authority-data"] = base64.b64encode(pem).decode()
    for extension in cluster.values.get("extensions") or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            told["config"] = extension.get("extension")
    return told

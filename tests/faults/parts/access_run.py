"""Kubeconfig files with drawn entries, and which server and identity they mean.

Up to three files have entries of the same names, with files beside them, data, programs and users
to impersonate. The access of the chosen context is that of plain rules over the documents: the
first file with an entry counts, and paths are relative to it. In half of the draws one field is
wrong, which the error names. Programs that print credentials are run, too (``exec_plugins``).

Source: client-go's tools/clientcmd (loader.go, client_config.go), transport/round_trippers.go.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from mooring.client.transport.kubeconfig import (
    Access,
    ExecPlugin,
    NoAccess,
    find_access,
    in_cluster,
    master_url,
)
from mooring.clock import Rng, seeded_random
from mooring.errors import ConfigError
from tests.faults.parts.access_flaws import Flaw, break_document, drawn_flaw
from tests.faults.parts.exec_plugins import plugin_problems

DRAWS: Final = 8
V1: Final = "client.authentication.k8s.io/v1"
NAMES: Final = ("one", "two", "three")
SERVERS: Final = (
    *("https://one:6443", "https://two", "https://[::1]:6443", "http://localhost:8080"),
    *("http://127.0.0.1:8080", "https://10.0.0.1/prefix"),
)
PEM: Final = b"-----BEGIN CERTIFICATE-----\nAAAA\n"
#: Kept in a header name; all other bytes are escaped.
PLAIN: Final = "".join(chr(code) for code in range(48, 123) if chr(code).isalnum())
KEPT: Final = PLAIN + "_.-~!#$&'*+^`|"
#: What ``--master`` may be, and its URL: without TLS, with TLS; "" = an error.
MASTERS: Final = (
    ("https://a:6443", "https://a:6443", "https://a:6443"),
    ("http://a/prefix", "http://a/prefix", "http://a/prefix"),
    ("a", "http://a", "https://a"),
    ("10.0.0.1:6443", "http://10.0.0.1:6443", "https://10.0.0.1:6443"),
    ("a:6443/", "http://a:6443", "https://a:6443"),
    ("[::1]:80", "http://[::1]:80", "https://[::1]:80"),
    ("ftp://a", "", ""),
    ("a/b", "", ""),
    ("a:0", "", ""),
    ("a:99999", "", ""),
    ("a b", "", ""),
    ("https://", "", ""),
    ("a://b", "", ""),
    ("", "", ""),
)


class Entry(NamedTuple):
    """An entry and the folder of its file."""

    values: dict[str, Any]
    folder: Path

    def path(self, word: str) -> Path | None:
        """Returns the path in a field."""
        text = self.values.get(word)
        return self.folder / text if text else None

    def content(self, word: str) -> bytes | Path | None:
        """Returns the data, or else the path, of a field."""
        data = self.values.get(f"{word}-data")
        return base64.b64decode(data) if data else self.path(word)


class AccessRun:
    """One run.

    Attributes:
        problems: Differences to the rules.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.problems: list[str] = []
        self._rng, self._folder = seeded_random(seed), folder
        self._documents: dict[str, dict[str, Any]] = {}
        (folder / "ca.crt").write_bytes(PEM)
        (folder / "sub").mkdir()
        (folder / "sub" / "ca.crt").write_bytes(PEM + b"sub")

    def run(self) -> None:
        """Compares some accesses."""
        for _ in range(DRAWS):
            self._compare()
            if self.problems:
                return
        self._compare_places()
        self.problems += _pod_problems(self._rng, self._folder)
        self.problems += _master_problems()

    # -- the documents ----------------------------------------------------------------------------

    def _draw(self) -> None:
        rng = self._rng
        paths = [str(self._folder / rng.choice(("", "sub")) / f"config-{n}") for n in range(3)]
        self._documents = {path: self._document() for path in paths[: rng.randint(1, 3)]}

    def _document(self) -> dict[str, Any]:
        rng = self._rng
        document: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
        for group, made in (
            ("clusters", self._cluster),
            ("users", self._user),
            ("contexts", self._context),
        ):
            names = rng.sample(NAMES, rng.randint(2, 3))
            document[group] = [{"name": name, group[:-1]: made()} for name in names]
        if rng.random() < 0.7:
            document["current-context"] = rng.choice(NAMES)
        return document

    def _maybe(self, share: float, **fields: Any) -> dict[str, Any]:
        chosen = {word.replace("_", "-"): value for word, value in fields.items()}
        return chosen if self._rng.random() < share else {}

    def _data(self) -> str:
        data = base64.b64encode(PEM * self._rng.randint(1, 2)).decode()
        return self._rng.choice((data, f"{data[:8]}\n{data[8:]}"))

    def _cluster(self) -> dict[str, Any]:
        rng = self._rng
        return {
            "server": rng.choice(SERVERS),
            **self._maybe(0.4, certificate_authority=rng.choice(("ca.crt", "./ca.crt"))),
            **self._maybe(0.3, certificate_authority_data=self._data()),
            **self._maybe(0.3, tls_server_name="inner"),
            **self._maybe(0.3, proxy_url=rng.choice(("http://p:1", "https://u:x@p"))),
            **self._maybe(0.1, insecure_skip_tls_verify=False),
            **self._maybe(0.4, extensions=self._extensions()),
        }

    def _extensions(self) -> list[Any]:
        own = {"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}}
        return self._rng.sample([own, {"name": "other", "extension": 5}], self._rng.randint(0, 2))

    def _user(self) -> dict[str, Any]:
        rng = self._rng
        tokens: dict[str, Any] = {
            **self._maybe(0.5, token=rng.choice(("abc", ""))),
            **({"tokenFile": rng.choice(("token", "/tmp/token"))} if rng.random() < 0.3 else {}),
        }
        return {
            **tokens,
            **self._maybe(0.3, client_certificate="client.crt", client_key="client.key"),
            **self._maybe(0.2, client_certificate_data=self._data(), client_key_data=self._data()),
            **({"exec": self._exec()} if rng.random() < 0.4 else {}),
            **(self._as() if rng.random() < 0.4 else {}),
        }

    def _exec(self) -> dict[str, Any]:
        rng = self._rng
        plugin: dict[str, Any] = {
            "apiVersion": rng.choice((V1, f"{V1}beta1")),
            "command": rng.choice(("helper", "./helper", "bin/helper", "/bin/helper")),
        }
        return {
            **plugin,
            **self._maybe(0.5, args=rng.choice((["get", "token"], [], None))),
            **self._maybe(0.5, env=rng.choice(([{"name": "A", "value": "1"}], [], None))),
            **({"installHint": "get it"} if rng.random() < 0.3 else {}),
            **({"interactiveMode": "IfAvailable"} if rng.random() < 0.3 else {}),
            **({"provideClusterInfo": rng.choice((True, False))} if rng.random() < 0.7 else {}),
        }

    def _as(self) -> dict[str, Any]:
        rng = self._rng
        return {
            "as": rng.choice(("jané", "system:admin")),
            **self._maybe(0.5, as_uid=rng.choice(("7", ""))),
            **self._maybe(0.5, as_groups=rng.choice((["a", "b"], [], None))),
            **self._maybe(0.5, as_user_extra=rng.choice(({"a/é": ["x", "y"], "b": []}, None))),
        }

    def _context(self) -> dict[str, Any]:
        rng = self._rng
        return {
            "cluster": rng.choice(NAMES),
            **self._maybe(0.9, user=rng.choice(NAMES)),
            **self._maybe(0.5, namespace=rng.choice(("shop", ""))),
        }

    # -- the rules --------------------------------------------------------------------------------

    def _entry(self, group: str, name: str) -> Entry | None:
        for path, document in self._documents.items():
            for item in document[group]:
                if item["name"] == name:
                    return Entry(item[group[:-1]], Path(path).parent)
        return None

    def _expected(self, name: str) -> tuple[Access | None, Entry | None, Entry | None]:
        """Returns the access, None = an entry is missing; its cluster and its user."""
        context = self._entry("contexts", name) if name else None
        if context is None:
            return None, None, None
        cluster = self._entry("clusters", context.values["cluster"])
        user_name = context.values.get("user")
        user = self._entry("users", user_name) if user_name else Entry({}, Path())
        if cluster is None or user is None:
            return None, None, None
        token_file = user.path("tokenFile")
        access = Access(
            server=cluster.values["server"],
            authority=cluster.content("certificate-authority"),
            server_name=cluster.values.get("tls-server-name"),
            proxy=cluster.values.get("proxy-url"),
            is_unverified=cluster.values.get("insecure-skip-tls-verify", False),
            certificate=user.content("client-certificate"),
            key=user.content("client-key"),
            token=None if token_file else user.values.get("token") or None,
            token_file=token_file,
            plugin=_plugin(user, cluster) if "exec" in user.values else None,
            impersonation=tuple(_headers(user.values)),
            namespace=context.values.get("namespace") or "default",
        )
        return access, cluster, user if user_name else None

    def _compare(self) -> None:
        rng = self._rng
        self._draw()
        currents = [it.get("current-context") for it in self._documents.values()]
        current: str = next(filter(None, currents), "")
        chosen = rng.choice((None, None, *NAMES, "absent"))
        expected, cluster, user = self._expected(chosen or current)
        flaw: Flaw | None = None
        is_unverified = False
        if cluster is not None and rng.random() < 0.5:
            flaw = drawn_flaw(rng, cluster.values, None if user is None else user.values)
        elif expected is not None and cluster is not None and rng.random() < 0.2:
            is_unverified = True
            cluster.values.update({"insecure-skip-tls-verify": True, "server": "http://far"})
            expected, *_ = self._expected(chosen or current)
        if flaw is None and rng.random() < 0.2:
            flaw = break_document(rng, rng.choice(list(self._documents.values())))
        for path, document in self._documents.items():
            Path(path).write_text(json.dumps(document), "utf-8")
        environment = {"KUBECONFIG": os.pathsep.join([*self._documents, "/absent/config"])}
        real: Any
        try:
            real = find_access(
                context=chosen, environment=environment, allow_unverified=is_unverified
            )
        except ConfigError as error:
            real = error
        if flaw is not None:
            if not isinstance(real, ConfigError) or flaw.text not in str(real):
                self.problems.append(f"{flaw}: {real!r}")
            if isinstance(real, ConfigError) and real.file not in self._documents:
                self.problems.append(f"{flaw}: the error is in {real.file}")
        elif expected is None:
            text = str(real)
            names = {it["name"] for its in self._documents.values() for it in its["contexts"]}
            existing = f"existing: {', '.join(sorted(names))}"
            is_absent = chosen == "absent" and existing not in text
            if not isinstance(real, ConfigError) or is_absent:
                self.problems.append(f"an entry is missing for {chosen or current!r}, but {real!r}")
        elif real != expected:
            self.problems.append(f"the access is {real!r}, not {expected!r}")
        else:
            self._compare_copies(expected)

    def _compare_copies(self, access: Access) -> None:
        """Compares the same identity at other servers."""
        other = access.at("https://other")
        is_same = other.server == "https://other" and other.at(access.server) == access
        if not is_same and access.server.startswith("https://"):
            self.problems.append(f"at another server: {other!r}")
        plain = access.at("http://other")
        expected = Access("http://other", proxy=access.proxy, namespace=access.namespace)
        if plain != expected:
            self.problems.append(f"without TLS: {plain!r}")

    # -- where files are --------------------------------------------------------------------------

    def _compare_places(self) -> None:
        """Compares which file counts, and the account of a pod."""
        home, kube = self._folder / "home", self._folder / "home" / ".kube"
        kube.mkdir(parents=True, exist_ok=True)
        config = kube / "config"
        config.write_text(json.dumps(_named("home")), "utf-8")
        own = self._folder / "own"
        own.write_text(json.dumps(_named("own")), "utf-8")
        pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
        for kubeconfig, environment, expected in (
            (str(own), {"HOME": str(home)}, "https://own"),
            (None, {"HOME": str(home), "KUBECONFIG": ""}, "https://home"),
            (None, {"HOME": str(home), "KUBECONFIG": f"{os.pathsep}{own}"}, "https://own"),
            (None, {"HOME": "/absent", "KUBECONFIG": "/absent"}, NoAccess),
            (None, {}, NoAccess),
            ("/absent", {"HOME": str(home)}, ConfigError),
            (None, {**pod, "HOME": "/absent"}, ConfigError),
        ):
            try:
                real: Any = find_access(kubeconfig, environment=environment).server
            except ConfigError as error:
                real = type(error)
            if real != expected:
                self.problems.append(f"{kubeconfig} {environment}: {real}, not {expected}")


def _pod_problems(rng: Rng, parent: Path) -> Iterator[str]:
    """Yields a difference of the account of a pod, of which some parts may be missing."""
    folder = Path(tempfile.mkdtemp(dir=parent))
    files = [name for name in ("token", "ca.crt", "namespace") if rng.random() < 0.8]
    for name in files:
        (folder / name).write_text(" shop\n", "utf-8")
    host, port = rng.choice(("10.0.0.1", "fd00::1", "")), rng.choice(("443", "443", ""))
    words = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    expected: Any = ConfigError
    if host and port and {"token", "ca.crt"} <= set(files):
        expected = Access(
            server=f"https://[{host}]:443" if ":" in host else f"https://{host}:443",
            authority=folder / "ca.crt",
            token_file=folder / "token",
            namespace="shop" if "namespace" in files else "default",
        )
    try:
        real: Any = in_cluster(words, folder=folder)
    except ConfigError as error:
        real = type(error)
    if real != expected:
        yield f"in a pod with {files}, {words}: {real}, not {expected}"


def _master_problems() -> Iterator[str]:
    for text, plain, secure in MASTERS:
        for has_tls, expected in ((False, plain), (True, secure)):
            try:
                real = master_url(text, has_tls=has_tls)
            except ConfigError:
                real = ""
            if real != expected:
                yield f"{text!r} is {real!r}, not {expected!r}"


def _named(name: str) -> dict[str, Any]:
    return {
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}"}}],
        "contexts": [{"name": name, "context": {"cluster": name}}],
        "current-context": name,
    }


def _plugin(user: Entry, cluster: Entry) -> ExecPlugin:
    plugin = user.values["exec"]
    command = plugin["command"]
    return ExecPlugin(
        command=str(user.folder / command) if "/" in command else command,
        arguments=tuple(plugin.get("args") or ()),
        environment={it["name"]: it["value"] for it in plugin.get("env") or ()},
        api_version=plugin["apiVersion"],
        install_hint=plugin.get("installHint", ""),
        cluster=_info(cluster) if plugin.get("provideClusterInfo") else None,
    )


def _info(cluster: Entry) -> dict[str, Any]:
    """Returns what a program is passed of the cluster."""
    info = {"server": cluster.values["server"]}
    words = ("tls-server-name", "proxy-url", "insecure-skip-tls-verify")
    info |= {word: cluster.values[word] for word in words if cluster.values.get(word)}
    authority = cluster.content("certificate-authority")
    if authority is not None:
        pem = authority.read_bytes() if isinstance(authority, Path) else authority
        info["certificate-authority-data"] = base64.b64encode(pem).decode()
    for extension in cluster.values.get("extensions", ()):
        if extension["name"].endswith("/exec"):
            info["config"] = extension["extension"]
    return info


def _headers(user: dict[str, Any]) -> list[tuple[str, str]]:
    if not user.get("as"):
        return []
    headers = [("impersonate-user", user["as"])]
    if user.get("as-uid"):
        headers.append(("impersonate-uid", user["as-uid"]))
    headers += [("impersonate-group", group) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        escaped = "".join(
            chr(byte) if chr(byte) in KEPT else f"%{byte:02X}" for byte in key.encode()
        )
        headers += [(f"impersonate-extra-{escaped}", value) for value in values]
    return headers


def run_access(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an access differs from the rules.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = AccessRun(seed, Path(folder).resolve())
        run.run()
    problems = run.problems or plugin_problems(seeded_random(seed + 1))
    assert not problems, problems[0]

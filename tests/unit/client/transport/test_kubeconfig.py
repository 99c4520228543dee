"""Kubeconfig files: which server and identity they mean, and what is refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.client.transport.kubeconfig import (
    Access,
    find_access,
    in_cluster,
    master_url,
    read_kubeconfig,
)
from mooring.errors import ConfigError

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def content(
    name: str = "one",
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    current: str | None = None,
) -> dict[str, Any]:
    """Returns a kubeconfig in which everything is called ``name``."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}:6443", **(cluster or {})}}
        ],
        "users": [{"name": name, "user": {"token": f"token-{name}"} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
        "current-context": name if current is None else current,
    }


def write(path: Path, **fields: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content(**fields)), "utf-8")
    return str(path)


def test_the_current_context_says_who_and_where(tmp_path: Path) -> None:
    path = write(tmp_path / "config", context={"namespace": "shop"})
    assert read_kubeconfig([path]) == Access(
        server="https://one:6443", token="token-one", namespace="shop"
    )


def test_a_user_can_be_impersonated(tmp_path: Path) -> None:
    extra = {"example.com/scope é": ["one", "two"], "reason": []}
    user = {"as": "jané", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": extra}
    assert read_kubeconfig([write(tmp_path / "config", user=user)]).impersonation == (
        ("impersonate-user", "jané"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "a"),
        ("impersonate-group", "b"),
        ("impersonate-extra-example.com%2Fscope%20%C3%A9", "one"),
        ("impersonate-extra-example.com%2Fscope%20%C3%A9", "two"),
    )


def test_yaml_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        """
apiVersion: v1
kind: Config
current-context: here
clusters:
- name: c
  cluster: {server: "http://127.0.0.1:8080"}
contexts:
- name: here
  context: {cluster: c, user: ""}
users: []
preferences: {}
""",
        "utf-8",
    )
    assert read_kubeconfig([str(path)]) == Access(server="http://127.0.0.1:8080")


def test_the_first_file_that_says_something_counts(tmp_path: Path) -> None:
    first = write(tmp_path / "a", name="one", user={"token": "first"}, current="")
    second = write(tmp_path / "b", name="one", user={"token": "second"}, current="two")
    third = write(tmp_path / "c", name="two", current="one")
    assert read_kubeconfig([first, second, third]).server == "https://two:6443"
    chosen = read_kubeconfig([first, second, third], context="one")
    assert chosen.token == "first"


def test_relative_paths_start_at_their_own_file(tmp_path: Path) -> None:
    first = write(tmp_path / "a" / "config", name="one", user={"client-certificate": "me.crt"})
    fields = {"client-certificate": "me.crt", "client-key": "/keys/me.key", "tokenFile": "t"}
    second = write(
        tmp_path / "b" / "config", name="two", cluster={"certificate-authority": "ca"}, user=fields
    )
    found = read_kubeconfig([first, second], context="two")
    assert found.certificate == tmp_path / "b" / "me.crt"
    assert found.key == Path("/keys/me.key")
    assert found.authority == tmp_path / "b" / "ca"
    assert found.token_file == tmp_path / "b" / "t"


def test_data_counts_before_files(tmp_path: Path) -> None:
    path = write(
        tmp_path / "config",
        cluster={"certificate-authority": "x", "certificate-authority-data": encoded("CA")},
        user={"client-certificate-data": encoded("CRT"), "client-key-data": encoded("KEY")},
    )
    found = read_kubeconfig([path])
    assert (found.authority, found.certificate, found.key) == (b"CA", b"CRT", b"KEY")


def test_a_token_file_counts_before_a_token(tmp_path: Path) -> None:
    path = write(tmp_path / "config", user={"token": "old", "tokenFile": "/t"})
    found = read_kubeconfig([path])
    assert (found.token, found.token_file) == (None, Path("/t"))


def test_the_name_in_the_certificate_and_a_proxy(tmp_path: Path) -> None:
    cluster = {"tls-server-name": "kubernetes", "proxy-url": "http://proxy:3128"}
    found = read_kubeconfig([write(tmp_path / "config", cluster=cluster)])
    assert (found.server_name, found.proxy) == ("kubernetes", "http://proxy:3128")


def test_secrets_are_not_shown() -> None:
    access = Access("https://a", token="SECRET", key=b"SECRET", certificate=b"SECRET")
    assert "SECRET" not in repr(access)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"cluster": {"insecure-skip-tls-verify": True}}, "would not be verified"),
        ({"cluster": {"proxy-url": "socks5://x"}}, "only http and https proxies"),
        ({"cluster": {"server": ""}}, "has no server"),
        ({"cluster": {"server": 7}}, "clusters[one].server: must be a string"),
        ({"cluster": {"server": "127.0.0.1:6443"}}, "begins with https://, got '127.0.0.1:6443'"),
        ({"cluster": {"server": "https://"}}, "begins with https://"),
        ({"cluster": {"server": "https://a:99999"}}, "begins with https://, got 'https://a:99999'"),
        ({"cluster": {"server": "https://a:x"}}, "clusters[one].server: must be a URL"),
        ({"cluster": {"server": "https://[::1"}}, "clusters[one].server: must be a URL"),
        ({"cluster": {"server": "https://a b"}}, "clusters[one].server: must be a URL"),
        ({"cluster": {"server": "https://%zz"}}, "clusters[one].server: must be a URL"),
        ({"cluster": {"server": "http://10.0.0.1:8080"}}, "unless it is this machine"),
        ({"cluster": {"server": "http://kubernetes:8080"}}, "unless it is this machine"),
        ({"user": {"token": "a b"}}, "users[one].token: must be ASCII text without spaces"),
        ({"user": {"exec": {**EXEC, "args": "-c"}}}, "exec.args: must be a list of texts"),
        ({"user": {"exec": {**EXEC, "args": [1]}}}, "exec.args: must be a list of texts"),
        ({"user": {"exec": {**EXEC, "args": False}}}, "exec.args: must be a list of texts"),
        ({"user": {"exec": {**EXEC, "env": {}}}}, "exec.env: must be a list of names"),
        ({"user": {"exec": {**EXEC, "env": [{"name": "A"}]}}}, "exec.env: must be a list of names"),
        ({"user": {"exec": {**EXEC, "env": {"A": "b"}}}}, "exec.env: must be a list of names"),
        (
            {
                "user": {"exec": {**EXEC, "provideClusterInfo": True}},
                "cluster": {"extensions": ["x"]},
            },
            "clusters[one].extensions: must be a list of names",
        ),
        *(
            (
                {
                    "user": {"exec": {**EXEC, "provideClusterInfo": True}},
                    "cluster": {"extensions": extensions},
                },
                "clusters[one].extensions: must be a list of names",
            )
            for extensions in (1, True, "x", {"name": "x"})
        ),
        ({"cluster": {"server": f"https://{'x' * 64}"}}, "clusters[one].server: must be a URL"),
        ({"cluster": {"server": "https://a..b"}}, "clusters[one].server: must be a URL"),
        ({"cluster": {"proxy-url": f"http://{'x' * 64}"}}, "proxy-url: must be a URL with a host"),
        ({"cluster": {"proxy-url": "http://"}}, "proxy-url: must be a URL with a host"),
        ({"cluster": {"proxy-url": "http://[::1"}}, "proxy-url: must be a URL with a host"),
        (
            {"cluster": {"certificate-authority-data": "???"}},
            "clusters[one].certificate-authority-data: is not base64",
        ),
        (
            {"cluster": {"certificate-authority-data": "\u202e"}},
            "clusters[one].certificate-authority-data: is not base64",
        ),
        ({"user": {"username": "me", "password": "x"}}, "basic authentication"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "use an exec plugin"),
        ({"user": {"as": ["root"]}}, "users[one].as: must be a string"),
        ({"user": {"as": "a\nb"}}, "users[one].as: must not contain control characters"),
        ({"user": {"as-groups": ["a"]}}, "users[one].as-groups: needs a user to impersonate"),
        ({"user": {"as": "a", "as-groups": "b"}}, "as-groups: must be a list of strings"),
        ({"user": {"as": False}}, "as: must be a string"),
        ({"user": {"as-uid": 0}}, "as-uid: must be a string"),
        ({"user": {"as-groups": 0}}, "as-groups: must be a list of strings"),
        ({"user": {"as-user-extra": []}}, "as-user-extra: must be a mapping of lists of strings"),
        ({"user": {"as": "a", "as-user-extra": ["b"]}}, "as-user-extra: must be a mapping"),
        (
            {"user": {"as": "a", "as-user-extra": {"b": ["c", 1]}}},
            "users[one].as-user-extra[b]: must be a string",
        ),
        ({"user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}}, "have a command"),
        ({"user": {"exec": {"command": "x", "apiVersion": "v1alpha1"}}}, "is not supported"),
        (
            {
                "user": {
                    "exec": {
                        "command": "x",
                        "apiVersion": "client.authentication.k8s.io/v1",
                        "interactiveMode": "Always",
                    }
                }
            },
            "needs a terminal",
        ),
        ({"context": {"cluster": "lost"}}, "no cluster 'lost'; existing: one"),
        ({"context": {"user": "lost"}}, "no user 'lost'; existing: one"),
        ({"current": "lost"}, "no context 'lost'; existing: one"),
        ({"current": ""}, "no current-context"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, fields: dict[str, Any], problem: str) -> None:
    path = write(tmp_path / "config", **fields)
    with pytest.raises(ConfigError) as refused:
        read_kubeconfig([path])
    assert problem in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "7",
        '{"clusters": [7]}',
        '{"users": {"a": 1}}',
        '{"users": [{"name": "a", "user": [1]}]}',
        '{"current-context": 7}',
        "{",
    ],
)
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as refused:
        read_kubeconfig([str(path)])
    assert str(path) in str(refused.value)


def test_an_unverified_server_needs_to_be_allowed(tmp_path: Path) -> None:
    path = write(tmp_path / "config", cluster={"insecure-skip-tls-verify": True})
    assert read_kubeconfig([path], allow_unverified=True).is_unverified


def test_a_plugin_with_all_that_it_may_say(tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "bin/login",
        "args": ["--for", "me"],
        "env": [{"name": "A", "value": "1"}],
        "installHint": "get it there",
        "provideClusterInfo": True,
        "interactiveMode": "IfAvailable",
    }
    cluster = {
        "certificate-authority-data": encoded("CA"),
        "tls-server-name": "kubernetes",
        "extensions": [
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
        ],
    }
    found = read_kubeconfig(
        [write(tmp_path / "config", cluster=cluster, user={"exec": plugin})]
    ).plugin
    assert found is not None
    assert found.command == str(tmp_path / "bin" / "login")
    assert found.arguments == ("--for", "me")
    assert found.environment == {"A": "1"}
    assert found.install_hint == "get it there"
    assert found.cluster == {
        "server": "https://one:6443",
        "tls-server-name": "kubernetes",
        "certificate-authority-data": encoded("CA"),
        "config": {"audience": "x"},
    }


def test_a_plugin_on_the_path_is_left_alone_and_told_nothing(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws"}
    found = read_kubeconfig([write(tmp_path / "config", user={"exec": plugin})]).plugin
    assert found is not None
    assert (found.command, found.cluster) == ("aws", None)


# -- where to look --------------------------------------------------------------------------------


def test_a_file_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        find_access(str(tmp_path / "none"), environment={})


def test_the_variable_lists_files_of_which_some_may_be_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "config")
    listed = {"KUBECONFIG": f"{tmp_path}/none::{path}", "HOME": "/nowhere"}
    assert find_access(environment=listed).server == "https://one:6443"


def test_without_the_variable_it_is_the_home_folder(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config")
    assert find_access(environment={"HOME": str(tmp_path)}).token == "token-one"


def test_nothing_is_found(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no kubeconfig file, and this is not a pod"):
        find_access(environment={"HOME": str(tmp_path)})


def test_in_a_pod_it_is_the_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t", "ascii")
    (tmp_path / "ca.crt").write_text("c", "ascii")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = in_cluster(environment, folder=tmp_path)
    assert found == Access(
        server="https://[fd00::1]:443",
        authority=tmp_path / "ca.crt",
        token_file=tmp_path / "token",
    )
    (tmp_path / "namespace").write_text("shop\n", "ascii")
    assert in_cluster(environment, folder=tmp_path).namespace == "shop"


def test_a_pod_without_a_service_account_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be set"):
        in_cluster({}, folder=tmp_path)
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ConfigError, match="no service account"):
        in_cluster(environment, folder=tmp_path)


def test_a_plugin_is_told_the_authority_that_stands_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("CA", "ascii")
    cluster = {"certificate-authority": "ca.crt", "extensions": [{"name": "else"}]}
    user = {"exec": {**EXEC, "provideClusterInfo": True}}
    path = write(tmp_path / "config", cluster=cluster, user=user)
    found = read_kubeconfig([path]).plugin
    assert found is not None
    assert found.cluster == {
        "server": "https://one:6443",
        "certificate-authority-data": encoded("CA"),
    }
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(ConfigError, match=r"ca\.crt: cannot be read"):
        read_kubeconfig([path])


def test_a_file_in_the_folder_that_we_happen_to_be_in_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / ".kube" / "config")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="no kubeconfig file"):
        find_access(environment={})


def test_plain_http_is_for_this_machine(tmp_path: Path) -> None:
    for host in ("localhost", "127.0.0.1", "[::1]"):
        path = write(tmp_path / "config", cluster={"server": f"http://{host}:8080"})
        assert read_kubeconfig([path]).server == f"http://{host}:8080"
    path = write(tmp_path / "config", cluster={"server": "http://10.0.0.1:8080"})
    assert read_kubeconfig([path], allow_unverified=True).server == "http://10.0.0.1:8080"


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    path = write(tmp_path / "config")
    assert read_kubeconfig([str(tmp_path / "empty"), path]).token == "token-one"


def test_in_a_pod_without_a_file_it_is_the_pods_own_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ConfigError, match="no service account"):
        find_access(environment={**environment, "HOME": str(tmp_path)})


def test_a_file_that_is_no_text_at_all_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}: cannot be read"):
        read_kubeconfig([str(tmp_path)])


@pytest.mark.parametrize(
    ("text", "has_tls", "url"),
    [
        ("http://10.0.0.1:8080/prefix", True, "http://10.0.0.1:8080/prefix"),
        ("https://[fe80::1%25eth0]:6443", False, "https://[fe80::1%25eth0]:6443"),
        ("localhost", False, "http://localhost"),
        ("10.0.0.1:8080", False, "http://10.0.0.1:8080"),
        ("[::1]:6443/", True, "https://[::1]:6443"),
    ],
)
def test_a_master_is_a_url_or_a_host(text: str, has_tls: bool, url: str) -> None:
    assert master_url(text, has_tls=has_tls) == url


@pytest.mark.parametrize(
    "text",
    [
        *("", ":::bad", "http://", "https://a:99999", "https://a:x", "https://[::1", "a b"),
        *("/path", "ftp://a", "a:0", "a/path", "https://%zz"),
    ],
)
def test_a_master_that_is_neither_a_url_nor_a_host_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        master_url(text, has_tls=False)
    assert str(caught.value) == f'host must be a URL or a host:port pair: "{text}"'

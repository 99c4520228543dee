"""Kubeconfig files: what is in them, and who can read them."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from mooring.testing.controlplane.certificates import IDENTITIES, Pair, file_name
from mooring.testing.controlplane.kubeconfig import Access, write_kubeconfig

URL = "https://127.0.0.1:24002"


@pytest.fixture
def access(tmp_path: Path) -> Access:
    """Creates a control plane's folder, with texts instead of certificates."""
    for name in ("pki", "kubeconfig"):
        (tmp_path / name).mkdir()
    (tmp_path / "pki" / "ca.crt").write_text("the authority")
    for name in IDENTITIES:
        (tmp_path / "pki" / f"{file_name(name)}.crt").write_text(f"certificate of {name}")
        (tmp_path / "pki" / f"{file_name(name)}.key").write_text(f"key of {name}")
    return Access(tmp_path, programs=tmp_path / "bin", url=URL)


def decoded(text: str) -> str:
    return base64.b64decode(text).decode()


@pytest.mark.parametrize("identity", IDENTITIES)
def test_everything_needed_is_inside(access: Access, identity: str) -> None:
    content = json.loads(access.kubeconfig(identity).read_text())

    context = {entry["name"]: entry["context"] for entry in content["contexts"]}
    used = context[content["current-context"]]
    cluster = {entry["name"]: entry["cluster"] for entry in content["clusters"]}[used["cluster"]]
    user = {entry["name"]: entry["user"] for entry in content["users"]}[used["user"]]
    assert cluster["server"] == URL
    assert decoded(cluster["certificate-authority-data"]) == "the authority"
    assert decoded(user["client-certificate-data"]) == f"certificate of {identity}"
    assert decoded(user["client-key-data"]) == f"key of {identity}"


def test_only_its_owner_can_read_it(access: Access) -> None:
    path = access.kubeconfig("mooring")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [other.name for other in path.parent.iterdir()] == [path.name]


def test_a_file_that_was_open_to_all_is_not_any_more(access: Access) -> None:
    path = access.folder / "mine.kubeconfig"
    path.write_text("old")
    path.chmod(0o644)
    write_kubeconfig(path, url=URL, authority=access.authority, token="secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_stands_alone(access: Access) -> None:
    path = access.folder / "token.kubeconfig"
    write_kubeconfig(path, url=URL, authority=access.authority, token="abc")
    assert json.loads(path.read_text())["users"] == [{"name": "token", "user": {"token": "abc"}}]


def test_no_path_contains_a_colon(access: Access) -> None:
    assert all(":" not in access.kubeconfig(identity).name for identity in IDENTITIES)


def test_an_unknown_identity_is_named_with_those_there_are(access: Access) -> None:
    with pytest.raises(KeyError, match="no identity 'root'; there are admin, "):
        access.kubeconfig("root")


def test_the_environment_of_users_stays_outside(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("KUBECONFIG", "/somewhere")
    assert set(access.environment()) == {"PATH", "HOME"}
    assert access.environment()["HOME"].startswith(str(access.folder))


def test_a_pair_is_two_files_of_one_name(tmp_path: Path) -> None:
    assert Pair.of(tmp_path, "etcd") == (tmp_path / "etcd.crt", tmp_path / "etcd.key")

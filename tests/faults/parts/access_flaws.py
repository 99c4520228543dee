"""Fields of a kubeconfig that are wrong, one at a time, and what the error says."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from mooring.clock import Rng

V1: Final = "client.authentication.k8s.io/v1"
COMMAND: Final = {"apiVersion": V1, "command": "x"}
LISTS: Final = "must be a list of strings"
HTTPS: Final = "must be a URL that begins with https://"
#: Field of a cluster -> wrong values, and the text of the error.
OF_CLUSTERS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("server", "", "has no server"),
    ("server", None, "has no server"),
    *(
        ("server", value, HTTPS)
        for value in ("ftp://a", "https://", "a:6443", "https://a:0", "https://a:70000")
    ),
    ("server", "https://a b", HTTPS),
    ("server", "https://a..b", HTTPS),
    ("server", "http://example.com", "must begin with https:// unless it is this machine"),
    ("server", 0, "must be a string"),
    ("proxy-url", "socks5://p", "only http and https proxies are supported"),
    ("proxy-url", "http://", "must be a URL with a host"),
    ("insecure-skip-tls-verify", True, "the server would not be verified"),
    ("certificate-authority-data", "!", "is not base64"),
)
OF_USERS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("username", "jane", "basic authentication is not supported"),
    ("auth-provider", {"name": "x"}, "auth-provider is not supported"),
    ("token", 7, "must be a string"),
    ("token", "a b", "must be ASCII text without spaces"),
    ("token", "é", "must be ASCII text without spaces"),
    ("client-key-data", "a", "is not base64"),
    ("exec", {"apiVersion": V1}, "must have a command"),
    ("exec", ["x"], "must have a command"),
    ("exec", {**COMMAND, "apiVersion": f"{V1}alpha1"}, "is not supported"),
    ("exec", {"command": "x"}, "is not supported"),
    ("exec", {**COMMAND, "interactiveMode": "Always"}, "needs a terminal"),
    ("exec", {**COMMAND, "args": "get"}, "must be a list of texts"),
    ("exec", {**COMMAND, "args": ["get", 5]}, "must be a list of texts"),
    ("exec", {**COMMAND, "env": {"A": "1"}}, "must be a list of names and values"),
    ("exec", {**COMMAND, "env": [{"name": "A"}]}, "must be a list of names and values"),
    ("as", False, "must be a string"),
    ("as", "a\nb", "must not contain control characters"),
    ("as-groups", "a", LISTS),
    ("as-groups", ["a", 5], "must be a string"),
    ("as-groups", ["a\x00"], "must not contain control characters"),
    ("as-user-extra", ["a"], "must be a mapping of lists of strings"),
    ("as-user-extra", {"a": "b"}, LISTS),
)
NEEDS_USER: Final = ("as-uid", "as-groups", "as-user-extra")


class Flaw(NamedTuple):
    """A field, and what the error says."""

    path: str
    text: str


def drawn_flaw(rng: Rng, cluster: dict[str, Any], user: dict[str, Any] | None) -> Flaw:
    """Makes a field of a cluster or of a user wrong."""
    if user is None or rng.random() < 0.4:
        word, value, text = rng.choice(OF_CLUSTERS)
        cluster[word] = value
        return Flaw(f"cluster.{word}", text)
    if rng.random() < 0.15:
        word = rng.choice(NEEDS_USER)
        for other in ("as", *NEEDS_USER):
            user.pop(other, None)
        user[word] = {"as-uid": "1", "as-groups": ["a"], "as-user-extra": {"a": ["b"]}}[word]
        return Flaw(f"user.{word}", f"].{word}: needs a user to impersonate")
    word, value, text = rng.choice(OF_USERS)
    user[word] = value
    if word == "token":
        user.pop("tokenFile", None)  # it takes precedence
    if word.startswith("as-"):
        user["as"] = "jane"
    return Flaw(f"user.{word}", text)


def break_document(rng: Rng, document: dict[str, Any]) -> Flaw:
    """Makes a part of a document wrong, in which it has its entries."""
    group = rng.choice(("clusters", "users", "contexts"))
    items: list[Any] = document[group]
    draw = rng.randrange(5)
    if draw == 0:
        document["current-context"] = 5
        return Flaw("current-context", "current-context: must be a string, got 5")
    if draw == 1:
        document[group] = {"name": "one"}
        return Flaw(group, f"{group}: must be a list")
    if draw == 2:
        items.append(rng.choice((5, {}, {"name": 5}, None)))
        return Flaw(group, f"{group}[{len(items) - 1}]: must have a name")
    name = items[-1]["name"]
    if draw == 3:
        items[-1][group[:-1]] = rng.choice((5, ["a"], "a"))
        return Flaw(group, f"{group}[{name}].{group[:-1]}: must be a mapping")
    document["clusters"] = 5
    return Flaw("clusters", "clusters: must be a list")

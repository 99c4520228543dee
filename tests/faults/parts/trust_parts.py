"""Certificates, keys and authorities as they are configured, and which of them cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mooring.client.transport.kubeconfig import Access
from mooring.clock import Rng
from mooring.config.types import ExtenderTLSConfig
from tests.faults.parts.certificates import NAMES, certificate, key


class Part(NamedTuple):
    """A certificate, key or authority as it is configured.

    Attributes:
        form: "data", "file", "" = none, "absent" = a file that does not exist, "null" = a name that
            no file can have.
        name: Of the certificate; "" = garbage.
        password: Of a key.
    """

    form: str = ""
    name: str = ""
    password: str = ""


class DrawnParts:
    """Draws certificates, keys and authorities."""

    def __init__(self, rng: Rng, folder: Path) -> None:
        self._rng, self._folder = rng, folder
        self._count = 0

    def _parts(self, *, has_null: bool) -> tuple[Part, Part, Part]:
        """Returns an authority, a certificate and its key; about half can be used."""
        rng = self._rng
        forms = ("data", "file")
        bad = ("absent", "null") if has_null else ("absent",)
        authority = Part(rng.choice((*forms, *forms, "")), rng.choice(NAMES[:2]))
        name = rng.choice(NAMES[:2])
        pair = Part(rng.choice(forms), name), Part(rng.choice(forms), name)
        draw = rng.randrange(16)
        if draw < 4:
            pair = Part(), Part()
        elif draw == 4:
            authority = Part(rng.choice(forms))
        elif draw == 5:
            authority = Part(rng.choice(bad))
        elif draw == 6:
            pair = pair[0], Part(rng.choice(forms), NAMES[2])
        elif draw == 7:
            pair = pair[0], pair[1]._replace(password="secret")
        elif draw == 8:
            pair = pair[0], Part()
        elif draw == 9:
            pair = Part(rng.choice(forms)), pair[1]
        elif draw == 10:
            pair = Part(rng.choice(bad)), pair[1]
        elif draw == 11:
            pair = pair[0], Part(rng.choice(bad))
        return authority, *pair

    def _value(self, part: Part, content: Callable[[str], bytes]) -> bytes | Path | None:
        """Returns the data, or the path of a new file with it."""
        if part.form == "null":
            return Path("a\0b")
        if not part.form:
            return None
        self._count += 1
        path = self._folder / f"{self._count}.pem"
        if part.form == "absent":
            return path
        data = content(part.name) if part.name else self._rng.choice((b"garbage", b"\xff"))
        if part.form == "data":
            return data
        path.write_bytes(data)
        return path

    def _values(self, parts: tuple[Part, Part, Part]) -> list[bytes | Path | None]:
        authority, public, secret = parts
        return [
            self._value(authority, certificate),
            self._value(public, certificate),
            self._value(secret, lambda name: key(name, secret.password)),
        ]

    def _replace_pair(self, tls: ExtenderTLSConfig) -> tuple[Part, Part]:
        """Writes another certificate, and a key that may be of another one, or is missing."""
        name, other = self._rng.choice(NAMES), self._rng.choice((*NAMES, ""))
        Path(tls.cert_file).write_bytes(certificate(name))
        if other:
            Path(tls.key_file).write_bytes(key(other))
        else:
            Path(tls.key_file).unlink(missing_ok=True)
        return Part("file", name), Part("file", other)


def access_error(parts: tuple[Part, Part, Part], access: Access) -> tuple[str | None, str] | None:
    """Returns the path of the error in an access, and a part of its text."""
    authority, public, secret = parts
    for part, value in ((authority, access.authority), *_pair_values(parts, access)):
        if part is public and public.form and not secret.form:
            return "client-key", "a client certificate without a key"
        if part.form == "absent":
            return None, f"{value}: cannot be read: No such file or directory"
        if part.form == "null":
            return None, "cannot be read: embedded null byte"
        if part is authority and part.form and not part.name:
            file = value if part.form == "file" else access.server
            return "certificate-authority", f"{file}: certificate-authority: is not a certificate"
    return _pair_error(public, secret)


def _pair_values(parts: tuple[Part, Part, Part], access: Access) -> list[tuple[Part, Any]]:
    has_pair = bool(parts[1].form)
    return [(parts[1], access.certificate), (parts[2], access.key)] if has_pair else []


def _pair_error(public: Part, secret: Part) -> tuple[str, str] | None:
    if not public.form:
        return None
    if not public.name or not secret.name:
        return "client-certificate", "cannot be used: "
    if secret.password:
        return "client-key", "needs a password; give a key without one"
    return None if public.name == secret.name else ("client-certificate", "cannot be used: ")


def extender_error(
    path: str, parts: tuple[Part, Part, Part], tls: ExtenderTLSConfig | None, fields: dict[str, str]
) -> tuple[str, str] | None:
    """Returns the path of the error in the TLS settings of an extender, and a part of its text."""
    if tls is None:
        return None
    where = f"{path}.tlsConfig"
    authority, public, secret = parts
    text = "no such file or directory"
    if authority.form == "absent":
        return f"{where}.caFile", f"open {fields['ca_file']}: {text}"
    if authority.form and not authority.name:
        form = "caData" if authority.form == "data" else "caFile"
        return f"{where}.{form}", "unable to load root certificates"
    for part, word in ((public, "cert"), (secret, "key")):
        if part.form == "absent":
            return f"{where}.{word}File", f"open {fields[f'{word}_file']}: {text}"
    if bool(public.form) != bool(secret.form):
        return f"{where}.{'keyFile' if public.form else 'certFile'}", "is needed, too"
    problem = _pair_error(public, secret)
    return None if problem is None else (where, problem[1])

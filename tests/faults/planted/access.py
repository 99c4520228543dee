"""Bugs in what kubeconfig files mean, and in programs that print credentials."""

from __future__ import annotations

from typing import Final

from mooring.client.transport import exec_plugin, impersonation, kubeconfig
from mooring.client.transport.kubeconfig import Access
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "last_file_counts",
        "Of several files with an entry of a name the last one counts",
        kubeconfig._Merged,
        "add",
        "self._entries.setdefault((group, entry.name), entry)",
        "self._entries[group, entry.name] = entry",
        runs="access",
        seed=0,
    ),
    PlantedBug(
        "paths_of_this_folder",
        "A path is relative to the working directory, not to its file",
        kubeconfig._Entry,
        "path",
        "Path(self.file).absolute().parent / text if text else None",
        "Path(text) if text else None",
        runs="access",
        seed=1,
    ),
    PlantedBug(
        "token_beside_its_file",
        "A token is used though there is a file with one",
        kubeconfig,
        "read_kubeconfig",
        "token=None if token_file else _token(user),",
        "token=_token(user),",
        runs="access",
        seed=6,
    ),
    PlantedBug(
        "identity_without_tls",
        "Credentials are sent to another server without TLS",
        Access,
        "at",
        'if server.startswith("https://"):',
        'if server.startswith("http"):',
        runs="access",
        seed=0,
    ),
    PlantedBug(
        "context_of_the_last_file",
        "The current context is that of the last file",
        kubeconfig._Merged,
        "add",
        "self.current = self.current or current",
        "self.current = current or self.current",
        runs="access",
        seed=0,
    ),
    PlantedBug(
        "groups_without_a_user",
        "Groups without a user to impersonate are ignored",
        impersonation,
        "impersonation_headers",
        '("as-groups", groups), ',
        "",
        runs="access",
        seed=0,
    ),
    PlantedBug(
        "half_of_a_pair",
        "A program may print a certificate without its key",
        exec_plugin,
        "_credential",
        "if bool(status.client_certificate_data) != bool(status.client_key_data):",
        "if bool(status.client_certificate_data) < bool(status.client_key_data):",
        runs="access",
        seed=9,
    ),
    PlantedBug(
        "program_has_its_own_code",
        "A variable of the process takes precedence over one of the program",
        exec_plugin,
        "run_plugin",
        "        **environment,\n        **plugin.environment,",
        "        **plugin.environment,\n        **environment,",
        runs="access",
        seed=0,
    ),
]

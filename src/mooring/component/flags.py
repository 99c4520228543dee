"""The command line of ``mooring run``: kube-scheduler's flags, parsed as it parses them.

::

    words ── parse ──> Options(serving=..., logging=..., given_flags={"v", "config"})
               └─ FlagError: the usage text, then "Error: ...", exit code 1

"-" and "_" are the same in names; a name is never abbreviated. The last value of a flag counts, and
lists grow.

Source: github.com/spf13/pflag (parseLongArg, parseSingleShortArg), cobra's Command.execute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mooring.component.flag_kinds import VERSION, CertKey, VModule
from mooring.component.flag_table import (
    AUTHENTICATION,
    AUTHORIZATION,
    FLAGS,
    LEADER_ELECTION,
    LOGS,
    METRICS,
    SERVING,
    Flag,
)
from mooring.component.go_values import GoError, quote
from mooring.component.version import VERSION_TEXT
from mooring.objects.quantity import Quantity


class FlagError(Exception):
    """A command line that cannot be parsed.

    Attributes:
        shows_usage: Whether the usage text comes before the message.
    """

    def __init__(self, message: str, *, shows_usage: bool = True) -> None:
        super().__init__(message)
        self.shows_usage = shows_usage


@dataclass(frozen=True)
class ServingFlags:
    """Flags of the HTTPS server."""

    bind_address: str
    cert_dir: str
    disable_http2_serving: bool
    http2_max_streams_per_connection: int
    permit_address_sharing: bool
    permit_port_sharing: bool
    secure_port: int
    tls_cert_file: str
    tls_cipher_suites: tuple[str, ...]
    tls_curve_preferences: tuple[int, ...]
    tls_min_version: str
    tls_private_key_file: str
    tls_sni_cert_key: tuple[CertKey, ...]


@dataclass(frozen=True)
class AuthenticationFlags:
    """Flags of delegated authentication; durations in seconds."""

    authentication_kubeconfig: str
    authentication_skip_lookup: bool
    authentication_token_webhook_cache_ttl: float
    authentication_tolerate_lookup_failure: bool
    client_ca_file: str
    requestheader_allowed_names: tuple[str, ...]
    requestheader_client_ca_file: str
    requestheader_extra_headers_prefix: tuple[str, ...]
    requestheader_group_headers: tuple[str, ...]
    requestheader_uid_headers: tuple[str, ...]
    requestheader_username_headers: tuple[str, ...]


@dataclass(frozen=True)
class AuthorizationFlags:
    """Flags of delegated authorization; durations in seconds."""

    authorization_always_allow_paths: tuple[str, ...]
    authorization_kubeconfig: str
    authorization_webhook_cache_authorized_ttl: float
    authorization_webhook_cache_unauthorized_ttl: float


@dataclass(frozen=True)
class LeaderElectionFlags:
    """Flags of leader election; durations in seconds. A flag counts only if it was given."""

    leader_elect: bool
    leader_elect_lease_duration: float
    leader_elect_renew_deadline: float
    leader_elect_resource_lock: str
    leader_elect_resource_name: str
    leader_elect_resource_namespace: str
    leader_elect_retry_period: float


@dataclass(frozen=True)
class MetricsFlags:
    """Flags of metrics. ``allow_metric_labels``: "metric,label" -> values with commas."""

    allow_metric_labels: Mapping[str, str]
    allow_metric_labels_manifest: str
    disabled_metrics: tuple[str, ...]
    show_hidden_metrics_for_version: str


@dataclass(frozen=True)
class LoggingFlags:
    """Flags of the log; ``log_flush_frequency`` in seconds."""

    log_flush_frequency: float
    log_json_info_buffer_size: Quantity
    log_json_split_stream: bool
    log_text_info_buffer_size: Quantity
    log_text_split_stream: bool
    logging_format: str
    v: int
    vmodule: tuple[VModule, ...]


@dataclass(frozen=True)
class Options:
    """A parsed command line. An attribute has the name of its flag, with "_"; durations in seconds.

    Attributes:
        given_flags: The names of the flags that were given, with "-".
        feature_gates: Component ("" if left out) -> texts "Name=bool".
        version: "false", "true", "raw", or a version to report.
        reported_version: Of the last --version=vX.Y.Z-suffix.
        texts: Flag -> its value as the ``FLAG:`` lines and /flagz show it; kube-scheduler's only.
    """

    serving: ServingFlags
    authentication: AuthenticationFlags
    authorization: AuthorizationFlags
    leader_election: LeaderElectionFlags
    metrics: MetricsFlags
    logging: LoggingFlags
    config: str
    master: str
    write_config_to: str
    contention_profiling: bool
    kube_api_burst: int
    kube_api_content_type: str
    kube_api_qps: float
    kubeconfig: str
    pod_max_in_unschedulable_pods_duration: float
    profiling: bool
    emulated_version: tuple[str, ...]
    feature_gates: Mapping[str, tuple[str, ...]]
    min_compatibility_version: tuple[str, ...]
    context: str
    log_level: str
    node_sampling: str
    plugin: tuple[str, ...]
    help: bool
    version: str
    given_flags: frozenset[str] = frozenset()
    texts: Mapping[str, str] = field(default_factory=dict)
    reported_version: str = VERSION_TEXT

    def without_effect(self) -> Iterator[tuple[str, str]]:
        """Yields the flags that were given although they have no effect, and the reason."""
        for name, flag in FLAGS.items():
            if name in self.given_flags and flag.note:
                yield name, flag.note


_PARTS: Final[dict[str, tuple[str, type[Any]]]] = {
    SERVING: ("serving", ServingFlags),
    AUTHENTICATION: ("authentication", AuthenticationFlags),
    AUTHORIZATION: ("authorization", AuthorizationFlags),
    LEADER_ELECTION: ("leader_election", LeaderElectionFlags),
    METRICS: ("metrics", MetricsFlags),
    LOGS: ("logging", LoggingFlags),
}

#: The flags that kube-scheduler does not have.
OWN_FLAGS: Final = frozenset(name for name, flag in FLAGS.items() if flag.group == "mooring")
_BY_SHORT: Final = {flag.short: flag for flag in FLAGS.values() if flag.short}


def parse(words: Sequence[str], *, program: str = "kube-scheduler") -> Options:
    """Returns the options of a command line.

    Args:
        words: The arguments.
        program: The command's name, for the error about arguments.

    Raises:
        FlagError: a flag is unknown or has an invalid value, or a word is no flag.

    Example:
        >>> options = parse(["--secure_port=0", "-v", "2"])
        >>> options.serving.secure_port, options.logging.v, sorted(options.given_flags)
        (0, 2, ['secure-port', 'v'])
    """
    parsing = _Parsing(words)
    parsing.run()
    options = _options(parsing.values, parsing.reported_version)
    if not options.help and any(parsing.arguments):
        listed = " ".join(map(quote, parsing.arguments))
        message = f"{quote(program)} does not take any arguments, got [{listed}]"
        raise FlagError(message, shows_usage=False)
    return options


class _Parsing:
    """The state of parsing one command line."""

    def __init__(self, words: Sequence[str]) -> None:
        self.values: dict[str, Any] = {}
        self.arguments: list[str] = []
        self.reported_version = VERSION_TEXT
        self._words = list(reversed(words))

    def run(self) -> None:
        while self._words:
            word = self._words.pop()
            if word == "--":
                self.arguments += reversed(self._words)
                return
            if word.startswith("--"):
                self._long(word)
            elif word.startswith("-") and len(word) > 1:
                self._short(word[1:])
            else:
                self.arguments.append(word)

    def _long(self, word: str) -> None:
        name, separator, value = word[2:].partition("=")
        if not name or name.startswith("-"):
            raise FlagError(f"bad flag syntax: {word}")
        flag = FLAGS.get(name.replace("_", "-"))
        if flag is None:
            raise FlagError(f"unknown flag: --{name}")
        if not separator:
            value = self._value_of(flag, f"flag needs an argument: --{name}")
        self._set(flag, value)

    def _short(self, letters: str) -> None:
        # Go's own test binaries have such flags, and pflag passes over them.
        if letters.startswith("test."):
            return
        while letters:
            letter, rest = letters[0], letters[1:]
            flag = _BY_SHORT.get(letter)
            if flag is None:
                # Go takes the first byte, also of a letter with several.
                first_byte = quote(chr(letter.encode("utf-8", "surrogateescape")[0]))[1:-1]
                raise FlagError(f"unknown shorthand flag: '{first_byte}' in -{letters}")
            if rest.startswith("=") and len(rest) > 1:
                value, rest = rest[1:], ""
            elif flag.kind.without_value is not None:
                value = flag.kind.without_value
            elif rest:
                value, rest = rest, ""
            else:
                value = self._value_of(flag, f"flag needs an argument: '{letter}' in -{letters}")
            self._set(flag, value)
            letters = rest

    def _value_of(self, flag: Flag, problem: str) -> str:
        """Returns the value of a flag that has none in its own word."""
        if flag.kind.without_value is not None:
            return flag.kind.without_value
        if not self._words:
            raise FlagError(problem)
        return self._words.pop()

    def _set(self, flag: Flag, text: str) -> None:
        try:
            self.values[flag.name] = flag.kind.parse(self.values.get(flag.name), text)
        except GoError as error:
            name = f"-{flag.short}, --{flag.name}" if flag.short else f"--{flag.name}"
            message = f"invalid argument {quote(text)} for {quote(name)} flag: {error}"
            raise FlagError(message) from None
        if flag.kind is VERSION and text.startswith("v"):
            self.reported_version = text


def _options(values: Mapping[str, Any], reported_version: str) -> Options:
    parts: dict[str, dict[str, Any]] = {part: {} for part, _ in _PARTS.values()}
    own: dict[str, Any] = {}
    texts = {}
    for name, flag in FLAGS.items():
        value = values.get(name, flag.default)
        part, _ = _PARTS.get(flag.group, ("", None))
        (parts[part] if part else own)[name.replace("-", "_")] = value
        if name not in OWN_FLAGS:
            texts[name] = flag.kind.text(value)
    groups = {part: struct(**parts[part]) for part, struct in _PARTS.values()}
    return Options(
        **groups,
        **own,
        given_flags=frozenset(values),
        texts=dict(sorted(texts.items())),
        reported_version=reported_version,
    )

"""Validation of names, labels and keys, with kube-apiserver's messages.

Every function returns the problems of a text; empty if it is valid.

Source: k8s.io/apimachinery pkg/api/validate/content/{kube,dns,path,errors}.go and
pkg/util/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mooring.objects.text_cache import text_cache

#: The problems of one text, and a function that returns them.
Problems = tuple[str, ...]
Check = Callable[[str], Problems]

#: Clusters use few different names and labels; the limit guards against hostile clients.
_CACHE_SIZE = 16384

_LABEL_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_DNS_1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_DNS_PART = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_DNS_UNDERSCORES = rf"{_DNS_PART}(\.{_DNS_PART})*"
_HEADER_NAME = "[-A-Za-z0-9]+"
_HEADER_NAME_PROBLEM = "a valid HTTP header must consist of alphanumeric characters or '-'"
_ENVIRONMENT_NAME_PROBLEM = (
    "a valid environment variable name must consist only of printable ASCII characters other than "
    "'='"
)
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

_label_key = re.compile(_LABEL_KEY)
_dns_label = re.compile(_DNS_LABEL)
_dns_1035_label = re.compile(_DNS_1035_LABEL)
_dns_subdomain = re.compile(_DNS_SUBDOMAIN)
_dns_underscores = re.compile(_DNS_UNDERSCORES)


def length_of(text: str) -> int:
    """Returns the length in bytes, which is Go's."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def max_length_problem(length: int, unit: str = "characters") -> str:
    """Returns the message for a text that is too long; upstream uses "bytes" for labels."""
    return f"must be no more than {length} {unit}"


def pattern_problem(problem: str, pattern: str, *examples: str) -> str:
    """Returns the message for a text that does not match a pattern."""
    examples_text = " or ".join(f"'{example}', " for example in examples)
    lead = f"(e.g. {examples_text}" if examples_text else "("
    return f"{problem} {lead}regex used for validation is '{pattern}')"


_LABEL_KEY_PROBLEM = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_LABEL_VALUE_PROBLEM = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_DNS_LABEL_PROBLEM = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character"
)
_DNS_1035_LABEL_PROBLEM = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character"
)
_DNS_SUBDOMAIN_PROBLEM = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)

_DNS_UNDERSCORES_PROBLEM = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' "
    "or '.', and must start and end with an alphanumeric character"
)


@text_cache(_CACHE_SIZE)
def qualified_name(text: str) -> Problems:
    """Validates a label key, annotation key, finalizer or resource name: "[prefix/]name"."""
    parts = text.split("/")
    name_problem = pattern_problem(_LABEL_KEY_PROBLEM, _LABEL_KEY, "MyName", "my.name", "123-abc")
    if len(parts) > 2:
        return (
            f"a valid label key {name_problem} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')",
        )
    all_problems: list[str] = []
    if len(parts) == 2:
        prefix = parts[0]
        problems = dns_subdomain(prefix) if prefix else ("must be non-empty",)
        too_long, in_bytes = max_length_problem(253), max_length_problem(253, "bytes")
        problems = tuple(in_bytes if problem == too_long else problem for problem in problems)
        all_problems.extend(f"prefix part {problem}" for problem in problems)
    name = parts[-1]
    if not name:
        all_problems.append("name part must be non-empty")
    elif length_of(name) > 63:
        all_problems.append(f"name part {max_length_problem(63, 'bytes')}")
    if not _label_key.fullmatch(name):
        all_problems.append(f"name part {name_problem}")
    return tuple(all_problems)


def annotation_key(text: str) -> Problems:
    """Validates a key that may have upper-case letters, such as those of annotations."""
    # Go has no special case for this letter: its small one has no second character.
    return qualified_name(text.replace("İ", "i").lower())


@text_cache(_CACHE_SIZE)
def label_value(text: str) -> Problems:
    """Validates the value of a label, which may be empty."""
    problems = []
    if length_of(text) > 63:
        problems.append(max_length_problem(63, "bytes"))
    if text and not _label_key.fullmatch(text):
        pattern = f"({_LABEL_KEY})?"
        problems.append(
            pattern_problem(_LABEL_VALUE_PROBLEM, pattern, "MyValue", "my_value", "12345")
        )
    return tuple(problems)


@text_cache(_CACHE_SIZE)
def dns_label(text: str) -> Problems:
    """Validates a name without dots, such as those of namespaces and containers."""
    problems = []
    if length_of(text) > 63:
        problems.append(max_length_problem(63))
    if not _dns_label.fullmatch(text):
        if _dns_subdomain.fullmatch(text):
            problems.append("must not contain dots")
        else:
            problems.append(pattern_problem(_DNS_LABEL_PROBLEM, _DNS_LABEL, "my-name", "123-abc"))
    return tuple(problems)


def dns_1035_label(text: str) -> Problems:
    """Validates a name without dots that begins with a letter, such as those of versions."""
    problems = []
    if length_of(text) > 63:
        problems.append(max_length_problem(63))
    if not _dns_1035_label.fullmatch(text):
        pattern = _DNS_1035_LABEL
        problems.append(pattern_problem(_DNS_1035_LABEL_PROBLEM, pattern, "my-name", "abc-123"))
    return tuple(problems)


@text_cache(_CACHE_SIZE)
def dns_subdomain(text: str) -> Problems:
    """Validates a name such as those of pods and nodes."""
    problems = []
    if length_of(text) > 253:
        problems.append(max_length_problem(253))
    if not _dns_subdomain.fullmatch(text):
        problems.append(pattern_problem(_DNS_SUBDOMAIN_PROBLEM, _DNS_SUBDOMAIN, "example.com"))
    return tuple(problems)


@text_cache(_CACHE_SIZE)
def dns_subdomain_with_underscore(text: str) -> Problems:
    """Validates a search path of DNS, whose parts may have underscores."""
    problems = []
    if length_of(text) > 253:
        problems.append(max_length_problem(253))
    if not _dns_underscores.fullmatch(text):
        pattern = pattern_problem(_DNS_UNDERSCORES_PROBLEM, _DNS_UNDERSCORES, "example.com")
        problems.append(pattern)
    return tuple(problems)


@text_cache(_CACHE_SIZE)
def path_segment(text: str) -> Problems:
    """Validates one segment of a URL path."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{character}'" for character in ("/", "%") if character in text)


@text_cache(_CACHE_SIZE)
def config_key(text: str) -> Problems:
    """Validates a key of a ConfigMap or a Secret."""
    problems = []
    if length_of(text) > 253:
        problems.append(max_length_problem(253))
    if not re.fullmatch(_CONFIG_KEY, text):
        problem = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        problems.append(pattern_problem(problem, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if text in (".", ".."):
        problems.append(f"must not be '{text}'")
    elif text.startswith(".."):
        problems.append("must not start with '..'")
    return tuple(problems)


@text_cache(_CACHE_SIZE)
def environment_name(text: str) -> Problems:
    """Validates the name of an environment variable."""
    if all(" " <= character <= "~" and character != "=" for character in text):
        return ()
    return (_ENVIRONMENT_NAME_PROBLEM,)


@text_cache(_CACHE_SIZE)
def header_name(text: str) -> Problems:
    """Validates the name of an HTTP header."""
    if re.fullmatch(_HEADER_NAME, text):
        return ()
    return (pattern_problem(_HEADER_NAME_PROBLEM, _HEADER_NAME, "X-Header-Name"),)


def port_number(number: int) -> Problems:
    """Validates a port number."""
    return () if 1 <= number <= 65535 else ("must be between 1 and 65535, inclusive",)


def port_name(text: str) -> Problems:
    """Validates the name of a container's port."""
    problems = []
    if length_of(text) > 15:
        problems.append(max_length_problem(15))
    if not re.fullmatch("[-a-z0-9]+", text):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        problems.append("must contain at least one letter (a-z)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text[:1] == "-" or text[-1:] == "-":
        problems.append("must not begin or end with a hyphen")
    return tuple(problems)


def as_prefix(check: Check) -> Check:
    """Returns the validation of a generateName, which may end with "-"."""
    return lambda text: check(f"{text[:-1]}a" if text.endswith("-") else text)

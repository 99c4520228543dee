"""Writes plain values as YAML, byte-equal to Kubernetes' programs.

Keys are sorted, lists are not indented, and what YAML 1.1 would take for something other than text
stands in double quotes.

Source: sigs.k8s.io/yaml (goyaml.v2: encode.go, resolve.go).
"""

from __future__ import annotations

import re
import struct
from decimal import Decimal
from typing import Any, Final

import yaml


def yaml_text(value: Any) -> str:
    """Returns the value as a YAML document.

    Example:
        >>> print(yaml_text({"b": ["on", "off duty"], "a": 0.5}), end="")
        a: 0.5
        b:
        - "on"
        - off duty
    """
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=80)
    return text


class _Dumper(yaml.SafeDumper):
    """Quotes as sigs.k8s.io/yaml does; references are never needed."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


#: What YAML 1.1, as Go's reader has it, takes for something other than text.
_NOT_TEXT: Final = re.compile(
    r"""(?ix: y | yes | n | no | on | off | true | false | null | ~ | << | = |
      [-+]?\.inf | \.nan | [-+]?0x[0-9a-f_]+ | [-+]?0b[01_]+ | [-+]?0o[0-7_]+ |
      [-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:e[-+]?[0-9]+)? |
      [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)? |
      [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt\ ].*)? | )"""
)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif _NOT_TEXT.fullmatch(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _number(dumper: yaml.SafeDumper, number: float) -> yaml.ScalarNode:
    """Returns a 32-bit float in the fewest digits; whole ones as integers, unless they are huge."""
    digits = _shortest(number)
    if digits.is_zero() or (digits == digits.to_integral_value() and digits.adjusted() < 19):
        return dumper.represent_int(int(digits))
    text = _general(digits)
    tag: str = dumper.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return dumper.represent_scalar(tag, text)


def _shortest(number: float) -> Decimal:
    """Returns the fewest digits that mean the same 32-bit float."""
    packed = struct.pack("f", number)
    for precision in range(1, 10):
        text = f"{number:.{precision}g}"
        if struct.pack("f", float(text)) == packed:
            return Decimal(text).normalize()
    return Decimal(repr(number)).normalize()


def _general(number: Decimal) -> str:
    """Formats as Go's %g: with an exponent below 10**-4 and from 10**6 on for fractions."""
    exponent = number.adjusted()
    if -4 <= exponent < 6:
        return format(number, "f")
    digits = "".join(map(str, number.as_tuple().digits))
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{'-' if number < 0 else ''}{digits[0]}{fraction}e{exponent:+03d}"


_Dumper.add_representer(str, _text)
_Dumper.add_representer(float, _number)

"""Ranges of costs and sizes: unsigned numbers of 64 bits that stop at their maximum.

Source: cel-go v0.26.0, checker/cost.go (CostEstimate, SizeEstimate).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

#: The largest number; stands for "not known" as an upper end.
MAX: Final = 2**64 - 1
_MAX_FLOAT: Final = 2.0**64


class Range(NamedTuple):
    """The least and the greatest value of a cost or a size."""

    least: int
    most: int

    def plus(self, other: Range) -> Range:
        """Returns the sum of both ends."""
        return Range(min(self.least + other.least, MAX), min(self.most + other.most, MAX))

    def times(self, other: Range) -> Range:
        """Returns the product of both ends."""
        return Range(min(self.least * other.least, MAX), min(self.most * other.most, MAX))

    def scaled(self, factor: float) -> Range:
        """Returns both ends multiplied by a factor and rounded up."""
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: Range) -> Range:
        """Returns the smallest range that contains both."""
        return Range(min(self.least, other.least), max(self.most, other.most))


def fixed(number: int) -> Range:
    """Returns the range of one number."""
    return Range(number, number)


def wrapped(number: int) -> int:
    """Returns a number modulo 2**64: some of upstream's sums are not guarded."""
    return number & MAX


def _scaled(number: int, factor: float) -> int:
    product = math.ceil(float(number) * factor)
    return MAX if product >= _MAX_FLOAT else product


UNKNOWN: Final = Range(0, MAX)
ZERO: Final = fixed(0)
ONE: Final = fixed(1)

"""Addresses at which an extender must not be: those of the link, and of metadata of clouds.

A name is looked up before it is used; here it is an address, which looks itself up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from mooring.clock import Rng
from mooring.extenders.http import _addresses
from mooring.extenders.tls import is_forbidden

ADDRESSES: Final = 12
METADATA: Final = ("fd00:ec2::254", "100.100.100.200", "168.63.129.16")
NEAR: Final = ("fd00:ec2::253", "100.100.100.201", "168.63.129.17", "169.253.0.1", "fec0::1")


def address_problems(rng: Rng) -> Iterator[str]:
    """Yields the addresses that are refused, or accepted, and should not be."""
    for _ in range(ADDRESSES):
        address, is_refused = _drawn(rng)
        if is_forbidden(address) is not is_refused:
            yield f"{address} is forbidden: {not is_refused}"
        if "%" in address:
            continue  # needs an interface of this name
        try:
            real = list(asyncio.run(_addresses(address, 80)))
        except OSError as error:
            if not is_refused or address.split(":")[-1] not in str(error):
                yield f"{address}: {error}"
        else:
            if is_refused or len(real) != 1:
                yield f"{address} has the addresses {real}"


def _drawn(rng: Rng) -> tuple[str, bool]:
    """Returns an address, and whether it is refused."""
    draw = rng.randrange(6)
    if draw == 0:
        return f"169.254.{rng.randrange(256)}.{rng.randrange(256)}", True
    if draw == 1:
        return f"fe80::{rng.randrange(1, 9)}%eth0", True
    if draw == 2:
        return rng.choice(METADATA), True
    if draw == 3:
        near = rng.choice(("10.0.0.1", "169.254.169.254", "100.100.100.200"))
        return f"::ffff:{near}", near != "10.0.0.1"
    return rng.choice(NEAR), False

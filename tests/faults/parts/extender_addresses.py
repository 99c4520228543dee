"""Addresses at which an extender must not be: those of the link, and of metadata of clouds.

A name is looked up before it is used; here it is an address, which looks itself up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from mooring.clock import Rng
from mooring.extenders.http import _addresses
from mooring.extenders.tls import is_forbidden

ADDRESSES: Final = 12
HOSTS: Final = 4
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


def several_problems(rng: Rng) -> Iterator[str]:
    """Yields the hosts with several addresses that are refused, or accepted, and should not be."""
    for _ in range(HOSTS):
        drawn = [_drawn(rng) for _ in range(rng.randint(2, 4))]
        addresses = [address for address, _ in drawn]
        refused = [address for address, is_refused in drawn if is_refused]
        actual = _looked_up(addresses)
        if isinstance(actual, list):
            is_fine = not refused and actual == addresses
        else:
            is_fine = bool(refused) and actual.endswith(refused[0])
        if not is_fine:
            yield f"{addresses} are {actual}"


def _looked_up(addresses: list[str]) -> list[str] | str:
    """Returns the addresses of a host that has these, or the text of the error."""
    with asyncio.Runner(loop_factory=partial(_Names, addresses)) as runner:
        try:
            return list(runner.run(_addresses("extender.example", 80)))
        except OSError as error:
            return str(error)


class _Names(asyncio.SelectorEventLoop):
    """A loop in which each name has these addresses."""

    def __init__(self, addresses: list[str]) -> None:
        super().__init__()
        self._addresses = addresses

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        del host, options
        return [(0, 0, 0, "", (address, port)) for address in self._addresses]


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

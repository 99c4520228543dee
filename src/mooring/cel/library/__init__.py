"""The functions of the device-selector environment, one module for each library.

Source: apiserver v0.36.3, pkg/cel/environment/base.go (which libraries, in which order).
"""

from __future__ import annotations

from functools import lru_cache

from mooring.cel.declarations import Registry
from mooring.cel.library import (
    authorizer,
    conversions,
    formats,
    includes,
    lists,
    maps,
    networks,
    operators,
    optionals,
    patches,
    quantities,
    regexes,
    semvers,
    sets,
    strings,
    times,
    urls,
)


@lru_cache(maxsize=2)
def registry(*, with_patches: bool = False) -> Registry:
    """Returns all functions; the order decides which overload a call of unclear types takes.

    Args:
        with_patches: Whether those of expressions that make patches are among them.
    """
    functions = Registry()
    for library in (
        *(operators.LIBRARY, conversions.LIBRARY, strings.STANDARD, times.LIBRARY),
        *(urls.LIBRARY, regexes.LIBRARY, lists.KUBERNETES, authorizer.LIBRARY),
        *(optionals.LIBRARY, quantities.LIBRARY, strings.EXTENDED, sets.LIBRARY),
        *(networks.IP_LIBRARY, networks.CIDR_LIBRARY, formats.LIBRARY, authorizer.SELECTORS),
        *(maps.LIBRARY, semvers.LIBRARY, lists.EXTENDED, includes.LIBRARY),
    ):
        functions.add(library)
    if with_patches:
        functions.add(patches.LIBRARY)
    return functions

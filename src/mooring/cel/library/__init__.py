"""The functions of expressions, one module for each library.

Source: apiserver v0.36.3, pkg/cel/environment/base.go (which libraries, in which order).
"""

from __future__ import annotations

from functools import lru_cache

from mooring.cel.declarations import Registry
from mooring.cel.environment import Environment
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


@lru_cache(maxsize=len(Environment))
def registry(environment: Environment = Environment.SELECTOR) -> Registry:
    """Returns all functions; the order decides which overload a call of unclear types takes.

    Args:
        environment: What the expressions are for.
    """
    functions = Registry()
    for library in (
        *(operators.LIBRARY, conversions.LIBRARY, strings.STANDARD, times.LIBRARY),
        *(urls.LIBRARY, regexes.LIBRARY, lists.KUBERNETES, authorizer.LIBRARY),
        *(optionals.LIBRARY, quantities.LIBRARY, strings.EXTENDED, sets.LIBRARY),
        *(networks.IP_LIBRARY, networks.CIDR_LIBRARY, formats.LIBRARY, authorizer.SELECTORS),
        *(maps.LIBRARY, semvers.LIBRARY, lists.EXTENDED),
    ):
        functions.add(library)
    if environment is Environment.SELECTOR:
        functions.add(includes.LIBRARY)
    if environment is Environment.PATCH:
        functions.add(patches.LIBRARY)
    return functions

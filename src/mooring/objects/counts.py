"""Counts of objects in words."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Returns a count with its noun: "1 pod", "2 pods", "2 NetworkPolicies".

    Example:
        >>> counted(1, "pod"), counted(2, "StorageClass"), counted(0, "NetworkPolicy")
        ('1 pod', '2 StorageClasses', '0 NetworkPolicies')
    """
    return f"{count} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Returns the plural of a noun."""
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"

"""Definitions of families: help lines and buckets."""

from __future__ import annotations

from mooring.metrics.family import Family, exponential_buckets
from mooring.metrics.text import number_text


def test_the_stability_stands_before_the_help() -> None:
    assert Family("a", "gauge", "STABLE", "Help.").help_text == "[STABLE] Help."
    assert Family("a", "gauge", "", "Help.").help_text == "Help."


def test_buckets_are_rounded_as_client_golang_rounds_them() -> None:
    # As on the page of a real kube-scheduler: each bound is a multiple of the rounded one before.
    bounds = exponential_buckets(0.00001, 1.5, 20)
    assert [number_text(bound) for bound in bounds[:5]] == [
        "1e-05",
        "1.5000000000000002e-05",
        "2.2500000000000005e-05",
        "3.375000000000001e-05",
        "5.062500000000001e-05",
    ]
    assert len(exponential_buckets(0.001, 2, 15)) == 15

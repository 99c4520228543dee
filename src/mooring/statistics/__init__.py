"""Statistics of repeated runs: paired differences, intervals, and verdicts in words.

Runs of two configurations with one seed see the same draws, so they are compared pair by pair::

    baseline   b1  b2  b3 ... bn      one value of a measure for each seed
    candidate  c1  c2  c3 ... cn
    difference d1  d2  d3 ... dn  --> mean, 95 % interval, better in k of n, verdict
"""

from __future__ import annotations

from mooring.statistics.bootstrap import bootstrap_difference, bootstrap_interval
from mooring.statistics.intervals import Interval, mean_interval
from mooring.statistics.paired import Better, PairedDifference, paired_difference
from mooring.statistics.student_t import student_t_cdf, student_t_quantile

__all__ = [
    "Better",
    "Interval",
    "PairedDifference",
    "bootstrap_difference",
    "bootstrap_interval",
    "mean_interval",
    "paired_difference",
    "student_t_cdf",
    "student_t_quantile",
]

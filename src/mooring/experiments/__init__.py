"""Experiments: the runs of several scenarios, configurations and seeds, compared.

``run_trials`` runs them, in processes of their own; ``compare`` gives paired differences with
intervals, and the first decision that differs.
"""

from __future__ import annotations

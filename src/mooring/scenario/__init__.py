"""Scenarios: clusters over time. Pods come, run and leave, nodes fail and are added.

``read_scenario`` reads a file, ``ScenarioRun`` runs it with the scheduler's own parts on virtual
time, and gives a ``Result``: tables, measures, and a digest that equal runs share.
"""

from __future__ import annotations

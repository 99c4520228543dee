"""Scenarios of kube-scheduler-simulator: operations by step, without a clock.

::

    Scenario file ──reading──▶ Step, Step, ... ──player──▶ objects of a run
                   (document)

A step is over when nothing more happens: then the operations of the next one are performed.

Source: kube-scheduler-simulator's KEP-140.
"""

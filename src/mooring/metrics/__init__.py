"""The metrics of the scheduler: names and labels are kube-scheduler's, where the meaning is.

::

    recorders.py   what the scheduler's parts call; without metrics they do nothing
    series.py      numbers by label values; an observation is a few additions
    catalog.py     every family: name, type, labels, buckets, stability
    registry.py    Metrics: one per process, makes the recorders and exposes everything
    text.py        the text format

Only ``registry``, ``pod_resources`` and ``text`` import prometheus_client: they run at a scrape.
"""

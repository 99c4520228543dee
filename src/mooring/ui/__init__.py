"""The page: shows a cluster, its scheduling queue and why pods are where they are, in a browser.

::

    scheduler ──Observer──> AttemptLog ──┐
    scheduler's cache and queue ─────────┴─> LiveBoard ──JSON, server-sent events──> browser
"""

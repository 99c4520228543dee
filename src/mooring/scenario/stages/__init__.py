"""KWOK's Stage documents: how pods and nodes go from one state to the next.

::

    Stage file ──reading──▶ Stage ──actor──▶ pods and nodes of a run
                 (document)  (queries, templates)

Source: KWOK's Stage API (kwok.x-k8s.io/v1alpha1) and its lifecycle package.
"""

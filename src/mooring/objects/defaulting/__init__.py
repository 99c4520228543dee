"""The API server's processing of objects before storage: defaults, admission, preparation.

Pure functions on dicts, without a store; what admission has to know of other objects is an
argument. The embedded API server and the reader of files call the same functions, so a file and a
request give the same object::

    decoding with defaults ─▶ admission ─▶ preparation ─▶ validation ─▶ stored
    (schema, ``defaults``)    (``priority``, ``pods``, ``storage``)

Source: pkg/apis/*/v1/defaults.go, plugin/pkg/admission and the strategy.go files below
pkg/registry.
"""

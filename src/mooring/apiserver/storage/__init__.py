"""The object store of the embedded API server: bytes, versions, history, selection."""

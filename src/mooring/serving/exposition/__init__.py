"""The formats and encodings of /metrics."""

"""The types of the Kubernetes API as data: decoding, type errors, defaults."""

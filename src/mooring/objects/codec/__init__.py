"""Decodes JSON to structs, and encodes structs to JSON."""

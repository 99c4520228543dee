"""Texts, URLs and addresses as Go's standard library reads and writes them."""

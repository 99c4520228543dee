"""Columns of the tables of results, and the table of events."""

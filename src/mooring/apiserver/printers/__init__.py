"""Prints objects as the tables that kubectl shows."""

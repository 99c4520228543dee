"""Serves mooring plugins as a scheduler extender webhook."""

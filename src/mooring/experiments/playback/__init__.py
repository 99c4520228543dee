"""The results of a run at any of its virtual times."""

"""Inputs of a simulation besides files: live clusters, and what an input lacks."""

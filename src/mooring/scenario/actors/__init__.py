"""Actors of a run that other tools' documents describe: KWOK's stages, and steps of operations."""

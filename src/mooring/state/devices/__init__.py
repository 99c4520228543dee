"""Devices: slices, claims, classes, and which devices are in use. Start with ``devices.py``."""

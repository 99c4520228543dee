"""Volumes: claims, volumes, classes and drivers, their use on nodes, and indexes over them."""

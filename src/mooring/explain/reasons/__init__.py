"""Causes of rejections in words with names and values, one module for each family of plugins."""

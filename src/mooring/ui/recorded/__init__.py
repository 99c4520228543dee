"""The page over a recording."""

"""The page over the results of a scenario."""

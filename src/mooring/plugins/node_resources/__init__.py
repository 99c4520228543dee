"""NodeResourcesFit and NodeResourcesBalancedAllocation, and the arithmetic that both use."""

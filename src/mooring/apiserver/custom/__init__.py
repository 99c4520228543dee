"""Custom resources: definitions, and what the schema of a definition means for its objects."""

"""Regular expressions of RE2, in linear time."""

"""The pods of Jobs that have ended: counted, indexed, and judged by policies."""

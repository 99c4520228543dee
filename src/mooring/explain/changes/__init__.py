"""The smallest change that helps: candidates by cause, each decided again on a changed cluster."""

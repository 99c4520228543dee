"""Authentication and authorization of the clients of the embedded API server."""

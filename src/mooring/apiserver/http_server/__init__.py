"""The HTTP front end of the embedded API server: sockets, TLS, streaming."""

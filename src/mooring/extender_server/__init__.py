"""What others may ask of mooring over HTTP."""

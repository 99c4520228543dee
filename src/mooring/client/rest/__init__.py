"""The verbs of the API server on typed objects: get, list, create, patch, delete, bind."""

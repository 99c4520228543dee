"""The defaults and admission changes that an API server makes before it stores an object."""

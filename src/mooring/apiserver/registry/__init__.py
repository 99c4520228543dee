"""Create, update and delete of objects, with the rules of each resource."""

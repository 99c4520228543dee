"""The types of the Kubernetes API as data, and a decoder that uses them.

``types`` has the table of structs and fields, ``decoding`` converts JSON as Go would, ``checks``
finds fields of an object that are unknown or have a wrong type.
"""

"""The types of the Kubernetes API as data, and the decoder that reads objects by them.

``types`` is the table of structs and fields, ``decoding`` makes of JSON what Go would make of it,
``checks`` lists every field of an object that is unknown or has a wrong type.
"""

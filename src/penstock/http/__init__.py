"""The server of ports with few callers: the admin port and the dispatcher's port. Not of the ingress port.

``server`` listens and runs a Starlette application, ``protocol`` is one connection, ``heads`` refuses
malformed requests (its limit of empty lines holds at the ingress port too), ``guard`` limits what all connections of
a port hold together.
"""

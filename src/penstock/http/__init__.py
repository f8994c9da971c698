"""How a port with few callers is served: the admin port, and the port of the dispatcher. Not that for events.

``server`` listens and runs a Starlette application, ``protocol`` is one connection, ``heads`` says which requests are
malformed, ``guard`` limits what all connections of a port hold together.
"""

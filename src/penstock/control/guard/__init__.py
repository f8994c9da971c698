"""Access to the admin port: hosts, origins, tokens, sessions of browsers, and limits for streams per caller.

``middleware.py`` runs before every handler; ``policy.py`` decides, with values in and values out.
"""

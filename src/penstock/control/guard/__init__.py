"""Who may use the admin port: hosts, origins, tokens, sessions of browsers, and how many streams each may hold.

``middleware.py`` stands before every handler; ``policy.py`` decides, with values in and values out.
"""

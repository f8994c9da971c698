"""Who may reach what: private files, tokens."""

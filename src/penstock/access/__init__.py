"""Access control: private files, bearer tokens, host names, and the addresses that may be connected to."""

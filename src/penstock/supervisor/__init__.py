"""Keeps the processes of ``penstock up`` running: starts them in order, restarts what dies, ends them in order."""

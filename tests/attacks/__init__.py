"""Attacks over ports: each test states the promise that holds all the same."""

"""Deliveries to HTTP: lanes, retry policy, outcomes, the HTTP client. Knows nothing of Spark."""

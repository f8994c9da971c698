"""Topic to deliveries: the only room that knows Spark."""

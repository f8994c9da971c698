"""Everything that speaks Kafka's protocol, and the embedded cluster. The only room that knows the client."""

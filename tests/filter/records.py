"""Records as the Kafka source has them, for tests that match them in a job with compiled code, as queries do."""

RECORD = "partition int, offset bigint, value binary, headers array<struct<key:string,value:binary>>"

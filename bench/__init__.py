"""`make bench`: load over HTTP to a fast sink, beside two baselines on the same Kafka.

Reading order: ``scenarios.py`` (what is run), ``system.py`` (Penstock as a user starts it), ``load.py`` and
``sink.py`` (the two ends, processes of their own), ``consumer.py`` and ``kafka_alone.py`` (the baselines),
``targets.py`` and ``report.py`` (what comes out). docs/benchmarks.md explains the figures.
"""

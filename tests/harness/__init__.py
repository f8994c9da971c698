"""The harness: a real system under load, faults, a hostile subscriber, and a checker over what everybody wrote down.

    senders ─▶ receiver ─▶ Kafka ─▶ dispatcher ─▶ hostile subscriber
       │                     │          │               │
     sent                 topic,     ledger           seen          five logs ─▶ checker
                       dead letters

``python -m tests.harness --minutes 30`` (``make soak``) runs it for as long as you like; CI runs two minutes.
"""

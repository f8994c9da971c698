"""What people applied: resources, their validation, reconciling and statuses, and the API on the admin port.

``serve.py`` puts the process together; ``reconcile.py`` is the loop; ``brokers.py`` and ``triggers.py`` hold
what each kind means, as functions of values.
"""

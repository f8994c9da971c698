"""What travels: the event, its HTTP forms, its Kafka form. Pure, and fast because every event passes here."""

"""``penstock fetch``: everything that would need the network later, now."""


def fetch() -> None:
    """Fetches what this machine lacks: Java if there is none, Kafka, Spark's Kafka connector.

    \b
    penstock fetch
    PENSTOCK_CACHE_DIR=/opt/penstock penstock fetch

    What is there already is not fetched again; a fetch that was cut off goes on where it stopped.
    """
    from penstock.cli.screen import screen
    from penstock.kafka.cache import cache_dir
    from penstock.kafka.fetch import fetch_missing, is_complete

    shown = screen()
    if is_complete():
        shown.say(f"nothing is missing in {cache_dir()}")
        return
    fetch_missing(shown)
    shown.say(f"all is in {cache_dir()}; nothing needs the network any more")

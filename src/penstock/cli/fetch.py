"""``penstock fetch``: everything that would need the network later, now."""


def fetch() -> None:
    """Fetches what this machine lacks: Java if there is none, Kafka, Spark's Kafka connector.

    \b
    penstock fetch
    PENSTOCK_CACHE_DIR=/opt/penstock penstock fetch

    What is there already is not fetched again; a fetch that was cut off goes on where it stopped.
    """
    from penstock.cli.screen import screen
    from penstock.errors import PenstockError
    from penstock.kafka import warmup
    from penstock.kafka.cache import cache_dir
    from penstock.kafka.fetch import fetch_missing, is_complete
    from penstock.pipeline import warmup as spark_warmup

    shown = screen()
    if is_complete() and warmup.is_made(cache_dir()) and spark_warmup.is_made():
        shown.say(f"nothing is missing in {cache_dir()}")
        return
    fetch_missing(shown)
    try:
        if not warmup.is_made(cache_dir()):
            shown.say("preparing quick starts of Kafka")
            warmup.make(cache_dir())
        if not spark_warmup.is_made():
            shown.say("preparing quick starts of Spark (half a minute)")
            spark_warmup.make()
    except PenstockError as error:  # it only costs seconds at each start
        shown.say(f"without them: {error.message}")
    shown.say(f"all is in {cache_dir()}; nothing needs the network any more")

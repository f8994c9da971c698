"""One event in the logs of the whole system, found by its id."""

import json
from collections.abc import Callable
from typing import Any

from tests.conftest import System
from tests.sink import Sink
from tests.system.resources import apply, broker, trigger
from tests.waiting import until


def test_the_story_of_an_event_is_in_the_logs(penstock_up: System, sink: Callable[[], Sink]) -> None:
    """Kept promise: what happened to an event that its subscriber refused is found by its id alone."""
    subscriber = sink()
    subscriber.answer("/refuses", status=422)
    apply(penstock_up, broker("logged"), trigger("refuses", "logged", subscriber.url + "/refuses"))
    sent = penstock_up.run("send", "broker/logged", "--type", "t", "--source", "/logs", "--id", "told of")
    assert sent.returncode == 0, sent.stderr
    subscriber.wait_for(1, "/refuses")

    def story() -> list[dict[str, Any]] | None:
        shown = penstock_up.run("logs", "--event", "told of", "-o", "json")
        assert shown.returncode == 0, shown.stderr
        lines = [json.loads(line) for line in shown.stdout.splitlines()]
        return lines if len(lines) >= 2 else None

    failed, ended = until(story, "both lines of the story")
    assert failed["message"].startswith("attempt 1 failed")
    assert ended["message"].startswith("given up")
    for line in (failed, ended):
        assert (line["part"], line["level"], line["logger"]) == ("dispatcher", "WARNING", "penstock.delivery")
        fields = line["fields"]
        assert fields["subscription"] == "Trigger/default/refuses"
        assert (fields["source"], fields["topic"]) == ("/logs", "knative-broker-default-logged")
        assert fields["partition"].isdigit()
        assert fields["offset"].isdigit()
        assert fields["status"] == "422"
    by_name = penstock_up.run(
        "logs", "dispatcher", "--subscription", "refuses", "--since", "10m", "--level", "warning"
    )
    assert "given up" in by_name.stdout
    assert "penstock.up: all ready" in penstock_up.run("logs", "up").stdout

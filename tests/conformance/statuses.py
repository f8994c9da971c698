"""What holds for the conditions of every resource."""

from datetime import datetime

from tests.conformance.api import Resource


def check_conditions(resource: Resource) -> None:
    """Unique by type; a status and a time each; a reason when False; and Ready sums them up."""
    conditions = resource["status"]["conditions"]
    types = [each["type"] for each in conditions]
    assert len(types) == len(set(types)), f"a type stands twice in {types}"
    for each in conditions:
        assert each["status"] in ("True", "False", "Unknown"), each
        assert datetime.fromisoformat(each["lastTransitionTime"]).tzinfo is not None, each
        assert each["status"] != "False" or each.get("reason"), f"no reason in {each}"
    by_type = {each["type"]: each["status"] for each in conditions if not each.get("severity")}
    others = {status for type_, status in by_type.items() if type_ != "Ready"}
    if "False" in others:
        assert by_type["Ready"] == "False", conditions
    elif "Unknown" in others:
        assert by_type["Ready"] in ("False", "Unknown"), conditions

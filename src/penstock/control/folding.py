"""Series by resource, at most so many: what comes beyond is added up under one name. Pure. Called by ``metrics``."""

from collections.abc import Iterator

from penstock.control.kinds import Resource, name_of, namespace_of
from penstock.telemetry.exposition import Sample
from penstock.telemetry.histogram import Durations
from penstock.telemetry.metrics import Metric

OTHERS = "others"

Labels = tuple[str, ...]


class Folding:
    def __init__(self, most: int) -> None:
        self.folded = 0
        self._left = most
        self._values: dict[tuple[Metric, Labels], float | Durations] = {}

    def labels(self, resource: Resource) -> Labels:
        """Its own while there is room. Asked once for each."""
        if self._left > 0:
            self._left -= 1
            return (resource["kind"], namespace_of(resource), name_of(resource))
        self.folded += 1
        return ("", "", OTHERS)

    def add(self, metric: Metric, labels: Labels, value: float | Durations) -> None:
        before = self._values.get((metric, labels))
        if isinstance(value, Durations):
            if before is None:
                self._values[metric, labels] = value
            else:
                together = Durations({})
                for each in (before, value):
                    together.add(each)  # type: ignore[arg-type]  # of a metric all are alike
                self._values[metric, labels] = together
        else:
            self._values[metric, labels] = value if before is None else before + value  # type: ignore[operator]

    def most(self, metric: Metric, labels: Labels, value: float) -> None:
        """Of ages and states: that of the worst."""
        before = self._values.get((metric, labels))
        self._values[metric, labels] = value if before is None else max(before, value)  # type: ignore[type-var]

    def samples(self) -> Iterator[Sample]:
        for (metric, labels), value in self._values.items():
            yield Sample(metric, labels, value)

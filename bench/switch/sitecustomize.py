"""Telemetry that can be switched off and on while a system runs, for ``bench/seeing.py``.

Python imports this by itself in every process of a system whose ``PYTHONPATH`` begins with this folder. SIGUSR1
makes receivers and workers do what they do with ``PENSTOCK_TELEMETRY=off``, and the controller look at nothing;
SIGUSR2 ends that. So one system, with the same compiled code and the same places in memory, is compared with
itself.
"""

import signal
import sys
from typing import Any

SWITCHED = {  # where a silent tally differs from one that tells
    "penstock.delivery.tally": ("note",),
    "penstock.receiver.tally": ("accepted", "refused", "is_silent"),
}
LOOKING = "penstock.control.observe"
_telling: dict[tuple[str, str], Any] = {}


def switch(number: int, _frame: object) -> None:
    is_off = number == signal.SIGUSR1
    for module, names in SWITCHED.items():
        if module not in sys.modules:
            continue
        tally, silent = (vars(sys.modules[module])[name] for name in ("Tally", "SilentTally"))
        for name in names:
            telling = _telling.setdefault((module, name), vars(tally)[name])
            setattr(tally, name, vars(silent)[name] if is_off else telling)
    if LOOKING in sys.modules:
        observer = vars(sys.modules[LOOKING])["Observer"]
        looking = _telling.setdefault((LOOKING, "_look"), observer._look)
        observer._look = (lambda self: self._sight) if is_off else looking


signal.signal(signal.SIGUSR1, switch)
signal.signal(signal.SIGUSR2, switch)

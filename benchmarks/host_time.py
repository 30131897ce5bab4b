"""Where the host's time goes while the engine runs, in microseconds for each charged query.

generator  the attacks' own code, from an answer to the next ask
belief     of it, what is believed of slopes, bends and turns (`frugal/*_belief.py`)
settle     what counts of an answer, what it costs, and to whom it goes
launch     choosing the rows of a batch, making their points and distances
model      the model: on a CPU its own time, on a GPU that of launching it
waiting    for the device; on a CPU the model has answered by then
store      writing answers and results down, in a study
rest       what is left

The parts are exclusive and add up to the run, less the pauses in which the raw model is measured.
"""

from __future__ import annotations

from stopwatch import REST, Stopwatch

from tollbox.attacks.frugal import overshoot_belief, turn_belief
from tollbox.core.model import Model
from tollbox.engine import batch, settling
from tollbox.engine.batch import InFlightBatch
from tollbox.engine.cell_run import CellRun
from tollbox.engine.engine import Engine
from tollbox.engine.sender import Sender
from tollbox.studies.job import WorkerRun
from tollbox.studies.store.store import Store

PAUSE = "pause"
"""What is not the run's."""
PARTS = ("generator", "belief", "settle", "launch", "model", "waiting", "store", REST)
POINTS = ("linear_point", "__call__")
"""Methods that make points, which the sender calls."""


def watch() -> Stopwatch:
    """A stopwatch with the engine's parts wrapped, which it begins to count anew at `start`."""
    watch = Stopwatch()
    watch.wrap(CellRun, "_resume", "generator")
    watch.wrap_all((overshoot_belief, turn_belief), "belief", but=POINTS)
    for name in ("advance", "_collect", "_issue", "_end"):
        watch.wrap(CellRun, name, "settle")
    watch.wrap(Engine, "_land", "settle")
    watch.wrap_all((settling,), "settle")
    watch.wrap(batch, "records", "settle")
    watch.wrap(batch.Arrival, "deliver", "settle")
    for name in ("_cut", "_priority"):
        watch.wrap(batch, name, "launch")
    watch.wrap(Engine, "_launch", "launch")
    watch.wrap(Sender, "send", "launch")
    watch.wrap(Model, "__call__", "model")
    watch.wrap(InFlightBatch, "land", "waiting")
    watch.wrap(WorkerRun, "record", "store")
    watch.wrap(Store, "save", "store")
    return watch


def table(watch: Stopwatch, queries: int) -> dict[str, dict[str, float]]:
    """Microseconds a query, and the share of the run, by part."""
    watch.enter(REST)
    seconds = {part: watch.seconds[part] for part in PARTS}
    whole = sum(seconds.values())
    return {
        part: {"us_per_query": round(1e6 * spent / queries, 2), "share": round(spent / whole, 4)}
        for part, spent in seconds.items()
    }

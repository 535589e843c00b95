"""Both threads of a server, and what the API asks of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tenure.engine.engine import Engine, StepReport
from tenure.notice.courier import Courier
from tenure.notice.teller import Teller


@contextmanager
def running(engine: Engine) -> Iterator[Courier]:
    """Tell people what happens for as long as the block lasts. The engine has started."""
    courier = Courier(engine.config, engine.store, engine.epoch)
    teller = Teller(engine.store, engine.config.notice, engine.epoch, courier.poke, engine.present)

    def committed(_: StepReport) -> None:
        """Called in the engine's thread."""
        teller.poke()

    engine.observers.append(committed)
    courier.start()
    teller.start()
    try:
        yield courier
    finally:
        engine.observers.remove(committed)
        teller.stop()
        courier.stop()

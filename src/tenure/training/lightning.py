"""For programs that train with Lightning: a callback, and where to go on.

``Trainer(callbacks=[Tenure()]).fit(model, data, ckpt_path=resume_path())``; ``training.done()`` at the very end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from tenure import training
from tenure.training.torch import agree

NAME = "lightning.ckpt"


def resume_path() -> Path | None:
    """The newest checkpoint of ``Tenure``, for ``ckpt_path``; None for a fresh start."""
    return training.resume_path(NAME)


class Tenure(Callback):
    """Saves all of the trainer's state every ``every_s`` seconds and on a warning, after a batch; ``keep`` newest stay.

    After a warning it leaves with ``training.EXIT_WARNED`` once that is done, on all ranks: ``fit`` raises SystemExit.
    To be made in the main thread, early: it listens from then on. ``directory``: for checkpoints, where the scheduler
    names none.
    """

    def __init__(self, every_s: float = 600.0, *, keep: int = 2, directory: str | Path | None = None) -> None:
        self._keep = keep
        training.start(every_s, directory=directory, agree=agree)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # Lightning has a handler of its own, which would end the training without a checkpoint.
        training.current().insist()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if training.should_checkpoint():
            # All ranks take part, and it returns when all have.
            rank = trainer.global_rank
            training.save(trainer.save_checkpoint, trainer.global_step, name=NAME, keep=self._keep, rank=rank)
            trainer.strategy.barrier("tenure")
        if training.should_stop():
            training.leave()

"""For programs that train with the Trainer of Hugging Face: a callback, and where to go on.

``Trainer(..., callbacks=[Tenure()]).train(resume_from_checkpoint=last_checkpoint(output_dir))``, where ``output_dir``
is ``training.checkpoint_dir()``; ``training.done()`` at the very end.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from tenure import training
from tenure.training.torch import agree

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_LAST = "trainer_state.json"
"""The file that the Trainer writes last: a kill before it leaves a folder that cannot be resumed from."""


def last_checkpoint(output_dir: str | Path) -> str | None:
    """The newest complete checkpoint of a Trainer; None for a fresh start."""
    folder = Path(output_dir)
    found = {
        int(match[1]): path
        for path in (folder.iterdir() if folder.is_dir() else ())
        if (match := _CHECKPOINT.fullmatch(path.name)) and (path / _LAST).is_file()
    }
    return str(found[max(found)]) if found else None


class Tenure(TrainerCallback):
    """Saves every ``every_s`` seconds and on a warning; the Trainer's own ``save_strategy`` goes on.

    After a warning it leaves with ``training.EXIT_WARNED`` once that is done: ``train`` raises SystemExit. To be made
    in the main thread, early: it listens from then on.
    """

    def __init__(self, every_s: float = 600.0) -> None:
        training.start(every_s, agree=agree)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        if training.should_checkpoint():
            control.should_save = True
        return control

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if state.is_world_process_zero:
            training.saved()
        if training.should_stop():
            agree(0)  # all of them have saved
            training.leave()

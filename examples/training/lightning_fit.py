"""Lightning, resumable: a small network learns a curve.

    tenure submit --gpus 1 --resumable --budget BUDGET -- python examples/training/lightning_fit.py

Everything that Tenure needs is marked with (T).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import lightning
import torch
from torch.nn import functional

from tenure import training
from tenure.training.lightning import Tenure, resume_path


class Batches:
    """Batches that know how far they are: Lightning saves that, and a run goes on in the middle of an epoch."""

    def __init__(self, count: int) -> None:
        self.count, self.at = count, 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while self.at < self.count:
            generator = torch.Generator().manual_seed(self.at)
            self.at += 1
            x = torch.rand(64, 1, generator=generator) * 6 - 3
            yield x, torch.sin(2 * x)
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Curve(lightning.LightningModule):
    def __init__(self, pace: float) -> None:
        super().__init__()
        self.pace = pace
        self.net = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        x, y = batch
        loss = functional.mse_loss(self.net(x), y)
        print(f"step {self.global_step + 1} loss {loss.item():.6f}", flush=True)
        time.sleep(self.pace)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds to wait in each step")
    parser.add_argument("--every", type=float, default=600.0, help="seconds between checkpoints")
    options = parser.parse_args()

    callback = Tenure(options.every)  # (T) hear the warning
    lightning.seed_everything(0, verbose=False)
    trainer = lightning.Trainer(
        max_steps=options.steps,
        max_epochs=-1,
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Curve(options.pace), Batches(100), ckpt_path=resume_path())  # (T) go on, or begin
    training.done()  # (T) not to be run again


if __name__ == "__main__":
    main()

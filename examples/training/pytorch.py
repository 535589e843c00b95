"""Plain PyTorch, resumable: a small network learns a curve. On one process, or on several under torchrun.

    tenure submit --gpus 1 --resumable --budget BUDGET -- python examples/training/pytorch.py

Everything that Tenure needs is marked with (T).
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
from torch import distributed
from torch.nn import functional

from tenure import training
from tenure.training.torch import agree

NAME = "checkpoint.pt"


def made_batch(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Data of its own for each step and rank, so a run that goes on sees what it would have seen."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.rand(64, 1, generator=generator) * 6 - 3
    return x, torch.sin(2 * x) + 0.05 * torch.randn(64, 1, generator=generator)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds to wait after each step")
    parser.add_argument("--every", type=float, default=600.0, help="seconds between checkpoints")
    options = parser.parse_args()

    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several:
        distributed.init_process_group("gloo")
    rank = distributed.get_rank() if several else 0

    training.start(options.every, agree=agree)  # (T) hear the warning
    torch.manual_seed(0)
    model: torch.nn.Module = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    step = 0
    if path := training.resume_path(NAME):  # (T) go on where the last attempt stopped
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
        print(f"resumed at step {step}", flush=True)
    trained = torch.nn.parallel.DistributedDataParallel(model) if several else model

    def write(path: Path) -> None:
        torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

    while step < options.steps:
        x, y = made_batch(step, rank)
        loss = functional.mse_loss(trained(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if rank == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        time.sleep(options.pace)
        if training.should_checkpoint() and rank == 0:  # (T) all ranks get the same answer
            training.save(write, step, name=NAME)
        if training.should_stop():  # (T) warned, and saved
            if several:
                distributed.barrier()  # nobody leaves before the checkpoint is there
            training.leave()
    if rank == 0:
        training.done()  # (T) not to be run again
    if several:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()

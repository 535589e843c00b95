"""The Trainer of Hugging Face, resumable: a tiny language model, made from a configuration, learns to count.

    tenure submit --gpus 1 --resumable --budget BUDGET -- python examples/training/hf_trainer.py

Everything that Tenure needs is marked with (T). Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

from tenure import training
from tenure.training.transformers import Tenure, last_checkpoint


class Counting(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Sequences that count upwards from different numbers, by different steps."""

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (torch.arange(16) * (1 + index % 3) + index) % 64
        return {"input_ids": tokens, "labels": tokens}


class Watch(TrainerCallback):
    """A line for each step, and time to read it."""

    def __init__(self, pace: float) -> None:
        self.pace = pace

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
        if "loss" in logs:
            print(f"step {state.global_step} loss {float(logs['loss']):.6f}", flush=True)
            time.sleep(self.pace)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds to wait after each step")
    parser.add_argument("--every", type=float, default=600.0, help="seconds between checkpoints")
    options = parser.parse_args()

    callback = Tenure(options.every)  # (T) hear the warning
    output = str(training.checkpoint_dir() or "hf-out")  # (T) a directory that all attempts share
    set_seed(0)
    size = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(size)
    arguments = TrainingArguments(
        output_dir=output,
        max_steps=options.steps,
        per_device_train_batch_size=8,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        save_total_limit=2,
        disable_tqdm=True,
        report_to=[],
        use_cpu=not torch.cuda.is_available(),
    )
    trainer = Trainer(model, arguments, train_dataset=Counting(), callbacks=[callback, Watch(options.pace)])
    trainer.train(resume_from_checkpoint=last_checkpoint(output))  # (T) go on where the last attempt stopped
    training.done()  # (T) not to be run again


if __name__ == "__main__":
    main()

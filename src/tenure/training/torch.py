"""For programs of several processes that speak through ``torch.distributed``."""

from __future__ import annotations


def agree(mine: int) -> int:
    """The largest number of all ranks, for ``training.start(agree=...)``; a collective call, on GPUs with NCCL.

    Without a process group it is ``mine``.
    """
    import torch
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return mine
    on_gpu = "nccl" in str(distributed.get_backend())
    number = torch.tensor(mine, device=torch.device("cuda", torch.cuda.current_device()) if on_gpu else "cpu")
    distributed.all_reduce(number, op=distributed.ReduceOp.MAX)
    return int(number.item())

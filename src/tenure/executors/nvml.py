"""The GPUs of this machine through NVML; without its library or driver there are none, and no error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pynvml

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Gpu:
    """``index`` is NVML's, which CUDA uses too with ``CUDA_DEVICE_ORDER=PCI_BUS_ID``. ``mem`` in MiB.

    A GPU that does not answer keeps its place, so that the others keep their indices; ``fault`` says why.
    """

    index: int
    name: str = ""
    uuid: str = ""
    mem: int = 0
    fault: str = ""


def discover_gpus() -> tuple[Gpu, ...]:
    """All GPUs that NVML lists, in its order."""
    with _session() as count:
        return tuple(_read_gpu(index) for index in range(count))


def read_activity() -> tuple[int | None, ...]:
    """Per GPU the share of the driver's last sample period in which a kernel ran, in percent.

    None for a GPU that does not tell.
    """
    with _session() as count:
        return tuple(_read_activity(index) for index in range(count))


@contextlib.contextmanager
def _session() -> Iterator[int]:
    """NVML initialised, and shut down in any case. Yields the number of GPUs, 0 without NVML."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield 0
        return
    try:
        yield _count()
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _count() -> int:
    try:
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return 0


def _read_gpu(index: int) -> Gpu:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        memory: Any = pynvml.nvmlDeviceGetMemoryInfo(handle)
        return Gpu(
            index=index,
            name=str(pynvml.nvmlDeviceGetName(handle)),
            uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
            mem=int(memory.total) // MIB,
        )
    except pynvml.NVMLError as error:
        return Gpu(index=index, fault=str(error))


def _read_activity(index: int) -> int | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        return int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except pynvml.NVMLError:
        return None

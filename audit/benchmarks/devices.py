"""Where benchmarks run: the clock of a device, and the accelerator that is measured beside the processor."""

import time
from collections.abc import Callable
from dataclasses import replace

import torch

from leakledger.audit.benchmarks.base import Options
from leakledger.audit.provenance import device_name


def clock_of(device: str) -> Callable[[], float]:
    """Seconds: processor time on a processor, which ignores neighbours; an accelerator's work is timed by the wall."""
    return time.process_time if device == "cpu" else time.perf_counter


def accelerator(asked: str) -> str | None:
    """The device that is measured beside the processor: that asked for, else the first one at hand, if any."""
    if asked != "cpu":
        return asked
    return "cuda" if torch.cuda.is_available() else None


def each_device(options: Options) -> list[Options]:
    """The options as given, and where they name no accelerator although one is at hand, once more for that: one
    federation at a time there, unless said otherwise.
    """
    device = accelerator(options.device)
    beside = [replace(options, device=device, jobs=options.jobs or 1)] if device else []
    return [options, *beside] if options.device == "cpu" else beside


def on(device: str) -> dict[str, str]:
    """What a row's setting says of the device: nothing of the processor, which the file names."""
    return {} if device == "cpu" else {"device": device_name(device)}

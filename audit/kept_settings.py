"""Settings of the whole process that code of others finds and leaves: one that changed them would decide what other
attacks and later cases compute, and where they look for files.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from leakledger.audit.own_process import process_kept
from leakledger.audit.unraised import unraised_told

SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (os.getcwd, os.chdir),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_default_device, torch.set_default_device),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (np.geterr, lambda errors: np.seterr(**errors)),
)
"""How each is asked for, and set."""


@contextmanager
def settings_kept() -> Iterator[None]:
    """What is set inside is as before after it, however it ends; the process stays this one (`own_process`), and errors
    that nobody can catch are told in one line (`unraised`).
    """
    before = [(ask, put, ask()) for ask, put in SETTINGS]
    try:
        with process_kept(), unraised_told():
            yield
    finally:
        for ask, put, value in before:
            if ask() != value:
                put(value)

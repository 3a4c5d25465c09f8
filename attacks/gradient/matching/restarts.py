"""What every search by restarts has in common: its number types and its reports."""

import torch

REPORT_EVERY = 50  # iterations between two reports of progress: fewer cost time, more look like standstill
DTYPES = {"float32": torch.float32, "float64": torch.float64}

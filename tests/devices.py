"""The devices that a test runs on: here, and on an accelerator where there is one (`pytest -m cuda` on such a machine).

On the processor such a test compares a run with its repetition, so what it asks for is seen to hold without one too.
"""

import pytest
import torch

ABSENT = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
DEVICES = ("cpu", pytest.param("cuda", marks=(pytest.mark.cuda, ABSENT)))

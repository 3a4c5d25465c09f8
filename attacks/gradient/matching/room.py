"""How much memory restarts take up at a time."""

import torch

HOST = 2**28  # bytes; larger blocks only leave a processor's caches


def room(asked: int | None, device: str) -> int:
    """Bytes that may be in use at a time on `device`: as many as `asked`, else `HOST`, or half of what an accelerator
    has free, since there one large block costs little more than a small one.
    """
    if asked is not None or torch.device(device).type != "cuda":
        return HOST if asked is None else asked
    free, _ = torch.cuda.mem_get_info(torch.device(device))
    return max(HOST, free // 2)

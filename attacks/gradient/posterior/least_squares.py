"""Least squares with coefficients of at least zero, from inner products alone.

Block principal pivoting (Portugal, Júdice and Vicente 1994; Kim and Park 2011): the coefficients that are free are
solved for at once, all that break a condition change sides, and where that goes round in circles only the last of them
does. Few factorisations do for thousands of coefficients, and a start near the solution is used.
"""

import torch
from torch import Tensor

PATIENCE = 3  # rounds of exchanging all, in a row, that do not lessen how many break a condition
ROUNDS = 100
TIGHT = 1e-9  # of the largest target: a slope not steeper is none
ROUNDED = 1e-12  # of the diagonal, added where double precision leaves a ridge no trace


def non_negative(gram: Tensor, target: Tensor, ridge: float, start: Tensor | None = None) -> Tensor:
    """(n,) the c >= 0 that minimises c' K c / 2 - t' c + ridge |c|² / 2, for `gram` K (n, n) and `target` t (n,) in
    double precision; `start` (n,): where c is likely above zero. Where `ROUNDS` do not do, as of near twins, the best
    that was met, with zero for less.
    """
    steady = gram + ridge * torch.eye(len(target), dtype=gram.dtype, device=gram.device)
    free = torch.zeros_like(target, dtype=torch.bool) if start is None else start > 0
    least, patience, tight = len(target) + 1, PATIENCE, TIGHT * float(target.abs().max())
    best, lowest = torch.zeros_like(target), 0.0
    for _ in range(ROUNDS):
        solution = _solved(steady, target, free)
        slope = steady @ solution - target
        wrong = torch.where(free, solution < 0, slope < -tight)
        count = int(wrong.sum())
        if not count:
            return solution
        clamped = solution.clamp_min(0)
        if (cost := float(clamped @ (steady @ clamped / 2 - target))) < lowest:
            best, lowest = clamped, cost
        if count < least:
            least, patience = count, PATIENCE
        elif patience:
            patience -= 1
        else:
            wrong = torch.arange(len(target), device=target.device) == int(torch.nonzero(wrong)[-1])
        free = free ^ wrong
    return best


def _solved(steady: Tensor, target: Tensor, free: Tensor) -> Tensor:
    """(n,) the solution with all but the free coefficients zero; some solution where rounding does not tell these
    apart, as of equal rows whose numbers are far beyond a ridge.
    """
    solution, chosen = torch.zeros_like(target), torch.nonzero(free)[:, 0]
    if len(chosen):
        block = steady[chosen][:, chosen]
        found, singular = torch.linalg.solve_ex(block, target[chosen])
        if singular:
            found = torch.linalg.solve(block + ROUNDED * block.diagonal().diag(), target[chosen])
        solution[chosen] = found
    return solution

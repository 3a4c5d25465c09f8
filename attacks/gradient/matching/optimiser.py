"""Adam, on the gradient or on its sign (Geiping et al. 2020, taken over by TabLeak, appendix B).

With signs for gradients, no variable moves by more than the learning rate per step, whatever the loss does.
"""

import torch
from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """Moves `variables` in place. The arithmetic is that of `torch.optim.Adam` with its default betas and epsilon."""

    def __init__(self, variables: Tensor, learning_rate: float) -> None:
        self.variables, self.learning_rate = variables, learning_rate
        self.mean, self.square = torch.zeros_like(variables), torch.zeros_like(variables)
        self._scratch = torch.empty_like(variables)
        self.steps = 0

    def step(self, gradient: Tensor) -> None:
        """One step; `gradient` is overwritten."""
        self.steps += 1
        self.mean.lerp_(gradient, 1 - BETA1)
        self.square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        denominator = torch.sqrt(self.square, out=self._scratch)
        denominator.div_((1 - BETA2**self.steps) ** 0.5).add_(EPSILON)
        self.variables.addcdiv_(self.mean, denominator, value=-self.learning_rate / (1 - BETA1**self.steps))


class SignAdam(Adam):
    """Adam that is fed with signs."""

    def step(self, gradient: Tensor) -> None:
        super().step(gradient.sign_())


OPTIMISERS: dict[str, type[Adam]] = {"sign-adam": SignAdam, "adam": Adam}

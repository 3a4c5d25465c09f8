import numpy as np
import torch

from leakledger.attacks.gradient.matching.relaxation import Relaxation
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock
from tests.every import every

ONE_HOT = FeatureLayout(
    (
        NumericBlock("age", 0, shift=40.0, scale=10.0, low=17.0, high=90.0),
        NumericBlock("score", 1),
        CategoricalBlock("job", 2, 3, shift=(0.5, 0.3, 0.2), scale=(0.5, 0.45, 0.4)),
        NumericBlock("dose", 5),
        CategoricalBlock("sex", 6, 2),
    )
)
CODES = np.random.default_rng(0).normal(size=(5, 3))
CODED = FeatureLayout((CategoricalBlock("city", 0, 5, codes=CODES), NumericBlock("age", 3), NumericBlock("dose", 4)))
BITS = np.array([[1.0, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [1, 0, 0, 0, 1]])
SHARED = FeatureLayout(  # two features hashed into the same bits, and a number that lies among them
    (
        CategoricalBlock("city", 0, 4, codes=BITS, shift=(0.1,) * 5, scale=(0.5, 0.4, 0.3, 0.2, 0.1)),
        CategoricalBlock("job", 0, 3, codes=BITS[1:, ::-1].copy()),
        NumericBlock("dose", 1),
        CategoricalBlock("sex", 3, 2),
    )
)
VICTIMS, RESTARTS, BATCH = 2, 3, 4


def relaxation_of(layout, softmax, sigmoid=True):
    prior = StructuralPrior(layout, {"score": (-2.0, 6.0)}, softmax=softmax, sigmoid=sigmoid)
    return prior, Relaxation(prior, (VICTIMS, RESTARTS, BATCH), "cpu", torch.float64)


def draw(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def by_definition(prior, variables, temperature=1.0):
    """Encoded rows (..., width) of variables (..., size), one feature at a time."""
    columns = torch.zeros(*variables.shape[:-1], prior.width, dtype=torch.float64)
    for i, block in enumerate(prior.numeric):
        low = float(block.encoded(prior.low[i]))
        z = variables[..., prior.positions[i]]
        column = low + prior.range[i] * torch.sigmoid(z) if prior.sigmoid else z
        columns[..., block.start] += column
    for block, place in zip(prior.categorical, prior.choices, strict=True):
        z, target = variables[..., place], slice(block.start, block.start + block.width)
        if not prior.softmax:
            columns[..., target] += z
            continue
        if block.codes is None and block.scale is not None:
            z = torch.tensor(block.scale) * z + torch.tensor(block.shift)
        columns[..., target] += torch.softmax(z / temperature, -1) @ torch.from_numpy(block.codebook())
    return columns


@every("sigmoid", [True, False])
@every(
    ("layout", "softmax", "temperature"),
    [
        (ONE_HOT, True, 1.0),
        (ONE_HOT, True, 0.3),
        (ONE_HOT, False, 1.0),
        (CODED, True, 1.0),
        (CODED, True, 7.0),
        (CODED, False, 1.0),
        (SHARED, True, 1.0),
        (SHARED, True, 0.3),
    ],
)
def test_columns_and_their_gradient_are_those_of_the_definition(layout, softmax, temperature, sigmoid):
    prior, relaxation = relaxation_of(layout, softmax, sigmoid)
    variables = draw(VICTIMS, RESTARTS, BATCH, prior.size).requires_grad_()
    expected = by_definition(prior, variables, temperature)
    bar = draw(*expected.shape)
    (expected_gradient,) = torch.autograd.grad(expected, variables, bar)

    fed = variables.detach().flatten(1, 2).mT.contiguous()
    torch.testing.assert_close(relaxation.columns(fed, temperature), expected.detach())
    pulled = relaxation.pull(bar)
    torch.testing.assert_close(pulled.mT.reshape(variables.shape), expected_gradient)


def test_a_temperature_of_one_changes_not_a_bit():
    prior, relaxation = relaxation_of(ONE_HOT, softmax=True)
    variables, bar = draw(VICTIMS, prior.size, RESTARTS * BATCH), draw(*relaxation.shape)
    usual = relaxation.columns(variables).clone(), relaxation.pull(bar).clone()
    relaxation.pull(relaxation.columns(variables, 9.0).clone())
    again = relaxation.columns(variables, 1.0).clone(), relaxation.pull(bar).clone()
    assert all(torch.equal(a, b) for a, b in zip(usual, again, strict=True))


def test_variables_far_out_give_finite_columns_and_gradients():
    prior, relaxation = relaxation_of(ONE_HOT, softmax=True)
    columns = relaxation.columns(1e4 * draw(VICTIMS, prior.size, RESTARTS * BATCH))
    assert torch.isfinite(columns).all()
    assert torch.isfinite(relaxation.pull(torch.ones_like(columns))).all()

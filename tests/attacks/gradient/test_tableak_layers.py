"""That the cheaper of two ways is taken, by counting what each of them does rather than by the clock."""

from functools import cache

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from leakledger.attacks.gradient.matching.layers import Affine, ExplicitLayer, GramLayer, matching_layer
from tests.every import every

PRODUCTS = {"bmm", "baddbmm", "baddbmm_"}
PASS = 10  # multiply-additions that cost as much as one number read, changed and written


class Count(TorchDispatchMode):
    """Multiply-additions of matrix products, and `PASS` for each number that any other operation makes."""

    def __init__(self):
        super().__init__()
        self.cost = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in PRODUCTS:
            a, b = args[-2:]
            self.cost += a.numel() * b.shape[-1]
        elif name not in {"view", "transpose", "unsqueeze", "t", "as_strided", "_unsafe_view"}:
            self.cost += PASS * max(t.numel() for t in [made, *args] if isinstance(t, torch.Tensor))
        return made


@cache
def cost(kind, outputs, inputs, batch):
    """Of one evaluation of one restart, without the passes through the network that both kinds make."""
    own, seen = (Affine(torch.zeros(1, outputs, inputs), torch.zeros(1, 1, outputs)) for _ in range(2))
    layer = kind(own, seen, 1, batch)
    layer.a = torch.zeros(1, batch, inputs)
    layer.delta.zero_()
    with Count() as count:
        layer.inner()
        layer.square()
        layer.push(torch.ones(1))
        layer.pull(layer.delta_bar)
    return count.cost


def picked(outputs, inputs, batch):
    own = Affine(torch.zeros(1, outputs, inputs), torch.zeros(1, 1, outputs))
    return type(matching_layer(own, own, 1, batch))


def test_the_count_of_a_gram_layer_grows_with_the_batch_squared_and_that_of_an_explicit_one_with_the_batch():
    gram, explicit = ([cost(k, 100, 100, b) for b in (512, 1024)] for k in (GramLayer, ExplicitLayer))
    assert gram[1] / gram[0] > 3.5
    assert explicit[1] / explicit[0] < 2.1


@every("hidden", [(50,), (100,), (100, 100), (200, 200, 200), (400, 400, 400)])
@every("columns", [40, 105, 300])  # of less, what calls cost counts more
@every("batch", [8, 16, 32, 64, 128, 256])
def test_the_layers_picked_for_a_network_cost_at_most_a_fifth_more_than_the_cheapest(hidden, columns, batch):
    shapes = list(zip((*hidden, 2), (columns, *hidden), strict=True))
    own = sum(cost(picked(*shape, batch), *shape, batch) for shape in shapes)
    best = sum(min(cost(kind, *shape, batch) for kind in (GramLayer, ExplicitLayer)) for shape in shapes)
    assert own <= 1.2 * best


@every("shape", [(100, 105), (100, 100), (200, 200), (400, 105), (400, 400)])
@every("batch", [1, 4, 16, 32, 64, 128, 256])
def test_where_one_kind_of_layer_costs_half_as_much_again_it_is_not_picked(shape, batch):
    costs = {kind: cost(kind, *shape, batch) for kind in (GramLayer, ExplicitLayer)}
    dearer = max(costs, key=costs.get)
    assert costs[dearer] < 1.5 * min(costs.values()) or picked(*shape, batch) is not dearer

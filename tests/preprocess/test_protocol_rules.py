import inspect
from pathlib import Path
from textwrap import dedent

import pytest

from leakledger.preprocess import pipeline
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.protocol_rules import violations
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.training import ALGORITHMS

PACKAGE = Path(pipeline.__file__).parent
FOLDERS = ("encoders", "scalers", "training", "aggregation", "crypto", "crypto/threshold_ckks")
FILES = [p for folder in FOLDERS for p in sorted((PACKAGE / folder).glob("*.py"))] + [Path(pipeline.__file__)]

BROKEN = {
    "import os": "imports os",
    "from pathlib import Path": "imports pathlib.Path",
    "from multiprocessing import shared_memory": "imports multiprocessing.shared_memory",
    "from leakledger.preprocess.transport.simulated import Simulated": "for whoever runs the federation",
    "from leakledger.preprocess.ledger import Ledger": "for whoever runs the federation",
    "from leakledger.preprocess.secret import derive": "for whoever runs the federation",
    "def f():\n    global seen": "seen: what is outside a function",
    "def f():\n    x = 1\n    def g():\n        nonlocal x": "x: what is outside a function",
    "def f(path):\n    return open(path)": r"open\(...\) is not for protocols",
    "def f(value):\n    print(value)": r"print\(...\) is not for protocols",
    "SEEN = []\ndef f(v):\n    SEEN.append(v)": r"\.append\(...\) changes SEEN",
    "SEEN = {}\ndef f(v):\n    SEEN['v'] = v": "writes into SEEN",
    "SEEN = {}\ndef f(v):\n    del SEEN['v']": "writes into SEEN",
    "SEEN = [0]\ndef f(v):\n    SEEN[0] += v": "writes into SEEN",
    "import state\ndef f(v):\n    state.seen.append(v)": r"\.append\(...\) changes state",
    "from state import seen\ndef f(v):\n    seen.add(v)": r"\.add\(...\) changes seen",
    "def f(v):\n    seen = []\n    return lambda w: seen.append(w)": r"\.append\(...\) changes seen",
    "def f(v):\n    f.seen = v": "sets f.seen",
    "class E:\n    def fit(self, v):\n        self.seen = v": "sets self.seen",
    "class E:\n    def fit(self, v):\n        self.seen.append(v)": r"\.append\(...\) changes self",
    "class E:\n    def fit(self, v):\n        object.__setattr__(self, 'seen', v)": "attributes are set in __init__",
    "class E:\n    def fit(self, v):\n        type(self).seen = v": "sets None.seen",
    "def f(fed, v):\n    setattr(fed, 'seen', v)": r"setattr\(...\) is not for protocols",
    "def f(fed, v):\n    fed.seen = v": "sets fed.seen",
    "def f(v, seen=[]):\n    return seen": "a default argument can be changed",
    "def f(v, *, seen=dict()):\n    return seen": "a default argument can be changed",
    "f = lambda v, seen={}: seen": "a default argument can be changed",
    "@cache\ndef f():\n    return []": "remembers results",
    "@functools.lru_cache(8)\ndef f():\n    return []": "remembers results",
    "def f(fed, v):\n    return fed.own(v)": r"\.own\(...\) is for whoever runs the federation",
    "def f(fed, v):\n    return fed._read(v)": r"\._read is not for protocols",
    "def f(v):\n    return v._value": r"\._value is not for protocols",
    "def f(fed):\n    return fed.ledger.head": r"\.ledger is for whoever runs the federation",
    "def f(fed):\n    return fed.holds('a')": r"\.holds\(...\) is for whoever runs",
    "def f(v):\n    return At('b')": r"At\(...\) is not for protocols",
    "def f(v):\n    return Public(v)": r"Public\(...\) is not for protocols",
    "def f(n):\n    return np.random.normal(size=n)": "np.random.normal: randomness comes from",
    "def f(n):\n    return np.random.default_rng()": "randomness comes from the party's own coins",
    "def f(n):\n    return torch.randn(n)": "torch.randn: randomness comes from",
}
KEPT = {
    "own state of a function": "def f(v):\n    seen = []\n    seen.append(v)\n    seen[0] = v\n    return seen",
    "what a function was given": "def f(held, v):\n    held[0] = v\n    held.append(v)",
    "a constructor": "class E:\n    def __init__(self, v):\n        self.seen = [v]\n        self.seen.append(v)",
    "a frozen class": "class E:\n    def __post_init__(self):\n        object.__setattr__(self, 'seen', 1)",
    "a function of a module": "import numpy as np\ndef f(x):\n    return np.append(x, 1)",
    "an own method": "class E:\n    def f(self):\n        return self.add(1)",
    "loops and walrus": "def f(v):\n    for x in v:\n        x.append(1)\n    if (y := v):\n        y.append(2)",
    "a generator's type": "def f(coins: np.random.Generator):\n    return coins.integers(3)",
    "a seeded generator": "def f():\n    return np.random.default_rng(3)",
    "a named tuple": "def f(x):\n    return x._replace(a=1)",
    "an exempt line": "import os  # exempt: the library wants a path",
}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_our_own_protocols_keep_the_rules(path):
    assert violations(path.read_text()) == []


@pytest.mark.parametrize("kind", [*ENCODERS.values(), *SCALERS.values(), *map(type, ALGORITHMS.values())])
def test_everything_registered_keeps_the_rules(kind):
    assert violations(inspect.getsource(inspect.getmodule(kind))) == []


@pytest.mark.parametrize("source", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_rule_is_named_with_its_line(source):
    import re

    found = violations(source)
    assert any(re.search(BROKEN[source], v) for v in found), found
    assert all(re.match(r"line \d+: ", v) for v in found)


@pytest.mark.parametrize("case", KEPT)
def test_code_that_keeps_the_rules_is_left_alone(case):
    assert violations(KEPT[case]) == []


def test_violations_come_in_order_of_lines_and_an_exemption_needs_a_reason():
    source = dedent(
        """
        import socket
        import os  # exempt:
        import sys  # exempt: needed
        def f(v):
            print(v)
        """
    )
    assert [v.partition(":")[0] for v in violations(source)] == ["line 2", "line 3", "line 6"]

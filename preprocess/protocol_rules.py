"""What protocol code must not do, found in its source: the static half of what keeps the ledger complete.

A protocol in one process could pass a value beside the ledger: through a global, a file, an object that two parties
share, the insides of the federation. `violations` reads a module (of an encoder, a scaler, a training, a cryptographic
protocol; a plugin's too) and lists each place where it

* imports what does input or output, starts programs or threads, reads the clock, draws randomness of its own, or is
  part of how a federation is run;
* writes a global or a variable of an enclosing function, or changes what one of them holds;
* sets attributes, but for `self` in `__init__` and `__post_init__`, or changes what `self` holds;
* has a default argument that can be changed, or a function that remembers its results;
* reaches into a federation: private names, `own(...)`, `ledger`, `holds(...)`, or makes `At` and `Public` itself.

It is for slips, not for hostile code. A line that ends in `# exempt: ` and a reason is left alone.
"""

import ast
from collections.abc import Iterator
from typing import Final

# fmt: off
MODULES: Final = frozenset({
    "asyncio", "atexit", "builtins", "contextvars", "ctypes", "fcntl", "gc", "glob", "http", "importlib", "inspect",
    "io", "logging", "mmap", "multiprocessing", "os", "pathlib", "pickle", "queue", "random", "requests", "secrets",
    "select", "shelve", "shutil", "signal", "socket", "sqlite3", "subprocess", "sys", "syslog", "tempfile",
    "threading", "time", "urllib", "uuid", "warnings", "weakref", "zmq",
})
CALLS: Final = frozenset({
    "open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint", "globals", "locals", "vars",
    "setattr", "delattr", "At", "Public",
})
CHANGING: Final = frozenset({
    "append", "extend", "insert", "remove", "pop", "popitem", "clear", "sort", "reverse", "update", "setdefault",
    "add", "discard", "difference_update", "intersection_update", "symmetric_difference_update", "appendleft",
    "popleft", "extendleft", "rotate", "fill", "put", "setflags", "itemset", "write", "writelines", "writerow",
    "tofile", "dump", "save", "savez", "to_csv", "to_parquet", "write_text", "write_bytes", "touch", "mkdir",
    "unlink", "set",
})
TORCH_RANDOM: Final = frozenset({
    "manual_seed", "seed", "rand", "randn", "randint", "randperm", "bernoulli", "multinomial", "normal",
})
# fmt: on
INSIDES: Final = ("preprocess.transport", "preprocess.ledger", "preprocess.sealing", "preprocess.secret")
FEDERATION_CALLS: Final = frozenset({"own", "holds", "party_secrets", "running"})
FEDERATION_NAMES: Final = frozenset({"ledger", "party_secrets", "running"})
MAKERS: Final = frozenset({"list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter", "zeros", "empty"})
CACHES: Final = frozenset({"cache", "lru_cache"})
TUPLE_METHODS: Final = frozenset({"_make", "_replace", "_fields", "_asdict"})
EXEMPT: Final = "# exempt: "

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def violations(source: str) -> list[str]:
    """`line N: what is wrong` for each place that breaks a rule, in order; empty for code that keeps them.

    Raises SyntaxError for text that is no Python.
    """
    lines = source.splitlines()
    found = sorted({*_Reader().read(ast.parse(source))})
    return [f"line {line}: {text}" for line, text in found if not lines[line - 1].partition(EXEMPT)[2].strip()]


class _Reader:
    """Reads one module. `_own` has the functions around the current place, each with the names that it binds."""

    def __init__(self) -> None:
        self._own: list[tuple[str, frozenset[str]]] = []
        self._modules: set[str] = set()

    def read(self, node: ast.AST) -> Iterator[tuple[int, str]]:
        if isinstance(node, Function):
            yield from self._function(node)
            return
        for text in self._wrong(node):
            yield getattr(node, "lineno", 1), text
        for child in ast.iter_child_nodes(node):
            yield from self.read(child)

    def _function(self, node: Function) -> Iterator[tuple[int, str]]:
        for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d)):
            if isinstance(default, ast.List | ast.Dict | ast.Set | ast.ListComp) or _called(default) in MAKERS:
                yield default.lineno, "a default argument can be changed, and all calls share it"
            yield from self.read(default)
        for decorator in getattr(node, "decorator_list", ()):
            if (_called(decorator) or _last(decorator)) in CACHES:
                yield decorator.lineno, "a function that remembers results is shared by all parties"
            yield from self.read(decorator)
        self._own.append((getattr(node, "name", ""), _bound(node)))
        for child in node.body if isinstance(node.body, list) else [node.body]:
            yield from self.read(child)
        self._own.pop()

    def _wrong(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            if isinstance(node, ast.Import):
                self._modules |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
            yield from _imports(node)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield f"{', '.join(node.names)}: what is outside a function is shared by all parties"
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Attribute):
            yield from _attribute(node)
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield from self._target(node)

    def _call(self, node: ast.Call) -> Iterator[str]:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name in CALLS:
            yield f"{name}(...) is not for protocols"
        if not isinstance(node.func, ast.Attribute):
            return
        method, root = node.func.attr, _root(node.func.value)
        if method in FEDERATION_CALLS:
            yield f".{method}(...) is for whoever runs the federation"
        if method == "__setattr__" and not self._constructs():
            yield "attributes are set in __init__ and __post_init__ only"
        plain = isinstance(node.func.value, ast.Name)  # a function of a module, or an own method
        if method in CHANGING and self._shared(root) and not (plain and root in {"self", "cls", *self._modules}):
            yield f".{method}(...) changes {root}, which other parties may share"
        if method in {"default_rng", "RandomState"} and not node.args:
            yield "randomness comes from the party's own coins"

    def _target(self, node: ast.Attribute | ast.Subscript) -> Iterator[str]:
        root = _root(node)
        if self._constructs() and root == "self":
            return
        if isinstance(node, ast.Attribute):
            yield f"sets {root}.{node.attr}: attributes are set in __init__ and __post_init__ only"
        elif self._shared(root):
            yield f"writes into {root}, which other parties may share"

    def _shared(self, root: str | None) -> bool:
        """Whether a name stands for something that is neither made in this function nor given to it alone."""
        if root is None or not self._own:
            return False
        if root in ("self", "cls"):
            return not self._constructs()
        return root not in self._own[-1][1]

    def _constructs(self) -> bool:
        return bool(self._own) and self._own[-1][0] in ("__init__", "__post_init__")


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    base = node.module or "" if isinstance(node, ast.ImportFrom) else ""
    for alias in node.names:
        name = f"{base}.{alias.name}" if base else alias.name
        plain = name.removeprefix("leakledger.")
        if plain.partition(".")[0] in MODULES:
            yield f"imports {name}: protocols neither read nor write anything but their values"
        if any(plain == i or plain.startswith(f"{i}.") for i in INSIDES):
            yield f"imports {name}, which is for whoever runs the federation"


def _attribute(node: ast.Attribute) -> Iterator[str]:
    name, owner = node.attr, _dotted(node.value)
    private = name.startswith("_") and not name.startswith("__") and name not in TUPLE_METHODS
    if private and owner not in ("self", "cls"):
        yield f".{name} is not for protocols"
    if name in FEDERATION_NAMES and isinstance(node.ctx, ast.Load):
        yield f".{name} is for whoever runs the federation"
    if owner in ("np.random", "numpy.random") and name not in {"Generator", "default_rng"}:
        yield f"{owner}.{name}: randomness comes from the party's own coins"
    if owner == "torch" and name in TORCH_RANDOM:
        yield f"torch.{name}: randomness comes from the party's own coins"


def _bound(node: Function) -> frozenset[str]:
    """The names of a function's parameters, and those that it assigns to."""
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
    inside = [n for child in ast.iter_child_nodes(node) for n in _within(child)]
    assigned = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return frozenset(assigned | {a.arg for a in arguments if a})


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it, but for the bodies of further functions."""
    yield node
    if not isinstance(node, Function):
        for child in ast.iter_child_nodes(node):
            yield from _within(child)


def _root(node: ast.AST) -> str | None:
    """The name that a chain of attributes and subscripts begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    inner = _dotted(node.value) if isinstance(node, ast.Attribute) else None
    return f"{inner}.{node.attr}" if inner and isinstance(node, ast.Attribute) else None


def _called(node: ast.AST) -> str | None:
    return _last(node.func) if isinstance(node, ast.Call) else None


def _last(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None

"""Graph neural networks by message passing, written as graph libraries write them.

A layer says what a message is; `MessagePassing` finds out from the signatures of its methods what to gather for them.

    python examples/message_passing.py    # what is captured of each
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# ---------------------------------------------------------------- graphs as data


class Data:
    """A graph: any tensors, read and written as attributes or items.

    `x` are the nodes' features, `edge_index` is (2, edges) with sources and targets.

    Example:
        data = Data(x=torch.randn(3, 4), edge_index=torch.tensor([[0, 1], [1, 2]]))
        data.y = torch.tensor(1)
        data.keys()      # ["x", "edge_index", "y"]
    """

    def __init__(self, **tensors: Any) -> None:
        self.__dict__["store"] = {}
        for name, value in tensors.items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        store = self.__dict__.get("store", {})
        if name not in store:
            raise AttributeError(f"{type(self).__name__} has no {name!r}; it has: {', '.join(store)}")
        return store[name]

    def __setattr__(self, name: str, value: Any) -> None:
        setter = getattr(type(self), name, None)
        if isinstance(setter, property):
            raise AttributeError(f"{name!r} is computed")
        self.store[name] = value

    def __delattr__(self, name: str) -> None:
        del self.store[name]

    __getitem__ = __getattr__
    __setitem__ = __setattr__

    def __contains__(self, name: str) -> bool:
        return name in self.store

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from self.store.items()

    def __repr__(self) -> str:
        fields = (f"{k}={list(v.shape) if isinstance(v, Tensor) else v}" for k, v in self)
        return f"{type(self).__name__}({', '.join(fields)})"

    def keys(self) -> list[str]:
        return list(self.store)

    @property
    def num_nodes(self) -> int:
        for name, value in self:
            if name in ("x", "batch"):
                return value.shape[0]
        return int(self.edge_index.max()) + 1

    def join_dim(self, name: str) -> int:
        """The dimension along which graphs are joined: the last one for what has "index" in its name."""
        return -1 if "index" in name else 0

    def apply(self, function: Callable[[Any], Any], *names: str) -> Data:
        """A graph of what a function gives for every tensor, or for those with the given names."""
        return type(self)(**{k: function(v) if not names or k in names else v for k, v in self})

    def to(self, *args: Any) -> Data:
        return self.apply(lambda v: v.to(*args) if isinstance(v, Tensor) else v)


class Batch(Data):
    """Several graphs as a single one whose parts are not connected; `batch` tells which graph a node is of."""

    @classmethod
    def of(cls, graphs: Sequence[Data]) -> Batch:
        """Join graphs: their nodes are numbered through."""
        joined: dict[str, list[Tensor]] = {name: [] for name, _ in graphs[0]}
        start, batch = 0, []
        for i, graph in enumerate(graphs):
            for name, value in graph:
                value = value + start if "index" in name else value
                joined[name].append(value.reshape(1) if value.dim() == 0 else value)
            batch.append(torch.full((graph.num_nodes,), i))
            start += graph.num_nodes
        tensors = {name: torch.cat(values, graphs[0].join_dim(name)) for name, values in joined.items()}
        return cls(**tensors, batch=torch.cat(batch), num_graphs=len(graphs))


# ---------------------------------------------------------------- reductions


def scatter(values: Tensor, index: Tensor, size: int, reduce: str = "sum") -> Tensor:
    """Reduce the rows of `values` that have the same index into one row: `sum`, `mean`, `max` or `min`."""
    if reduce == "sum":
        return values.new_zeros((size, *values.shape[1:])).index_add_(0, index, values)
    if reduce == "mean":
        count = scatter(values.new_ones(len(values)), index, size).clamp_(min=1)
        return scatter(values, index, size) / count.view(-1, *[1] * (values.dim() - 1))
    if reduce not in ("max", "min"):
        raise ValueError(f"unknown reduction {reduce!r}")
    places = index.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
    found = values.new_zeros((size, *values.shape[1:]))
    return found.scatter_reduce(0, places, values, reduce="a" + reduce, include_self=False)


def softmax(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Softmax over the rows that have the same index."""
    largest = scatter(values.detach(), index, size, "max")
    powers = (values - largest.index_select(0, index)).exp()
    return powers / (scatter(powers, index, size) + 1e-16).index_select(0, index)


def degree(index: Tensor, size: int) -> Tensor:
    """How often each number occurs."""
    return torch.zeros(size, device=index.device).scatter_add_(0, index, torch.ones(index.numel()))


def add_self_loops(edge_index: Tensor, nodes: int) -> Tensor:
    """Connect every node with itself."""
    loops = torch.arange(nodes, device=edge_index.device).repeat(2, 1)
    return torch.cat([edge_index, loops], dim=1)


# ---------------------------------------------------------------- message passing


class MessagePassing(nn.Module):
    """A layer that sends a message along every edge.

    Subclasses write `message`, and `aggregate` and `update` where they want others.  An argument of theirs named
    `x_j` is row for row what the edges' sources have of the `x` that `propagate` was given, `x_i` what the targets
    have; `index` are the targets, `size` is the number of nodes; any other name is taken as it was given.
    """

    HOOKS = ("message", "aggregate", "update")
    SUFFIXES = {"_j": 0, "_i": 1}

    def __init__(self, aggr: str = "sum") -> None:
        super().__init__()
        self.aggr = aggr
        self.wanted = {name: self.parameters_of(getattr(self, name)) for name in self.HOOKS}

    @staticmethod
    def parameters_of(method: Callable[..., Any]) -> dict[str, inspect.Parameter]:
        """The parameters that are to be collected: all but the one for the result of the method before."""
        found = dict(inspect.signature(method).parameters)
        return {k: p for k, p in found.items() if p.kind is not p.POSITIONAL_ONLY}

    def propagate(self, edge_index: Tensor, **given: Any) -> Tensor:
        """Send messages, reduce them at their targets and update the nodes."""
        size = next(v.shape[0] for v in given.values() if isinstance(v, Tensor))
        pool = given | {"index": edge_index[1], "size": size, "edge_index": edge_index}
        messages = self.message(**self.collect("message", edge_index, pool))
        reduced = self.aggregate(messages, **self.collect("aggregate", edge_index, pool))
        return self.update(reduced, **self.collect("update", edge_index, pool))

    def collect(self, hook: str, edge_index: Tensor, pool: dict[str, Any]) -> dict[str, Any]:
        """The arguments for one of the methods."""
        collected = {}
        for name, parameter in self.wanted[hook].items():
            end = self.SUFFIXES.get(name[-2:])
            if end is not None and isinstance(value := pool.get(name[:-2]), Tensor):
                collected[name] = value.index_select(0, edge_index[end])
            elif name in pool:
                collected[name] = pool[name]
            elif parameter.default is not inspect.Parameter.empty:
                collected[name] = parameter.default
            else:
                raise TypeError(f"{hook} of {type(self).__name__} wants {name!r}, which propagate was not given")
        return collected

    def message(self, x_j: Tensor) -> Tensor:
        return x_j

    def aggregate(self, messages: Tensor, /, index: Tensor, size: int) -> Tensor:
        return scatter(messages, index, size, self.aggr)

    def update(self, reduced: Tensor, /) -> Tensor:
        return reduced


class GCNConv(MessagePassing):
    """Sums neighbours, each edge weighted by the degrees of its ends."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(aggr="sum")
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        edges = add_self_loops(edge_index, len(x))
        root = degree(edges[1], len(x)).pow(-0.5)
        root = root.masked_fill(root == float("inf"), 0.0)
        norm = root[edges[0]] * root[edges[1]]
        if edge_weight is not None:
            norm = norm * torch.cat([edge_weight, edge_weight.new_ones(len(x))])
        return self.propagate(edges, x=self.linear(x), norm=norm) + self.bias

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        return norm.view(-1, 1) * x_j


class SAGEConv(MessagePassing):
    """Joins what a node is with a reduction of its neighbours."""

    def __init__(self, inputs: int, outputs: int, aggr: str = "mean", normalise: bool = False) -> None:
        super().__init__(aggr)
        self.normalise = normalise
        self.neighbours, self.root = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)

    def update(self, reduced: Tensor, /, x: Tensor) -> Tensor:
        y = self.neighbours(reduced) + self.root(x)
        return F.normalize(y, dim=-1) if self.normalise else y


class GATConv(MessagePassing):
    """Weighs neighbours by attention; the heads are joined."""

    def __init__(self, inputs: int, outputs: int, heads: int = 2, dropout: float = 0.0) -> None:
        super().__init__(aggr="sum")
        self.heads, self.width, self.dropout = heads, outputs // heads, dropout
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.source, self.target = (nn.Parameter(torch.randn(1, heads, self.width) * 0.3) for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.linear(x).view(-1, self.heads, self.width)
        score = (x * self.source).sum(-1), (x * self.target).sum(-1)
        edges = add_self_loops(edge_index, len(x))
        return self.propagate(edges, x=x, sent=score[0], seen=score[1]).flatten(1)

    def message(self, x_j: Tensor, sent_j: Tensor, seen_i: Tensor, index: Tensor, size: int) -> Tensor:
        weights = softmax(F.leaky_relu(sent_j + seen_i, 0.2), index, size)
        return F.dropout(weights, self.dropout, self.training).unsqueeze(-1) * x_j


class GINConv(MessagePassing):
    """Adds neighbours to a node, then a perceptron."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__(aggr="sum")
        self.network = network
        self.eps = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.network((1 + self.eps) * x + self.propagate(edge_index, x=x))

    def message(self, x_j: Tensor) -> Tensor:
        return x_j.relu()


# ---------------------------------------------------------------- models

LAYERS: dict[str, Callable[[int, int], MessagePassing]] = {
    "gcn": GCNConv,
    "sage": SAGEConv,
    "sage max": lambda i, o: SAGEConv(i, o, "max", normalise=True),
    "gat": lambda i, o: GATConv(i, o, dropout=0.1),
    "gin": lambda i, o: GINConv(nn.Sequential(nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU(), nn.Linear(o, o))),
}

POOLS: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    reduce: lambda x, batch, size, reduce=reduce: scatter(x, batch, size, reduce) for reduce in ("sum", "mean", "max")
}


class GraphClassifier(nn.Module):
    """Layers of message passing, the nodes of each graph pooled, and a classifier.

    Example:
        model = GraphClassifier("gat", inputs=5)
        logits = model(Batch.of(graphs))
    """

    def __init__(
        self,
        layer: str,
        inputs: int,
        width: int = 16,
        depth: int = 3,
        classes: int = 3,
        pools: Sequence[str] = ("mean",),
    ) -> None:
        super().__init__()
        self.pools = tuple(pools)
        self.layers = nn.ModuleList(LAYERS[layer](width if i else inputs, width) for i in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.head = nn.Linear(width * len(self.pools), classes)

    def forward(self, data: Data) -> Tensor:
        x, edge_index = data.x, data.edge_index
        for layer, norm in zip(self.layers, self.norms, strict=True):
            y = F.relu(norm(layer(x, edge_index)))
            x = x + y if x.shape == y.shape else y
        batch = data.batch if "batch" in data else torch.zeros(data.num_nodes, dtype=torch.long)
        size = data.num_graphs if "num_graphs" in data else 1
        return self.head(torch.cat([POOLS[name](x, batch, size) for name in self.pools], dim=-1))


def random_graph(nodes: int, edges: int, features: int = 5) -> Data:
    """A graph with edges between nodes drawn at random."""
    return Data(x=torch.randn(nodes, features), edge_index=torch.randint(nodes, (2, edges)))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from examples.table import show

    torch.manual_seed(0)
    graphs = Batch.of([random_graph(nodes, 3 * nodes) for nodes in (4, 7, 9)])
    pools = ("sum", "mean", "max")
    show({name: (GraphClassifier(name, 5, pools=pools), (graphs,)) for name in LAYERS})

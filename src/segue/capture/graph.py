"""The graph under construction: nodes of torch functions, run on fake tensors as they are captured."""

from __future__ import annotations

import contextlib
import enum
import operator
import re
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._subclasses import fake_tensor

from segue.capture.attributes import class_attribute
from segue.capture.breaks import GraphBreak, Raised, Restart, graph_break
from segue.capture.calls import name_of
from segue.capture.fake import CaptureMode, quiet
from segue.capture.graphnodes import CapturedModule, add_placeholder, is_inside_transform
from segue.capture.leaving import CannotRebuild
from segue.capture.recall import Recall
from segue.capture.values.base import MISSING, Value
from segue.capture.values.known import Known
from segue.capture.values.mapping import DictValue
from segue.capture.values.object import ObjectValue
from segue.capture.values.sequence import ListValue, SliceValue, TupleValue
from segue.capture.values.symbolic import SymbolicValue
from segue.capture.values.tensor import TensorValue
from segue.capture.writes import may_fail, saved_sources, statistics, tensors_of

if TYPE_CHECKING:
    from segue.capture.body import Body
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source

_DATA_DEPENDENT = (fake_tensor.DataDependentOutputException,)
_UNSUPPORTED = (
    fake_tensor.UnsupportedOperatorException,
    fake_tensor.UnsupportedFakeTensorException,
    NotImplementedError,
)

SCALAR_OPERATIONS = frozenset(
    """
    add sub mul truediv floordiv mod pow iadd isub imul itruediv ifloordiv imod ipow eq ne lt le gt ge rsub div
    true_divide multiply subtract clamp clamp_min clamp_max add_ sub_ mul_ div_ fmod remainder maximum minimum
    addcmul addcdiv lerp fill_ masked_fill masked_fill_ full_like select setitem getitem __rsub__ __rtruediv__
    __rpow__
    """.split()
)
"""Operations whose result's shape and dtype do not depend on the value of a Python number among the operands."""

RANDOM_OPERATIONS = frozenset(
    """
    rand randn randint randperm rand_like randn_like randint_like bernoulli multinomial normal poisson binomial
    dropout alpha_dropout feature_dropout feature_alpha_dropout dropout1d dropout2d dropout3d rrelu native_dropout
    uniform random exponential geometric log_normal cauchy gumbel_softmax fractional_max_pool2d
    fractional_max_pool3d scaled_dot_product_attention multi_head_attention_forward rnn_tanh rnn_relu lstm gru
    """.split()
)
"""Operations that may take numbers from a random generator."""

CONSTANT_TYPES = (
    int, float, bool, str, bytes, complex, type(None), type(Ellipsis), torch.dtype, torch.device, torch.layout,
    torch.memory_format, torch.Size,
)  # fmt: skip


class Attempt:
    """Operations of a graph that may be taken back."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.nodes = set(builder.graph.nodes)
        self.n_operations, self.is_random = builder.n_operations, builder.is_random
        self.n_written = len(builder.written)

    def added(self) -> list[fx.Node]:
        """The operations added since."""
        return [n for n in self.builder.graph.nodes if n not in self.nodes and n.op != "placeholder"]

    def has_effects(self) -> bool:
        """Whether the operations may be random, write to a tensor or set PyTorch's state."""
        return self.builder.is_random or len(self.builder.written) != self.n_written or self.builder.sets_state

    def undo(self) -> None:
        """Take the operations back."""
        for node in reversed(self.added()):
            self.builder.graph.erase_node(node)
        self.builder.n_operations, self.builder.is_random = self.n_operations, self.is_random


class GraphBuilder:
    """Collects tensor operations as nodes of an `fx.Graph`.

    `inputs` are what the segment has to hand to the graph: sources in the order of the placeholders.
    `written` are tensors that an operation of the graph mutates.
    """

    def __init__(self) -> None:
        self.graph = self.root = fx.Graph()
        self.bodies: list[Body] = []
        self.fake_mode = CaptureMode()
        self.inputs: list[Source] = []
        self.examples: list[Any] = []
        self.n_operations = 0
        self.written: set[TensorValue] = set()
        self.mutates_inputs = False
        self._saved: set[Source] = set()
        self.is_random = False
        self.sets_state = False
        self._numbers: dict[Source, fx.Node] = {}
        self._names: dict[str, int] = {}
        self._input_storages: set[int] = set()
        self._tensors: dict[int, TensorValue] = {}
        self.assigned: dict[TensorValue, Value] = {}
        """Gradients that the program has assigned to its tensors."""
        self._kept: set[int] = set()
        self._told_apart: list[TensorValue] = []

    def attempt(self) -> Attempt:
        """What is added from now on may be taken back."""
        return Attempt(self)

    def input_tensor(self, real: torch.Tensor, source: Source, cls: type) -> TensorValue:
        """A placeholder for a tensor of the program."""
        fake = self.fake_mode.fake_of(real)
        node = self._placeholder(source, real, fake)
        value = TensorValue(node, fake, cls, source, real)
        self._tensors[id(fake)] = value
        if fake.layout is torch.strided:
            self._input_storages.add(fake.untyped_storage()._cdata)
        return value

    def _placeholder(self, source: Source, real: Any, fake: Any) -> fx.Node:
        node = add_placeholder(self.root, self._unique(_identifier(str(source))), fake)
        self.inputs.append(source)
        self.examples.append(real)
        return node

    def _unique(self, name: str) -> str:
        """A name that no other input has."""
        count = self._names[name] = self._names.get(name, 0) + 1
        return name if count == 1 else f"{name}_{count}"

    def _number(self, value: SymbolicValue) -> fx.Node:
        if value.source not in self._numbers:
            self._numbers[value.source] = self._placeholder(value.source, value.real, value.real)
        return self.reach(self._numbers[value.source])

    def reach(self, node: fx.Node) -> fx.Node:
        """What stands for a node in the graph under construction: itself, or an input of the bodies in between."""
        if node.graph is self.graph:
            return node
        if not self._is_alive(node):
            graph_break("unsupported-tensor", what="a tensor that has left the transform it belongs to")
        graphs = [self.root, *(body.graph for body in self.bodies)]
        for body in self.bodies[graphs.index(node.graph) :]:
            node = body.lift(node)
        return node

    def _is_alive(self, node: fx.Node) -> bool:
        """Whether a node is in a graph that is still under construction."""
        return node.graph is self.root or any(node.graph is body.graph for body in self.bodies)

    def call(self, tr: Tracer, kind: str, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Add an operation; `kind` is fx's `call_function` or `call_method`."""
        from segue.capture.rules.overrides import dispatch

        if any(isinstance(tr.look(a), ObjectValue) for a in (*args, *kwargs.values())):
            handed_over = dispatch(tr, target, args, kwargs)
            if handed_over is not None:
                return handed_over
        if kind == "call_function" and isinstance(target, (types.MethodDescriptorType, types.WrapperDescriptorType)):
            kind, target = "call_method", target.__name__
        name = target if kind == "call_method" else name_of(target)
        kwargs, generator = self._without_generator(tr, kwargs)
        symbolic = name.rpartition(".")[2] in SCALAR_OPERATIONS
        fakes = [self._fake(tr, a, symbolic) for a in args], {k: self._fake(tr, v, symbolic) for k, v in kwargs.items()}
        versions = [(v, v.fake._version) for v in tensors_of(args, kwargs) if not v.fake.is_inference()]
        result = self._run_fake(tr, kind, target, name, *fakes)
        if self.mutates_inputs and may_fail(name, args) and not self._save_written() and not tr.limits.fullgraph:
            graph_break("order", operation=name)
        node = self.graph.create_node(
            kind,
            target,
            tuple(self._node(tr, a, symbolic) for a in args),
            {k: self._node(tr, v, symbolic) for k, v in kwargs.items()} | generator,
        )
        for value, version in versions:
            if value.fake._version != version:
                self.note_write(value)
        for value in statistics(tr, target, args, kwargs):
            self.note_write(value)
        if name.rpartition(".")[2].rstrip("_") in RANDOM_OPERATIONS:
            self.is_random = True
        node.meta["example_value"] = result
        node.meta["stack_trace"] = tr.stack_trace()
        return self._wrap(tr, node, result)

    def _without_generator(self, tr: Tracer, kwargs: dict[str, Value]) -> tuple[dict[str, Value], dict[str, fx.Node]]:
        """The keywords for fake tensors, which take no numbers from a generator of the program, and its node."""
        given = tr.look(kwargs["generator"]) if "generator" in kwargs else None
        if given is None or given.source is None or not isinstance(given.real, torch.Generator):
            return kwargs, {}
        self.is_random = True
        if given.source not in self._numbers:
            self._numbers[given.source] = self._placeholder(given.source, given.real, given.real)
        rest = {k: v for k, v in kwargs.items() if k != "generator"}
        return rest, {"generator": self.reach(self._numbers[given.source])}

    def set_state(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> fx.Node:
        """A change of the thread state under which the following operations run."""
        self.sets_state = True
        return self.graph.call_function(function, tuple(args), kwargs)

    def record(self, tr: Tracer, target: Any, nodes: list[fx.Node], result: Any) -> Value:
        """Add an operation whose result on fake tensors is known already."""
        node = self.graph.call_function(target, tuple(nodes))
        node.meta["example_value"] = result
        node.meta["stack_trace"] = tr.stack_trace()
        return self._wrap(tr, node, result)

    def wrapped_input(self, node: fx.Node, fake: torch.Tensor) -> TensorValue:
        """An input of a body: a tensor that a transform has wrapped."""
        value = self._tensors[id(fake)] = TensorValue(node, fake)
        return value

    def tell_apart(self, tr: Tracer, value: TensorValue) -> None:
        """A tensor of the program is none of the others that this was asked of, and those differ from call to call."""
        if value in self._told_apart:
            return
        assert value.source is not None
        for other in self._told_apart:
            assert other.source is not None
            tr.program.check_pair("is_not", value.source, other.source)
        self._told_apart.append(value)

    def is_in_input(self, value: TensorValue) -> bool:
        """Whether a tensor is a view of one of the program's, or may be one."""
        return is_inside_transform(value.fake) or value.fake.untyped_storage()._cdata in self._input_storages

    def keep_unwritten(self, value: TensorValue) -> None:
        """From here on nothing may write to a tensor: what is made of it after the graph wants it as it is."""
        self._kept.add(value.fake.untyped_storage()._cdata)

    def known_tensors(self) -> list[TensorValue]:
        """All tensors that the graphs have so far."""
        return list(self._tensors.values())

    def note_write(self, value: TensorValue) -> None:
        """An operation mutates a tensor."""
        self.written.add(value)
        if value.fake.layout is torch.strided and value.fake.untyped_storage()._cdata in self._kept:
            graph_break("late-write", operation="an operation")
        if is_inside_transform(value.fake):
            return  # what it wraps is noted where the transform is called
        if value.fake.untyped_storage()._cdata in self._input_storages:
            self.mutates_inputs = True

    def _save_written(self) -> bool:
        """Have each run save what it writes to, for the case that it fails; whether that is possible and cheap."""
        sources = saved_sources(self.written, self.known_tensors())
        self._saved.update(sources or ())
        return sources is not None

    @property
    def saved(self) -> tuple[int, ...]:
        """Which inputs a run saves, to put them back if it fails."""
        return tuple(i for i, source in enumerate(self.inputs) if source in self._saved)

    def _run_fake(self, tr: Tracer, kind: str, target: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        tr.enter_operation()
        recall = Recall(target, args, kwargs)
        known = recall.result(self.fake_mode)
        if known is not MISSING:
            return known
        with self.failing_as_breaks(name):
            if kind == "call_method":
                result = getattr(args[0], target)(*args[1:], **kwargs)
            else:
                result = target(*args, **kwargs)
        recall.keep(result)
        return result

    @contextlib.contextmanager
    def failing_as_breaks(self, name: str) -> Iterator[None]:
        """Run an operation on fake tensors; its errors and warnings come when the interpreter runs it."""
        globals().pop("__warningregistry__", None)  # a warning counts as new each time
        try:
            with quiet() as noticed, self.fake_mode:
                yield
            if noticed:
                graph_break("operator-warning", operation=name)
        except (GraphBreak, Raised, Restart, CannotRebuild):
            raise
        except fake_tensor.DynamicOutputShapeException:
            graph_break("data-dependent-shape", operation=name)
        except _DATA_DEPENDENT:
            graph_break("data-dependent-value", operation=name)
        except _UNSUPPORTED as e:
            graph_break("unsupported-tensor", what=f"{name} has no fake implementation: {e}")
        except Exception as e:
            if isinstance(e.__cause__, _DATA_DEPENDENT):
                graph_break("data-dependent-value", operation=name)
            graph_break("operator-error", operation=name, error=f"{type(e).__name__}: {e}".split("\n")[0])

    def _wrap(self, tr: Tracer, node: fx.Node, result: Any) -> Value:
        if isinstance(result, torch.Tensor):
            self.n_operations += 1
            return self._tensor(tr, node, result)
        if result is None:
            self.n_operations += 1
            return tr.constant(None)
        if isinstance(result, (tuple, list)) and not isinstance(result, torch.Size) and _holds_tensor(result):
            self.n_operations += 1
            return self._sequence(tr, node, result)
        if isinstance(result, (*CONSTANT_TYPES, tuple, list)) and not _holds_symbol(result):
            self.graph.erase_node(node)
            return tr.plain_value(result)
        self.graph.erase_node(node)
        graph_break("unsupported-tensor", what=f"an operation gives a {type(result).__name__}")

    def _tensor(self, tr: Tracer, node: fx.Node, fake: torch.Tensor) -> Value:
        known = self._tensors.get(id(fake))
        if known is not None and self._is_alive(known.node):
            return known
        if any(isinstance(s, torch.SymInt) for s in fake.shape):
            self.graph.erase_node(node)
            graph_break("data-dependent-shape", operation=str(node.target))
        cls = torch.nn.Parameter if isinstance(fake, torch.nn.Parameter) else torch.Tensor
        value = TensorValue(node, fake, cls)
        self._tensors[id(fake)] = value
        return value

    def _sequence(self, tr: Tracer, node: fx.Node, result: Any) -> Value:
        items: list[Value] = []
        for i, item in enumerate(result):
            picked = self.graph.call_function(operator.getitem, (node, i))
            picked.meta["example_value"] = item
            if isinstance(item, torch.Tensor):
                items.append(self._tensor(tr, picked, item))
            elif isinstance(item, (tuple, list)):
                items.append(self._sequence(tr, picked, item))
            else:
                self.graph.erase_node(picked)
                items.append(tr.plain_value(item))
        if isinstance(result, list):
            return ListValue(items)
        return TupleValue(items, type(result))

    def _fake(self, tr: Tracer, value: Value, symbolic: bool) -> Any:
        return _convert(tr, value, lambda t: t.fake, lambda n: n.real if symbolic else n.concrete(tr), symbolic)

    def _node(self, tr: Tracer, value: Value, symbolic: bool) -> Any:
        return _convert(
            tr, value, lambda t: self.reach(t.node), lambda n: self._number(n) if symbolic else n.concrete(tr), symbolic
        )

    def finish(self, outputs: list[fx.Node]) -> fx.GraphModule:
        """The graph as a module that returns the tuple of `outputs`."""
        self.graph.output(tuple(outputs))
        for node in reversed(list(self.graph.nodes)):
            if node.target is operator.getitem and not node.users and "stack_trace" not in node.meta:
                self.graph.erase_node(node)
        self._drop_unused_inputs()
        return CapturedModule(torch.nn.Module(), self.graph)

    def _drop_unused_inputs(self) -> None:
        placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        used = [bool(n.users) for n in placeholders]
        for node, keep in zip(placeholders, used, strict=True):
            if not keep:
                self.graph.erase_node(node)
        self.inputs = [s for s, keep in zip(self.inputs, used, strict=True) if keep]
        self.examples = [e for e, keep in zip(self.examples, used, strict=True) if keep]


_PLAIN_PARTS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, int.__index__),
    (float, float.__float__),
    (str, str.__str__),
)
"""How a member of an `IntEnum` or the like is a plain number or text, as PyTorch takes it."""


_DTYPES: dict[type, torch.dtype] = {
    bool: torch.bool,
    int: torch.int64,
    float: torch.float64,
    complex: torch.complex128,
}
"""What PyTorch takes Python's types for, where it is given one as a dtype."""


def _convert(
    tr: Tracer,
    value: Value,
    tensor: Callable[[TensorValue], Any],
    number: Callable[[SymbolicValue], Any],
    symbolic: bool,
) -> Any:
    """An operand as fx or PyTorch takes it: containers of tensors and constants."""
    value = tr.look(value)
    if isinstance(value, TensorValue):
        return tensor(value)
    if isinstance(value, Known) and type(value.real) in CONSTANT_TYPES:
        return value.concrete(tr)

    def again(inner: Value) -> Any:
        return _convert(tr, inner, tensor, number, symbolic)

    if isinstance(value, SymbolicValue):
        return number(value)
    if isinstance(value, TupleValue):
        items = [again(i) for i in value.items(tr)]
        return items if value.cls not in (tuple, torch.Size) else tuple(items)
    if isinstance(value, ListValue):
        return [again(i) for i in value.items(tr)]
    if isinstance(value, SliceValue):
        return value.concrete(tr)
    if isinstance(value, DictValue):
        return {k: again(v) for k, (_, v) in value.load(tr).items()}
    if isinstance(value, Known) and type(value.real).__module__ == "numpy" and hasattr(value.real, "item"):
        return value.concrete(tr).item()  # PyTorch takes NumPy's scalars for Python's numbers
    if isinstance(value, Known) and isinstance(value.real, enum.Enum):
        for kind, plain in _PLAIN_PARTS:
            if isinstance(value.real, kind):
                return plain(value.concrete(tr))
    if isinstance(value, Known) and isinstance(value.real, type) and value.real in _DTYPES:
        return _DTYPES[value.concrete(tr)]
    if isinstance(value, Known) and isinstance(value.real, (*CONSTANT_TYPES, torch.finfo, type, range)):
        return value.concrete(tr)
    if value.real is not MISSING and issubclass(type(value.real), torch.Tensor):
        graph_break("unsupported-tensor", what=f"a tensor of class {type(value.real).__name__}")
    if class_attribute(tr, value.python_type(tr), "__index__") is not MISSING:
        return tr.index_of(value)
    graph_break("unsupported-operation", operation="a tensor operation", types=value.python_type(tr).__name__)


def _holds_tensor(result: Any) -> bool:
    if isinstance(result, (tuple, list)):
        return any(map(_holds_tensor, result))
    return isinstance(result, torch.Tensor)


def _holds_symbol(result: Any) -> bool:
    if isinstance(result, (tuple, list)):
        return any(map(_holds_symbol, result))
    return isinstance(result, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _identifier(text: str) -> str:
    cleaned = re.sub(r"\W+", "_", text)[:60].strip("_")
    return cleaned if cleaned[:1].isalpha() else f"input_{cleaned}"

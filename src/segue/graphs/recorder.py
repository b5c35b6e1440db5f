"""Recording: a captured graph runs once on fake tensors, and every ATen operation is noted.

The recorder is the fake mode itself.  Its tensors stand for the graph's inputs, those with a common storage are views
of one buffer, and operations that only make views leave no trace but the sizes, strides and offsets of their results.
Composite operations arrive decomposed, by the same C++ code and the same choices as in an eager run.

A Python number among the inputs changes from call to call.  The graph runs with a telltale value in its place; where
that turns up among the arguments of an operation, the number goes.  A second run with other telltale values must give
the same recording, else the number has decided something.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses import fake_tensor

from segue import _core
from segue.capture.fake import CaptureMode, quiet
from segue.capture.rules.torch_state import preserved
from segue.graphs.aten import AtenGraph, Buffer, Call, Number, View, check_bounds, views_in

_aten = torch.ops.aten

_DEVICE_QUERY = torch.ops.prim.device.default

_RUNNING_STATISTICS, _IS_TRAINING = (3, 4), 5
"""Positions of arguments of `native_batch_norm`, which in training writes the former without its schema saying so."""

_TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter)

_TELLTALES: dict[type, tuple[tuple[float, float], ...]] = {
    float: ((7.390851332151607, 1.0), (-5.671432904097838, -1.0)),
    int: ((1_234_567_891, 1), (-1_357_924_681, -1)),
}
"""For a type of number: start and step of the telltale values of the first and of the second run.

They differ in sign, so that an operation that clamps an index is found out, and also when converted to an integer.
"""

_HARMLESS = frozenset(
    """
    arange clone empty empty_like empty_permuted empty_strided full full_like linspace new_empty new_empty_strided
    new_full new_ones new_zeros ones ones_like scalar_tensor zeros zeros_like _to_copy mm bmm addmm baddbmm sum mean
    amax amin _softmax _log_softmax cat stack native_layer_norm
    """.split()
)
"""Operations that, like pointwise ones, do nothing but compute their result, whatever the data."""

_DIVISIONS = frozenset("div divide floor_divide fmod remainder true_divide pow".split())
"""Pointwise operations that raise an error for some integers."""


class Unrecordable(Exception):
    """A graph that cannot be an `AtenGraph`; the message says why."""


def record(gm: fx.GraphModule, examples: Sequence[Any]) -> AtenGraph:
    """The ATen operations of a captured graph, in program order.

    No kernel runs on real data.  The thread state (grad mode, autocast, ...) is that of the caller.

    Args:
        gm: the graph; it returns a tuple.
        examples: one tensor or Python number for each parameter.

    Returns:
        The recording, without operations whose results nobody uses.

    Raises:
        Unrecordable: the graph does something that an `AtenGraph` cannot express.

    Example:
        >>> graph = record(gm, [torch.ones(2, 3), 2.5])
        >>> print(graph)
    """
    first, buffers = _run(gm, examples, 0)
    if all(isinstance(e, torch.Tensor) for e in examples):
        return first
    again, other_buffers = _run(gm, examples, 1)
    if _text(first, buffers) != _text(again, other_buffers):
        raise Unrecordable("a Python number decides what the graph does")
    return first


def needs_gradient(gm: fx.GraphModule) -> bool:
    """Whether autograd has to know of a run of the graph: a result, or an input that it writes, has a history.

    Args:
        gm: a captured graph, with fake tensors as `meta["example_value"]`.

    Returns:
        The answer.
    """
    inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
    (output,) = (n for n in gm.graph.nodes if n.op == "output")
    made = [n for n in output.all_input_nodes if n.op != "placeholder"]
    if any(_has_history(n) for n in made):
        return True
    return any(_has_history(n) and not _value(n).is_leaf and _value(n)._version > 0 for n in inputs)


def _value(node: fx.Node) -> Any:
    return node.meta.get("example_value")


def _has_history(node: fx.Node) -> bool:
    value = _value(node)
    return isinstance(value, torch.Tensor) and value.requires_grad


def _run(gm: fx.GraphModule, examples: Sequence[Any], round: int) -> tuple[AtenGraph, list[Buffer]]:
    """Record once, with the telltale values of a round."""
    names = [n.name for n in gm.graph.nodes if n.op == "placeholder"]
    with _same_mode(), quiet():
        recorder = Recorder()
        inputs = [recorder.input(n, e, round) for n, e in zip(names, examples, strict=True)]
        recorder.outputs = recorder.run(gm, inputs)
        return recorder.finish(examples), recorder.buffers


def _text(graph: AtenGraph, buffers: list[Buffer]) -> str:
    sizes = [(b.name, b.dtype, b.size, None if b.constant is None else b.constant.tolist()) for b in buffers]
    return f"{graph}\n{sizes}"


@contextlib.contextmanager
def _same_mode() -> Iterator[None]:
    """The caller's thread state, but without inference mode, under which composite operations arrive whole."""
    grad = torch.is_grad_enabled()
    with torch.inference_mode(False), torch.set_grad_enabled(grad), preserved():
        before = _core.global_state()
        yield
        if _core.global_state() != before:
            raise Unrecordable("it leaves PyTorch's thread state changed")


class Recorder(CaptureMode):
    """A fake mode that notes the operations on its tensors.

    Attributes:
        calls: what has been recorded.
        buffers: all memory that has been seen.
        outputs: what the graph returned.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.buffers: list[Buffer] = []
        self.outputs: tuple[Any, ...] = ()
        self._inputs: list[tuple[Any, View | Number]] = []
        self._numbers: dict[float, Number] = {}
        self._known: dict[int, tuple[torch.UntypedStorage, Buffer]] = {}
        self._real: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._lifted: list[tuple[View, int]] = []
        self._noting = False

    def input(self, name: str, example: Any, round: int) -> Any:
        """What to hand to the graph for a parameter."""
        if isinstance(example, torch.Tensor):
            fake = self._stand_in(example)
            self._inputs.append((fake, self._view(fake, name)))
            return fake
        if type(example) not in _TELLTALES:
            raise Unrecordable(f"an input of type {type(example).__name__}")
        start, step = _TELLTALES[type(example)][round]
        telltale = start + step * len(self._numbers)
        number = Number(self._buffer(name, torch.float64 if type(example) is float else torch.int64, 1))
        self._numbers[telltale] = number
        self._inputs.append((telltale, number))
        return telltale

    def _stand_in(self, real: torch.Tensor) -> torch.Tensor:
        """A fake tensor with the metadata of a real one; never an inference tensor."""
        _check_plain(real)
        if type(real) not in _TENSOR_TYPES:
            raise Unrecordable(f"a tensor of class {type(real).__name__}")
        if not real.is_inference():
            return self.fake_of(real)
        with self:
            return torch.empty_strided(real.shape, real.stride(), dtype=real.dtype)

    def run(self, gm: fx.GraphModule, inputs: list[Any]) -> tuple[Any, ...]:
        """Run the graph and note what it does."""
        self._noting = True
        try:
            with self:
                outputs: tuple[Any, ...] = gm(*inputs)
            return outputs
        except Unrecordable:
            raise
        except fake_tensor.DynamicOutputShapeException as e:
            raise Unrecordable(f"the shape of the result of {e.func} depends on data") from e
        except fake_tensor.DataDependentOutputException as e:
            raise Unrecordable(f"the result of {e.func} depends on data") from e
        except Exception as e:
            raise Unrecordable(f"{type(e).__name__}: {e}".split("\n")[0]) from e
        finally:
            self._noting = False

    def dispatch(
        self, func: Any, types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """Run an operation on fake tensors, and note it unless it is part of another."""
        kwargs = kwargs or {}
        if func is _DEVICE_QUERY or not self._noting:
            return super().dispatch(func, types, args, kwargs)
        if not isinstance(func, OpOverload):
            raise Unrecordable(f"the higher-order operator {func}")
        if torch.is_inference_mode_enabled():
            raise Unrecordable("inference mode within the graph")
        if func is _aten.lift_fresh.default and type(args[0]) is torch.Tensor:
            return self._lift(func, types, args[0])
        call_args: Any = self._fakes(args)
        call_kwargs: Any = {k: self._fakes(v) for k, v in kwargs.items()}
        call = Call(func, self._argument(call_args), self._argument(call_kwargs), [], [])
        if func is _aten.as_strided.default and self._is_absolute(call):
            raise Unrecordable("as_strided counts from the start of an input's storage")
        known = len(self.buffers)
        result = self._below(func, types, call_args, call_kwargs)
        made = _results(result) if func._schema.returns else ()
        call.results = [None if t is None else self._view(t, func.overloadpacket.__name__) for t in made]
        if torch.Tag.inplace_view not in func.tags:
            call.written = _written(call)
            if call.written and (self._argument(call_args), self._argument(call_kwargs)) != (call.args, call.kwargs):
                raise Unrecordable(f"{func} resizes a tensor that it is given")
        if call.written or len(self.buffers) > known or not func._schema.returns:
            self.calls.append(call)
        return result

    def _below(self, func: OpOverload, types: Sequence[type], args: Any, kwargs: Any) -> Any:
        self._noting = False
        try:
            return super().dispatch(func, types, args, kwargs)
        finally:
            self._noting = True

    def _lift(self, func: OpOverload, types: Sequence[type], real: torch.Tensor) -> Any:
        """A constant comes into the graph: fresh memory in every run, in case that the graph writes it."""
        _check_plain(real)
        if real.dtype is torch.bool and self._numbers:
            raise Unrecordable("a constant that may be the truth of a Python number")
        fake = self._below(func, types, (real,), {})
        view = self._view(fake, "constant")
        view.buffer.constant = real
        self._lifted.append((view, len(self.calls)))
        return fake

    def _fakes(self, value: Any) -> Any:
        """An argument with fakes for the real tensors in it, which are constants of the graph."""
        if isinstance(value, (tuple, list)):
            return type(value)(self._fakes(v) for v in value)
        if not isinstance(value, torch.Tensor) or isinstance(value, fake_tensor.FakeTensor):
            return value
        if id(value) not in self._real:
            fake = self._stand_in(value)
            self._view(fake, "constant").buffer.constant = value
            self._real[id(value)] = value, fake
        return self._real[id(value)][1]

    def _argument(self, value: Any) -> Any:
        """An argument as it stands in a `Call`."""
        if isinstance(value, torch.Tensor):
            return self._view(value)
        if isinstance(value, (tuple, list)):
            return type(value)(self._argument(v) for v in value)
        if isinstance(value, dict):
            return {k: self._argument(v) for k, v in value.items()}
        if type(value) not in _TELLTALES:
            return value
        number = self._numbers.get(value)
        if number is None or number.buffer.dtype.is_floating_point != (type(value) is float):
            return value
        return number

    def _is_absolute(self, call: Call) -> bool:
        return len(call.args) > 3 and any(i.buffer is call.args[0].buffer for _, i in self._inputs)

    def _view(self, tensor: torch.Tensor, name: str | None = None) -> View:
        """A tensor as a view of its buffer, under a new name if it is one not seen before."""
        _check_plain(tensor)
        storage = tensor.untyped_storage()
        size = storage.nbytes() // tensor.dtype.itemsize
        _, buffer = self._known.get(storage._cdata) or (None, None)
        if buffer is None:
            assert name is not None, "an operation reads a tensor that none has made"
            buffer = self._buffer(name if not self._noting else f"{name}.{len(self.buffers)}", tensor.dtype, size)
            self._known[storage._cdata] = storage, buffer
        if buffer.dtype != tensor.dtype:
            raise Unrecordable(f"memory of {buffer.dtype} is used as {tensor.dtype}")
        if buffer.size != size:
            raise Unrecordable("a storage is resized")
        return View(buffer, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))

    def _buffer(self, name: str, dtype: torch.dtype, size: int) -> Buffer:
        self.buffers.append(Buffer(name, dtype, size))
        return self.buffers[-1]

    def finish(self, examples: Sequence[Any]) -> AtenGraph:
        """The recording as a graph."""
        self._check_inputs(examples)
        fakes = [f for f, _ in self._inputs]
        same = [next((i for i, f in enumerate(fakes) if f is o), None) for o in self.outputs]
        outputs = [self._output(o) for o in self.outputs]
        self._copy_constants(outputs)
        calls, followed = _useful(self.calls, outputs), self._followed(examples, outputs)
        apart = frozenset(i for i, o in enumerate(self.outputs) if self._is_apart(o))
        graph = AtenGraph([i for _, i in self._inputs], calls, outputs, same, apart, followed)
        graph.check()
        return graph

    def _output(self, value: Any) -> Any:
        if isinstance(value, (tuple, list, dict)):
            raise Unrecordable("an output that is a container")
        output = self._argument(value)
        if isinstance(output, View):
            check_bounds(output)
        return output

    def _is_apart(self, output: Any) -> bool:
        """Whether an output is no view, or a view of something that the caller does not get to see."""
        if not isinstance(output, torch.Tensor):
            return False
        seen = [*(f for f, _ in self._inputs), *self.outputs]
        return output._base is None or not any(output._base is t for t in seen)

    def _followed(self, examples: Sequence[Any], outputs: list[Any]) -> frozenset[Buffer]:
        """What autograd follows; without grad mode only what is handed out, where even a view requires a gradient."""
        pairs = zip(self._inputs, examples, strict=True)
        differentiable = {i.buffer for (_, i), e in pairs if isinstance(e, torch.Tensor) and e.requires_grad}
        if torch.is_grad_enabled():
            return frozenset(differentiable)
        return frozenset(differentiable & {v.buffer for v in views_in(outputs)})

    def _check_inputs(self, examples: Sequence[Any]) -> None:
        """An input keeps its shape and memory, and is not written through another one."""
        tensors = [(f, v, e) for (f, v), e in zip(self._inputs, examples, strict=True) if isinstance(v, View)]
        for fake, view, _ in tensors:
            if self._view(fake, "replaced") != view:
                raise Unrecordable("an input gets another shape or other memory")
        written = {b for c in self.calls for b in c.written}
        places = [e.untyped_storage()._cdata for _, _, e in tensors]
        for (_, view, _), place in zip(tensors, places, strict=True):
            if view.buffer in written and places.count(place) > 1:
                raise Unrecordable("an input that is written shares memory with another one")

    def _copy_constants(self, outputs: list[Any]) -> None:
        """A constant that the graph writes or gives away is copied where it comes in."""
        exposed = {b for c in self.calls for b in c.written} | {o.buffer for o in outputs if isinstance(o, View)}
        for view, place in reversed(self._lifted):
            buffer = view.buffer
            if buffer in exposed:
                source = Buffer(f"{buffer.name}.source", buffer.dtype, buffer.size, buffer.constant)
                buffer.constant = None
                copied = View(source, view.sizes, view.strides, view.offset)
                self.calls.insert(place, Call(_aten.clone.default, (copied,), {}, [view]))


def _check_plain(tensor: torch.Tensor) -> None:
    """Raise Unrecordable for a tensor that is not just strided memory of the CPU."""
    if tensor.layout is not torch.strided:
        raise Unrecordable(f"a tensor of layout {tensor.layout}")
    if tensor.device.type != "cpu":
        raise Unrecordable(f"a tensor on {tensor.device}")
    if tensor.is_quantized or tensor.is_nested:
        raise Unrecordable("a quantised or nested tensor")
    if tensor.is_conj() or tensor.is_neg():
        raise Unrecordable("a tensor with a pending conjugation or negation")


def _results(result: Any) -> Iterator[torch.Tensor | None]:
    """What an operation gives, lists flattened, with None for what is not a tensor."""
    if isinstance(result, (tuple, list)):
        for item in result:
            yield from _results(item)
    else:
        yield result if isinstance(result, torch.Tensor) else None


def _written(call: Call) -> list[Buffer]:
    """The buffers of the arguments that an operation writes."""
    written = [call.args[i] if i < len(call.args) else call.kwargs.get(n) for i, n in _written_arguments(call.op)]
    if call.op is _aten.native_batch_norm.default and call.args[_IS_TRAINING]:
        written += [call.args[i] for i in _RUNNING_STATISTICS]
    return list(dict.fromkeys(v.buffer for v in views_in(written)))


@functools.cache
def _written_arguments(op: OpOverload) -> tuple[tuple[int, str], ...]:
    """Position and name of the arguments that an operation writes by its schema."""
    arguments = enumerate(op._schema.arguments)
    return tuple((i, a.name) for i, a in arguments if a.alias_info is not None and a.alias_info.is_write)


def _useful(calls: list[Call], outputs: list[Any]) -> list[Call]:
    """The calls without those that only make what nobody uses."""
    used = {v.buffer for v in views_in(outputs)}
    kept = []
    for call in reversed(calls):
        if call.written or not _is_harmless(call) or any(r is not None and r.buffer in used for r in call.results):
            used.update(v.buffer for v in call.views())
            kept.append(call)
    return kept[::-1]


def _is_harmless(call: Call) -> bool:
    """Whether leaving out an operation is noticed only by those who use its results."""
    name, tags = call.op.overloadpacket.__name__, call.op.tags
    if torch.Tag.nondeterministic_seeded in tags:
        return False
    if name in _DIVISIONS:
        return all(r is None or r.dtype.is_floating_point for r in call.results)
    return call.op.namespace == "aten" and (torch.Tag.pointwise in tags or name in _HARMLESS)

"""Fake tensors: what they say, and what a process does not have to import for it."""

import json
import subprocess
import sys

import pytest
import torch

from segue.capture import standins
from segue.capture.fake import CaptureMode

HEAVY = ("torch._dynamo", "sympy", "torch.distributed.tensor", "torch.onnx")

OPERATIONS = {
    "pointwise": "x * 2 + y",
    "promotion": "(x > 0) + i",
    "relu": "F.relu(x)",
    "gelu": "F.gelu(x)",
    "where": "torch.where(x > 0, x, 0.0)",
    "scalar tensor": "x * torch.tensor(2.0)",
    "sum": "x.sum(-1)",
    "max": "x.max(1)",
    "var": "x.var(0)",
    "softmax": "x.softmax(-1)",
    "matmul": "x @ y.t()",
    "linear": "F.linear(x, y, y[:, 0])",
    "einsum": "torch.einsum('ij,kj->ik', x, y)",
    "convolution": "F.conv2d(image, image[:, :, :3, :3], padding=1, stride=2)",
    "channels last": "F.conv2d(image.to(memory_format=torch.channels_last), image[:, :, :3, :3])",
    "layer norm": "F.layer_norm(x, (8,), y[0], y[1])",
    "batch norm": "F.batch_norm(image, torch.zeros(3), torch.ones(3), y[0, :3], training=True)",
    "pooling": "F.max_pool2d(image, 2)",
    "attention": "F.scaled_dot_product_attention(image, image, image, is_causal=True)",
    "embedding": "F.embedding(i, x)",
    "loss": "F.cross_entropy(x, i[0, :4])",
    "index": "x[i[0, :2]]",
    "slice": "x[1:, ::2]",
    "gather": "x.gather(1, i)",
    "view": "x.t().reshape(-1).view(4, 8).transpose(0, 1)",
    "split": "x.split(3, 1)",
    "cat": "torch.cat([x, y], 1)",
    "expand": "x[:, :1].expand(4, 8)",
    "dtype": "x.t().double()",
    "created": "torch.zeros_like(x.t()) + torch.arange(4)",
    "in place": "x.add_(1).mul_(2)",
    "written item": "x.__setitem__(0, 1.0) or x",
    "copied": "x.copy_(y[0])",
    "dropout": "F.dropout(x, 0.5)",
    "sort": "x.sort()",
}

SURVEY = """
import builtins, json, sys, threading
sys.path[:0] = json.loads(sys.argv[1])
operations = json.loads(sys.argv[2])
import segue, torch
from torch.nn import functional as F
from segue.capture.fake import CaptureMode
from segue.capture.standins import answering

def facts(value):
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage().nbytes()
        return [list(value.shape), value.stride(), str(value.dtype), str(value.device), value.storage_offset(),
                storage, value._version, value.requires_grad]
    return [facts(v) for v in value] if isinstance(value, (tuple, list)) else value

def run():
    found = {}
    for grad in (False, True):
        for name, text in operations.items():
            mode = CaptureMode()
            names = dict(torch=torch, F=F)
            for input, real in dict(x=torch.ones(4, 8), y=torch.ones(4, 8), i=torch.ones(4, 8, dtype=torch.long),
                                    image=torch.ones(2, 3, 8, 8)).items():
                names[input] = mode.fake_of(real)
            if grad:
                names["y"].requires_grad_()
            with torch.set_grad_enabled(grad), mode:
                for times in "once", "again":
                    found[f"{name}, grad {grad}, {times}"] = facts(eval(text, names))
    return found

def program(x):
    return torch.relu(x * 2 + 1).sum(-1)

def own_imports():
    plain = builtins.__import__
    seen = []
    def look():
        import sympy
        seen.append(int(sympy.Integer(2) + 1))
    with answering:
        assert builtins.__import__ is not plain
        with answering:
            look()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert builtins.__import__ is plain
    import sympy
    return [seen, sys.modules["sympy"] is sympy, repr(sympy.Basic)]

light = run()
x = torch.ones(2, 3)
ours = segue.compile(program, backend="eager")(x)
imported = [name for name in json.loads(sys.argv[3]) if name in sys.modules]
own = own_imports()
theirs = [torch.compile(program, backend="eager", dynamic=dynamic)(x) for dynamic in (None, True)]
again = segue.compile(lambda x: program(x) + 1, backend="eager")(x)
results = [y.tolist() for y in (ours, *theirs, again)]
print(json.dumps(dict(light=light, imported=imported, own=own, results=results, plain=run())))
"""


@pytest.fixture(scope="module")
def survey():
    """One process for all that needs a fresh one, as it takes long to import Dynamo."""
    arguments = [json.dumps(v) for v in ([p for p in sys.path if p], OPERATIONS, HEAVY)]
    done = subprocess.run([sys.executable, "-c", SURVEY, *arguments], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_common_operations_import_neither_dynamo_nor_sympy(survey) -> None:
    assert survey["imported"] == []


def test_results_are_the_same_once_dynamo_is_imported(survey) -> None:
    assert survey["light"] == survey["plain"]


def test_the_programs_own_imports_are_not_answered(survey) -> None:
    assert survey["own"] == [[3, 3], True, "<class 'sympy.core.basic.Basic'>"]


def test_dynamo_works_after_capture_without_it(survey) -> None:
    assert survey["results"] == [[9.0, 9.0], [9.0, 9.0], [9.0, 9.0], [10.0, 10.0]]


@pytest.mark.parametrize("text", OPERATIONS.values(), ids=OPERATIONS)
def test_fake_results_have_the_metadata_of_real_ones(text) -> None:
    def inputs():
        torch.manual_seed(0)
        return {"x": torch.randn(4, 8), "y": torch.randn(4, 8), "i": torch.ones(4, 8, dtype=torch.long),
                "image": torch.randn(2, 3, 8, 8)}  # fmt: skip

    names = {"torch": torch, "F": torch.nn.functional}
    real = eval(text, {**names, **inputs()})
    mode = CaptureMode()
    fakes = {name: mode.fake_of(value) for name, value in inputs().items()}
    with mode:
        fake = eval(text, {**names, **fakes})
    for r, f in zip(_leaves(real), _leaves(fake), strict=True):
        assert (r.shape, r.stride(), r.dtype, r.device) == (f.shape, f.stride(), f.dtype, f.device)


def _leaves(value):
    return [value] if isinstance(value, torch.Tensor) else list(value)


ANSWERED = [
    ("guard_or_false", (True,)), ("guard_or_true", (False,)), ("statically_known_true", (False,)),
    ("guard_size_oblivious", (True,)), ("expect_true", (True,)), ("guard_int", (3,)),
    ("guarding_hint_or_throw", (3,)), ("guarding_hint_or_throw", (True,)), ("sym_and", (True, False)),
    ("sym_and", (True,)), ("sym_or", (False, True)), ("sym_eq", (2, 2)), ("sym_eq", ((1, 2), [1, 2])),
    ("sym_eq", ((1, 2), (1, 3))), ("sym_eq", ((1, 2), (1,))), ("has_guarding_hint", (3,)), ("is_nested_int", (3,)),
    ("is_symbolic", (2.0,)), ("has_free_symbols", (3,)),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch deprecates one of them
@pytest.mark.parametrize(("name", "arguments"), ANSWERED)
def test_answers_are_those_of_symbolic_shapes(name, arguments) -> None:
    from torch.fx.experimental import symbolic_shapes

    expected = getattr(symbolic_shapes, name)(*arguments)
    given = standins._ANSWERS[name](*arguments)
    assert given == expected and type(given) is type(expected)


def test_every_answer_is_compared() -> None:
    unasked = {"compute_unbacked_bindings", "free_unbacked_symbols"}
    assert {name for name, _ in ANSWERED} | unasked == set(standins._ANSWERS)


def test_other_questions_go_to_symbolic_shapes() -> None:
    with pytest.raises(AssertionError, match="Expected bool"):
        standins._ANSWERS["guard_or_false"](1)
    with pytest.raises(AssertionError, match="sym_eq"):
        standins._ANSWERS["sym_eq"]((1,), 1)

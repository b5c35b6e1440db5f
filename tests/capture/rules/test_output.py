"""What is printed: the same text, in the same order, at every call, without a break where nobody could tell."""

import contextlib
import io
import sys

import pytest
import torch

import segue
from tests.graphs import Graphs

N_CALLS = 3


def printed(function, *args):
    """What a call returns and prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        result = function(*args)
    return result, out.getvalue(), err.getvalue()


def compare(function, make=lambda number: (torch.full((2, 2), float(number)),), **options):
    """Compare a few calls with plain ones; how many graphs there were, and the identifiers of the breaks."""
    graphs = Graphs()
    compiled = segue.compile(function, backend=graphs, **options)
    for number in range(N_CALLS):
        expected, got = printed(function, *make(number)), printed(compiled, *make(number))
        assert got[1:] == expected[1:]
        torch.testing.assert_close(got[0], expected[0], rtol=0, atol=0)
    breaks = [event.id for event in compiled.compiler.log.of_kind("break", "skip", "failure")]
    return graphs.count, breaks


class Named:
    def __str__(self):
        return "named"

    def __repr__(self):
        return "Named()"


def constants(x):
    y = x + 1
    print("shape", tuple(y.shape), 3, None, sep=", ", end="!\n")
    print()
    return y * 2


def tensors(x):
    y = x + 1
    print(y, [y.sum()], {"mean": y.mean()}, (y.sum(),), f"{y.sum():.2f} {y.sum()!r}")
    print("%s %.3f %r" % (y, y.sum(), Named()), "{0!s:>9} {a.dtype} {a}".format(Named(), a=y.sum()))  # noqa: UP031
    return y * 2


def numbers(x):
    y = x.sum()
    print("sum", y.item(), round(y.item(), 1), "n: " + str(float(y)), int((y > 0).sum()))
    return y * 2


def objects(x):
    print(Named(), [Named()], {"a": Named()}, f"{Named()!r:>10}")
    return x + 1


def in_a_loop(x):
    for k in range(3):
        print(f"step {k}: {x.dtype}", flush=True)
        x = x * 2
    return x


def to_stderr(x):
    print("note", file=sys.stderr)
    sys.stdout.write("written\n")
    return x + 1


def to_a_buffer(x):
    buffer = io.StringIO()
    print("inside", x.sum(), file=buffer)
    with contextlib.redirect_stdout(buffer):
        print("redirected")
    print(buffer.getvalue().upper())
    return x + 1


@pytest.mark.parametrize(
    "function", [constants, tensors, numbers, objects, in_a_loop, to_stderr, to_a_buffer], ids=lambda f: f.__name__
)
def test_printing_is_no_break(function):
    assert compare(function) == (1, [])


@pytest.mark.parametrize("function", [constants, tensors, numbers, in_a_loop], ids=lambda f: f.__name__)
@pytest.mark.parametrize("step", [1, 3])
def test_printed_once_wherever_capture_leaves_off(function, step):
    with segue.config.patch(break_at=lambda code, index: index % step == 0):
        compare(function)


def test_a_printed_tensor_is_as_it_was_then():
    def function(x):
        y = x + 1
        print(y)
        y.add_(1)
        print(y)
        return y * 2

    n_graphs, breaks = compare(function)
    assert (n_graphs, breaks) == (2, ["late-write"])


def test_a_number_that_decides_something_is_read_by_the_interpreter():
    def function(x):
        n = x.sum().item()
        return x * 2 if n > 2 else x * n

    n_graphs, breaks = compare(function)
    assert set(breaks) == {"data-dependent-value"}
    assert n_graphs >= 2


def test_a_number_that_is_only_kept_is_no_break():
    def function(x, table):
        table["loss"] = x.sum().item()
        table["total"] = table["loss"] * 2 + 1
        return x * 2

    graphs = Graphs()
    compiled = segue.compile(function, backend=graphs, fullgraph=True)
    for number in range(N_CALLS):
        table = {}
        compiled(torch.full((2,), float(number)), table)
        assert table == {"loss": 2.0 * number, "total": 4.0 * number + 1}
        assert type(table["loss"]) is float
    assert graphs.count == 1


def test_the_text_of_what_has_a_gradient_function_is_made_by_the_interpreter():
    def function(x):
        y = x * 2
        print(y)
        return y.detach() + 1

    _, breaks = compare(function, lambda number: (torch.ones(2, requires_grad=True),))
    assert breaks == ["data-dependent-value"]


class Recording:
    """A stream of the program's own."""

    def __init__(self):
        self.written = []

    def write(self, text):
        self.written.append(text)


def test_a_stream_of_the_program():
    def function(x, stream):
        y = x + 1
        print("a", y.sum(), file=stream)
        return y * len(stream.written)

    graphs = Graphs()
    compiled = segue.compile(function, backend=graphs)
    for number in range(N_CALLS):
        plain, other = Recording(), Recording()
        expected, got = function(torch.ones(2) * number, plain), compiled(torch.ones(2) * number, other)
        assert torch.equal(got, expected)
        assert other.written == plain.written


def test_nothing_is_printed_twice_when_the_graph_fails():
    def function(x, index):
        print("before")
        return x[index]

    compiled = segue.compile(function, backend="eager")
    assert printed(compiled, torch.ones(2), torch.tensor([0]))[1] == "before\n"
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(IndexError):
        compiled(torch.ones(2), torch.tensor([5]))
    assert out.getvalue() == "before\n"


def test_a_closed_stream_raises_where_it_is_written_to():
    def function(x, stream, notes):
        notes.append("before")
        print("text", file=stream)
        notes.append("after")
        return x + 1

    compiled = segue.compile(function, backend="eager")
    stream = io.StringIO()
    compiled(torch.ones(2), stream, [])
    stream.close()
    notes = []
    with pytest.raises(ValueError, match="closed file"):
        compiled(torch.ones(2), stream, notes)
    assert notes == ["before"]

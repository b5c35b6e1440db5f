"""Entry and Disabled: binding of arguments, and looking like the function."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import pickle
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue import _core
from segue.frames.state import FunctionState
from tests.core_support import Scripted


def compiled(function: Any, *bound: Any, state: Any = None) -> _core.Entry:
    compiler = Scripted()
    if state is not None:
        compiler.states[function.__code__] = state
    return _core.Entry(function, compiler, bound)


def spying(function: Any, *bound: Any) -> tuple[_core.Entry, list[Any]]:
    """The entry of a function, and the raw arguments that its gate is offered at each call."""
    entry = compiled(function, *bound, state=FunctionState(function.__code__))
    n_args = entry.compiler.states[function.__code__].n_args
    seen: list[Any] = []
    entry.compiler.answer = lambda gate, function, locals, stack: seen.append(locals[:n_args])
    return entry, seen


# --- binding


def make_function(positional_only: int, either: int, keyword_only: int, defaults: int, star: bool, stars: bool) -> Any:
    """A function with such parameters that returns what each of its argument slots holds."""
    names = [f"a{i}" for i in range(positional_only + either)]
    first_default = len(names) - min(defaults, len(names))
    parameters = [f"{n}='d{n}'" if i >= first_default else n for i, n in enumerate(names)]
    if positional_only:
        parameters.insert(positional_only, "/")
    if star or keyword_only:
        parameters.append("*rest" if star else "*")
    keywords = [f"k{i}" for i in range(keyword_only)]
    parameters += [f"{n}='d{n}'" if i % 2 else n for i, n in enumerate(keywords)]
    parameters += ["**more"] * stars
    slots = [*names, *keywords, *["rest"] * star, *["more"] * stars]
    namespace: dict[str, Any] = {}
    exec(f"def f({', '.join(parameters)}): return ({' '.join(s + ',' for s in slots)})", namespace)
    return namespace["f"]


functions = st.builds(
    make_function,
    positional_only=st.integers(0, 2),
    either=st.integers(0, 3),
    keyword_only=st.integers(0, 3),
    defaults=st.integers(0, 3),
    star=st.booleans(),
    stars=st.booleans(),
)
keywords = st.dictionaries(
    st.sampled_from(["a0", "a1", "a2", "a3", "k0", "k1", "k2", "more", "other", ""]),
    st.integers(),
    max_size=5,
)


@settings(max_examples=400, deadline=None)
@given(functions, st.lists(st.integers(), max_size=6), keywords)
def test_arguments_are_bound_as_python_binds_them(function: Any, args: list[int], kwargs: dict[str, int]) -> None:
    entry, seen = spying(function)
    try:
        expected = function(*args, **kwargs)
    except TypeError as error:
        with pytest.raises(TypeError) as raised:
            entry(*args, **kwargs)
        assert str(raised.value) == str(error)
        assert seen == []
        return
    assert entry(*args, **kwargs) == expected
    assert seen == [expected]


def test_names_that_are_not_interned() -> None:
    entry, seen = spying(lambda first, *, second: (first, second))
    assert entry(**{"fi" + "rst"[:]: 1, "".join("second"): 2}) == (1, 2)
    assert seen == [(1, 2)]


def test_defaults_are_those_of_the_moment() -> None:
    def function(a: int, b: int = 1, *, c: int = 2) -> tuple[int, ...]:
        return a, b, c

    entry, seen = spying(function)
    assert entry(0) == (0, 1, 2)
    function.__defaults__ = (5,)
    function.__kwdefaults__ = {"c": 6}
    assert entry(0) == (0, 5, 6)
    assert seen == [(0, 1, 2), (0, 5, 6)]


def test_bound_arguments_come_first() -> None:
    entry, seen = spying(lambda *args, **kwargs: (args, kwargs), 1, 2)
    assert entry() == ((1, 2), {}) and entry(3, k=4) == ((1, 2, 3), {"k": 4})
    assert seen == [((1, 2), {}), ((1, 2, 3), {"k": 4})]
    many, _ = spying(lambda *args: args, *range(30))
    assert many(*range(30)) == (*range(30), *range(30))


def test_arguments_are_freed_after_the_call() -> None:
    class Value: ...

    for function in (lambda a, b=None: None, lambda *a, **b: None):
        entry, _ = spying(function)
        entry.compiler.answer = lambda *miss: None
        value, other = Value(), Value()
        gone = [weakref.ref(value), weakref.ref(other)]
        entry(value, b=other)
        entry.compiler.misses.clear()
        del value, other
        assert [ref() for ref in gone] == [None, None]


# --- looking like the function


def documented(x: int, y: int = 2) -> int:
    """What it does."""
    return x + y


documented.mark = "a mark"  # type: ignore[attr-defined]
entry_of_documented = compiled(documented)


def shown(function: Any) -> tuple[Any, ...]:
    return (
        function.__name__,
        function.__qualname__,
        function.__module__,
        function.__doc__,
        function.__annotations__,
        function.__defaults__,
        function.mark,
        inspect.signature(function),
        inspect.getsource(function),
        inspect.getdoc(function),
    )


@pytest.mark.parametrize("wrap", [compiled, _core.Disabled])
def test_it_looks_like_the_function(wrap: Callable[[Any], Any]) -> None:
    wrapped = wrap(documented)
    assert shown(wrapped) == shown(documented)
    assert wrapped.__wrapped__ is documented
    assert callable(wrapped) and "documented" in repr(wrapped)
    assert not hasattr(wrapped, "absent")
    wrapped.mark = "another"
    assert (wrapped.mark, documented.mark) == ("another", "a mark")  # type: ignore[attr-defined]
    del wrapped.mark
    assert wrapped.mark == "a mark"
    assert vars(wrapped)["__name__"] == "documented"
    assert weakref.ref(wrapped)() is wrapped


@pytest.mark.parametrize("wrap", [compiled, _core.Disabled])
def test_functools_wraps_around_it_and_onto_it(wrap: Callable[[Any], Any]) -> None:
    inner = wrap(documented)

    @functools.wraps(inner)
    def outer(*args: Any) -> Any:
        return inner(*args)

    assert (outer.__name__, outer.__doc__, outer(1)) == ("documented", "What it does.", 3)
    functools.update_wrapper(inner, len)
    assert inner.__name__ == "len" and inner(1) == 3


def test_bound_entries_show_what_is_left_of_the_signature() -> None:
    assert str(inspect.signature(compiled(documented, 1))) == "(y: 'int' = 2) -> 'int'"
    assert str(inspect.signature(compiled(documented, 1, 2))) == "() -> 'int'"
    assert compiled(documented, 1).__name__ == "documented"


class Klass:
    def __init__(self, x: int) -> None:
        self.x = x

    def plus(self, y: int) -> int:
        return self.x + y

    method = compiled(plus)
    disabled = _core.Disabled(plus)
    disabled_builtin = _core.Disabled(len)
    bound = compiled(documented, 10)
    static = staticmethod(compiled(documented))
    klass = classmethod(compiled(lambda cls, y: (cls, y)))


def test_methods_bind() -> None:
    one = Klass(1)
    assert one.method(5) == one.disabled(5) == 6
    assert Klass.method(one, 5) == Klass.disabled(one, 5) == 6
    assert isinstance(one.method, types.MethodType) and one.method.__self__ is one
    assert one.method == one.method
    assert one.static(1) == Klass.static(1) == 3
    assert one.klass(3) == Klass.klass(3) == (Klass, 3)
    for _ in range(50):  # enough for the interpreter to specialise the calls
        assert one.method(5) == one.disabled(5) == 6


def test_what_is_bound_already_does_not_bind_again() -> None:
    one = Klass(1)
    for _ in range(50):
        assert one.bound(5) == Klass.bound(5) == 15
        assert one.disabled_builtin("abc") == 3


def test_it_copies_and_pickles_like_a_function() -> None:
    assert copy.copy(entry_of_documented) is entry_of_documented
    assert copy.deepcopy([entry_of_documented])[0] is entry_of_documented
    for wrapped in (found_by_name, found_by_name_disabled):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(wrapped, protocol)) is wrapped
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(entry_of_documented)  # its name finds the function
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(compiled(documented, 1))


@compiled
def found_by_name() -> None: ...


@_core.Disabled
def found_by_name_disabled() -> None: ...


def test_wrong_constructions_are_refused() -> None:
    with pytest.raises(TypeError):
        _core.Entry(len, Scripted())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _core.Entry(documented, Scripted(), [1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="needs a callable"):
        _core.Disabled(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        type(compiled(documented, 1))()  # type: ignore[call-arg]


def test_cycles_through_it_are_collected() -> None:
    def function() -> None: ...

    for wrap in (compiled, _core.Disabled, lambda f: compiled(f, function)):
        wrapped: Any = wrap(function)
        wrapped.itself = wrapped
        gone = weakref.ref(wrapped)
        del wrapped
        gc.collect()
        assert gone() is None


# --- what the compiler answers


def test_the_compiler_is_asked_once_about_a_code_object() -> None:
    asked: list[Any] = []

    class Skipping(Scripted):
        def admit(self, function: types.FunctionType) -> Any:
            asked.append(function)
            assert _core.current_compiler() is None
            return self.answer(function)

    def function() -> Any:
        return _core.current_compiler()

    def again() -> types.FunctionType:
        return types.FunctionType(function.__code__, globals())

    compiler = Skipping(lambda function: None)
    assert _core.Entry(function, compiler)() is compiler
    assert _core.Entry(again(), compiler)() is compiler
    assert asked == [function]
    other = Skipping(lambda function: _core.DISABLE)
    assert _core.Entry(function, other)() is None
    assert _core.Entry(again(), other)() is None
    assert asked == [function] * 2
    undecided = Skipping(lambda function: _core.UNDECIDED)
    entry = _core.Entry(function, undecided)
    assert entry() is undecided and entry() is undecided
    assert asked == [function] * 4


def test_answers_are_forgotten() -> None:
    entry, seen = spying(lambda x: x)
    first = entry.compiler.states[entry.__wrapped__.__code__]
    entry(1)
    entry.compiler.states[entry.__wrapped__.__code__] = second = FunctionState(first.code)
    entry(2)
    _core.forget_answers()
    entry(3)
    gates = [gate for gate, *_ in entry.compiler.misses]
    assert gates == [first.entry, first.entry, second.entry]
    assert seen == [(1,), (2,), (3,)]


def test_new_code_is_noticed() -> None:
    def function(x: int) -> int:
        return x

    entry, seen = spying(function)
    assert entry(1) == 1
    function.__code__ = (lambda x, y: (x, y)).__code__
    assert entry(1, 2) == (1, 2)
    assert seen == [(1,)]


@pytest.mark.parametrize("answer", [5, "DISABLE", object()])
def test_wrong_answers_are_errors(answer: Any) -> None:
    entry = compiled(documented, state=answer)
    with pytest.raises(TypeError, match="admit"):
        entry(1)
    assert _core.current_compiler() is None


def test_the_state_of_another_function_is_an_error() -> None:
    entry = compiled(documented, state=FunctionState(find_code()))
    with pytest.raises(ValueError, match="another code object"):
        entry(1)


def find_code() -> types.CodeType:
    return find_code.__code__


def test_an_error_in_admit_is_raised() -> None:
    class Failing(Scripted):
        def admit(self, function: types.FunctionType) -> Any:
            raise LookupError("admit")

    with pytest.raises(LookupError, match="admit"):
        _core.Entry(documented, Failing())(1)
    assert _core.current_compiler() is None


def test_generators_and_coroutines_run_without_a_compiler() -> None:
    def generator() -> Any:
        yield _core.current_compiler()

    async def coroutine() -> Any:
        return _core.current_compiler()

    assert list(compiled(generator)()) == [None]
    with pytest.raises(StopIteration) as stopped:
        compiled(coroutine)().send(None)
    assert stopped.value.value is None
    assert inspect.iscoroutinefunction(coroutine)


def test_disabled_turns_compiling_off_below_it() -> None:
    def inner() -> Any:
        return _core.current_compiler()

    def function() -> Any:
        return (
            _core.current_compiler(),
            _core.Disabled(inner)(),
            _core.call_disabled(inner),
            _core.current_compiler(),
        )

    entry = compiled(function)
    assert entry() == (entry.compiler, None, None, entry.compiler)
    assert _core.Disabled(lambda *a, **k: (a, k))(1, x=2) == ((1,), {"x": 2})
    assert _core.call_disabled(lambda *a, **k: (a, k), 1, x=2) == ((1,), {"x": 2})
    with pytest.raises(TypeError):
        _core.call_disabled()  # type: ignore[call-arg]
    with pytest.raises(ZeroDivisionError):
        _core.Disabled(lambda: 1 // 0)()


def test_pausing() -> None:
    entry = compiled(lambda: (_core.current_compiler(), _core.is_compiling_frames()))
    assert entry() == (entry.compiler, True)
    assert _core.set_paused(True) is False
    try:
        assert entry() == (None, False)
    finally:
        assert _core.set_paused(False) is True
    assert entry() == (entry.compiler, True)
    assert _core.is_compiling_frames() is False

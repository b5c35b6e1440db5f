"""Corpus: control flow. Loops, `with`, `try` in all forms, `match`, raising, names that come and go."""

import contextlib
import sys

from tests.case import case, record

counter = 0


class Manager:
    """A context manager that records, and may fail on entry or exit or suppress what the body raises."""

    def __init__(self, name, suppress=(), fail_enter=None, fail_exit=None):
        self.name = name
        self.suppress = suppress
        self.fail_enter = fail_enter
        self.fail_exit = fail_exit

    def __enter__(self):
        record(f"enter {self.name}")
        if self.fail_enter is not None:
            raise self.fail_enter(self.name)
        return self.name

    def __exit__(self, kind, value, traceback):
        record((f"exit {self.name}", kind, str(value), traceback is not None))
        if self.fail_exit is not None:
            raise self.fail_exit(self.name)
        return kind is not None and issubclass(kind, self.suppress)


class AppError(Exception):
    """A user's own exception with state of its own."""

    def __init__(self, message, code=0):
        super().__init__(message)
        self.code = code


def fail(kind, *args):
    raise kind(*args)


def handled():
    """The exception that is being handled now, as text."""
    value = sys.exc_info()[1]
    return f"{type(value).__name__}({value})"


# --- loops ---


@case(lambda: [([1, 2, 3],), ([],), ([4, -1, 5],), ([2, 0, 7],)])
def for_break_continue_else(items):
    total = 0
    for item in items:
        if item < 0:
            break
        if not item:
            continue
        total += record(item)
    else:
        total += 100
    return total


@case(lambda: [(5, 99), (5, 2), (0, 0)])
def while_break_continue_else(n, stop):
    i = 0
    while i < n:
        i += 1
        if i == stop:
            break
        if i % 2:
            continue
        record(i)
    else:
        record("ran out")
    return i


@case(lambda: [(3, 3), (1, 4)])
def nested_loops(rows, columns):
    seen = []
    for row in range(rows):
        column = 0
        while True:
            if column >= columns:
                break
            column += 1
            if column == row:
                continue
            seen.append((row, column))
            if len(seen) > 6:
                return record(seen)
    return seen


@case(lambda: [([3, 1],), (7,)])
def loop_over_pairs(values):
    out = {}
    for i, (key, value) in enumerate(zip("abc", values, strict=False)):
        out[key, i] = value
    return out


class Countdown:
    """An iterator written by hand."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration("done")
        self.n -= 1
        return record(self.n)


@case(lambda: [(Countdown(3),), (Countdown(0),)])
def user_iterator(source):
    total = 0
    for value in source:
        total += value
    try:
        next(source)
    except StopIteration as stop:
        record(stop.value)
    return total, next(source, "default")


@case(lambda: [([1, 2],), (["x"],)])
def iterator_that_fails(items):
    def source():
        yield from items
        raise AppError("source failed", 3)

    seen = []
    for item in source():
        seen.append(item + 1)
    return seen


@case(lambda: [([1, 2, 3, 4],), ([],)])
def list_changed_while_iterated(items):
    for item in items:
        if item % 2 and len(items) < 8:
            items.append(item * 2)
    return sum(items)


@case(lambda: [(4,), (1,)])
def loop_variable_after_loop(n):
    for i in range(n):
        last = i
    for j in ():
        last = j
    del last
    try:
        return j
    except UnboundLocalError as error:
        return i, str(error)


@case(lambda: [(3,), (10,)])
def while_walrus(limit):
    values = iter([1, 2, 3, 4])
    total = 0
    while (value := next(values, None)) is not None and value < limit:
        total += value
    return value, total


@case(lambda: [([1, None, 2],), ([None],), ([],)])
def while_none(values):
    found = None
    while found is None:
        found = values.pop()
    while found is not None:
        record(found)
        found = values.pop() if values else None
    return values


# --- with ---


@case(lambda: [(0,), (1,), (2,)])
def with_nested(path):
    with Manager("a") as a, Manager("b", suppress=(KeyError,)):
        record(a)
        with Manager("c", suppress=(ValueError,)) as c:
            if path == 1:
                raise ValueError("inner")
            if path == 2:
                raise KeyError("middle")
            record(c)
        record("after c")
    return "end"


@case(lambda: [(True,), (False,)])
def with_suppressed_in_the_middle(raises):
    value = 1
    with Manager("m", suppress=(ZeroDivisionError,)):
        value = 2
        value = 1 // (0 if raises else 1)
        value = 3
    return value


@case(lambda: [(AppError, None), (None, AppError), (None, None)])
def with_failing_manager(enter, exit):
    with Manager("outer"):
        with Manager("inner", fail_enter=enter, fail_exit=exit):
            record("body")
            raise LookupError("body failed")
    return "unreached"


@case(lambda: [(0,), (1,), (5,)])
def with_left_by_jumps(n):
    for i in range(4):
        with Manager(f"m{i}"):
            if i < n:
                continue
            if i == 2:
                break
            return record("returned"), i
    return "broke or ended", i


@case(lambda: [(False,), (True,)])
def with_contextmanager_function(fails):
    @contextlib.contextmanager
    def scope(name):
        record(f"open {name}")
        try:
            yield name.upper()
        except ValueError as error:
            record(f"saw {error}")
        finally:
            record(f"close {name}")

    with scope("s") as name:
        record(name)
        if fails:
            raise ValueError("in body")
    return "out"


@case(lambda: [(2,), (0,)])
def with_exit_stack(n):
    with contextlib.ExitStack() as stack:
        names = [stack.enter_context(Manager(f"s{i}")) for i in range(n)]
        stack.callback(record, "callback")
        names.append(1 // n)
    return names


@case(lambda: [({},), ({"k": 1},)])
def with_target_is_an_item(store):
    with Manager("t") as store["name"], contextlib.suppress(KeyError):
        store["value"] = store["k"] + 1
        del store["k"]
    return store


# --- try ---


@case(lambda: [(0,), (1,), ("x",), (None,)])
def try_except_else_finally(value):
    try:
        result = 10 // value
    except ZeroDivisionError:
        result = record("zero")
    except TypeError as error:
        record(str(error))
        result = "type"
    else:
        record("fine")
    finally:
        record("finally")
    return result


@case(lambda: [([],), ({},), (None,)])
def try_nested(container):
    try:
        try:
            return container[0]
        except KeyError:
            record(("inner", handled()))
            raise
        finally:
            record(("finally", handled()))
    except LookupError as error:
        record(("outer", handled(), error.__context__ is None))
    return sys.exc_info()


@case(lambda: [(1,), (0,)])
def exception_variable_is_deleted(x):
    error = "before"
    try:
        1 // x
    except ZeroDivisionError as error:
        record("caught")
    return error


@case(lambda: [("raise",), ("from",), ("none",), ("bare",), ("self",)])
def handler_that_raises(how):
    try:
        fail(KeyError, "first")
    except KeyError as first:
        if how == "raise":
            raise AppError("second", 2)
        if how == "from":
            raise AppError("second", 3) from first
        if how == "none":
            raise AppError("second", 4) from None
        if how == "self":
            raise first
        raise


@case(lambda: [("value",), ("index",), ("key",)])
def chain_of_handlers(kind):
    try:
        try:
            try:
                if kind == "value":
                    int("nope")
                elif kind == "index":
                    [][1]
                else:
                    {}["k"]
            except ValueError as error:
                raise TypeError("one") from error
            except IndexError:
                raise RuntimeError("two")
        except (TypeError, RuntimeError):
            fail(AppError, "three")
    finally:
        record(handled())


@case(lambda: [(0,), (1,), (2,)])
def return_in_finally(path):
    try:
        if path == 0:
            return "try"
        if path == 1:
            raise ValueError("swallowed")
        record("fell through")
    finally:
        if path < 2:
            return "finally"
    return "end"


@case(lambda: [(3,), (1,)])
def break_and_continue_in_finally(n):
    seen = []
    for i in range(n):
        try:
            if i == 0:
                raise ValueError(i)
            seen.append(i)
        finally:
            if i == 0:
                continue
            seen.append("f")
            break
    while True:
        try:
            return seen.missing
        finally:
            record("leaving")
            break
    return seen


@case(lambda: [(4,), (2,)])
def try_in_loop(n):
    kept = []
    for i in range(n):
        try:
            if i == 1:
                raise KeyError(i)
            if i == 3:
                break
            kept.append(10 // i)
        except ZeroDivisionError:
            continue
        except KeyError as error:
            kept.append(error.args)
        else:
            kept.append("else")
        finally:
            kept.append("f")
    else:
        kept.append("loop else")
    return kept


@case(lambda: [(0,), (1,), (2,), (3,)])
def except_group(path):
    groups = [
        ExceptionGroup("g", [ValueError(1), TypeError("t"), ExceptionGroup("n", [ValueError(2)])]),
        ValueError("single"),
        ExceptionGroup("rest", [KeyError("left over"), OSError("handled")]),
    ]
    try:
        if path < 3:
            raise groups[path]
    except* ValueError as group:
        record([str(error) for error in group.exceptions])
    except* (TypeError, OSError):
        record("type or os")
    else:
        return "else"
    finally:
        record("finally")
    return "after"


@case(lambda: [(1,), (0,)])
def except_group_handler_raises(x):
    try:
        raise ExceptionGroup("g", [ValueError("v"), KeyError("k")])
    except* ValueError:
        record(1 // x)
    except* KeyError as group:
        raise AppError("from group") from group


@case(lambda: [(0,), (2,)])
def finally_sees_the_state(x):
    state = "new"
    try:
        state = "started"
        state = 4 // x
        state = "done"
    finally:
        record((state, handled()))
    return state


@case(lambda: [(["1", "x", "3"],), (["7"],)])
def context_inside_handlers(texts):
    out = []
    for text in texts:
        try:
            out.append(int(text))
        except ValueError:
            try:
                out.append({}[text])
            except KeyError as error:
                out.append(type(error.__context__).__name__)
            out.append(handled())
    out.append(sys.exc_info()[0])
    return out


@case(lambda: [(AppError,), (KeyError,), (3,)])
def raise_class_instance_or_nonsense(kind):
    try:
        raise kind("made")
    except AppError as error:
        error.add_note("a note")
        error.code += 5
        raise
    except TypeError as error:
        record(str(error))
        raise kind


@case(lambda: [(ValueError,), ((KeyError, ValueError),), (int,)])
def except_with_computed_type(kinds):
    try:
        raise ValueError("v")
    except kinds:
        return "caught"


@case(lambda: [(SystemExit,), (KeyboardInterrupt,), (GeneratorExit,)])
def base_exceptions(kind):
    try:
        try:
            raise kind("stop")
        except Exception:
            record("never")
    except BaseException as error:
        record(type(error).__mro__[-2].__name__)
        if kind is SystemExit:
            raise
    return "survived"


@case(lambda: [(3,), (-1,), (0,), (5,)])
def assert_statement(x):
    assert x, "is zero"
    assert x > 0, f"negative: {x}"
    assert (lambda: x == 3)()
    return "ok"


@case(lambda: [(3,), (0,)])
def exception_through_callees(depth):
    def inner(n):
        with Manager(f"depth {n}"):
            if n == 0:
                raise AppError("bottom", depth)
            return inner(n - 1) + 1

    try:
        return inner(depth)
    except AppError as error:
        record(error.code)
        raise RuntimeError("wrapped") from error


# --- match ---


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y


class Colour:
    RED = "red"


@case(
    lambda: [
        ([0, "zero", -1.5, None, True, "red", b"raw", 3 + 4j],),
        ([[], [1], [1, 2], [1, 2, 3, 4], (5, [6, 7])],),
        ([{"kind": "a", "n": 1}, {"kind": "b", "rest": 2}, {}, {"kind": "c"}],),
        ([Point(0, 5), Point(2, 2), Point(3, 4), 7, "text", {1}],),
    ]
)
def match_all_patterns(subjects):
    found = []
    for subject in subjects:
        match subject:
            case None | True:
                found.append("singleton")
            case 0 | -1.5 | b"raw" | 3 + 4j:
                found.append("literal")
            case Colour.RED:
                found.append("dotted")
            case []:
                found.append("empty")
            case [single]:
                found.append(("one", single))
            case [a, [b, c]]:
                found.append(("nested", a, b, c))
            case [a, *rest] if len(rest) > 1:
                found.append(("star", a, rest))
            case [a, _]:
                found.append(("pair", a))
            case {"kind": "a", "n": int(n)}:
                found.append(("mapping", n))
            case {"kind": "b", **others}:
                found.append(("others", others))
            case {"kind": kind}:
                found.append(kind)
            case Point(0, y):
                found.append(("on axis", y))
            case Point(x=x, y=y) if x == y:
                found.append(("diagonal", x))
            case Point() as point:
                found.append(("point", point.x))
            case int() | str() as simple:
                found.append(("simple", simple))
            case _:
                found.append("other")
    return found


@case(lambda: [(("move", 1, 2),), (("stop",),), (("move", 1),), ("move",)])
def match_without_default(command):
    result = "none"
    match command:
        case ("move", x, y):
            result = x + y
        case ("stop",):
            return record("stopped")
    return result


@case(lambda: [(Point(1, 2),), (object(),)])
def match_errors(subject):
    try:
        match subject:
            case Point(1, 2, 3):
                return "too many"
    except TypeError as error:
        record(str(error))
    match subject:
        case object(x=1):
            return "has x"
    return "no match"


# --- names ---


@case(lambda: [(True,), (False,)])
def unbound_local(bind):
    if bind:
        name = "bound"
    try:
        record(name)
        del name
        record(name)
    except UnboundLocalError as error:
        record(str(error))
    name = "again"
    return name


@case(lambda: [(1,), (2,)])
def unbound_local_escapes(x):
    if x == 1:
        y = x
    x += y
    del x, y
    return x


@case(lambda: [(True,), (False,)])
def unbound_cell(bind):
    def read():
        return value

    if bind:
        value = 1
    try:
        first = read()
    except NameError as error:
        first = str(error)
    value = 2
    second = read()
    del value
    try:
        value += 1
    except UnboundLocalError as error:
        record(str(error))
    return first, second


@case(lambda: [(3,), (0,)])
def global_writes(n):
    global counter, fresh
    counter = 0
    for i in range(n):
        counter += i
    fresh = counter
    result = fresh, globals()["counter"]
    del fresh
    try:
        return result, fresh
    except NameError as error:
        return result, str(error)


@case(lambda: [("math",), ("nothing_here",)])
def imports_inside(name):
    import collections.abc
    import os.path as path
    from functools import partial, reduce

    record((collections.abc.Sized.__name__, path.basename("a/b"), reduce(max, [1, 3, 2])))
    try:
        module = __import__(name)
        return partial(module.gcd, 12)(18)
    except ImportError as error:
        from math import gcd as fallback

        return error.name, fallback(4, 6)


@case(lambda: [(1,), (0,)])
def import_errors(x):
    if x:
        from math import no_such_name
    else:
        import no_such_package.inner
    return no_such_name, no_such_package


@case(lambda: [(2,), (-2,)])
def locals_and_eval(x):
    y = x * 2
    seen = dict(sorted(locals().items()))
    return seen, eval("x + y"), dir()


@case(lambda: [(0,), (1,), (2,), (None,)])
def early_returns_and_pass(x):
    if x is None:
        pass
    elif x == 0:
        return
    elif x == 1:
        return record("one")
    else:
        ...
    if not x:
        return ""


@case(lambda: [(6,), (0,)])
def recursion(n):
    if n <= 1:
        return 1
    return n * recursion(n - 1)


@case(lambda: [(30,), (3,)])
def deep_call_of_lambda(n):
    down = lambda k: 0 if k == 0 else 1 + down(k - 1)
    return down(n)


# --- exception groups, generators that are resumed in other ways, iterators that come from outside ---


@case(lambda: [([ValueError(1), KeyError("k")],), ([KeyError(2)],), ([ValueError(3)],)])
def except_star(errors):
    seen = []
    try:
        try:
            raise ExceptionGroup("several", errors)
        except* ValueError as group:
            seen.append([record(repr(e)) for e in group.exceptions])
    except ExceptionGroup as rest:
        seen.append((rest.message, [repr(e) for e in rest.exceptions]))
    return seen


@case(lambda: [(3,), (0,)])
def notes_and_texts(n):
    try:
        try:
            raise AppError("first", n)
        except AppError as error:
            error.add_note(f"note {n}")
            raise KeyError(str(error)) from error
    except KeyError as error:
        record(handled())
        cause = error.__cause__
        return str(error), repr(cause), cause.__notes__, error.__suppress_context__, cause is error.__context__


@case(lambda: [([1, 2],), ([],)])
def resumed_in_all_ways(items):
    def echo():
        got = None
        while True:
            try:
                got = yield got
            except ValueError as error:
                got = record(str(error))
            finally:
                record("resumed")

    def outer():
        yield from echo()

    generator = outer()
    next(generator)
    got = [generator.send(record(item)) for item in items]
    got.append(generator.throw(ValueError("thrown")))
    generator.close()
    return got


@case(lambda: [(iter([1, 2, 3]), zip([4, 5], "ab", strict=False)), (iter(()), enumerate("cd"))])
def iterators_from_outside(numbers, pairs):
    first = next(numbers, None)
    pair = next(pairs)
    record((first, pair))
    return first, [*pairs], list(numbers)

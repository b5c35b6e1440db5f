"""The corpus itself: it is deterministic, big enough and covers the whole language."""

import ast
import dis
import inspect
import types
from collections.abc import Iterator

import pytest
import torch

from tests.case import record
from tests.corpus import CORPUS, MODULES, Case, difference, observe

# What the compiler emits only outside functions.
NOT_IN_FUNCTIONS = {"CACHE", "IMPORT_STAR", "PRINT_EXPR"}


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_case_is_deterministic(case: Case) -> None:
    calls = list(zip(case.make_args(), case.make_args(), strict=True))
    for first, second in calls:
        assert difference(observe(case.function, first), observe(case.function, second)) is None
    assert len(calls) >= 2
    assert inspect.isfunction(case.function)
    assert not case.function.__code__.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE)


def test_names_are_unique_and_groups_are_big_enough() -> None:
    assert len({case.name for case in CORPUS}) == len(CORPUS)
    groups = [case.group for case in CORPUS]
    assert groups.count("python") >= 70
    assert groups.count("tensor") >= 25


def test_every_opcode_occurs() -> None:
    codes = [code for case in CORPUS for code in code_objects(case.function.__code__)]
    seen = {instruction.opname for code in codes for instruction in dis.get_instructions(code)}
    missing = set(dis.opmap) - seen - NOT_IN_FUNCTIONS
    assert not missing, sorted(missing)


def test_every_kind_of_syntax_occurs() -> None:
    functions = {case.name for case in CORPUS}
    seen = set()
    for module in MODULES:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.FunctionDef) and node.name in functions:
                seen |= {type(inner) for inner in ast.walk(node)}
    kinds = {
        kind
        for base in (
            ast.stmt,
            ast.expr,
            ast.operator,
            ast.unaryop,
            ast.cmpop,
            ast.boolop,
            ast.pattern,
        )
        for kind in base.__subclasses__()
    }
    missing = {kind.__name__ for kind in kinds - seen}
    assert not missing, sorted(missing)


def test_difference_explains_what_differs() -> None:
    def answer(x, k):
        return [x + 0, {"k": record(k)}]

    def explain(other):
        arguments = [(torch.ones(2), 1), (torch.ones(2), 1)]
        return difference(observe(answer, arguments[0]), observe(other, arguments[1]))

    def fails(x, k):
        raise KeyError(k)

    assert explain(answer) is None
    assert "result[1][1][1][0][1]" in explain(lambda x, k: [x + 0, {"k": record(2) and 2}])
    assert "result[1][0][1]" in explain(lambda x, k: [x + 1e-7, {"k": record(k)}])
    assert "result[1]:" in explain(lambda x, k: [x + 0, {"k": record(k)}][:1])
    assert "events" in explain(lambda x, k: [x + 0, {"k": k}])
    assert "arguments[1][0]" in explain(lambda x, k: [x + 0, {"k": record(x.zero_() is x and k)}])
    assert "exception" in explain(fails)


def test_rounding_is_overlooked_on_demand_and_nothing_else() -> None:
    def observed(*values):
        return observe(lambda: values, ())

    third = torch.tensor([1 / 3, 0.0])
    exact, near = observed(third, 0.1, 3), observed(third * (1 + 2e-7), 0.1 + 1e-9, 3)
    assert difference(exact, near) is not None
    assert difference(exact, near, rounding=True) is None
    others = [
        observed(third * (1 + 1e-5), 0.1, 3),
        observed(third, 0.1001, 3),
        observed(third, 0.1, 4),
        observed(third.double(), 0.1, 3),
        observed(third, torch.tensor(0.1), 3),
        observed(third, 0.1),
    ]
    assert all(difference(exact, other, rounding=True) is not None for other in others)


def test_aliasing_is_part_of_an_observation() -> None:
    same = observe(lambda x: (x, [x, x]), (torch.ones(1),))
    equal = observe(lambda x: (x, [x, x.clone()]), (torch.ones(1),))
    assert "again" in difference(same, equal)


def test_exception_chain_and_lines_are_part_of_an_observation() -> None:
    (chain,) = [case for case in CORPUS if case.name == "handler_that_raises"]
    raised, raised_from = (observe(chain.function, args).exception for args in chain.make_args()[:2])
    assert raised.context.type == "KeyError"
    assert [name for name, _ in raised.context.traceback] == ["handler_that_raises", "fail"]
    assert (raised.cause, raised.suppress_context) == (("NoneType", None), False)
    assert raised_from.cause == raised.context
    assert raised.traceback[0][1] != raised_from.traceback[0][1]

"""Instructions that build and take apart containers, strings, slices; pattern matching."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.capture.breaks import Raised, graph_break
from segue.capture.opcodes import opcode
from segue.capture.values.base import Value
from segue.capture.values.mapping import DictValue, SetValue
from segue.capture.values.sequence import ListValue, SliceValue, TupleValue
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.frame import Frame
    from segue.capture.tracer import Tracer
    from segue.frames.code import Instruction


@opcode("BUILD_TUPLE")
def build_tuple(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(items[arg] -- tuple)"""
    frame.push(TupleValue(frame.popn(i.arg)))


@opcode("BUILD_LIST")
def build_list(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(items[arg] -- list)"""
    frame.push(ListValue(frame.popn(i.arg)))


@opcode("BUILD_SET")
def build_set(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(items[arg] -- set)"""
    made = SetValue({})
    for item in frame.popn(i.arg):
        made.add(tr, item)
    frame.push(made)


@opcode("BUILD_MAP")
def build_map(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(key, value [arg times] -- dict)"""
    flat = frame.popn(2 * i.arg)
    made = DictValue({})
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        made.set_item(tr, key, value)
    frame.push(made)


@opcode("BUILD_CONST_KEY_MAP")
def build_const_key_map(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(values[arg], keys -- dict)"""
    keys = tr.unpack(frame.pop())
    made = DictValue({})
    for key, value in zip(keys, frame.popn(i.arg), strict=True):
        made.set_item(tr, key, value)
    frame.push(made)


@opcode("BUILD_SLICE")
def build_slice(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(start, stop, step if arg == 3 -- slice)"""
    parts = frame.popn(i.arg)
    frame.push(SliceValue(parts[0], parts[1], parts[2] if i.arg == 3 else tr.constant(None)))


@opcode("BUILD_STRING")
def build_string(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(pieces[arg] -- string)"""
    from segue.capture.rules.texts import join

    frame.push(join(tr, frame.popn(i.arg)))


_CONVERSIONS = (None, str, repr, ascii)


@opcode("FORMAT_VALUE")
def format_value(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(value, spec if arg & 4 -- string)"""
    spec = frame.pop() if i.arg & 4 else tr.constant("")
    value = frame.pop()
    convert = _CONVERSIONS[i.arg & 3]
    if convert is not None:
        value = tr.call(tr.constant(convert), [value], {})
    frame.push(tr.call(tr.constant(format), [value, spec], {}))


@opcode("LIST_APPEND")
def list_append(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(list, unused[arg-1], item -- list, unused[arg-1])"""
    item = frame.pop()
    target = tr.look(frame.stack[-i.arg])
    assert isinstance(target, ListValue)
    target.append(tr, item)


@opcode("SET_ADD")
def set_add(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(set, unused[arg-1], item -- set, unused[arg-1])"""
    item = frame.pop()
    target = tr.look(frame.stack[-i.arg])
    if not isinstance(target, SetValue):  # one of the program's, with items that cannot be guarded
        graph_break("unsupported-operation", operation="add()", types=target.python_type(tr).__name__)
    target.add(tr, item)


@opcode("MAP_ADD")
def map_add(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(dict, unused[arg-1], key, value -- dict, unused[arg-1])"""
    value, key = frame.pop(), frame.pop()
    tr.look(frame.stack[-i.arg]).set_item(tr, key, value)


@opcode("LIST_EXTEND")
def list_extend(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(list, unused[arg-1], iterable -- list, unused[arg-1])"""
    source = frame.pop()
    target = tr.look(frame.stack[-i.arg])
    assert isinstance(target, ListValue)
    for item in tr.unpack(source):
        target.append(tr, item)


@opcode("SET_UPDATE")
def set_update(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(set, unused[arg-1], iterable -- set, unused[arg-1])"""
    source = frame.pop()
    target = tr.look(frame.stack[-i.arg])
    assert isinstance(target, SetValue)
    target.update(tr, source)


@opcode("DICT_UPDATE", "DICT_MERGE")
def dict_update(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(dict, unused[arg-1], mapping -- dict, unused[arg-1])"""
    source = tr.look(frame.pop())
    target = tr.look(frame.stack[-i.arg])
    assert isinstance(target, DictValue)
    for key, value in tr.mapping_items(source):
        key = tr.look(key)
        if i.opname == "DICT_MERGE" and target.contains(tr, key):
            tr.raise_error(TypeError, f"got multiple values for keyword argument '{key.concrete(tr)}'")
        target.set_item(tr, key, value)


@opcode("LIST_TO_TUPLE")
def list_to_tuple(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(list -- tuple)"""
    frame.push(TupleValue(list(tr.unpack(frame.pop()))))


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(sequence -- items[arg])"""
    items = tr.unpack(frame.pop(), at_most=i.arg + 1)
    if len(items) < i.arg:
        tr.raise_error(ValueError, f"not enough values to unpack (expected {i.arg}, got {len(items)})")
    if len(items) > i.arg:
        tr.raise_error(ValueError, f"too many values to unpack (expected {i.arg})")
    frame.stack.extend(reversed(items))


@opcode("UNPACK_EX")
def unpack_ex(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(sequence -- before[arg & 0xFF], rest, after[arg >> 8])"""
    before, after = i.arg & 0xFF, i.arg >> 8
    items = tr.unpack(frame.pop())
    if len(items) < before + after:
        tr.raise_error(
            ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})"
        )
    end = len(items) - after
    parts = [*items[:before], ListValue(items[before:end]), *items[end:]]
    frame.stack.extend(reversed(parts))


@opcode("GET_LEN")
def get_len(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(value -- value, length)"""
    frame.push(tr.constant(tr.look(frame.stack[-1]).length(tr)))


@opcode("MATCH_SEQUENCE")
def match_sequence(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(subject -- subject, whether it is a sequence)"""
    cls = frame.stack[-1].python_type(tr)
    tr.guard_class(cls, "__class__")
    frame.push(tr.constant(bool(cls.__flags__ & 1 << 5)))


@opcode("MATCH_MAPPING")
def match_mapping(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(subject -- subject, whether it is a mapping)"""
    frame.push(tr.constant(bool(frame.stack[-1].python_type(tr).__flags__ & 1 << 6)))


@opcode("MATCH_KEYS")
def match_keys(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(subject, keys -- subject, keys, values or None)"""
    keys, subject = frame.stack[-1], tr.look(frame.stack[-2])
    if not isinstance(subject, DictValue):
        graph_break("unsupported-instruction", opname=i.opname)
    found = [subject.find(tr, tr.look(k).hash_key(tr)) for k in tr.unpack(keys)]
    values = [f for f in found if f is not None]
    frame.push(TupleValue(values) if len(values) == len(found) else tr.constant(None))


@opcode("MATCH_CLASS")
def match_class(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(subject, class, names -- attributes or None)"""
    names, target, subject = (tr.look(v) for v in reversed(frame.popn(3)))
    cls = target.concrete(tr)
    if not isinstance(cls, type) or isinstance(subject, TensorValue):
        graph_break("unsupported-instruction", opname=i.opname)
    if not tr.truth(tr.call(tr.constant(isinstance), [subject, target], {})):
        frame.push(tr.constant(None))
        return
    frame.push(_class_attributes(tr, subject, cls, i.arg, names.concrete(tr)))


def _class_attributes(tr: Tracer, subject: Value, cls: type, n_positional: int, names: tuple[str, ...]) -> Value:
    fields = getattr(cls, "__match_args__", ())
    tr.guard_class(cls, "__match_args__")
    values: list[Value] = []
    if n_positional and not fields and cls.__flags__ & 1 << 22:
        if n_positional > 1:
            tr.raise_error(TypeError, f"{cls.__name__}() accepts 1 positional sub-pattern ({n_positional} given)")
        values.append(subject)
    else:
        if n_positional > len(fields):
            tr.raise_error(
                TypeError,
                f"{cls.__name__}() accepts {len(fields)} positional sub-patterns ({n_positional} given)",
            )
        names = (*fields[:n_positional], *names)
    try:
        values += [subject.get_attribute(tr, name) for name in names]
    except Raised as r:
        if not issubclass(r.value.cls, AttributeError):
            raise
        return tr.constant(None)
    return TupleValue(values)

"""float16 by integer operations, for processors without instructions that convert it.

After Fabian Giesen, "float->half variants" (2012): numbers below the normal range are shifted into place by an addition
whose rounding is the one that is wanted.
"""

from __future__ import annotations

from segue.backends.native.text import Lanes


def rounded(lanes: Lanes, value: str) -> str:
    """The i16 bits of a float rounded to the nearest half, ties to even; a NaN stays one."""

    def word(number: int) -> str:
        return lanes.constant("i32", number)

    bits = lanes.convert("bitcast", "float", "i32", value)
    sign = lanes.op("and", "i32", bits, word(0x80000000))
    size = lanes.op("xor", "i32", bits, sign)
    is_nan = lanes.compare("icmp ugt", "i32", size, word(0x7F800000))
    endless = lanes.select(is_nan, "i32", word(0x7E00), word(0x7C00))

    half_unit = lanes.constant("float", 0.5)
    added = lanes.op("fadd", "float", lanes.convert("bitcast", "i32", "float", size), half_unit)
    small = lanes.op("sub", "i32", lanes.convert("bitcast", "float", "i32", added), word(0x3F000000))

    odd = lanes.op("and", "i32", lanes.op("lshr", "i32", size, word(13)), word(1))
    biased = lanes.op("add", "i32", lanes.op("add", "i32", size, word(0xC8000FFF)), odd)
    normal = lanes.op("lshr", "i32", biased, word(13))

    is_small = lanes.compare("icmp ult", "i32", size, word(0x38800000))
    is_endless = lanes.compare("icmp uge", "i32", size, word(0x47800000))
    finite = lanes.select(is_small, "i32", small, normal)
    unsigned = lanes.select(is_endless, "i32", endless, finite)
    whole = lanes.op("or", "i32", unsigned, lanes.op("lshr", "i32", sign, word(16)))
    return lanes.convert("trunc", "i32", "i16", whole)


def widened(lanes: Lanes, value: str) -> str:
    """The float that the i16 bits of a half stand for."""

    def word(number: int) -> str:
        return lanes.constant("i32", number)

    bits = lanes.convert("zext", "i16", "i32", value)
    size = lanes.op("and", "i32", bits, word(0x7FFF))
    shifted = lanes.op("shl", "i32", size, word(13))
    scaled = lanes.op(
        "fmul", "float", lanes.convert("bitcast", "i32", "float", shifted), lanes.constant("float", 2.0**112)
    )
    finite = lanes.convert("bitcast", "float", "i32", scaled)
    endless = lanes.op("or", "i32", shifted, word(0x7F800000))
    is_endless = lanes.compare("icmp uge", "i32", size, word(0x7C00))
    unsigned = lanes.select(is_endless, "i32", endless, finite)
    sign = lanes.op("shl", "i32", lanes.op("and", "i32", bits, word(0x8000)), word(16))
    return lanes.convert("bitcast", "i32", "float", lanes.op("or", "i32", unsigned, sign))

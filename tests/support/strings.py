"""Strings: methods and formatting."""

import re
import string

from tests.support.construct import area

construct = area("Strings")


@construct("f-strings with conversions, formats, nested formats, `=`")
def f_strings(x):
    name, width, value = "layer", 8, 3.14159
    return x + 1, f"{name!r:>{width}}|{value:.2f}|{width:04d}|{value=:.1f}|{x.shape}|{x.dtype}|{{}}"


@construct("f-strings of tensors' metadata")
def f_string_metadata(x):
    return x * 2, f"{tuple(x.shape)} {x.device} {x.ndim} {x.requires_grad} {x.numel():,}"


@construct("`str.format` with positions, names, attributes, items")
def format_(x):
    return x + 1, "{} {1} {a.ndim} {b[k]:>4}".replace("{}", "{0}").format(1, 2, a=x, b={"k": 3}), "{:,}".format(12345)


@construct("`format_map` and `format`")
def format_map(x):
    return x + 1, "{a}-{b}".format_map({"a": 1, "b": 2}), format(3.5, ".2e"), format(255, "#x")


@construct("`%` formatting")
def percent(x):
    return x + 1, "%s: %05.2f %d%% %r" % ("a", 1.5, 3, "q"), "%(a)s" % {"a": 1}


@construct("`string.Template`")
def template(x):
    return x + 1, string.Template("$name is $size").substitute(name="x", size=4)


@construct("`split`, `rsplit`, `splitlines`, `partition`, `rpartition`, `join`")
def splitting(x):
    path = "model.layers.0.weight"
    parts = path.split(".")
    return (
        x * int(parts[2]) + 1,
        path.rsplit(".", 1),
        path.partition("."),
        path.rpartition("."),
        "-".join(parts),
        "a\nb".splitlines(),
    )


@construct("`startswith`, `endswith`, `find`, `index`, `count`, `in`")
def searching(x):
    name = "attention.weight"
    if name.startswith(("attn", "attention")) and name.endswith("weight") and "tion" in name:
        x = x * 2
    return x + name.find("w") + name.index("t") + name.count("t") + name.rfind("z")


@construct("`replace`, `strip`, `removeprefix`, `removesuffix`, `translate`, `zfill`, `center`, `expandtabs`")
def changing(x):
    s = "  layer_1 "
    table = str.maketrans("abc", "xyz")
    return (
        x + 1,
        s.strip().replace("_", "."),
        s.lstrip(),
        s.rstrip(),
        "abc".translate(table),
        "7".zfill(3),
        (
            "ab".removeprefix("a"),
            "ab".removesuffix("b"),
            "a".center(5, "*"),
            "a".ljust(3),
            "a".rjust(3),
            "\t".expandtabs(2),
        ),
    )


@construct("`upper`, `lower`, `title`, `capitalize`, `casefold`, `swapcase`")
def cases(x):
    return x + 1, ["aB c".upper(), "aB".lower(), "a b".title(), "ab".capitalize(), "ß".casefold(), "aB".swapcase()]


@construct("`isdigit`, `isalpha`, `isidentifier`, `isspace`, ...")
def predicates(x):
    return x + sum(["12".isdigit(), "a".isalpha(), "a1".isalnum(), "a_b".isidentifier(), " ".isspace(), "A".isupper()])


@construct("indexing, slicing, iteration, `*`, `+`, comparison, `len`")
def sequences(x):
    s = "abcdef"
    return x + len(s) + (s < "b"), s[1], s[::-1], s * 2 + "g", [c for c in s[:2]], max(s)


@construct("`encode`, `decode`, `ord`, `chr`, `hash`, `repr`, `ascii`")
def encoding(x):
    return x + ord("a"), "é".encode(), b"ab".decode(), chr(98), repr("a'b"), ascii("é"), hash("a") == hash("a")


@construct("`int`, `float`, `str`, `bool`, `complex` of texts and numbers")
def parsing(x):
    return x * int("12") + float("1e-3") + int("ff", 16) + int(3.7), str(1.0), str([1, "a"]), bool("")


@construct(
    "building a name from an index and looking it up", state=lambda: ({f"layer_{i}": i + 1.0 for i in range(3)},)
)
def names(x, table):
    for i in range(3):
        x = x * table[f"layer_{i}"] + table["layer_%d" % i] + table["layer_" + str(i)]
    return x


@construct("`re`: `match`, `search`, `sub`, `findall`, `compile`")
def regular_expressions(x):
    found = re.match(r"layer_(\d+)", "layer_12")
    pattern = re.compile(r"[a-z]+")
    return x * int(found.group(1)), re.sub(r"\d", "#", "a1b2"), pattern.findall("ab cd"), bool(re.search("z", "abc"))


@construct("`str` of a tensor", breaks="the text shows the tensor's numbers")
def text_of_tensor(x):
    y = x * 2
    return y + 1, str(y)


@construct("a tensor in an f-string", breaks="the text shows the tensor's numbers")
def tensor_in_f_string(x):
    y = x.sum()
    return y + 1, f"{y:.3f}"


@construct("`textwrap`, `string` constants, `json.dumps`")
def helpers(x):
    import json
    import textwrap

    return x + 1, textwrap.dedent("  a\n  b"), string.ascii_lowercase[:3], json.dumps({"a": [1, 2]})

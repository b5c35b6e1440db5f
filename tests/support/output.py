"""What is printed, logged and warned."""

import logging
import sys
import warnings

import torch

from tests.support.construct import area

construct = area("Output: print, logging, warnings")

logger = logging.getLogger("constructs")
DATA = "the text shows the tensor's numbers, which the graph computes before"


@construct("`print` of known values, between tensor operations")
def print_known(x):
    y = x + 1
    print("shape", tuple(y.shape), 3, sep=", ", end="!\n")
    return y * 2


@construct("`print` in a loop and in a callee")
def print_loop(x):
    def step(k, y):
        print(f"step {k}: {y.dtype}")
        return y * 2

    for k in range(3):
        x = step(k, x)
    return x


@construct("`print` of a tensor that the graph computes")
def print_tensor(x):
    y = x + 1
    print(y)
    return y * 2


@construct(
    "`print` of a number that the graph computes",
)
def print_number(x):
    y = x.sum()
    print("sum", y.item())
    return y * 2


@construct("`print` before and after a write to an argument")
def print_and_write(x):
    print("before")
    x.add_(1)
    print("after")
    return x * 2


@construct("`print` before an error that leaves")
def print_before_error(x):
    print("about to fail")
    y = x + 1
    raise ValueError(f"{y.shape}")


@construct("`print(..., file=sys.stderr)`, `flush=True`")
def print_stderr(x):
    print("note", file=sys.stderr, flush=True)
    return x + 1


class Named:
    def __str__(self):
        return "named"


@construct("`print` with an object's `__str__`")
def print_object(x):
    print(Named(), [1, None], {"a": 2.5})
    return x + 1


@construct("`sys.stdout.write`")
def stdout_write(x):
    sys.stdout.write("written\n")
    return x + 1


@construct("`logger.info`, lazily formatted")
def log_info(x):
    y = x + 1
    logger.info("shape %s at %d", tuple(y.shape), 3)
    return y * 2


@construct("`logger.debug` below the level")
def log_below(x):
    y = x + 1
    logger.debug("shape %s", tuple(y.shape))
    return y * 2


@construct("`logger.warning`, `error`, `log`, `critical`")
def log_levels(x):
    logger.warning("careful")
    y = x + 1
    logger.error("bad %r", "thing")
    logger.log(logging.CRITICAL, "level")
    logger.critical("end")
    return y * 2


@construct("`logger.isEnabledFor`, `logging.getLogger` in the function")
def log_enabled(x):
    log = logging.getLogger("constructs")
    if log.isEnabledFor(logging.DEBUG):
        x = x * 5
    return x + log.getEffectiveLevel()


@construct("`logger.info` of a tensor that the graph computes")
def log_tensor(x):
    y = x.sum()
    logger.info("sum %s", y)
    return y * 2


@construct("`logger.exception` in a handler")
def log_exception(x):
    try:
        raise ValueError("v")
    except ValueError as error:
        logger.error("failed: %s", error)
    return x + 1


adapter = logging.LoggerAdapter(logger, {"run": 1})


@construct("`logging.LoggerAdapter`")
def log_adapter(x):
    adapter.info("adapted")
    return x + 1


@construct("`logging.info` of the module")
def log_root(x):
    logging.debug("root, below the level")
    return x + 1


@construct("`warnings.warn`")
def warn(x):
    y = x + 1
    warnings.warn("careful", UserWarning, stacklevel=1)
    return y * 2


@construct("`warnings.warn` with a category and an f-string, in a callee")
def warn_callee(x):
    def old(y):
        warnings.warn(f"deprecated for {y.dim()} dimensions", DeprecationWarning, stacklevel=2)
        return y * 2

    return old(x) + 1


@construct("`warnings.warn_explicit`, `warnings.simplefilter`")
def warn_filter(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("unseen")
    return x + 1


@construct("`typing_extensions.deprecated` / `torch` deprecation wrappers")
def deprecated_wrapper(x):
    from typing_extensions import deprecated

    @deprecated("use the new one", category=FutureWarning)
    def old(y):
        return y * 2

    return old(x) + 1


@construct("`torch._assert`")
def torch_assert(x):
    torch._assert(x.dim() == 2, "two dimensions")
    return x + 1


@construct("`torch._check` and `torch._check_is_size`")
def torch_check(x):
    torch._check(x.shape[0] == 4, lambda: "four rows")
    return x + 1


@construct("`tqdm`-like progress: an iterator that writes")
def progress(x):
    def bar(items):
        for n, item in enumerate(items):
            sys.stdout.write(f"\r{n}")
            yield item

    for k in bar(range(3)):
        x = x + k
    return x

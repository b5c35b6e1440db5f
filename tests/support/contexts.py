"""Context managers: those of contextlib, of classes and of PyTorch."""

import contextlib
import io
import warnings

import torch

from tests.support.construct import area

construct = area("Context managers")


@contextlib.contextmanager
def scaled(settings, value):
    """Sets a scale for the duration."""
    before = settings["scale"]
    settings["scale"] = value
    try:
        yield value
    finally:
        settings["scale"] = before


class Noting:
    """Notes when it is entered and left, and can swallow what is raised."""

    def __init__(self, notes, swallow=False):
        self.notes = notes
        self.swallow = swallow

    def __enter__(self):
        self.notes.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.notes.append(("exit", kind.__name__ if kind else None, str(value)))
        return self.swallow


@construct("`@contextmanager`")
def by_generator(x):
    settings = {"scale": 1}
    with scaled(settings, 3) as scale:
        y = x * settings["scale"] + scale
    return y * settings["scale"]


@construct("`@contextmanager`, the body raises")
def by_generator_raising(x):
    settings = {"scale": 1}
    try:
        with scaled(settings, 3):
            raise KeyError("inside")
    except KeyError:
        return x * settings["scale"]


@construct("`@contextmanager` that swallows")
def by_generator_swallowing(x):
    @contextlib.contextmanager
    def ignoring():
        try:
            yield
        except ValueError:
            pass

    with ignoring():
        x = x * 2
        raise ValueError
    return x + 1


@construct("`@contextmanager` as a decorator")
def by_generator_decorator(x):
    settings = {"scale": 1}

    @scaled(settings, 4)
    def inner(y):
        return y * settings["scale"]

    return inner(x) + settings["scale"]


@construct("nested `@contextmanager`s")
def nested_generators(x):
    settings = {"scale": 1}

    @contextlib.contextmanager
    def twice():
        with scaled(settings, 2), scaled(settings, 5):
            yield settings["scale"]

    with twice() as five:
        y = x * five
    return y + settings["scale"]


@construct("a class with `__enter__` and `__exit__`")
def by_class(x):
    notes = []
    with Noting(notes):
        y = x * 2
    return y, notes


@construct("`with` over several managers")
def several(x):
    notes = []
    with Noting(notes) as a, Noting(notes), Noting(a.notes):
        y = x.sin()
    return y, notes


@construct("parenthesised `with`")
def parenthesised(x):
    notes = []
    with (
        Noting(notes) as a,
        torch.no_grad(),
    ):
        y = x.sin()
    return y, a.notes


@construct("an exception through `__exit__`")
def raised_through(x):
    notes = []
    try:
        with Noting(notes):
            y = x * 2
            raise RuntimeError("body")
    except RuntimeError:
        return y, notes


@construct("`__exit__` that swallows")
def swallowed(x):
    notes = []
    with Noting(notes, swallow=True):
        x = x + 1
        raise ValueError("gone")
    return x, notes


@construct("`return`, `break` and `continue` out of `with`")
def left_early(x):
    notes = []
    for k in range(5):
        with Noting(notes):
            if k == 1:
                continue
            if k == 3:
                break
            x = x + k
    with Noting(notes):
        return x, notes


@construct("`ExitStack` with managers and callbacks")
def exit_stack(x):
    notes = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(Noting(notes))
        stack.callback(notes.append, "callback")
        stack.push(Noting(notes))
        stack.enter_context(torch.no_grad())
        y = x * 2
    return y, notes


@construct("`ExitStack`, an exception is swallowed")
def exit_stack_swallows(x):
    notes = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(Noting(notes, swallow=True))
        stack.enter_context(Noting(notes))
        raise KeyError("k")
    return x + 1, notes


@construct("`ExitStack.pop_all` and `close`")
def exit_stack_pop_all(x):
    notes = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(Noting(notes))
        kept = stack.pop_all()
    y = x * 2
    kept.close()
    return y, notes


@construct("`contextlib.nullcontext`")
def nullcontext(x):
    with contextlib.nullcontext(x) as y:
        return y + 1


@construct("`contextlib.suppress`")
def suppress(x):
    with contextlib.suppress(KeyError, IndexError):
        x = x + 1
        {}["missing"]
    return x * 2


class Source:
    closed = False

    def close(self):
        self.closed = True


@construct("`contextlib.closing`")
def closing(x):
    with contextlib.closing(Source()) as source:
        y = x + 1
    return y, source.closed


@construct("`contextlib.redirect_stdout`")
def redirect_stdout(x):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print("inside")
        y = x + 1
    return y, out.getvalue()


class Timed(contextlib.ContextDecorator):
    def __init__(self, notes):
        self.notes = notes

    def __enter__(self):
        self.notes.append("start")
        return self

    def __exit__(self, *details):
        self.notes.append("stop")


@construct("`ContextDecorator` subclass")
def context_decorator(x):
    notes = []

    @Timed(notes)
    def inner(y):
        return y * 2

    return inner(x), notes


class Manager(contextlib.AbstractContextManager):
    def __exit__(self, *details):
        return None


@construct("`AbstractContextManager` subclass")
def abstract_context_manager(x):
    with Manager() as manager:
        return x + 1, type(manager).__name__


@construct("`torch.no_grad` and `torch.enable_grad`")
def gradient_modes(x):
    w = x.requires_grad_()
    with torch.no_grad():
        a = w * 2
        with torch.enable_grad():
            b = w * 3
    return a.requires_grad, b.requires_grad, a.detach() + b.detach()


@construct("`@torch.no_grad()` as a decorator")
def no_grad_decorator(x):
    @torch.no_grad()
    def inner(y):
        return y * 2, torch.is_grad_enabled()

    return inner(x)


@construct("`torch.set_grad_enabled` as a manager and as a call")
def set_grad_enabled(x):
    with torch.set_grad_enabled(False):
        a = x + torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    b = x * 2
    torch.set_grad_enabled(True)
    return a, b


@construct("`torch.inference_mode`")
def inference_mode(x):
    with torch.inference_mode():
        y = x * 2
    return y + 0


@construct("`torch.autocast`")
def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x, torch.is_autocast_enabled("cpu")


@construct("nested `torch.autocast`, one disabled")
def nested_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ x
        with torch.autocast("cpu", enabled=False):
            b = a.float() @ x
        c = x @ x
    return a, b, c


@construct("`@torch.autocast` as a decorator")
def autocast_decorator(x):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def inner(y):
        return y @ y

    return inner(x)


@construct("`torch.autograd.set_detect_anomaly` and `torch.autograd.profiler.record_function`")
def profiler_marks(x):
    with torch.profiler.record_function("step"):
        return x * 2


@construct("`torch.device` as a manager")
def device_manager(x):
    with torch.device("cpu"):
        return x + torch.ones(4)


@construct("`torch.random.fork_rng`")
def fork_rng(x):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        noise = torch.randn(4)
    return x + noise + torch.randn(4)


@construct("`torch.nn.attention.sdpa_kernel`")
def sdpa_kernel(x):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = x.reshape(1, 1, 4, 4)
    with sdpa_kernel(SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(q, q, q)


@construct("`torch.autograd.graph.saved_tensors_hooks`")
def saved_tensors_hooks(x):
    w = x.requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return (w * w).sum()


@construct("`torch.autograd.graph.save_on_cpu`")
def save_on_cpu(x):
    w = x.requires_grad_()
    with torch.autograd.graph.save_on_cpu():
        return (w * w).sum()


@construct("`warnings.catch_warnings`")
def catch_warnings(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return x + 1


@construct(
    "a lock as a manager",
    state=lambda: (__import__("threading").Lock(),),
    breaks="it is taken and released at its time, around what the interpreter and the graphs do in between",
)
def lock(x, lock):
    with lock:
        return x + 1


@construct("a context variable", state=lambda: (__import__("contextvars").ContextVar("scale", default=2),))
def context_variable(x, scale):
    token = scale.set(5)
    y = x * scale.get()
    scale.reset(token)
    return y + scale.get()


@construct("a manager passed to the function", state=lambda: (Noting([]),))
def manager_argument(x, noting):
    with noting:
        return x + 1


class Centred:
    def __init__(self, t):
        self.t = t

    def __enter__(self):
        self.mean = self.t.mean()
        return self.t - self.mean

    def __exit__(self, *details):
        self.t = self.t + self.mean


@construct("a class whose `__enter__` gives a tensor")
def manager_of_tensors(x):
    manager = Centred(x)
    with manager as y:
        z = y * 2
    return z, manager.t

"""Tensors: metadata, dtypes, devices, in-place work, indexing, subclasses."""

import torch

from tests.support.construct import area

construct = area("Tensors")


class Logged(torch.Tensor):
    """A subclass that notes the functions called on it."""

    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Metadata:
    """No tensor, but it takes part in torch functions."""

    def __init__(self, t, unit):
        self.t = t
        self.unit = unit

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        unwrapped = [a.t if isinstance(a, Metadata) else a for a in args]
        return Metadata(func(*unwrapped, **(kwargs or {})), "m")


class Plain(torch.Tensor):
    """A subclass without anything of its own."""


class Doubling(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.sin else out


@construct("`torch.Size`: indexing, slices, `numel`, arithmetic, unpacking, comparison")
def size(x):
    rows, columns = x.shape
    if x.shape == (4, 4) and x.size() == torch.Size([4, 4]) and x.size(0) == len(x):
        x = x.reshape(*x.shape[:-1], 2, -1)
    return x * x.shape.numel() + rows * columns, x.shape + (1,), x.shape[1:], torch.Size((2, 3))


@construct("`dim`, `ndim`, `numel`, `stride`, `is_contiguous`, `storage_offset`, `element_size`, `nbytes`")
def metadata(x):
    y = x.t()
    n = (
        y.dim()
        + y.ndim
        + y.numel()
        + y.stride(0)
        + y.is_contiguous()
        + y.storage_offset()
        + y.element_size()
        + y.nbytes
    )
    return y * n, y.stride()


@construct("dtype objects: comparison, attributes, tables, `finfo`, `iinfo`")
def dtypes(x):
    table = {torch.float32: 2, torch.float64: 3}
    if x.dtype == torch.float32 and x.dtype.is_floating_point and x.dtype is not torch.int64:
        x = x * table[x.dtype]
    return x.clamp(min=torch.finfo(x.dtype).min) + torch.iinfo(torch.int8).max, x.dtype.itemsize, str(x.dtype)


@construct("`to`, `type`, `float`, `double`, `half`, `int`, `bool`, `type_as`, `view(dtype)`")
def conversions(x):
    y = x.to(torch.float64) + x.double() + x.type(torch.float64) + x.half().float() + x.to(x) + x.type_as(x)
    return y, x.int(), x.bool(), x.long(), x.view(torch.int32), x.to("cpu", torch.bfloat16), x.type()


@construct("`torch.promote_types`, `result_type`, `can_cast`, default dtype")
def promotion(x):
    kind = torch.promote_types(x.dtype, torch.float64)
    return x.to(kind) + torch.can_cast(torch.float32, torch.int32), torch.result_type(x, 1.0), torch.get_default_dtype()


@construct("`torch.set_default_dtype`")
def default_dtype(x):
    torch.set_default_dtype(torch.float64)
    y = torch.ones(4)
    torch.set_default_dtype(torch.float32)
    return y + x


@construct("device objects: comparison, attributes, factories on a device")
def devices(x):
    device = x.device
    if device.type == "cpu" and device == torch.device("cpu") and device.index is None and not x.is_cuda:
        x = x + torch.zeros(4, device=device)
    return x.to(device) + torch.arange(4, device=torch.device("cpu")), str(device), x.cpu() is x


@construct("`torch.cuda.is_available`, `torch.backends` reads, `torch.get_num_threads`, `torch.__version__`")
def environment(x):
    if torch.cuda.is_available() and torch.backends.cuda.matmul.allow_tf32:
        return x
    return x + torch.get_num_threads() + (torch.__version__ > "1.0")


@construct("factories: `zeros`, `ones`, `full`, `arange`, `linspace`, `eye`, `empty`, `tensor`, `*_like`, `new_*`")
def factories(x):
    y = (
        torch.zeros(4)
        + torch.ones(4)
        + torch.full((4,), 2.0)
        + torch.arange(4)
        + torch.linspace(0, 1, 4)
        + torch.eye(4)
    )
    z = torch.zeros_like(x) + x.new_ones(4) + torch.full_like(x, 3) + x.new_tensor([1.0, 2, 3, 4]) + x.new_zeros(())
    return y + z + torch.tensor([1.0, 2, 3, 4]) + torch.tensor(x.shape[0]), torch.empty(0), torch.tensor([[1], [2]])


@construct("`torch.tensor` and `torch.stack` of a list with tensors")
def tensor_of_list(x):
    return torch.stack([x.sum(), x.mean()]) + torch.as_tensor([1.0, 2.0])


@construct("`torch.tensor` of a list of scalar tensors", breaks="it reads the tensors' values")
def tensor_of_scalars(x):
    return torch.tensor([x.sum(), x.mean()]) + 1


@construct("basic indexing: integers, slices, `None`, `...`")
def indexing(x):
    return x[0, 1] + x[-1] + x[1:3, None, ..., ::2].sum() + x[..., 0]


@construct("indexing by tensors and lists of integers")
def advanced_indexing(x):
    rows = torch.tensor([0, 2])
    return x[rows], x[[1, 3]], x[rows, rows], x[:, rows], x[rows[:, None], rows]


@construct("assignment to indices")
def index_assignment(x):
    y = x.clone()
    y[0] = 1
    y[1, 2:] = x[0, :2]
    y[torch.tensor([2, 3]), 0] = 5.0
    y[..., -1] += 2
    return y


@construct("assignment by a boolean mask")
def mask_assignment(x):
    y = x.clone()
    y[y < 0] = 0.5
    return y


@construct("`masked_fill`, `where`, `clamp` in place of a mask")
def masks(x):
    return x.masked_fill(x < 0, 1.0) + torch.where(x > 0, x, -x) + x.masked_fill_(x > 1, 0)


@construct("in-place operations and views")
def in_place(x):
    y = x.view(2, 8)
    y.add_(1)
    x[0].mul_(2)
    z = x.t()
    z += 3
    return x, y, z


@construct("`out=`")
def out(x):
    y = torch.empty(4, 4)
    torch.add(x, 1, out=y)
    torch.matmul(x, x, out=y)
    return y


@construct("`out=` into an argument", state=lambda: (torch.zeros(4, 4),))
def out_argument(x, y):
    torch.sin(x, out=y)
    return y + 1


@construct("`out=` that resizes")
def out_resizes(x):
    y = torch.empty(0)
    torch.add(x, 1, out=y)
    return y


@construct("`.data` read and written", state=lambda: (torch.nn.Linear(4, 4),))
def data(x, module):
    module.weight.data.add_(1)
    module.weight.data = module.weight.data * 0.5
    return x @ module.weight.data


@construct("`.T`, `.mT`, `.H`, `.real`, `.imag`, `.is_sparse`, `.layout`, `.names`")
def attributes(x):
    return x.T + x.mT + x.H + x.real + x.is_sparse, x.layout, x.is_complex(), x.is_floating_point(), x.itemsize


@construct("complex tensors")
def complex_(x):
    z = torch.complex(x, x)
    return (z * z.conj()).real + z.abs() + torch.view_as_real(z).sum() + z.imag


@construct("`numel` and `shape` in arithmetic: heads, reshapes")
def reshapes(x):
    batch, width = x.shape
    heads = 2
    return x.view(batch, heads, width // heads).transpose(0, 1).reshape(heads, -1).contiguous().flatten()


@construct("`unbind`, `split`, `chunk`, `cat`, `stack`, `tensor_split`")
def pieces(x):
    a, b = x.chunk(2)
    c, d, _ = torch.split(x, [1, 2, 1])
    return (
        torch.cat([a, b, c]) + torch.stack(x.unbind()).sum() + d.mean() + sum(t.sum() for t in torch.tensor_split(x, 3))
    )


@construct("`einsum`, `@`, `matmul`, `bmm`, `addmm`")
def products(x):
    y = torch.einsum("ij,jk->ik", x, x) + x @ x.matmul(x) + torch.addmm(x, x, x)
    return y + torch.bmm(x[None], x[None])[0]


@construct("comparison of tensors, chained by `&`, `|`, `~`")
def comparison(x):
    return ((x > 0) & ~(x > 1) | (x == 0)).float(), x.eq(0), x != 1


@construct("`torch.equal`, `allclose` decide", breaks="the result is a Python bool made from data")
def equal(x):
    return x + torch.equal(x, x + 1)


@construct("`item`, `tolist`, `int`, `float`, `bool` of a tensor", breaks="they give Python numbers made from data")
def item(x):
    n = x.sum().item()
    return x * n


@construct("`item` of which the graph makes a tensor again", breaks="it gives a Python number made from data")
def item_again(x):
    return torch.full((4,), x.sum().item()) + 1


@construct("`nonzero`, `argwhere`, one-argument `where`", breaks="the shape depends on data")
def nonzero(x):
    y = x + 1
    return y.nonzero() + 1, torch.where(y > 0)[0] * 2


@construct("boolean-mask indexing", breaks="the shape depends on data")
def mask_indexing(x):
    y = x * 2
    return y[y > 0] + 1


@construct("`masked_select`, `unique`, `repeat_interleave` by a tensor, `bincount`", breaks="the shape depends on data")
def data_dependent(x):
    y = x.round()
    return torch.masked_select(y, y > 0).sum() + torch.unique(y).sum()


@construct("boolean-mask indexing, summed", breaks="the shape depends on data")
def mask_sum(x):
    y = x * 2
    return y[y > 0].sum()


@construct("a slice by a tensor's value", breaks="the shape depends on data")
def slice_by_value(x):
    n = (x > 0).sum().clamp(1, 4)
    return x[: int(n)] * 2


@construct("a subclass without anything of its own", inputs=lambda: (torch.randn(4).as_subclass(Plain),))
def plain_subclass(x):
    return x * 2 + 1


@construct("a subclass with `__torch_function__`", inputs=lambda: (torch.randn(4).as_subclass(Logged),))
def subclass(x):
    return torch.sin(x) + 1


@construct("an object with `__torch_function__` that is no tensor", inputs=lambda: (Metadata(torch.randn(4), "cm"),))
def function_object(m):
    out = torch.add(torch.sin(m), 1)
    return out.t, out.unit


@construct("`as_subclass`, `torch.Tensor._make_subclass` in the function")
def subclass_made(x):
    return (x * 2).as_subclass(Plain) + 1


@construct("a `TorchFunctionMode` in the function")
def function_mode(x):
    with Doubling():
        return torch.sin(x) + 1


@construct("`nn.Parameter` and `isinstance`", state=lambda: (torch.nn.Parameter(torch.randn(4)),))
def parameter(x, p):
    return x * p if isinstance(p, torch.nn.Parameter) and p.requires_grad else x


@construct("attributes on tensors")
def tensor_attributes(x):
    x.tag = 3
    y = x * x.tag
    y.note = "y"
    return y + len(y.note), hasattr(x, "other")


@construct("tensors compared by `is`, `in` a list, as keys by `id`")
def identity(x):
    y = x.clone()
    seen = {id(x): 1}
    return x + (x is x) + (y is x) + seen.get(id(y), 5) + any(t is y for t in [x, y])


@construct("`copy_`, `resize_`, `set_`, `swap`, `zero_`, `fill_`")
def whole_writes(x):
    y = torch.empty_like(x).copy_(x)
    z = torch.zeros(4).fill_(2.0)
    x.zero_()
    return y + z, x


@construct("`contiguous`, `memory_format`, `expand`, `as_strided`, `unfold`")
def layouts(x):
    image = x.reshape(1, 1, 4, 4).contiguous(memory_format=torch.channels_last)
    return image + x.expand(2, 4, 4).sum(0) + x.as_strided((4, 4), (1, 4)) + x.unfold(1, 2, 2).sum()


@construct("`torch.linalg`, `fft`, `special`")
def namespaces(x):
    s = x @ x.T + torch.eye(4)
    return torch.linalg.cholesky(s) + torch.fft.fft(x).real + torch.special.erf(x) + torch.linalg.norm(
        x
    ), torch.linalg.svd(x)[1]


@construct("sparse tensors", breaks="sparse tensors are left to PyTorch")
def sparse(x):
    return torch.sparse.mm(x.to_sparse(), x) + 1


@construct("nested tensors", breaks="nested tensors are left to PyTorch")
def nested(x):
    return torch.nested.nested_tensor([x[0], x[1, :2]]).to_padded_tensor(0.0) + 1


@construct("quantised tensors", breaks="quantised tensors are left to PyTorch")
def quantised(x):
    return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize() + 1


@construct("`torch.utils.dlpack`, `untyped_storage`, `data_ptr`", breaks="the memory itself is looked at")
def storage(x):
    y = x + 1
    return y, y.untyped_storage().nbytes()


@construct("`torch.utils._pytree`: `tree_map`, `tree_flatten`")
def pytree(x):
    from torch.utils import _pytree

    tree = {"a": [x, (x.sin(), 1)]}
    leaves, spec = _pytree.tree_flatten(tree)
    return _pytree.tree_map(lambda t: t * 2, tree), len(leaves), _pytree.tree_unflatten(leaves, spec)


@construct("`torch.jit.is_scripting`, `torch.jit.annotate`, `@torch.jit.script_if_tracing`, `torch.overrides`")
def other_tools(x):
    if torch.jit.is_scripting() or torch.jit.is_tracing() or torch.overrides.has_torch_function((x,)):
        return x
    return x + 1


@construct("a scripted function", breaks="it is compiled by another compiler")
def scripted(x):
    return scripted_sine(x) + 1


@torch.jit.script
def scripted_sine(x: torch.Tensor):
    return torch.sin(x)


@construct("sizes that change from call to call", inputs=lambda: (torch.randn(int(torch.randint(2, 50, ())), 4),))
def changing_size(x):
    return x * 2 + x.shape[0]


@construct("Python scalars and 0-dimensional tensors mixed")
def scalars(x):
    return x * 2 + 1.5 + True + x.sum() * 3 + torch.tensor(2) ** 2

"""Small random graphs at the edges of what operators allow: sizes of 0 and 1, scalars, symbols, unknown ranks, optional
inputs left out, several shapes in a row on one session, chains that passes fuse. edges_test.py compares them with ONNX
Runtime; `python edges_test.py SEED COUNT` tries other seeds and prints what differs."""
import dataclasses
import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import random_bodies
import random_patterns

F32, F16, F64, I32, I64, U8, I8, BOOL = (np.float32, np.float16, np.float64, np.int32, np.int64, np.uint8, np.int8,
                                         np.bool_)
LARGE = 1 << 40


@dataclasses.dataclass
class Value:
    name: str
    dims: list  # numbers; or texts: symbols of the input, or sizes that are only known in a run
    dtype: type = F32
    exact: bool = True  # multiples of 1/4: what jumps (Floor, Less, ArgMax) may be asked of it


class Graph:
    """`sizes` gives the symbols of one run; the graph has to be right for every run."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = self.pick(7, 9, 11, 11, 13, 13, 17, 17, 17, 17, 18, 18, 18, 20, 21)
        self.nodes, self.held, self.values, self.inputs, self.used = [], {}, [], [], 0
        self.finite = self.filled = False  # takes no infinities; no size of 0
        self.keeps_nan = True  # no operator for which ONNX Runtime's answer hangs on where the NaN is

    def pick(self, *choices):
        return self.random.choice(choices)

    def chance(self, share):
        return self.random.random() < share

    def name(self, prefix="v"):
        self.used += 1
        return f"{prefix}{self.used}"

    def fresh(self):
        return self.name("?")

    def array(self, dims, dtype=F32, low=-8, high=8):
        if dtype == BOOL:
            return self.numbers.integers(0, 2, dims).astype(BOOL)
        if np.dtype(dtype).kind == "u":
            low = max(low, 0)
        whole = self.numbers.integers(low, high + 1, dims)
        return np.asarray(whole / 4 if np.dtype(dtype).kind == "f" else whole).astype(dtype)

    def constant(self, array, dtype=None):
        name = self.name("c")
        self.held[name] = np.asarray(array, dtype)
        return name

    def floats(self, *dims, low=-8, high=8):
        return self.constant(self.array(list(dims), F32, low, high))

    def ints(self, *values):
        return self.constant(np.array(values, I64))

    def add_input(self, dims, dtype=F32, exact=True):
        value = Value(self.name("x"), list(dims), dtype, exact)
        self.inputs.append(value)
        return value

    def node(self, op, inputs, dims, dtype=F32, outputs=1, exact=False, keep=True, domain="", **attributes):
        names = [self.name() for _ in range(outputs)]
        given = [value.name if isinstance(value, Value) else value for value in inputs]
        self.nodes.append(helper.make_node(op, given, names, **attributes))
        value = Value(names[0], list(dims), dtype, exact)
        value.others = names[1:]
        if keep:
            self.values.append(value)
        return value

    def like(self, value):
        """A shape that broadcasts to the value's: symbols become 1."""
        dims = [1 if isinstance(dim, str) or self.chance(0.4) else dim for dim in value.dims]
        return dims[self.random.randint(0, len(dims)):] if self.chance(0.5) else dims

    def fill(self, value):
        """False for what has a size of 0; else no run makes one: ONNX Runtime does not drop a reduced axis of nothing."""
        if any(dim == 0 or isinstance(dim, str) and dim.startswith("?") for dim in value.dims):
            return False
        self.filled |= any(isinstance(dim, str) for dim in value.dims)
        return True

    def number(self, value, axis):
        return isinstance(value.dims[axis], int)


def axis_of(g, value, number=False):
    axes = [i for i in range(len(value.dims)) if not number or g.number(value, i)]
    return g.pick(*axes) if axes else None


def signed(g, axis, rank):
    return axis - rank if g.chance(0.4) else axis


UNARY = ("Abs", "Neg", "Exp", "Sigmoid", "Tanh", "Relu", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "Softplus", "Softsign", "Erf",
         "Sin", "Cos", "Atan", "Celu", "Identity", "ThresholdedRelu", "Reciprocal", "Sqrt", "Log")
JUMPS = ("Floor", "Ceil", "Round", "Sign")


def unary(g, x):
    op = g.pick(*UNARY)
    attributes = {"alpha": g.pick(0.25, 1.5, 0.0)} if op in ("LeakyRelu", "Elu", "ThresholdedRelu") and g.chance(0.5) else {}
    if op == "Celu" and g.opset < 12:
        return
    if op == "ThresholdedRelu" and not x.exact:
        return
    g.node(op, [x], x.dims, exact=x.exact and op in ("Abs", "Neg", "Relu", "Identity"), **attributes)


def jump(g, x):
    if x.exact:
        g.node(g.pick(*JUMPS), [x], x.dims, exact=True)


def newer(g, x):
    op, since = g.pick(("HardSwish", 14), ("Mish", 18), ("Gelu", 20))
    if g.opset >= since:
        g.node(op, [x], x.dims, **({"approximate": "tanh"} if op == "Gelu" and g.chance(0.5) else {}))


def clip(g, x):
    bounds = [g.constant(np.float32(value)) if g.chance(0.7) else "" for value in (-1, g.pick(1, 6))]
    g.node("Clip", [x, *bounds][:1 if bounds == ["", ""] else 3], x.dims, exact=x.exact)


def binary(g, x):
    op = g.pick("Add", "Add", "Mul", "Sub", "Div", "Max", "Min", "PRelu", "Pow")
    dims = g.like(x)
    if g.chance(0.15):
        dims = [1] * (len(x.dims) + 1)
    if op == "Pow":
        other = g.constant(np.full(dims, g.pick(2, 2, 3, 1, 0), F32))
    elif op == "PRelu":
        other = g.floats(*dims)
    elif op == "Div":
        other = g.constant(np.abs(g.array(dims)) + F32(0.5))
    else:
        other = g.pick(g.floats(*dims), g.constant(np.full(dims, g.pick(0, 1, 0.5), F32)))
    order = [other, x] if op in ("Add", "Mul", "Sub", "Max", "Min") and g.chance(0.4) else [x, other]
    out = [*[1] * (len(dims) - len(x.dims)), *x.dims]
    g.node(op, order, out, exact=x.exact and op in ("Add", "Sub", "Max", "Min"))


def skip(g, x):
    same = [value for value in g.values if value.dims == x.dims and value.dtype == F32]
    if same:
        other = g.pick(*same)
        g.node(g.pick("Add", "Mul", "Sub", "Max", "Min"), [x, other] if g.chance(0.5) else [other, x], x.dims)


def outer(g, x):
    """Broadcasts a new input against x: where x is 1, the result grows."""
    dims = [g.pick(1, 2, 3, 0) if dim == 1 else 1 if isinstance(dim, str) or g.chance(0.5) else dim for dim in x.dims]
    out = [b if a == 1 else a for a, b in zip(x.dims, dims)]
    g.node(g.pick("Add", "Mul", "Sub"), [x, g.add_input(dims)], out)


def variadic(g, x):
    g.node(g.pick("Sum", "Mean", "Max", "Min"), [x, *(g.floats(*g.like(x)) for _ in range(g.pick(0, 1, 2)))], x.dims)


def compare(g, x):
    if x.exact and g.opset >= 13:
        mask = g.node(g.pick("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"), [x, g.floats(*g.like(x))], x.dims,
                      dtype=BOOL, keep=False)
        if g.chance(0.3):
            mask = g.node("Not", [mask], x.dims, dtype=BOOL, keep=False)
        g.node("Where", [mask, x, g.floats(*g.like(x))] if g.chance(0.5) else [mask, g.floats(), x], x.dims, exact=True)


def casts(g, x):
    if x.exact:
        to = g.pick(TensorProto.INT32, TensorProto.INT64, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.BOOL)
        there = g.node("Cast", [x], x.dims, keep=False, to=to)
        g.node("Cast", [there], x.dims, to=TensorProto.FLOAT)


def transpose(g, x):
    rank = len(x.dims)
    perm = g.random.sample(range(rank), rank)
    if g.chance(0.4):
        g.node("Transpose", [x], x.dims[::-1], exact=x.exact)
    elif rank:
        g.node("Transpose", [x], [x.dims[i] for i in perm], exact=x.exact, perm=perm)


def reshape(g, x):
    kinds = ["flat"]
    if len(x.dims) >= 2:
        kinds += ["merge", "keep"]
    last = x.dims[-1] if x.dims else None
    if isinstance(last, int) and last % 2 == 0 and last > 0:
        kinds += ["heads"] * 2
    kind = g.pick(*kinds)
    if kind == "flat":
        total = int(np.prod(x.dims)) if all(isinstance(dim, int) for dim in x.dims) else g.fresh()
        if total != 0:
            g.node("Reshape", [x, g.ints(-1)], [total], exact=x.exact)
    elif kind == "keep":
        g.node("Reshape", [x, g.ints(*[0] * len(x.dims))], x.dims, exact=x.exact)
    elif kind == "merge" and isinstance(last, int) and last != 0:
        g.node("Reshape", [x, g.ints(-1, last)], [g.fresh(), last], exact=x.exact)
    elif kind == "heads":
        g.node("Reshape", [x, g.ints(*[0] * (len(x.dims) - 1), 2, last // 2)], [*x.dims[:-1], 2, last // 2], exact=x.exact)


def reshape_to_shape(g, x):
    """Shape -> Gather/Slice -> Concat -> Reshape, as exporters write it."""
    if len(x.dims) < 2 or not g.number(x, -1) or x.dims[-1] == 0:
        return
    shape = g.node("Shape", [x], [len(x.dims)], dtype=I64, keep=False)
    first = g.node("Gather", [shape, g.ints(0)], [1], dtype=I64, keep=False, axis=0)
    wanted = g.node("Concat", [first, g.ints(-1), g.ints(x.dims[-1])], [3], dtype=I64, keep=False, axis=0)
    if isinstance(x.dims[0], int) and x.dims[0] == 0 or isinstance(x.dims[0], str):
        return  # -1 beside a 0 is an error
    g.node("Reshape", [x, wanted], [x.dims[0], g.fresh(), x.dims[-1]], exact=x.exact)


def flatten(g, x):
    axis = g.random.randint(0, len(x.dims))
    g.node("Flatten", [x], [g.fresh(), g.fresh()], exact=x.exact, axis=axis)


def squeeze(g, x):
    ones = [i for i, dim in enumerate(x.dims) if dim == 1]
    if not ones:
        return
    axes = sorted(g.random.sample(ones, g.random.randint(1, len(ones))))
    dims = [dim for i, dim in enumerate(x.dims) if i not in axes]
    given = [signed(g, axis, len(x.dims)) for axis in axes]
    if g.opset >= 13:
        g.node("Squeeze", [x, g.ints(*given)], dims, exact=x.exact)
    else:
        g.node("Squeeze", [x], dims, exact=x.exact, axes=given)


def unsqueeze(g, x):
    if len(x.dims) > 4:
        return
    axis = g.random.randint(0, len(x.dims))
    dims = [*x.dims[:axis], 1, *x.dims[axis:]]
    if g.opset >= 13:
        g.node("Unsqueeze", [x, g.ints(axis)], dims, exact=x.exact)
    else:
        g.node("Unsqueeze", [x], dims, exact=x.exact, axes=[axis])


def expand(g, x):
    dims = [g.pick(1, 2, 3) if dim == 1 else dim for dim in x.dims]
    target = [1 if isinstance(dim, str) or dim == 1 or g.chance(0.3) else dim for dim in x.dims]
    target = [b if a == 1 else t for a, b, t in zip(x.dims, dims, target)]
    if len(dims) < 5 and g.chance(0.3):
        dims, target = [2, *dims], [2, *target]
    g.node("Expand", [x, g.ints(*target)], dims, exact=x.exact)


def tile(g, x):
    times = [g.pick(1, 1, 2, 0) if g.chance(0.8) else 3 for _ in x.dims]
    dims = [dim if t == 1 else dim * t if isinstance(dim, int) else g.fresh() for dim, t in zip(x.dims, times)]
    if x.dims:
        g.node("Tile", [x, g.ints(*times)], dims, exact=x.exact)


def concat(g, x):
    axis = axis_of(g, x)
    if axis is None:
        return
    parts = [x]
    same = [value for value in g.values if value.dims == x.dims and value.dtype == F32]
    for _ in range(g.pick(0, 1, 1, 2)):
        if g.chance(0.4):
            parts.append(g.pick(*same))
        elif all(g.number(x, i) for i in range(len(x.dims)) if i != axis):
            dims = list(x.dims)
            dims[axis] = g.pick(0, 1, 2)
            parts.append(Value(g.floats(*dims), dims))
    sizes = [part.dims[axis] for part in parts]
    dims = list(x.dims)
    dims[axis] = sum(sizes) if all(isinstance(size, int) for size in sizes) else sizes[0] if len(sizes) == 1 else g.fresh()
    g.random.shuffle(parts)
    g.node("Concat", parts, dims, exact=x.exact, axis=signed(g, axis, len(dims)))


def split(g, x):
    axis = axis_of(g, x, number=True)
    if axis is None:
        return
    size = x.dims[axis]
    first = g.random.randint(0, size)
    parts = [first, size - first]
    given = [x, g.ints(*parts)] if g.opset >= 13 else [x]
    made = g.node("Split", given, [*x.dims[:axis], first, *x.dims[axis + 1:]], outputs=2, exact=x.exact,
                  axis=axis, **({} if g.opset >= 13 else {"split": parts}))
    g.values.append(Value(made.others[0], [*x.dims[:axis], size - first, *x.dims[axis + 1:]], F32, x.exact))
    if g.chance(0.3):
        pair = [made, g.values[-1]]
        if g.chance(0.5):
            pair.reverse()
        g.node("Concat", pair, x.dims, exact=x.exact, axis=axis)


def cut(g, x):
    axis = axis_of(g, x)
    if axis is None:
        return
    step = g.pick(1, 1, 2, -1, -2, 3)
    if g.number(x, axis):
        size = x.dims[axis]
        start, end = g.random.randint(-size - 2, size + 2), g.random.randint(-size - 2, size + 2)
        if step > 0:
            count = len(range(size)[start:end:step])
        else:
            a, b = start + size if start < 0 else start, end + size if end < 0 else end
            a, b = min(max(a, 0), size - 1), min(max(b, -1), size - 1)
            count = max(0, -(-(a - b) // -step)) if size else 0
    else:
        start, end = (g.pick(0, 1, -1, -2), g.pick(LARGE, -1, 2, 0)) if step > 0 else (g.pick(LARGE, -1, 3), g.pick(-LARGE, 0))
        count = g.fresh()
    dims = [*x.dims[:axis], count, *x.dims[axis + 1:]]
    g.node("Slice", [x, g.ints(start), g.ints(end), g.ints(signed(g, axis, len(dims))), *([g.ints(step)] if step != 1 or g.chance(0.5) else [])],
           dims, exact=x.exact)


def pad(g, x):
    if not x.dims:
        return
    mode = g.pick("constant", "constant", "edge", "reflect", *(["wrap"] if g.opset >= 19 else []))
    begin, end, dims = [], [], []
    for dim in x.dims:
        known = isinstance(dim, int)
        most = 0 if mode != "constant" and not known else max(0, dim - 1) if mode == "reflect" else 2 if mode == "constant" or dim else 0
        a, b = (g.random.randint(0, min(2, most)) if g.chance(0.5) else 0 for _ in range(2))
        if known and dim > 2 and mode == "constant" and g.chance(0.2):
            a = -1
        begin.append(a)
        end.append(b)
        dims.append(dim + a + b if known else dim if a + b == 0 else g.fresh())
    value = [g.constant(F32(1.5))] if mode == "constant" and g.chance(0.5) else []
    g.node("Pad", [x, g.ints(*begin, *end), *value], dims, exact=x.exact, mode=mode)


def gather(g, x):
    axis = axis_of(g, x, number=True)
    if axis is None or x.dims[axis] == 0 or len(x.dims) > 4:
        return
    index = g.pick([], [0], [1], [2], [2, 2])
    indices = g.numbers.integers(-x.dims[axis], x.dims[axis], index).astype(g.pick(I64, I32))
    g.node("Gather", [x, g.constant(indices)], [*x.dims[:axis], *index, *x.dims[axis + 1:]], exact=x.exact, axis=signed(g, axis, len(x.dims)))


def gather_elements(g, x):
    if not x.dims or not all(isinstance(dim, int) for dim in x.dims):
        return
    axis = axis_of(g, x)
    dims = [*x.dims[:axis], g.pick(0, 1, 3), *x.dims[axis + 1:]]
    if x.dims[axis] == 0 and np.prod(dims) > 0:
        return
    indices = g.numbers.integers(-x.dims[axis], max(1, x.dims[axis]), dims).astype(I64)
    g.node("GatherElements", [x, g.constant(indices)], dims, exact=x.exact, axis=axis)


def gather_nd(g, x):
    if len(x.dims) < 1 or not g.number(x, 0) or x.dims[0] == 0:
        return
    count = g.pick(0, 1, 3)
    g.node("GatherND", [x, g.constant(g.numbers.integers(0, x.dims[0], [count, 1]).astype(I64))], [count, *x.dims[1:]], exact=x.exact)


def scatter(g, x):
    if not x.dims or not all(isinstance(dim, int) and dim > 0 for dim in x.dims):
        return
    axis = axis_of(g, x)
    if g.chance(0.5):
        count = g.pick(0, 1)
        g.node("ScatterND", [x, g.constant(np.zeros([count, 1], I64)), g.floats(count, *x.dims[1:])], x.dims, exact=x.exact)
    else:
        dims = [*x.dims[:axis], g.pick(0, 1), *x.dims[axis + 1:]]
        g.node("ScatterElements", [x, g.constant(np.zeros(dims, I64)), g.floats(*dims)], x.dims, exact=x.exact, axis=axis)


REDUCE = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp",
          "ReduceLogSum")


def reduce(g, x):
    op = g.pick(*REDUCE)
    rank = len(x.dims)
    axes = sorted(g.random.sample(range(rank), g.random.randint(0, rank)))
    keep, everything = g.pick(0, 1), not axes
    reduced = range(rank) if everything else axes
    if not g.fill(x):
        return
    if op == "ReduceLogSum" and not x.exact:
        return
    g.keeps_nan &= op not in ("ReduceMax", "ReduceMin")
    dims = [1 if i in reduced else dim for i, dim in enumerate(x.dims) if keep or i not in reduced]
    given = [signed(g, axis, rank) for axis in axes]
    if g.opset >= (13 if op == "ReduceSum" else 18):
        g.node(op, [x, *([g.ints(*given)] if axes else [])], dims, keepdims=keep)
    else:
        g.node(op, [x], dims, keepdims=keep, **({"axes": given} if axes else {}))


def arg(g, x):
    axis = axis_of(g, x, number=True)
    if axis is None or not x.exact or not g.fill(x):
        return
    g.keeps_nan = False
    keep = g.pick(0, 1)
    dims = [*x.dims[:axis], *([1] if keep else []), *x.dims[axis + 1:]]
    found = g.node(g.pick("ArgMax", "ArgMin"), [x], dims, dtype=I64, keep=False, axis=signed(g, axis, len(x.dims)), keepdims=keep,
                   **({"select_last_index": g.pick(0, 1)} if g.opset >= 12 else {}))
    g.node("Cast", [found], dims, to=TensorProto.FLOAT, exact=True)


def top_k(g, x):
    axis = axis_of(g, x, number=True)
    if axis is None or not x.exact:
        return
    g.keeps_nan = False
    k = g.random.randint(0, x.dims[axis])
    dims = [*x.dims[:axis], k, *x.dims[axis + 1:]]
    g.node("TopK", [x, g.ints(k)], dims, outputs=2, exact=True, axis=signed(g, axis, len(x.dims)), largest=g.pick(0, 1))


def scan(g, x):
    axis = axis_of(g, x)
    if axis is not None:
        g.node("CumSum", [x, g.constant(np.array(axis, g.pick(I32, I64)))], x.dims, exclusive=g.pick(0, 1), reverse=g.pick(0, 1))


def softmax(g, x):
    axis = axis_of(g, x)
    if axis is not None:
        g.finite = True  # ONNX Runtime has numbers beside an infinity
        g.node(g.pick("Softmax", "Softmax", "LogSoftmax"), [x], x.dims, axis=signed(g, axis, len(x.dims)) if g.opset >= 13 else axis)


def product(g, x):
    if not x.dims or not g.number(x, -1) or x.dims[-1] == 0:  # ONNX Runtime does not write every product of nothing
        return
    inner, columns = x.dims[-1], g.pick(1, 3, 8, 16, 0)
    kind = g.pick("matrix", "matrix", "vector", "batch", "self")
    if kind == "vector":
        g.node("MatMul", [x, g.floats(inner)], x.dims[:-1])
    elif kind == "self" and len(x.dims) >= 2:
        turned = [*range(len(x.dims) - 2), len(x.dims) - 1, len(x.dims) - 2]
        other = g.node("Transpose", [x], [x.dims[i] for i in turned], keep=False, perm=turned)
        g.node("MatMul", [x, other], [*x.dims[:-1], x.dims[-2]])
    elif kind == "batch" and len(x.dims) >= 3:
        g.node("MatMul", [x, g.floats(1, inner, columns)], [*x.dims[:-1], columns])
    else:
        made = g.node("MatMul", [x, g.floats(inner, columns)], [*x.dims[:-1], columns])
        if g.chance(0.5):
            bias = g.floats(*g.pick([columns], [1, columns], [1], []))
            g.node("Add", [made, bias] if g.chance(0.5) else [bias, made], made.dims)


def gemm(g, x):
    if len(x.dims) != 2:
        return
    trans_a, trans_b = g.pick(0, 1), g.pick(0, 1)
    rows, inner = x.dims[::-1] if trans_a else x.dims
    if isinstance(inner, str) or inner == 0:  # ONNX Runtime forgets beta beside an empty product
        return
    columns = g.pick(1, 3, 8)
    c = g.pick(None, [columns], [1, columns], [1], [], [1, 1])
    if isinstance(rows, int) and g.chance(0.3):
        c = g.pick([rows, columns], [rows, 1])
    given = [x, g.floats(columns, inner) if trans_b else g.floats(inner, columns), *([] if c is None else [g.floats(*c)])]
    if c is not None and g.chance(0.3):
        given[2] = g.add_input(c)
    g.node("Gemm", given, [rows, columns], transA=trans_a, transB=trans_b, alpha=g.pick(1.0, 0.5), beta=g.pick(1.0, 0.25))


def window(g, x, least=1):
    """Strides, dilations and pads for a kernel over x's spatial axes; None for what does not fit."""
    spatial = x.dims[2:]
    kernel = [g.pick(1, 1, 2, 3, 3) for _ in spatial]
    attributes = {"strides": [g.pick(1, 1, 2, 3) for _ in spatial]} if g.chance(0.5) else {}
    if g.chance(0.2):
        attributes["dilations"] = [g.pick(1, 2) for _ in spatial]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, attributes.get("dilations", [1] * len(kernel)))]
    style = g.pick("pads", "pads", "none", "SAME_UPPER", "SAME_LOWER", "VALID")
    if style == "pads":
        attributes["pads"] = [g.random.randint(0, k - 1) for k in kernel] + [g.random.randint(0, k - 1) for k in kernel]
    elif style != "none":
        attributes["auto_pad"] = style
    return kernel, reach, attributes


def image_like(x):
    return 3 <= len(x.dims) <= 5 and isinstance(x.dims[1], int) and x.dims[1] > 0


def after_conv(g, made, channels):
    """What follows a convolution, for the passes to take in."""
    ones = [1] * (len(made.dims) - 2)
    for _ in range(g.random.randint(0, 3)):
        kind = g.pick("add", "mul", "relu", "act", "norm", "clip", "residual", "silu", "whole")
        if kind in ("add", "mul"):
            made = g.node("Add" if kind == "add" else "Mul", [made, g.floats(*g.pick([1, channels], [channels]), *ones)], made.dims)
        elif kind == "relu":
            made = g.node("Relu", [made], made.dims)
        elif kind == "act":
            made = g.node(g.pick("Sigmoid", "LeakyRelu", "Tanh", "HardSigmoid"), [made], made.dims)
        elif kind == "norm":
            made = g.node("BatchNormalization", [made, *(g.floats(channels) for _ in range(3)), g.floats(channels, low=1)], made.dims)
        elif kind == "clip":
            made = g.node("Clip", [made, g.constant(F32(g.pick(0, -1, 0.5))), g.constant(F32(6))], made.dims)
        elif kind == "residual":
            other = g.node(g.pick("Tanh", "Neg"), [made], made.dims)
            made = g.node("Add", [made, other], made.dims)
        elif kind == "silu":
            gate = g.node("Sigmoid", [made], made.dims, keep=False)
            made = g.node("Mul", [made, gate], made.dims)


def conv(g, x):
    if not image_like(x):
        return
    channels = x.dims[1]
    group = g.pick(1, 1, 1, channels, *([2] if channels % 2 == 0 else []))
    outputs = channels * g.pick(1, 1, 2) if group == channels else group * g.pick(1, 2, 4, 8, 9)
    kernel, _, attributes = window(g, x)
    bias = g.pick("", g.floats(outputs), g.floats(outputs))
    if g.chance(0.1):
        bias = g.add_input([outputs])
    weights = g.floats(outputs, channels // group, *kernel, low=-4, high=4)
    if g.chance(0.05):
        weights = g.add_input([outputs, channels // group, *kernel])
    dims = [x.dims[0], outputs, *(g.fresh() for _ in kernel)]
    after_conv(g, g.node("Conv", [x, weights, bias], dims, group=group, **attributes), outputs)
    if g.chance(0.2):
        # The same weights meet other values: what is packed is shared.
        same = [value for value in g.values if image_like(value) and value.dims[1] == channels and len(value.dims) == len(x.dims)]
        other = g.pick(*same)
        g.node("Conv", [other, weights, bias], [other.dims[0], outputs, *(g.fresh() for _ in kernel)], group=group, **attributes)


def conv_transpose(g, x):
    if not image_like(x):
        return
    channels = x.dims[1]
    group = g.pick(1, 1, 1, *([2] if channels % 2 == 0 else []))
    each = g.pick(1, 2, 8, 9)
    spatial = x.dims[2:]
    kernel = [g.pick(1, 2, 3, 4) for _ in spatial]
    strides = [g.pick(1, 1, 2, 3) for _ in spatial]
    attributes = {"strides": strides}
    # ONNX Runtime's output is smaller than input times stride, which ONNX asks for, where windows have gaps between them.
    gaps = any(s > k for s, k in zip(strides, kernel))
    style = g.pick("pads", "none", "none", "extra", *([] if gaps else ["SAME_UPPER", "SAME_LOWER"]))
    if style == "pads":
        attributes["pads"] = [g.random.randint(0, k // 2) for k in kernel] * 2
    elif style == "extra":
        attributes["output_padding"] = [g.random.randint(0, s - 1) for s in strides]
    elif style != "none":
        attributes["auto_pad"] = style
    bias = g.pick("", g.floats(group * each), g.add_input([group * each]) if g.chance(0.2) else "")
    made = g.node("ConvTranspose", [x, g.floats(channels, each, *kernel, low=-4, high=4), bias],
                  [x.dims[0], group * each, *(g.fresh() for _ in spatial)], group=group, **attributes)
    after_conv(g, made, group * each)


def pool(g, x):
    if not image_like(x):
        return
    kernel, _, attributes = window(g, x)
    op = g.pick("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool")
    if str(attributes.get("auto_pad")).startswith("SAME"):
        # ONNX Runtime leaves dilations out of these pads, and makes them negative where windows have gaps between them.
        attributes.pop("dilations", None)
        if any(s > k for s, k in zip(attributes.get("strides", [1] * len(kernel)), kernel)):
            return
    dims = [*x.dims[:2], *(1 if op.startswith("Global") else g.fresh() for _ in kernel)]
    g.keeps_nan &= "Max" not in op
    g.finite |= "Max" in op  # the maximum of -infinity is the lowest number there
    if op.startswith("Global"):
        g.node(op, [x], dims)
        return
    if op != "MaxPool" and g.opset < 19 or op == "LpPool":
        attributes.pop("dilations", None)
    if op == "AveragePool":
        attributes["count_include_pad"] = g.pick(0, 1)
    if op != "LpPool":
        attributes["ceil_mode"] = g.pick(0, 0, 1)
    made = g.node(op, [x], dims, outputs=2 if op == "MaxPool" and g.chance(0.2) else 1, kernel_shape=kernel, **attributes)
    if made.others:
        g.node("Cast", [made.others[0]], dims, to=TensorProto.FLOAT)


def norm(g, x):
    if len(x.dims) < 2 or not g.number(x, 1) or x.dims[1] == 0:
        return
    channels = x.dims[1]
    op = g.pick("BatchNormalization", "InstanceNormalization", "LRN", "GroupNormalization")
    if op == "BatchNormalization":
        g.node(op, [x, *(g.floats(channels) for _ in range(3)), g.floats(channels, low=1)], x.dims)
    elif op == "InstanceNormalization" and len(x.dims) >= 3:
        g.node(op, [x, g.floats(channels), g.floats(channels)], x.dims, epsilon=0.1)
    elif op == "LRN" and len(x.dims) == 4:
        g.finite = True  # ONNX Runtime's running sum keeps an infinity that has left the window
        g.node(op, [x], x.dims, size=g.pick(1, 3))
    elif op == "GroupNormalization" and g.opset >= 18 and len(x.dims) >= 3 and channels % 2 == 0:
        each = channels if g.opset >= 21 else 2
        g.node(op, [x, g.floats(each), g.floats(each)], x.dims, num_groups=2, epsilon=0.1)


def resize(g, x):
    if len(x.dims) != 4 or 0 in x.dims:
        return
    mode = g.pick("nearest", "nearest", "linear", "cubic")
    attributes = {"mode": mode, "coordinate_transformation_mode": g.pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")}
    if mode == "nearest":
        attributes["nearest_mode"] = g.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    g.finite, g.keeps_nan = True, False  # ONNX Runtime multiplies an infinity by weights of 0
    scales = np.array([1, 1, g.pick(1, 2, 0.5, 1.5), g.pick(1, 2, 3, 0.75)], F32)
    empty = "" if g.opset >= 13 else g.constant(np.zeros([0], F32))
    g.node("Resize", [x, empty, g.constant(scales)], [*x.dims[:2], g.fresh(), g.fresh()], **attributes)


def blocks(g, x):
    if len(x.dims) == 4 and g.number(x, 1) and x.dims[1] % 4 == 0:
        g.node("DepthToSpace", [x], [x.dims[0], x.dims[1] // 4, g.fresh(), g.fresh()], exact=x.exact, blocksize=2, mode=g.pick("DCR", "CRD"))


def triangle(g, x):
    if len(x.dims) >= 2 and g.opset >= 14:
        g.node("Trilu", [x, *([g.constant(np.array(g.pick(-1, 0, 1, 5), I64))] if g.chance(0.5) else [])], x.dims, exact=x.exact, upper=g.pick(0, 1))


def shapes(g, x):
    """Values that are made of shapes."""
    kind = g.pick("size", "shape", "filled", "range", "nonzero")
    if kind == "size":
        g.node("Cast", [g.node("Size", [x], [], dtype=I64, keep=False)], [], to=TensorProto.FLOAT, exact=True)
    elif kind == "shape":
        g.node("Cast", [g.node("Shape", [x], [len(x.dims)], dtype=I64, keep=False)], [len(x.dims)], to=TensorProto.FLOAT, exact=True)
    elif kind == "filled":
        shape = g.node("Shape", [x], [len(x.dims)], dtype=I64, keep=False)
        made = g.node("ConstantOfShape", [shape], x.dims, exact=True, value=numpy_helper.from_array(np.array([1.5], F32)))
        if g.chance(0.5):
            g.node("Add", [made, x], x.dims)
    elif kind == "range" and x.dims:
        shape = g.node("Shape", [x], [len(x.dims)], dtype=I64, keep=False)
        last = g.node("Gather", [shape, g.constant(np.array(-1, I64))], [], dtype=I64, keep=False, axis=0)
        made = g.node("Range", [g.constant(np.array(0, I64)), last, g.constant(np.array(1, I64))], x.dims[-1:], dtype=I64, keep=False)
        made = g.node("Cast", [made], x.dims[-1:], to=TensorProto.FLOAT, exact=True)
        g.node("Add", [x, made], x.dims)
    elif kind == "nonzero" and x.exact and x.dims:  # ONNX Runtime takes a scalar for a list of one
        found = g.node("NonZero", [x], [max(1, len(x.dims)), g.fresh()], dtype=I64, keep=False)
        g.node("Cast", [found], found.dims, to=TensorProto.FLOAT, exact=True)


def recurrent(g, x):
    if len(x.dims) != 3 or not g.number(x, 2):
        return
    cell, gates_ = g.pick(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    g.finite, g.keeps_nan = True, False  # ONNX Runtime's gates make numbers of them
    hidden, direction = g.pick(1, 4), g.pick("forward", "reverse", "bidirectional")
    both = 2 if direction == "bidirectional" else 1
    given = [x, g.floats(both, gates_ * hidden, x.dims[2], low=-2, high=2), g.floats(both, gates_ * hidden, hidden, low=-2, high=2)]
    if g.chance(0.5):
        given.append(g.floats(both, 2 * gates_ * hidden, low=-2, high=2))
    g.node(cell, given, [x.dims[0], both, x.dims[1], hidden], hidden_size=hidden, direction=direction, outputs=g.pick(1, 2))


STEPS = (unary, unary, jump, newer, clip, binary, binary, binary, skip, outer, variadic, compare, casts, transpose, transpose, reshape,
         reshape_to_shape, flatten, squeeze, unsqueeze, expand, tile, concat, split, cut, cut, pad, gather, gather_elements, gather_nd, scatter,
         reduce, reduce, arg, top_k, scan, softmax, product, product, gemm, conv, conv, conv, conv_transpose, conv_transpose, pool, pool, norm,
         resize, blocks, triangle, shapes, recurrent, *random_patterns.STEPS, *random_bodies.STEPS)


@dataclasses.dataclass
class Case:
    name: str
    model: bytes
    feeds: list  # {input: array}
    steps: list  # operators, for reports
    keeps_nan: bool = True


def make(seed, steps=STEPS):
    g = Graph(seed)
    templates = [["N", g.pick(1, 3, 8, 16), "H", "W"], ["N", g.pick(1, 4, 8), "W"], ["N", "T", g.pick(1, 4, 8, 16)], ["N", g.pick(1, 3, 8)],
                 ["N"], [], [g.pick(0, 1, 2), g.pick(1, 3)], [1, 8, g.pick(0, 1, 3, 5), g.pick(1, 4, 7)], ["N", 8, g.pick(1, 2, 3), 4, "W"],
                 [2, 3, 4], [1, 1, 1, 4], ["N", 8, 5, "W"], ["N", g.pick(16, 24, 33), "H", "W"], ["N", g.pick(16, 40), "W"],
                 ["N", "T", g.pick(33, 64, 96)], ["N", g.pick(17, 70)]]
    x = g.add_input(g.pick(*templates))
    g.values.append(x)
    most = g.random.randint(1, 7)
    for _ in range(60):
        if len(g.nodes) >= most:
            break
        value = g.values[-1] if g.chance(0.75) else g.pick(*g.values)
        known = [dim for dim in value.dims if isinstance(dim, int)]
        if value.dtype == F32 and len(value.dims) <= 6 and np.prod(known or [1]) < 2000:
            random_bodies.old_step(g, value) if g.opset < 11 else g.pick(*steps)(g, value)
    declared = g.pick("symbols", "symbols", "numbers", "none", "rank")
    runs = 1 if declared == "numbers" else g.pick(1, 2, 3)
    feeds = []
    for _ in range(runs):
        sizes = {"N": g.pick(0, 1, 1, 2, 3), "H": g.pick(0, 1, 2, 5, 9), "W": g.pick(1, 1, 4, 8, 17), "T": g.pick(0, 1, 3, 6)}
        if g.filled or g.chance(0.7):
            sizes = {key: size or g.pick(1, 2, 5) for key, size in sizes.items()}
        if g.chance(0.15):
            sizes.update(H=g.pick(14, 31), W=g.pick(33, 70), T=g.pick(9, 40))
        feed = {}
        for value in g.inputs:
            array = g.array([sizes.get(dim, dim) for dim in value.dims], value.dtype, *((1, 4) if value.dtype == I64 else ()))
            # Weights of a convolution meet padding, which a NaN there turns into NaN in ONNX Runtime.
            if value is x and array.size and not g.finite and g.chance(0.1):
                place = tuple(g.random.randrange(size) for size in array.shape)
                array[place] = g.pick(np.inf, -np.inf, *([np.nan] if g.keeps_nan else []))
            feed[value.name] = array
        feeds.append(feed)

    def info(value):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
        if declared == "rank":
            return helper.make_tensor_value_info(value.name, kind, None)
        if declared == "numbers":
            return helper.make_tensor_value_info(value.name, kind, list(feeds[0][value.name].shape))
        return helper.make_tensor_value_info(value.name, kind, [None if isinstance(dim, str) and declared == "none" else dim for dim in value.dims])
    made = [value for value in g.values if value is not x]
    if not made:
        return None
    results = {value.name: value for value in (made[-1], g.pick(*made))}
    outputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype)), None) for name, value in results.items()]
    graph = helper.make_graph(g.nodes, "graph", [info(value) for value in g.inputs], outputs,
                              [numpy_helper.from_array(array, name) for name, array in g.held.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", g.opset)], ir_version=8)
    random_bodies.dress(g, model, feeds)
    dtype = g.pick(*[F32] * 7, F64, F16)
    if dtype != F32:
        random_bodies.retype(model, dtype)
        feeds = [{name: array.astype(dtype) if array.dtype == F32 else array for name, array in feed.items()} for feed in feeds]
    return Case(f"seed_{seed}", model.SerializeToString(), feeds, [node.op_type for node in g.nodes], g.keeps_nan)

"""Steps of random_edges.py: what passes rewrite, other element types, sizes that depend on data, and old opsets."""
import numpy as np
from onnx import TensorProto, helper

F32, F16, F64, I32, I64, U8, I8, U16, I16, U32, U64, BOOL = (np.float32, np.float16, np.float64, np.int32, np.int64, np.uint8, np.int8, np.uint16,
                                                             np.int16, np.uint32, np.uint64, np.bool_)


def number_of(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def layer_norm(g, x):
    axis = g.pick(*range(len(x.dims))) if x.dims else None
    if axis is None or not all(g.number(x, i) for i in range(axis, len(x.dims))) or 0 in x.dims[axis:]:
        return
    row = x.dims[axis:]
    if g.opset >= 17 and g.chance(0.5):
        scale = g.pick(row, [1 if g.chance(0.5) else dim for dim in row], row[-1:], [1])
        bias = g.pick([], [g.floats(*row)], [g.floats(row[-1])])
        made = g.node("LayerNormalization", [x, g.floats(*scale), *bias], x.dims, axis=axis - g.pick(0, len(x.dims)), epsilon=0.1)
    elif g.opset < 18:
        mean = g.node("ReduceMean", [x], [*x.dims[:-1], 1], keep=False, axes=[-1])
        d = g.node("Sub", [x, mean], x.dims, keep=g.chance(0.1))
        square = g.node("Mul", [d, d], x.dims, keep=False) if g.chance(0.4) else \
            g.node("Pow", [d, g.constant(np.full(g.pick([], [1], [1, 1]), 2, F32))], x.dims, keep=False)
        variance = g.node("ReduceMean", [square], [*x.dims[:-1], 1], keep=False, axes=[-1])
        root = g.node("Sqrt", [g.node("Add", [variance, g.constant(F32(0.1))], variance.dims, keep=False)], variance.dims, keep=False)
        made = g.node("Div", [d, root], x.dims)
        made = g.node("Mul", [made, g.floats(x.dims[-1])], x.dims)
        if g.chance(0.7):
            made = g.node("Add", [made, g.floats(*g.pick([x.dims[-1]], [1, x.dims[-1]]))], [*[1] * (2 - len(x.dims)), *x.dims])
    else:
        return
    # Ranks that an exponent or a bias of higher rank raised are not tracked.
    if len(x.dims) < 2:
        made.dims = [g.fresh()] * 9


def attention(g, x):
    if len(x.dims) != 3 or not g.number(x, 2) or x.dims[2] % 2 or x.dims[2] == 0:
        return
    width = x.dims[2]
    heads, each = 2, width // 2
    project = g.chance(0.6)
    parts = []
    for turn in ([0, 2, 1, 3], g.pick([0, 2, 1, 3], [0, 2, 3, 1]), [0, 2, 1, 3]):
        part = g.node("MatMul", [x, g.floats(width, width, low=-2, high=2)], x.dims, keep=False) if project else x
        if project and g.chance(0.5):
            part = g.node("Add", [part, g.floats(width)], x.dims, keep=False)
        part = g.node("Reshape", [part, g.ints(0, 0, heads, each)], [*x.dims[:2], heads, each], keep=False)
        parts.append((g.node("Transpose", [part], [], keep=False, perm=turn), turn))
    (q, _), (k, turned), (v, _) = parts
    if turned == [0, 2, 1, 3]:
        k = g.node("Transpose", [k], [], keep=False, perm=[0, 1, 3, 2])
    scores = g.node("MatMul", [q, k], [], keep=False)
    if g.chance(0.6):
        scores = g.node(g.pick("Mul", "Div"), [scores, g.constant(F32(2))], [], keep=False)
    if g.chance(0.4):
        scores = g.node("Add", [scores, g.floats(1, g.pick(1, heads), 1, 1)], [], keep=False)
    weights = g.node("Softmax", [scores], [], keep=False, **({"axis": -1} if g.chance(0.8) or g.opset < 13 else {}))
    mixed = g.node("MatMul", [weights, v], [], keep=False)
    back = g.node("Transpose", [mixed], [*x.dims[:2], heads, each], keep=False, perm=[0, 2, 1, 3])
    made = g.node("Reshape", [back, g.ints(0, 0, width)], x.dims)
    if g.chance(0.5):
        g.node("Add", [made, x], x.dims)


def gates(g, x):
    """GELU, HardSwish and SiLU written out."""
    kind = g.pick("gelu", "tanh", "swish", "silu")
    if kind == "gelu":
        inner = g.node("Div", [x, g.constant(F32(2 ** 0.5))], x.dims, keep=False)
        outer_ = g.node("Add", [g.node("Erf", [inner], x.dims, keep=False), g.constant(F32(1))], x.dims, keep=False)
        g.node("Mul", [g.node("Mul", [x, outer_], x.dims, keep=False), g.constant(F32(0.5))], x.dims)
    elif kind == "tanh":
        cube = g.node("Pow", [x, g.constant(F32(3))], x.dims, keep=False)
        inner = g.node("Add", [x, g.node("Mul", [cube, g.constant(F32(0.044715))], x.dims, keep=False)], x.dims, keep=False)
        inner = g.node("Tanh", [g.node("Mul", [inner, g.constant(F32(0.7978845608))], x.dims, keep=False)], x.dims, keep=False)
        outer_ = g.node("Add", [inner, g.constant(F32(1))], x.dims, keep=False)
        g.node("Mul", [g.node("Mul", [x, g.constant(F32(0.5))], x.dims, keep=False), outer_], x.dims)
    elif kind == "swish":
        inner = g.node("Clip", [g.node("Add", [x, g.constant(F32(3))], x.dims, keep=False), g.constant(F32(0)), g.constant(F32(6))], x.dims, keep=False)
        g.node("Div", [g.node("Mul", [x, inner], x.dims, keep=False), g.constant(F32(6))], x.dims)
    else:
        g.node("Mul", [x, g.node("Sigmoid", [x], x.dims, keep=False)], x.dims)


def shortcuts(g, x):
    """x + x * s, (x + c) + d, x * s behind a product: what passes join."""
    kind = g.pick("scale", "adds", "factor", "same")
    if kind == "scale":
        scaled = g.node("Mul", [x, g.floats(*g.like(x))], x.dims, keep=g.chance(0.2))
        g.node("Add", [scaled, x] if g.chance(0.5) else [x, scaled], x.dims)
    elif kind == "adds":
        first = g.node("Add", [x, g.floats(*g.like(x))], x.dims, keep=g.chance(0.2))
        g.node("Add", [first, g.floats(*g.like(x))], x.dims)
    elif kind == "factor" and x.dims and isinstance(x.dims[-1], int) and x.dims[-1] > 0:
        made = g.node("MatMul", [x, g.floats(x.dims[-1], 3)], [*x.dims[:-1], 3], keep=False)
        made = g.node(g.pick("Mul", "Div"), [made, g.constant(np.float32(g.pick(0.5, 4)))], made.dims, keep=g.chance(0.3))
        g.node("Add", [made, g.floats(3)], made.dims)
    elif kind == "same":
        # Equal nodes, and constants that are equal: one of each is left.
        first = [g.node("Tanh", [x], x.dims, keep=False) for _ in range(2)]
        second = [g.node("Add", [value, g.constant(np.full([1], 0.5, F32))], x.dims, keep=False) for value in first]
        g.node("Sub", second, x.dims)


def views(g, x):
    """Reshape, Transpose, Squeeze and Unsqueeze in a row, which fold into fewer."""
    if len(x.dims) < 2 or len(x.dims) > 5 or g.opset < 13:
        return
    value, dims = x, list(x.dims)
    for _ in range(g.random.randint(2, 4)):
        kind = g.pick("turn", "turn", "add", "drop", "reshape", "keep")
        rank = len(dims)
        if kind == "turn" and rank > 0:
            perm = g.random.sample(range(rank), rank)
            dims = [dims[i] for i in perm]
            value = g.node("Transpose", [value], dims, keep=False, exact=x.exact, perm=perm)
        elif kind == "add" and rank < 6:
            axis = g.random.randint(0, rank)
            dims = [*dims[:axis], 1, *dims[axis:]]
            value = g.node("Unsqueeze", [value, g.ints(axis)], dims, keep=False, exact=x.exact)
        elif kind == "drop" and 1 in dims:
            axis = dims.index(1)
            dims = [*dims[:axis], *dims[axis + 1:]]
            value = g.node("Squeeze", [value, g.ints(axis)], dims, keep=False, exact=x.exact)
        elif kind == "reshape" and rank >= 2 and all(isinstance(dim, int) and dim for dim in dims[-2:]):
            dims = [*dims[:-2], dims[-2] * dims[-1]]
            value = g.node("Reshape", [value, g.ints(*[0] * (len(dims) - 1), dims[-1])], dims, keep=False, exact=x.exact)
        elif kind == "keep":
            g.values.append(value)
    if value is not x:
        g.node("Identity", [value], dims, exact=x.exact)


def squeezed(g, x):
    """op(Squeeze(x)), with x of a global pool or a reduction."""
    if not 3 <= len(x.dims) <= 5 or g.opset < 13 or not g.fill(x):
        return
    pooled = g.node("GlobalAveragePool", [x], [*x.dims[:2], *[1] * (len(x.dims) - 2)], keep=g.chance(0.2))
    flat = g.node("Squeeze", [pooled, g.ints(*range(2, len(x.dims)))], x.dims[:2], keep=g.chance(0.2))
    flat = g.node(g.pick("Relu", "Sigmoid"), [flat], flat.dims) if g.chance(0.7) else flat
    if isinstance(x.dims[1], int) and x.dims[1] > 0:
        g.node("Gemm", [flat, g.floats(x.dims[1], 4), g.floats(4)], [x.dims[0], 4])


def spatial_mean(g, x):
    if not 3 <= len(x.dims) <= 5 or not g.fill(x) or g.opset >= 18:
        return
    keep = g.pick(0, 1)
    dims = [*x.dims[:2], *([1] * (len(x.dims) - 2) if keep else [])]
    made = g.node("ReduceMean", [x], dims, axes=[*range(2, len(x.dims))], keepdims=keep)
    if keep:
        g.node("Mul", [x, g.node("Sigmoid", [made], dims, keep=False)], x.dims)


def moments(g, x):
    """Mean and mean of squares, as PyTorch writes a channel's normalisation."""
    if len(x.dims) != 4 or not isinstance(x.dims[1], int) or not x.dims[1] or g.opset >= 18:
        return
    axis, ones = 1, [x.dims[0], 1, *x.dims[2:]]
    mean = g.node("ReduceMean", [x], ones, keep=False, axes=[axis])
    centred = g.node("Sub", [x, mean], x.dims, keep=False)
    squares = g.node("ReduceMean", [g.node("Mul", [x, x], x.dims, keep=False)], ones, keep=False, axes=[axis])
    variance = g.node("Sub", [squares, g.node("Mul", [mean, mean], ones, keep=False)], ones, keep=False)
    variance = g.node("Max", [variance, g.constant(np.float32(0))], ones, keep=False) if g.chance(0.5) else variance
    root = g.node("Sqrt", [g.node("Add", [variance, g.constant(np.float32(4))], ones, keep=False)], ones, keep=False)
    made = g.node("Div", [centred, root], x.dims)
    made = g.node("Mul", [made, g.floats(x.dims[1], 1, 1)], x.dims)
    g.node("Add", [made, g.floats(x.dims[1], 1, 1)], x.dims)


def lookup(g, x):
    """MatMul(Cast(Equal(indices, 0..n)), table)."""
    if not x.exact or not 1 <= len(x.dims) <= 3 or g.opset < 13:
        return
    rows, columns = g.pick(1, 4, 9), g.pick(1, 3, 8)
    whole = g.node("Cast", [x], x.dims, dtype=I64, keep=False, to=TensorProto.INT64)
    wide = g.node("Unsqueeze", [whole, g.ints(-1)], [*x.dims, 1], dtype=I64, keep=False)
    hot = g.node("Equal", [wide, g.constant(np.arange(rows, dtype=I64))], [*x.dims, rows], dtype=BOOL, keep=False)
    hot = g.node("Cast", [hot], [*x.dims, rows], keep=False, to=TensorProto.FLOAT)
    g.node("MatMul", [hot, g.floats(rows, columns)], [*x.dims, columns], exact=True)


def residuals(g, x):
    """LayerNormalization(x + y), whose sum is read elsewhere, too; products with residuals."""
    if len(x.dims) < 2 or not isinstance(x.dims[-1], int) or x.dims[-1] == 0 or g.opset < 17:
        return
    width = x.dims[-1]
    made = g.node("MatMul", [x, g.floats(width, width, low=-2, high=2)], x.dims, keep=False)
    if g.chance(0.5):
        made = g.node("Add", [made, g.floats(width)], x.dims, keep=g.chance(0.2))
    if g.chance(0.3):
        made = g.node(g.pick("Relu", "Sigmoid"), [made], x.dims, keep=False)
    total = g.node("Add", [made, x] if g.chance(0.5) else [x, made], x.dims)
    if g.chance(0.3):
        total = g.node("Relu", [total], x.dims)
    normal = g.node("LayerNormalization", [total, g.floats(width), *([g.floats(width)] if g.chance(0.6) else [])], x.dims, axis=-1, epsilon=0.1)
    if g.chance(0.5):
        g.node("Add", [normal, total], x.dims)


def typed(g, x):
    """A few operators on another type, and back."""
    if not x.exact or g.opset < 13:
        return
    g.finite, g.keeps_nan = True, False  # casts of them are undefined
    dtype = g.pick(I32, I64, I64, F64, U8, I8, BOOL, U32, I16, F16, U16, U64)
    value = g.node("Cast", [g.node("Abs", [x], x.dims, keep=False) if np.dtype(dtype).kind == "u" else x], x.dims, dtype=dtype, keep=False,
                   to=number_of(dtype))
    dims, rank = list(x.dims), len(x.dims)

    def held(shape, low=-5, high=5):
        return g.constant(g.array(shape, dtype, low, high))

    for _ in range(g.random.randint(1, 3)):
        kinds = ["move", "slice", "concat", "where", "expand", "gather", "pad"]
        if dtype == BOOL:
            kinds += ["logic"] * 3
        else:
            kinds += ["arithmetic"] * 4 + ["extreme", "sign", "clip", "compare", "reduce", "product", "scan", "mod"]
        if np.dtype(dtype).kind in "iu":
            kinds += ["bits", "shift"]
        kind = g.pick(*kinds)
        if kind == "move" and rank:
            dims = dims[::-1]
            value = g.node("Transpose", [value], dims, dtype=dtype, keep=False)
        elif kind == "slice" and rank:
            value = g.node("Slice", [value, g.ints(g.pick(0, 1, -2)), g.ints(g.pick(1, 2, 1 << 40)), g.ints(rank - 1)], dims, dtype=dtype, keep=False)
            dims = [*dims[:-1], g.fresh()]
        elif kind == "concat" and rank:
            value = g.node("Concat", [value, value], dims, dtype=dtype, keep=False, axis=-1)
            dims = [*dims[:-1], g.fresh()]
        elif kind == "where":
            mask = g.constant(g.array([1] * rank, BOOL))
            value = g.node("Where", [mask, value, held([])], dims, dtype=dtype, keep=False)
        elif kind == "expand":
            value = g.node("Expand", [value, g.ints(2, *[1] * rank)], dims, dtype=dtype, keep=False) if rank < 4 else value
            dims = [2, *dims] if rank < 4 else dims
            rank = len(dims)
        elif kind == "gather" and rank and isinstance(dims[0], int) and dims[0] > 0:
            value = g.node("Gather", [value, g.ints(0, -1)], dims, dtype=dtype, keep=False, axis=0)
            dims = [2, *dims[1:]]
        elif kind == "pad" and rank:
            value = g.node("Pad", [value, g.ints(*[1] * rank, *[0] * rank)], dims, dtype=dtype, keep=False)
            dims = [dim + 1 if isinstance(dim, int) else g.fresh() for dim in dims]
        elif kind == "logic":
            value = g.node("Not", [value], dims, dtype=dtype, keep=False) if g.chance(0.3) else \
                g.node(g.pick("And", "Or", "Xor", "Equal"), [value, held([])], dims, dtype=dtype, keep=False)
        elif kind == "arithmetic":
            op = g.pick("Add", "Sub", "Mul", "Div", "Pow")
            if op == "Div":
                value = g.node(op, [value, g.constant(np.asarray(g.pick(1, 2, 3), dtype))], dims, dtype=dtype, keep=False)
            elif op == "Pow":
                value = g.node(op, [value, g.constant(np.asarray(g.pick(0, 1, 2), dtype))], dims, dtype=dtype, keep=False)
            else:
                value = g.node(op, [value, held([1] * g.random.randint(0, rank))], dims, dtype=dtype, keep=False)
        elif kind == "extreme":
            value = g.node(g.pick("Max", "Min"), [value, held([])], dims, dtype=dtype, keep=False)
        elif kind == "sign":
            value = g.node(g.pick("Abs", "Neg", "Sign"), [value], dims, dtype=dtype, keep=False)
        elif kind == "clip":
            value = g.node("Clip", [value, g.constant(np.asarray(1, dtype)), g.constant(np.asarray(3, dtype))], dims, dtype=dtype, keep=False)
        elif kind == "compare":
            value = g.node(g.pick("Less", "Greater", "Equal", "GreaterOrEqual", "LessOrEqual"), [value, held([])], dims, dtype=BOOL, keep=False)
            dtype = BOOL
        elif kind == "reduce" and rank and g.opset >= 18 and all(isinstance(dim, int) and dim > 0 for dim in dims):
            g.keeps_nan = False
            value = g.node(g.pick("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare", "ReduceMean"),
                           [value, g.ints(rank - 1)], dims, dtype=dtype, keep=False)
            dims = [*dims[:-1], 1]
        elif kind == "product" and rank >= 2 and isinstance(dims[-1], int) and dims[-1] > 0:
            value = g.node("MatMul", [value, held([dims[-1], 2])], dims, dtype=dtype, keep=False)
            dims = [*dims[:-1], 2]
        elif kind == "scan" and rank:
            value = g.node("CumSum", [value, g.constant(np.array(0, I64))], dims, dtype=dtype, keep=False)
        elif kind == "mod":
            fmod = 1 if np.dtype(dtype).kind == "f" else g.pick(0, 1)
            value = g.node("Mod", [value, g.constant(np.asarray(g.pick(1, 3), dtype))], dims, dtype=dtype, keep=False, fmod=fmod)
        elif kind == "bits" and g.opset >= 18:
            value = g.node(g.pick("BitwiseAnd", "BitwiseOr", "BitwiseXor"), [value, held([])], dims, dtype=dtype, keep=False)
        elif kind == "shift" and np.dtype(dtype).kind == "u":
            value = g.node("BitShift", [value, g.constant(np.asarray(g.pick(0, 1, 3), dtype))], dims, dtype=dtype, keep=False,
                           direction=g.pick("LEFT", "RIGHT"))
    g.node("Cast", [value], dims, to=TensorProto.FLOAT)


def by_data(g, x):
    """Sizes that the data decide, and what goes on with them."""
    if not x.exact or not x.dims or g.opset < 13:
        return
    kind = g.pick("gather", "compress", "hot", "reverse", "top", "range")
    if kind == "gather":
        found = g.node("NonZero", [g.node("Relu", [x], x.dims, keep=False)], [len(x.dims), g.fresh()], dtype=I64, keep=False)
        turned = g.node("Transpose", [found], found.dims[::-1], dtype=I64, keep=False, perm=[1, 0])
        g.node("GatherND", [x, turned], [found.dims[1]], exact=True)
    elif kind == "compress":
        axis = g.random.randrange(len(x.dims))
        flags = g.node("Greater", [g.floats(g.pick(1, 2, 3)), g.constant(np.float32(0))], [3], dtype=BOOL, keep=False)
        if isinstance(x.dims[axis], int) and x.dims[axis] >= 3:
            g.node("Compress", [x, flags], [*x.dims[:axis], g.fresh(), *x.dims[axis + 1:]], exact=True, axis=axis)
    elif kind == "hot":
        axis = g.pick(-1, 0)
        whole = g.node("Cast", [x], x.dims, dtype=I64, keep=False, to=TensorProto.INT64)
        dims = [*x.dims, 4] if axis == -1 else [4, *x.dims]
        g.node("OneHot", [whole, g.constant(np.array(4, I64)), g.constant(np.array([-1, 2], F32))], dims, exact=True, axis=axis)
    elif kind == "reverse" and len(x.dims) >= 2 and isinstance(x.dims[1], int) and isinstance(x.dims[0], int) and x.dims[0] > 0:
        lengths = g.constant(g.numbers.integers(1, x.dims[0] + 1, [x.dims[1]]).astype(I64))
        g.node("ReverseSequence", [x, lengths], x.dims, exact=True, batch_axis=1, time_axis=0)
    elif kind == "top":
        g.keeps_nan = False
        size = g.node("Shape", [x], [len(x.dims)], dtype=I64, keep=False)
        last = g.node("Gather", [size, g.ints(-1)], [1], dtype=I64, keep=False, axis=0)
        k = g.node("Min", [last, g.ints(2)], [1], dtype=I64, keep=False)
        g.node("TopK", [x, k], [*x.dims[:-1], g.fresh()], outputs=2, exact=True)
    elif kind == "range":
        size = g.node("Size", [x], [], dtype=I64, keep=False)
        made = g.node("Range", [g.constant(np.array(0, I64)), size, g.constant(np.array(2, I64))], [g.fresh()], dtype=I64, keep=False)
        g.node("Cast", [made], made.dims, to=TensorProto.FLOAT, exact=True)


def rare(g, x):
    kind = g.pick("hardmax", "lp", "shrink", "space", "eye", "nan", "dropout", "sizes", "upsample")
    if kind == "hardmax" and x.exact and x.dims and g.opset >= 13 and x.dims[-1] != 0:
        g.keeps_nan = False
        g.node("Hardmax", [x], x.dims, exact=True, axis=-1)
    elif kind == "lp" and x.dims:
        g.node("LpNormalization", [x], x.dims, axis=g.random.randrange(len(x.dims)), p=g.pick(1, 2))
        g.finite, g.keeps_nan = True, False
    elif kind == "shrink" and x.exact:
        g.node("Shrink", [x], x.dims, exact=True, lambd=g.pick(0.5, 1.25), bias=g.pick(0.0, 0.25))
    elif kind == "space" and len(x.dims) == 4 and all(isinstance(dim, int) and dim % 2 == 0 and dim for dim in x.dims[2:]):
        g.node("SpaceToDepth", [x], [x.dims[0], g.fresh(), x.dims[2] // 2, x.dims[3] // 2], exact=x.exact, blocksize=2)
    elif kind == "eye" and len(x.dims) == 2:
        g.node("Add", [x, g.node("EyeLike", [x], x.dims, keep=False, k=g.pick(-1, 0, 2))], x.dims, exact=x.exact)
    elif kind == "nan" and g.opset >= 13:
        found = g.node(g.pick("IsNaN", "IsInf"), [x], x.dims, dtype=BOOL, keep=False)
        g.node("Where", [found, g.constant(np.float32(1)), x], x.dims, exact=x.exact)
    elif kind == "dropout" and g.opset >= 13:
        g.node("Dropout", [x, *([g.constant(np.float32(0.5))] if g.chance(0.5) else [])], x.dims, exact=x.exact, outputs=1)
    elif kind == "sizes" and len(x.dims) == 4 and 0 not in x.dims and g.opset >= 13:
        g.finite, g.keeps_nan = True, False
        shape = g.node("Shape", [x], [4], dtype=I64, keep=False)
        first = g.node("Slice", [shape, g.ints(0), g.ints(2), g.ints(0)], [2], dtype=I64, keep=False)
        sizes = g.node("Concat", [first, g.ints(g.pick(1, 3, 6), g.pick(2, 5))], [4], dtype=I64, keep=False, axis=0)
        g.node("Resize", [x, "", "", sizes], [*x.dims[:2], g.fresh(), g.fresh()], mode=g.pick("nearest", "linear", "cubic"),
               coordinate_transformation_mode=g.pick("half_pixel", "asymmetric", "align_corners"))


def convolved(g, x):
    """Layers around convolutions: what passes fuse there, and what stays in blocks of channels."""
    if len(x.dims) != 4 or not all(isinstance(dim, int) and dim > 0 for dim in x.dims) or g.opset < 13:
        return
    g.finite, g.keeps_nan = True, False
    images = x.dims[0]

    def conv(value, outputs, kernel, stride=1, pad=0, **more):
        sizes = [(size + 2 * pad - kernel) // stride + 1 for size in value.dims[2:]]
        return g.node("Conv", [value, g.floats(outputs, value.dims[1], kernel, kernel, low=-2, high=2), g.pick("", g.floats(outputs))],
                      [images, outputs, *sizes], keep=g.chance(0.1), strides=[stride] * 2, pads=[pad] * 4, **more)

    y = conv(x, g.pick(8, 12, 16), 3, pad=1)
    for _ in range(g.random.randint(1, 5)):
        kind = g.pick("pad", "pad", "window", "pool", "groups", "instance", "function", "mish", "slope", "sum", "slice", "head", "head", "up")
        channels, *sizes = y.dims[1:]
        small = min(sizes)
        if kind == "pad":
            mode = g.pick("constant", "constant", "reflect", "edge")
            around = [g.random.randint(0, min(2, small - 1)) for _ in range(4)]
            number = [g.constant(F32(g.pick(0, 0, 1.5)))] if mode == "constant" and g.chance(0.5) else []
            y = g.node("Pad", [y, g.ints(0, 0, *around[:2], 0, 0, *around[2:]), *number],
                       [images, channels, *(size + a + b for size, a, b in zip(sizes, around, around[2:]))], keep=g.chance(0.1), mode=mode)
        elif kind == "window":
            y = conv(y, g.pick(8, 16), 3 if small >= 3 else 1, stride=g.pick(1, 2), pad=g.pick(0, 1))
        elif kind == "pool" and small >= 2:
            y = g.node("Relu", [y], y.dims, keep=False) if g.chance(0.5) else y
            y = g.node(g.pick("MaxPool", "AveragePool"), [y], [images, channels, *(size - 1 for size in sizes)], keep=False, kernel_shape=[2, 2])
        elif kind == "groups":
            flat = g.node("Reshape", [y, g.ints(0, 4, -1)], [images, 4, channels // 4 * sizes[0] * sizes[1]], keep=False)
            flat = g.node("InstanceNormalization", [flat, g.floats(4), g.floats(4)], flat.dims, keep=False, epsilon=0.1)
            y = g.node("Reshape", [flat, g.ints(images, channels, *sizes)], y.dims, keep=g.chance(0.1))
            y = g.node("Mul", [y, g.floats(channels, 1, 1)], y.dims, keep=False)
            y = g.node("Add", [y, g.floats(1, channels, 1, 1)], y.dims, keep=False)
        elif kind == "instance":
            y = g.node("InstanceNormalization", [y, g.floats(channels), g.floats(channels)], y.dims, keep=False, epsilon=0.1)
        elif kind == "function":
            y = g.node(g.pick("Elu", "Softplus", "Abs", "Softsign", "Selu"), [y], y.dims, keep=g.chance(0.1))
        elif kind == "mish":
            gate = g.node("Tanh", [g.node("Softplus", [y], y.dims, keep=False)], y.dims, keep=False) if g.chance(0.5) else \
                g.node("Sigmoid", [g.node("Mul", [y, g.constant(F32(1.5))], y.dims, keep=False)], y.dims, keep=False)
            y = g.node("Mul", [y, gate], y.dims, keep=False)
        elif kind == "slope":
            y = g.node("PRelu", [y, g.floats(*g.pick([channels, 1, 1], [1]))], y.dims, keep=False)
        elif kind == "sum":
            y = g.node(g.pick("Sum", "Sum", "Max"), [y, conv(y, channels, 1), *([y] if g.chance(0.5) else [])], y.dims, keep=g.chance(0.1))
        elif kind == "slice" and small >= 2:
            y = g.node("Slice", [y, g.ints(1), g.ints(1 << 40), g.ints(g.pick(2, 3))], [images, channels, g.fresh(), g.fresh()], keep=True)
            return
        elif kind == "head":
            conv(y, g.random.randint(1, 4), 3 if small >= 3 and g.chance(0.5) else 1, pad=g.pick(0, 1))
        elif kind == "up":
            kernel, stride = g.pick((2, 2), (3, 2), (4, 2), (5, 3), (3, 1))
            outputs = g.random.randint(1, 4)
            g.node("ConvTranspose", [y, g.floats(channels, outputs, kernel, kernel, low=-2, high=2)],
                   [images, outputs, *((size - 1) * stride + kernel for size in sizes)], strides=[stride] * 2)
    g.node("Neg", [y], y.dims)


def between_transposes(g, x):
    """Operators on dimensions in another order, as models with channels last have them, and ways back."""
    rank = len(x.dims)
    if not 3 <= rank <= 5 or g.opset < 13:
        return
    perm = g.pick([0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)], g.random.sample(range(rank), rank))
    inverse = [perm.index(axis) for axis in range(rank)]
    g.finite, g.keeps_nan = True, False

    def turned(value, order):
        return g.node("Transpose", [value], [value.dims[axis] for axis in order], keep=g.chance(0.05), exact=value.exact, perm=order)

    def reduced(value, axes, keep):
        op = g.pick("ReduceMean", "ReduceMax", "ReduceMin")
        dims = [1 if axis in axes else dim for axis, dim in enumerate(value.dims) if keep or axis not in axes]
        given = [axis - g.pick(0, rank) for axis in axes]
        return g.node(op, [value, g.ints(*given)], dims, keep=False, keepdims=keep) if g.opset >= 18 else \
            g.node(op, [value], dims, keep=False, axes=given, keepdims=keep)

    y = turned(x, perm)
    same = [y]  # values of y's sizes
    for _ in range(g.random.randint(1, 6)):
        axis = g.random.randrange(rank)
        known = isinstance(y.dims[axis], int) and y.dims[axis] > 0
        kind = g.pick("function", "function", "number", "channels", "both", "other", "gate", "mean", "best", "join", "part", "soft", "pad", "slice", "tile", "clip",
                      "back", "back", "again", "where")
        before = y
        if kind == "function":
            y = g.node(g.pick("Relu", "Sigmoid", "Neg", "Abs", "Tanh"), [y], y.dims, keep=g.chance(0.05))
        elif kind == "number":
            y = g.node(g.pick("Mul", "Add", "Sub"), [y, g.floats(*g.pick([], [1], [1] * rank))], y.dims, keep=False)
        elif kind == "channels":
            y = g.node(g.pick("Mul", "Add"), [y, g.floats(*g.like(y))], y.dims, keep=False)
        elif kind == "both":
            y = g.node(g.pick("Add", "Sub", "Mul", "Max"), [y, g.pick(*same)], y.dims, keep=False)
        elif kind == "other":
            y = g.node("Add", [turned(g.node("Neg", [x], x.dims, keep=False), perm), y] if y.dims == same[0].dims else [y, y], y.dims, keep=False)
        elif kind == "gate" and g.fill(y):
            axes = sorted(g.random.sample(range(rank), g.random.randint(1, rank - 1)))
            y = g.node("Mul", [y, g.node("Sigmoid", [reduced(y, axes, 1)], [], keep=False)], y.dims, keep=False)
        elif kind == "mean" and g.fill(y):
            g.values.append(reduced(y, sorted(g.random.sample(range(rank), g.random.randint(1, rank - 1))), 0))
        elif kind == "best" and g.fill(y) and y.exact:
            dims = [dim for at, dim in enumerate(y.dims) if at != axis]
            g.node("Cast", [g.node("ArgMax", [y], dims, dtype=I64, keep=False, axis=axis, keepdims=0)], dims, to=TensorProto.FLOAT)
        elif kind == "join" and known:
            y = g.node("Concat", [y, g.pick(*same), *([y] if g.chance(0.2) else [])], [g.fresh() if at == axis else dim for at, dim in enumerate(y.dims)], keep=False, axis=axis - g.pick(0, rank))
        elif kind == "part" and known and y.dims[axis] % 2 == 0:
            dims = [dim // 2 if at == axis else dim for at, dim in enumerate(y.dims)]
            halves = g.node("Split", [y, g.ints(dims[axis], dims[axis])], dims, outputs=2, keep=False, axis=axis)
            y = g.node("Sub", [halves, halves.others[0]], dims, keep=False)
        elif kind == "soft":
            y = g.node("Softmax", [y], y.dims, keep=False, axis=axis - g.pick(0, rank))
        elif kind == "pad" and known:
            around = [g.random.randint(0, 2) if at % rank == axis else 0 for at in range(2 * rank)]
            y = g.node("Pad", [y, g.ints(*around), *([g.constant(F32(1))] if g.chance(0.5) else [])],
                       [dim + around[axis] + around[axis + rank] if at == axis else dim for at, dim in enumerate(y.dims)], keep=False, mode="constant")
        elif kind == "slice" and known and y.dims[axis] > 1:
            axes = [g.ints(axis)] if g.chance(0.5) or axis != 0 else []
            y = g.node("Slice", [y, g.ints(1), g.ints(1 << 40), *axes], [dim - 1 if at == axis else dim for at, dim in enumerate(y.dims)], keep=False)
        elif kind == "tile" and known:
            y = g.node("Tile", [y, g.ints(*(2 if at == axis else 1 for at in range(rank)))], [2 * dim if at == axis else dim for at, dim in enumerate(y.dims)], keep=False)
        elif kind == "clip":
            y = g.node("Clip", [y, g.constant(F32(-3)), g.constant(F32(5))], y.dims, keep=False)
        elif kind == "back":
            g.node("Identity", [turned(y, inverse)], [y.dims[at] for at in inverse])
        elif kind == "again":
            y = turned(turned(y, inverse), perm) if g.chance(0.5) else turned(g.node("Neg", [turned(y, inverse)], [y.dims[at] for at in inverse], keep=g.chance(0.1)), perm)
        elif kind == "where":
            y = g.node("Where", [g.node("Less", [y, g.constant(F32(1))], y.dims, dtype=BOOL, keep=False), y, g.floats(*g.like(y))], y.dims, keep=False)
        same = [*same, y] if y.dims == before.dims else [y]
    kind = g.pick("back", "back", "stay", "other")
    end = y if kind == "stay" else turned(y, inverse if kind == "back" else g.random.sample(range(rank), rank))
    g.node(g.pick("Neg", "Identity"), [end], end.dims)


STEPS = (layer_norm, layer_norm, attention, attention, gates, shortcuts, shortcuts, views, views, squeezed, spatial_mean, moments, lookup,
         residuals, residuals, typed, typed, typed, by_data, by_data, rare, rare, convolved, convolved,
         between_transposes, between_transposes)

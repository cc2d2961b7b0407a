"""Random graphs as those of random_edges.py, of the chains of decoders and such that nearly are one: norms by the root of the mean square,
rotary embedding, attention whose heads share keys and values."""
import numpy as np

import random_edges

F32 = np.float32
END = 1 << 40


def sliced(g, x, start, end, dims, axis=-1, step=1):
    return g.node("Slice", [x, g.ints(start), g.ints(end), g.ints(axis), g.ints(step)], dims, keep=False)


def root_mean_square(g, x):
    if not x.dims or g.opset >= 18 or not g.number(x, len(x.dims) - 1) or x.dims[-1] == 0 or not g.fill(x):
        return
    row, wrong = [*x.dims[:-1], 1], g.chance(0.1)
    base = g.node("Abs", [x], x.dims, keep=False) if wrong else x
    square = g.node("Mul", [base, base], x.dims, keep=g.chance(0.1)) if g.chance(0.5) else \
        g.node("Pow", [base, g.constant(np.full(g.pick([], [1]), g.pick(2, 2, 2, 4) if wrong else 2, F32))], x.dims, keep=False)
    axis = g.pick(-1, len(x.dims) - 1)
    mean = g.node("ReduceMean", [square], row, keep=False, axes=[axis], **({} if g.chance(0.5) else {"keepdims": 1}))
    if g.chance(0.8):
        parts = [mean, g.constant(np.full(g.pick([], [1]), 0.25, F32))]
        mean = g.node("Add", parts if g.chance(0.5) else parts[::-1], row, keep=g.chance(0.1))
    else:
        mean = g.node("Max", [mean, g.constant(F32(0.5))], row, keep=False)
    kind = g.pick("divide", "power", "inverse", "reciprocal", "one")
    one = g.constant(np.full(g.pick([], [1]), 1, F32))
    if kind == "divide":
        made = g.node("Div", [x, g.node("Sqrt", [mean], row, keep=g.chance(0.1))], x.dims)
    else:
        if kind == "power":
            factor = g.node("Pow", [mean, g.constant(F32(-0.5))], row, keep=False)
        elif kind == "reciprocal":
            factor = g.node("Reciprocal", [g.node("Sqrt", [mean], row, keep=False)], row, keep=g.chance(0.1))
        else:
            factor = g.node("Div", [one, g.node("Sqrt", [mean], row, keep=False)], row, keep=False)
        made = g.node("Mul", [x, factor] if g.chance(0.5) else [factor, x], x.dims)
    if g.chance(0.6):
        scale = g.floats(*g.pick([x.dims[-1]], [x.dims[-1]], [1] * (len(x.dims) - 1) + [x.dims[-1]], [1], []))
        made = g.node("Mul", [made, scale] if g.chance(0.5) else [scale, made], x.dims)
    if g.chance(0.3):
        made = g.node("Add", [made, g.floats(x.dims[-1])], x.dims)
    if g.chance(0.5):
        g.node("Add", [made, x], x.dims)


def turned_value(g, x, width):
    """(-x[half:], x[:half]) or (-x1, x0, ...), and sometimes nearly that."""
    half = width // 2 if g.chance(0.9) else g.random.randint(1, width - 1)
    part, rank = [*x.dims[:-1], half], len(x.dims)
    known = all(g.number(x, at) for at in range(rank))
    if known and width % 2 == 0 and g.chance(0.3):
        part = [*x.dims[:-1], width // 2]
        odd, even = (sliced(g, x, first, END, part, step=2) for first in ((1, 0) if g.chance(0.9) else (0, 1)))
        odd = g.node("Neg", [odd], part, keep=False)
        if g.opset >= 13 and g.chance(0.5):
            odd, even = (g.node("Unsqueeze", [one, g.ints(g.pick(-1, rank))], [*part, 1], keep=False) for one in (odd, even))
        else:
            odd, even = (g.node("Reshape", [one, g.ints(*part, 1)], [*part, 1], keep=False) for one in (odd, even))
        pairs = g.node("Concat", [odd, even], [*part, 2], keep=False, axis=g.pick(-1, rank))
        return g.node("Reshape", [pairs, g.ints(*x.dims)], x.dims, keep=False)
    if g.opset >= 13 and g.chance(0.3):
        first = g.node("Split", [x, g.ints(half, width - half)], part, outputs=2, keep=False, axis=g.pick(-1, rank - 1))
        second = first.others[0]
    else:
        axis = g.pick(-1, rank - 1)
        first, second = sliced(g, x, 0, half, part, axis), sliced(g, x, half, g.pick(width, END), part, axis)
    rest = [*x.dims[:-1], width - half]
    if g.chance(0.1):
        first = g.node("Neg", [first], part, keep=False)
    else:
        second = g.node("Neg", [second], rest, keep=g.chance(0.1))
    return g.node("Concat", [second, first], x.dims, keep=g.chance(0.1), axis=g.pick(-1, rank - 1))


def rotary(g, x):
    rank = len(x.dims)
    if rank < 1 or not g.number(x, rank - 1) or x.dims[-1] < 2 or g.opset < 11:
        return
    if rank == 4 and g.chance(0.6):
        perm = g.pick([0, 2, 1, 3], [0, 2, 1, 3], [2, 0, 1, 3], [0, 1, 3, 2])
        x = g.node("Transpose", [x], [x.dims[at] for at in perm], keep=g.chance(0.2), perm=perm)
        if not g.number(x, 3) or x.dims[3] < 2:
            return
    depth = x.dims[-1]
    width = g.random.randint(1, depth // 2) * 2 if g.chance(0.4) else depth
    if width < 2:
        return
    whole = x
    if width < depth:
        x = sliced(g, x, 0, width, [*x.dims[:-1], width])
    # Angles that repeat for some rows, in their own rank; some that x repeats.
    shape = [1 if isinstance(dim, str) or g.chance(0.5) else dim for dim in x.dims[:-1]]
    cut = g.random.randint(0, len(shape))
    angles = [g.floats(*shape[g.pick(0, cut):], g.pick(width, width, width, width, 1), low=-4, high=4) for _ in range(2)]
    parts = [[x, angles[0]], [turned_value(g, x, width), angles[1]]]
    products = [g.node("Mul", pair if g.chance(0.6) else pair[::-1], x.dims, keep=g.chance(0.05)) for pair in parts]
    made = g.node("Add", products if g.chance(0.7) else products[::-1], x.dims, keep=width == depth)
    if width < depth:
        start = width if g.chance(0.9) else 0
        rest = sliced(g, whole, start, END, [*x.dims[:-1], depth - start])
        g.node("Concat", [made, rest], [*x.dims[:-1], width + depth - start], axis=g.pick(-1, rank - 1))


def shared_heads(g, x):
    """Attention with keys and values of fewer heads, each repeated for those that share it, or in another order."""
    if len(x.dims) != 3 or not g.number(x, 2) or x.dims[2] % 2 or x.dims[2] == 0 or g.opset < 13 or not g.fill(x):
        return
    few, times = g.pick((2, 2), (1, 4), (2, 3), (1, 3))
    depth, heads = x.dims[2] // 2, few * times

    def split(count):
        rows = g.node("MatMul", [x, g.floats(x.dims[2], count * depth, low=-2, high=2)], [], keep=False)
        return g.node("Transpose", [g.node("Reshape", [rows, g.ints(0, 0, count, depth)], [], keep=False)], [], keep=False, perm=[0, 2, 1, 3])

    q, repeated = split(heads), []
    kind, order = g.pick("expand", "expand", "tile", "gather"), g.chance(0.85)
    for _ in range(2):
        kv = split(few)
        if kind == "gather":
            kv = g.node("Gather", [kv, g.ints(*(np.repeat(np.arange(few), times) if order else np.tile(np.arange(few), times)))], [], keep=False, axis=1)
        else:
            at = 2 if order else 1
            wide = g.node("Unsqueeze", [kv, g.ints(at)], [], keep=False)
            sizes = g.ints(*(times if axis == at else 1 for axis in range(5)))
            kv = g.node("Expand" if kind == "expand" else "Tile", [wide, sizes], [], keep=False)
            kv = g.node("Reshape", [kv, g.ints(0, heads, -1, depth)], [], keep=g.chance(0.05))
        repeated.append(kv)
    k = g.node("Transpose", [repeated[0]], [], keep=False, perm=[0, 1, 3, 2])
    scores = g.node("MatMul", [q, k], [], keep=False)
    if g.chance(0.6):
        scores = g.node("Mul", [scores, g.constant(F32(0.5))], [], keep=False)
    if g.chance(0.4):
        cap = g.constant(F32(g.pick(2, 0.5)))
        scores = g.node("Mul", [g.node("Tanh", [scores], [], keep=False), cap], [], keep=False)
    if g.chance(0.7):
        scores = g.node("Add", [scores, g.floats(1, g.pick(1, heads), 1, 1)], [], keep=False)
    weights = g.node("Softmax", [scores], [], keep=False, axis=-1)
    mixed = g.node("MatMul", [weights, repeated[1]], [], keep=False)
    back = g.node("Transpose", [mixed], [], keep=False, perm=[0, 2, 1, 3])
    g.node("Reshape", [back, g.ints(0, 0, heads * depth)], [*x.dims[:2], heads * depth])


CHAINS = (root_mean_square, rotary, shared_heads)
STEPS = (*CHAINS, *CHAINS, *CHAINS, *CHAINS, random_edges.unary, random_edges.binary, random_edges.transpose, random_edges.reshape)


def make(seed):
    return random_edges.make(seed, STEPS)

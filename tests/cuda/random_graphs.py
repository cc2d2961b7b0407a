"""Small random graphs, the same each time: operators that meet in one region, where layouts, chains and 16 bits are
decided between them."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

import driver
from random_maker import F16, F32, I64, Maker


class Graph:
    """Nodes on values of one float type; every value has a shape."""

    def __init__(self, m, dtype):
        self.m, self.dtype, self.nodes, self.held, self.values = m, dtype, [], {}, {}

    def constant(self, array):
        name = f"c{len(self.held)}"
        self.held[name] = np.asarray(array)
        return name

    def floats(self, *shape, low=-1, high=1):
        return self.constant(self.m.array(list(shape), self.dtype, low, high))

    def whole(self, *values):
        return self.constant(np.array(values, I64))

    def node(self, op, inputs, shape, outputs=1, keep=True, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        if keep:
            self.values[names[0]] = list(shape)
        return names[0]


def pick(m, *choices):
    return choices[m.integers(0, len(choices) - 1)]


def elementwise(g, m, x, s, axis):
    g.node(pick(m, "Relu", "Sigmoid", "Tanh", "Abs", "Neg", "HardSwish", "LeakyRelu"), [x], s)


def binary(g, m, x, s, axis):
    other = g.floats(*[1 if m.integers(0, 1) else size for size in s][m.integers(0, len(s) - 1):])
    g.node(pick(m, "Add", "Mul", "Sub", "Max", "Min"), [x, other] if m.integers(0, 1) else [other, x], s)


def skip(g, m, x, s, axis):
    g.node(pick(m, "Add", "Mul", "Sub"), [x, pick(m, *(name for name, shape in g.values.items() if shape == s))], s)


def where(g, m, x, s, axis):
    # Chains round to 16 bits at their end: what is close to a limit may be on either side of it.
    if g.dtype == F32:
        mask = g.node("Greater", [x, g.floats(1)], s, keep=False)
        g.node("Where", [mask, x, g.floats(*[1] * len(s))], s)


def casts(g, m, x, s, axis):
    types = (TensorProto.FLOAT, TensorProto.FLOAT16)
    there, back = types if g.dtype == F16 else types[::-1]
    g.node("Cast", [g.node("Cast", [x], s, keep=False, to=there)], s, to=back)


def transpose(g, m, x, s, axis):
    perm = [int(p) for p in m.random.permutation(len(s))]
    g.node("Transpose", [x], [s[p] for p in perm], perm=perm)


def reshape(g, m, x, s, axis):
    total = int(np.prod(s))
    shape = pick(m, [total], [s[0], total // s[0]], [1, *s][:5] if len(s) < 5 else s, [2, 3, 2, total // 12] if total % 12 == 0 else s)
    g.node("Reshape", [x, g.whole(*shape)], shape)


def concat(g, m, x, s, axis):
    part, shape = list(s), list(s)
    part[axis], shape[axis] = 2, s[axis] + 2
    g.node("Concat", [x, g.floats(*part)], shape, axis=axis - len(s))


def part(g, m, x, s, axis):
    start, step = m.integers(0, s[axis] - 1), pick(m, 1, 2, -1)
    shape = list(s)
    shape[axis] = len(range(s[axis])[start::step])
    g.node("Slice", [x, g.whole(start), g.whole((1 << 62) if step > 0 else -(1 << 62)), g.whole(axis - len(s)), g.whole(step)], shape)


def pad(g, m, x, s, axis):
    begin, end = ([m.integers(0, 1) if size > 1 else 0 for size in s] for _ in range(2))
    g.node("Pad", [x, g.whole(*begin, *end)], [a + b + c for a, b, c in zip(begin, s, end)], mode=pick(m, "constant", "edge", "reflect"))


def tile(g, m, x, s, axis):
    times = [pick(m, 1, 1, 2) for _ in s]
    g.node("Tile", [x, g.whole(*times)], [a * b for a, b in zip(s, times)])


def instance_norm(g, m, x, s, axis):
    if len(s) >= 3 and np.prod(s[2:]) > 2:
        g.node("InstanceNormalization", [x, g.floats(s[1]), g.floats(s[1])], s, epsilon=0.1)


def layer_norm(g, m, x, s, axis):
    scale = s[axis:] if m.integers(0, 1) else [1 if m.integers(0, 1) else size for size in s[axis:]]
    g.node("LayerNormalization", [x, g.floats(*scale), g.floats(*scale)], s, axis=axis, epsilon=0.1)


def softmax(g, m, x, s, axis):
    g.node(pick(m, "Softmax", "LogSoftmax"), [x], s, axis=axis)


def batch_norm(g, m, x, s, axis):
    if len(s) >= 2:
        g.node("BatchNormalization", [x, g.floats(s[1]), g.floats(s[1]), g.floats(s[1]), g.floats(s[1], low=0.5, high=2)], s)


def reduce(g, m, x, s, axis):
    axes = sorted({axis, m.integers(0, len(s) - 1)})
    keep = len(axes) == len(s) or m.integers(0, 1)
    shape = [1 if i in axes else size for i, size in enumerate(s) if keep or i not in axes]
    g.node(pick(m, "ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceLogSumExp"), [x, g.whole(*axes)], shape, keepdims=int(keep))


def cum_sum(g, m, x, s, axis):
    if g.dtype == F32:
        g.node("CumSum", [x, g.constant(np.asarray(axis, I64))], s, exclusive=m.integers(0, 1), reverse=m.integers(0, 1))


def gather(g, m, x, s, axis):
    index = m.random.integers(-s[axis], s[axis], pick(m, [2], [2, 2])).astype(I64)
    if len(s) < 5:
        g.node("Gather", [x, g.constant(index)], [*s[:axis], *index.shape, *s[axis + 1:]], axis=axis)


def gather_elements(g, m, x, s, axis):
    shape = list(s)
    shape[axis] = m.integers(1, 5)
    g.node("GatherElements", [x, g.constant(m.random.integers(-s[axis], s[axis], shape).astype(I64))], shape, axis=axis)


def scatter(g, m, x, s, axis):
    if m.integers(0, 1):
        g.node("ScatterND", [x, g.constant([[m.integers(0, s[0] - 1)]]), g.floats(1, *s[1:])], s)
    else:
        g.node("ScatterElements", [x, g.constant(np.argsort(m.random.random(s), axis=axis).astype(I64)), g.floats(*s)], s, axis=axis)


def triangle(g, m, x, s, axis):
    if len(s) >= 2:
        g.node("Trilu", [x], s, upper=m.integers(0, 1))


def blocks(g, m, x, s, axis):
    if len(s) == 4 and s[1] % 4 == 0:
        g.node("DepthToSpace", [x], [s[0], s[1] // 4, s[2] * 2, s[3] * 2], blocksize=2, mode=pick(m, "DCR", "CRD"))


def resize(g, m, x, s, axis):
    if len(s) == 4:
        shape = [s[0], s[1], s[2] + m.integers(1, 3), s[3] * 2]
        g.node("Resize", [x, "", "", g.whole(*shape)], shape, mode=pick(m, "nearest", "linear", "cubic"))


def sample(g, m, x, s, axis):
    if len(s) == 4 and g.dtype == F32:
        g.node("GridSample", [x, g.floats(s[0], 3, 5, 2, low=-1.2, high=1.2)], [*s[:2], 3, 5], padding_mode=pick(m, "zeros", "border"))


def top_k(g, m, x, s, axis):
    shape = list(s)
    shape[axis] = m.integers(1, s[axis])
    g.node("TopK", [x, g.whole(shape[axis])], shape, outputs=2, axis=axis)


def product(g, m, x, s, axis):
    if len(s) >= 2:
        letters = "abcde"[:len(s)]
        if m.integers(0, 1):
            g.node("Einsum", [x, g.floats(s[-1], 4)], [*s[:-1], 4], equation=f"{letters},{letters[-1]}z->{letters[:-1]}z")
        else:
            g.node("MatMul", [x, g.floats(s[-1], 8)], [*s[:-1], 8])


def pool(g, m, x, s, axis):
    if 3 <= len(s) <= 5 and min(s[2:]) >= 3:
        kernel, strides = [m.integers(1, 3) for _ in s[2:]], [m.integers(1, 2) for _ in s[2:]]
        shape = [*s[:2], *((size - k) // step + 1 for size, k, step in zip(s[2:], kernel, strides))]
        g.node(pick(m, "MaxPool", "AveragePool"), [x], shape, kernel_shape=kernel, strides=strides)
    elif len(s) >= 3:
        g.node("GlobalAveragePool", [x], [*s[:2], *[1] * (len(s) - 2)])


def conv(g, m, x, s, axis):
    if 3 <= len(s) <= 5 and min(s[2:]) >= 3:
        group = s[1] if m.integers(0, 4) == 0 else 1
        kernel, outputs = [m.integers(1, 3) for _ in s[2:]], s[1] if group > 1 else pick(m, 4, 8, 5, 16)
        shape = [s[0], outputs, *(size - k + 3 for size, k in zip(s[2:], kernel))]
        g.node("Conv", [x, g.floats(outputs, s[1] // group, *kernel, low=-0.5, high=0.5), g.floats(outputs)], shape, pads=[1] * 2 * len(kernel), group=group)


STEPS = (elementwise, elementwise, binary, skip, where, casts, transpose, reshape, concat, part, pad, tile, instance_norm, layer_norm, softmax,
         batch_norm, reduce, cum_sum, gather, gather_elements, scatter, triangle, blocks, resize, sample, top_k, product, pool, conv, conv)


def make(count=80):
    m = Maker()
    cases = []
    for index in range(count):
        dtype, rank = pick(m, F32, F32, F16), pick(m, 2, 3, 4, 4, 4, 5)
        shape = [m.integers(1, 3), *([pick(m, 3, 4, 8, 12)] if rank > 2 else []), *(m.integers(3, 8) for _ in range(rank - 2 if rank > 2 else 1))]
        g = Graph(m, dtype)
        g.values["x"] = shape
        wanted = m.integers(3, 9)
        while len(g.nodes) < wanted:
            x = pick(m, *g.values) if m.integers(0, 2) == 0 else list(g.values)[-1]
            s = g.values[x]
            if s and np.prod(s) < 10000:
                pick(m, *STEPS)(g, m, x, s, m.integers(0, len(s) - 1))
            elif x != "x":
                del g.values[x]
        results = list(dict.fromkeys([list(g.values)[-1], pick(m, *g.values)]))
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        sizes = [f"x{i}" for i in range(rank)] if index % 3 == 2 else shape
        made = [helper.make_tensor_value_info(name, kind, None) for name in results if name != "x"]
        if not made:
            continue
        graph = helper.make_graph(g.nodes, "graph", [helper.make_tensor_value_info("x", kind, sizes)], made,
                                  [numpy_helper.from_array(array, name) for name, array in g.held.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        cases.append(driver.Case(f"random_graph_{index:03}", model.SerializeToString(), {"x": m.array(shape, dtype, -2, 2)}, [None] * len(made)))
    return cases

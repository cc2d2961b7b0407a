"""One node with random attributes, optional inputs and sizes, for every operator with many of them; see random_edges.py."""
import numpy as np
from onnx import ValueInfoProto, helper, numpy_helper

import random_sampling
from random_edges import Case, Graph

F32, F64, I32, I64, U8, I8, BOOL = np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8, np.bool_


def sizes(g, rank, *choices):
    return [g.pick(*(choices or (0, 1, 1, 2, 3, 4, 5))) for _ in range(rank)]


def maybe(g, share, **attributes):
    return {key: value for key, value in attributes.items() if g.chance(share)}


def spatial(g, rank, kernel):
    made = {"strides": [g.pick(1, 1, 2, 3) for _ in range(rank)]} if g.chance(0.5) else {}
    style = g.pick("pads", "pads", "none", "VALID")
    if style == "pads":
        made["pads"] = [g.random.randint(0, k - 1) for k in kernel * 2]
    elif style != "none":
        made["auto_pad"] = style
    return made


# Each gives (opset, inputs, attributes, number of outputs); an input is an array, or None where it is left out. Names in
# `held` are those of inputs that have to be initializers.
def conv(g):
    rank, group = g.pick(1, 2, 2, 3), g.pick(1, 1, 2, 4)
    each, outputs = g.pick(1, 2, 8), group * g.pick(1, 2, 5, 8)
    kernel = sizes(g, rank, 1, 2, 3, 4)
    attributes = {**spatial(g, rank, kernel), "group": group, **maybe(g, 0.3, kernel_shape=kernel, dilations=sizes(g, rank, 1, 2))}
    x = g.array([g.pick(0, 1, 2), group * each, *sizes(g, rank, 1, 4, 7, 9, 16)])
    return 17, [x, g.array([outputs, each, *kernel]), g.pick(None, g.array([outputs]))], attributes, 1


def conv_transpose(g):
    rank, group = g.pick(1, 2, 2, 3), g.pick(1, 1, 2)
    each, outs = g.pick(1, 3, 8), g.pick(1, 2, 8)
    kernel, strides = sizes(g, rank, 1, 2, 3, 4), sizes(g, rank, 1, 2, 3)
    attributes = {"group": group, "strides": strides, **maybe(g, 0.3, dilations=sizes(g, rank, 1, 2))}
    x = g.array([g.pick(1, 2), group * each, *sizes(g, rank, 1, 2, 5)])
    style = g.pick("pads", "extra", "shape", "none")
    if style == "pads":
        attributes["pads"] = [g.random.randint(0, (k - 1) // 2) for k in kernel * 2]
    elif style == "extra":
        attributes["output_padding"] = [g.random.randint(0, s - 1) for s in strides]
    elif style == "shape":
        dilations = attributes.get("dilations", [1] * rank)
        full = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(x.shape[2:], strides, kernel, dilations)]
        attributes["output_shape"] = [max(1, size - g.pick(0, 0, 1)) for size in full]
        if g.chance(0.5):
            attributes["auto_pad"] = g.pick("SAME_UPPER", "SAME_LOWER")
    return 17, [x, g.array([group * each, outs, *kernel]), g.pick(None, g.array([group * outs]))], attributes, 1


def pool(g):
    op, rank = g.pick("MaxPool", "AveragePool", "LpPool"), g.pick(1, 2, 2, 3)
    kernel = sizes(g, rank, 1, 2, 3, 4)
    attributes = {"kernel_shape": kernel, **spatial(g, rank, kernel)}
    opset = g.pick(17, 19, 22)
    attributes.update(maybe(g, 0.4, ceil_mode=1) if op != "LpPool" or opset >= 18 else {})
    if op == "MaxPool":
        attributes.update(maybe(g, 0.3, storage_order=1, dilations=sizes(g, rank, 1, 2)))
    elif op == "AveragePool":
        attributes.update(maybe(g, 0.4, count_include_pad=1))
        attributes.update(maybe(g, 0.3, dilations=sizes(g, rank, 1, 2)) if opset >= 19 else {})
    else:
        attributes.update(maybe(g, 0.5, p=g.pick(1, 2, 3)))
    x = g.array([g.pick(1, 2), g.pick(1, 8, 9), *sizes(g, rank, 1, 4, 5, 9)])
    return (op, opset), [x], attributes, g.pick(1, 2) if op == "MaxPool" else 1


def resize(g):
    opset = g.pick(11, 13, 18, 19)
    mode = g.pick("nearest", "nearest", "linear", "cubic")
    rank = g.pick(4, 4, 4, 3, 2)
    x = g.array([*sizes(g, rank - 2, 1, 2), *sizes(g, 2, 1, 3, 4, 7)], g.pick(F32, F32, U8, I8, I32), 0, 100)
    attributes = {"mode": mode, "coordinate_transformation_mode": g.pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel",
                                                                         "tf_crop_and_resize", *(["half_pixel_symmetric"] if opset >= 19 else []))}
    if mode == "nearest":
        attributes.update(maybe(g, 0.7, nearest_mode=g.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")))
    if mode == "cubic":
        attributes.update(maybe(g, 0.4, cubic_coeff_a=-0.5, exclude_outside=1))
    if opset >= 18 and mode != "nearest":
        attributes.update(maybe(g, 0.3, antialias=1) if x.dtype != I8 else {})  # ONNX Runtime clips those to 0
    roi = None
    if attributes["coordinate_transformation_mode"] == "tf_crop_and_resize":
        attributes.update(maybe(g, 0.5, extrapolation_value=2.5), antialias=0)
        attributes.pop("antialias")
        roi = np.array([*[0] * rank, *[1] * rank], F32)
        # Not along an axis that keeps its size: ONNX Runtime does not crop there.
        roi[[rank - 1, rank - 2, -1, -2]] = [g.pick(0, 0.25, -0.25), g.pick(0, 0.4), g.pick(1, 0.75, 1.25), g.pick(1, 0.6)]
    if opset < 13 and roi is None:
        roi = np.zeros([0], F32)
    if g.chance(0.5):
        whole = [] if roi is not None and roi.size else [1]
        scales = np.array([*[1] * (rank - 2), g.pick(*whole, 2, 0.5, 1.5, 0.3), g.pick(*whole, 3, 0.7, 0.25)], F32)
        return opset, [x, roi, scales], attributes, 1
    wanted = np.array([*x.shape[:-2], g.pick(2, 5, 8), g.pick(5, 9)], I64)
    return opset, [x, roi, None if opset >= 13 else np.zeros([0], F32), wanted], attributes, 1


def recurrent(g):
    op, gates = g.pick(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    hidden, width, batch, length = g.pick(1, 3, 8), g.pick(1, 4), g.pick(1, 2, 3), g.pick(1, 2, 5)
    direction = g.pick("forward", "reverse", "bidirectional")
    both = 2 if direction == "bidirectional" else 1
    x, w, r = g.array([length, batch, width], low=-4, high=4), *(g.array([both, gates * hidden, n], low=-3, high=3) for n in (width, hidden))
    inputs = [x, w, r, g.pick(None, g.array([both, 2 * gates * hidden], low=-3, high=3)),
              g.pick(None, g.numbers.integers(1, length + 1, [batch]).astype(I32)), g.pick(None, g.array([both, batch, hidden], low=-4, high=4))]
    attributes = {"hidden_size": hidden, "direction": direction, **maybe(g, 0.2, clip=0.75)}
    if op == "LSTM":
        inputs += [g.pick(None, g.array([both, batch, hidden], low=-4, high=4)), g.pick(None, g.array([both, 3 * hidden], low=-3, high=3))]
        attributes.update(maybe(g, 0.2, input_forget=1))
    if op == "GRU":
        attributes.update(maybe(g, 0.5, linear_before_reset=1))
    if g.chance(0.3):
        one = {"LSTM": ["Sigmoid", "Tanh", "Relu"], "GRU": ["HardSigmoid", "Tanh"], "RNN": ["Relu"]}[op]
        attributes["activations"] = [g.pick(name, "Tanh", "Sigmoid") for name in one] * both
    return (op, g.pick(11, 14, 17)), inputs, attributes, g.random.randint(1, 3 if op == "LSTM" else 2)


def gather(g):
    op = g.pick("Gather", "GatherElements", "GatherND")
    rank = g.pick(1, 2, 3)
    x = g.array(sizes(g, rank, 1, 2, 3, 5), g.pick(F32, I64, U8, BOOL))
    axis = g.random.randrange(-rank, rank)
    size = x.shape[axis]
    kind = g.pick(I32, I64)
    if op == "Gather":
        indices = g.numbers.integers(-size, size, sizes(g, g.pick(0, 1, 2), 0, 1, 3)).astype(kind)
        return (op, 13), [x, indices], {"axis": axis}, 1
    if op == "GatherElements":
        dims = [g.random.randint(0, n) for n in x.shape]
        dims[axis] = g.pick(0, 1, 4)
        return (op, 13), [x, g.numbers.integers(-size, size, dims).astype(kind)], {"axis": axis}, 1
    batch = g.pick(0, 0, 1) if rank > 1 else 0
    depth = g.random.randint(1, rank - batch)
    tuples = np.stack([g.numbers.integers(-n, n, [*x.shape[:batch], 2]) for n in x.shape[batch:batch + depth]], -1)
    return (op, 13), [x, tuples.astype(I64)], {"batch_dims": batch}, 1


def scatter(g):
    op = g.pick("ScatterElements", "ScatterND")
    rank = g.pick(1, 2, 3)
    x = g.array(sizes(g, rank, 1, 2, 3, 5), g.pick(F32, I64, I32))
    reduction = g.pick("none", "add", "mul", "max", "min")
    attributes = {"reduction": reduction} if reduction != "none" or g.chance(0.3) else {}
    if op == "ScatterElements":
        axis = g.random.randrange(-rank, rank)
        dims = [g.random.randint(1, n) for n in x.shape]
        if reduction == "none":
            dims[axis] = 1
        return (op, 18), [x, g.numbers.integers(-x.shape[axis], x.shape[axis], dims).astype(I64), g.array(dims, x.dtype.type)], {**attributes, "axis": axis}, 1
    depth = g.random.randint(1, rank)
    count = g.pick(0, 1) if reduction == "none" else 3
    tuples = np.stack([g.numbers.integers(-n, n, [count]) for n in x.shape[:depth]], -1).astype(I64)
    return (op, 18), [x, tuples, g.array([count, *x.shape[depth:]], x.dtype.type)], attributes, 1


def cut(g):
    rank = g.pick(1, 2, 3)
    x = g.array(sizes(g, rank), g.pick(F32, I64, U8))
    axes = g.random.sample(range(rank), g.random.randint(1, rank))
    kind = g.pick(I32, I64)
    most = np.iinfo(kind).max
    starts, ends, steps = [], [], []
    for _ in axes:
        step = g.pick(1, 1, 2, -1, -3)
        starts.append(g.pick(0, 1, -1, 3, most, -4, -9))
        ends.append(g.pick(0, 2, -1, most, -most, 4))
        steps.append(step)
    given = [np.array(starts, kind), np.array(ends, kind), np.array([axis - g.pick(0, rank) for axis in axes], kind)]
    return ("Slice", 13), [x, *given, *([np.array(steps, kind)] if g.chance(0.8) else [])], {}, 1


def pad(g):
    rank = g.pick(1, 2, 3)
    x = g.array(sizes(g, rank, 1, 2, 3, 5), g.pick(F32, I64, F64))
    mode, opset = g.pick(("constant", 13), ("edge", 18), ("reflect", 18), ("wrap", 19))
    axes = list(range(rank))
    if opset >= 18 and g.chance(0.5):
        axes = g.random.sample(axes, g.random.randint(1, rank))
    most = [x.shape[axis] - 1 if mode == "reflect" else 3 if mode != "wrap" else x.shape[axis] for axis in axes]
    pads = [g.random.randint(-1 if n > 2 and g.chance(0.3) else 0, min(n, 3)) for n, axis in zip(most * 2, axes * 2)]
    given = [x, np.array(pads, I64), g.array([], x.dtype.type) if mode == "constant" and g.chance(0.5) else None]
    return ("Pad", opset), given + ([np.array([axis - g.pick(0, rank) for axis in axes], I64)] if len(axes) < rank or g.chance(0.3) and opset >= 18 else []), {"mode": mode}, 1


def reduce(g):
    op, opset = g.pick("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"), \
        g.pick(13, 18, 20)
    rank = g.pick(0, 1, 2, 3, 4)
    # ONNX Runtime's logarithms of whole numbers are not cut off, but wrong by one.
    x = g.array(sizes(g, rank, 1, 2, 3, 17), g.pick(F32, F32, F64, *([] if "Log" in op else [I64, I32])), -4, 4)
    axes = g.random.sample(range(rank), g.random.randint(0, rank))
    axes = [axis - g.pick(0, rank) for axis in axes]
    attributes = maybe(g, 0.5, keepdims=0)
    if opset >= 18 or op == "ReduceSum":
        attributes.update(maybe(g, 0.3, noop_with_empty_axes=1))
        return (op, opset), [x, *([np.array(axes, I64)] if axes or g.chance(0.3) else [])], attributes, 1
    return (op, opset), [x], {**attributes, **({"axes": axes} if axes else {})}, 1


def moves(g):
    op = g.pick("Split", "Reshape", "Shape", "Squeeze", "Unsqueeze", "Flatten", "Tile", "Expand", "DepthToSpace", "SpaceToDepth", "Trilu", "Transpose")
    rank = g.pick(1, 2, 3)
    x = g.array(sizes(g, rank), g.pick(F32, I64, U8, BOOL))
    if op == "Split":
        axis = g.random.randrange(-rank, rank)
        size = x.shape[axis]
        if g.chance(0.5):
            count = g.pick(1, 2, 3)
            return (op, 18), [x], {"axis": axis, "num_outputs": count}, count
        first = g.random.randint(0, size)
        return (op, 13), [x, np.array([first, size - first], I64)], {"axis": axis}, 2
    if op == "Reshape":
        dims = list(x.shape)
        g.random.shuffle(dims)
        attributes = {}
        if 0 in dims:
            attributes["allowzero"] = 1
        elif g.chance(0.5):
            dims[g.random.randrange(rank)] = -1
        return (op, 14), [x, np.array(dims, I64)], attributes, 1
    if op == "Shape":
        return (op, 15), [x], maybe(g, 0.6, start=g.pick(0, 1, -1, -5, 9), end=g.pick(0, 2, -1, 9, -9)), 1
    if op == "Squeeze":
        x = g.array([1, *x.shape, 1], F32)
        return (op, 13), [x, *([np.array(g.pick([0], [-1], [0, -1]), I64)] if g.chance(0.8) else [])], {}, 1
    if op == "Unsqueeze":
        return (op, 13), [x, np.array(g.pick([0], [-1], [1, 0], [-1, 0]), I64)], {}, 1
    if op == "Flatten":
        return (op, 13), [x], {"axis": g.random.randint(-rank, rank)}, 1
    if op == "Tile":
        return (op, 13), [x, np.array(sizes(g, rank, 0, 1, 2, 3), I64)], {}, 1
    if op == "Expand":
        x = g.array([1 if g.chance(0.5) else n for n in x.shape], F32)
        dims = [g.pick(1, n) if n > 1 else g.pick(0, 1, 3) if n == 1 else g.pick(0, 1) for n in x.shape]
        return (op, 13), [x, np.array([*sizes(g, g.pick(0, 1), 1, 2), *dims][g.pick(0, 0, 1):], I64)], {}, 1
    if op == "DepthToSpace":
        return (op, 13), [g.array([g.pick(0, 1, 2), 8, *sizes(g, 2)], F32)], {"blocksize": g.pick(1, 2), "mode": g.pick("DCR", "CRD")}, 1
    if op == "SpaceToDepth":
        return (op, 13), [g.array([g.pick(0, 1, 2), 3, *sizes(g, 2, 0, 2, 4)], F32)], {"blocksize": g.pick(1, 2)}, 1
    if op == "Trilu":
        return (op, 14), [g.array(sizes(g, g.pick(2, 3)), g.pick(F32, I64)), g.pick(None, np.array(g.pick(-2, 0, 1, 9), I64))], {"upper": g.pick(0, 1)}, 1
    return (op, 13), [x], {"perm": g.random.sample(range(rank), rank)} if g.chance(0.6) else {}, 1


def order(g):
    op = g.pick("TopK", "ArgMax", "ArgMin", "CumSum", "OneHot", "ReverseSequence", "Range", "NonZero", "Compress", "EyeLike", "Hardmax", "ConstantOfShape")
    rank = g.pick(1, 2, 3)
    x = g.array(sizes(g, rank, 1, 2, 3, 9), g.pick(F32, I64, I32))
    axis = g.random.randrange(-rank, rank)
    if op == "TopK":
        return (op, 11), [x, np.array([g.random.randint(0, x.shape[axis])], I64)], {"axis": axis, "largest": g.pick(0, 1)}, 2
    if op in ("ArgMax", "ArgMin"):
        return (op, 13), [x], {"axis": axis, "keepdims": g.pick(0, 1), "select_last_index": g.pick(0, 1)}, 1
    if op == "CumSum":
        return (op, 14), [x, np.array(axis, g.pick(I32, I64))], {"exclusive": g.pick(0, 1), "reverse": g.pick(0, 1)}, 1
    if op == "OneHot":
        depth = np.array(g.pick(1, 3, 5), g.pick(I64, F32))
        return (op, 13), [g.array(sizes(g, rank), g.pick(I64, I32), -7, 7), depth, g.array([2], g.pick(F32, I64))], {"axis": g.random.randint(-rank - 1, rank)}, 1
    if op == "ReverseSequence":
        x = g.array(sizes(g, g.pick(2, 3), 1, 2, 4), F32)
        time = g.pick(0, 1)
        return (op, 10), [x, g.numbers.integers(1, x.shape[time] + 1, [x.shape[1 - time]]).astype(I64)], {"time_axis": time, "batch_axis": 1 - time}, 1
    if op == "Range":
        kind = g.pick(I64, I32, F32, F64)
        return (op, 11), [np.array(g.pick(0, 5, -2), kind), np.array(g.pick(0, 7, -3), kind), np.array(g.pick(1, 2, -1, -3), kind)], {}, 1
    if op == "NonZero":
        return (op, 13), [g.array(sizes(g, rank), g.pick(F32, I64, BOOL, U8))], {}, 1
    if op == "Compress":
        flags = g.array([g.random.randint(1, x.shape[axis])], BOOL)
        return (op, 11), [x, flags], maybe(g, 0.7, axis=axis), 1
    if op == "EyeLike":
        return (op, 9), [g.array(sizes(g, 2), g.pick(F32, I64, I32))], maybe(g, 0.5, k=g.pick(-2, 1, 7), dtype=g.pick(1, 7, 11)), 1
    if op == "Hardmax":
        return (op, 13), [g.array(sizes(g, rank, 1, 2, 5), F32)], {"axis": axis}, 1
    return (op, 9), [np.array(sizes(g, g.pick(0, 1, 2, 3)), I64)], maybe(g, 0.7, value=numpy_helper.from_array(g.array([1], g.pick(F32, I64, BOOL, U8, F64)))), 1


def norms(g):
    op = g.pick("BatchNormalization", "InstanceNormalization", "LayerNormalization", "LRN", "LpNormalization", "GroupNormalization", "Softmax", "LogSoftmax")
    rank = g.pick(2, 3, 4)
    x = g.array([g.pick(1, 2), g.pick(2, 4, 8, 9), *sizes(g, rank - 2, 1, 3, 17)])
    c = x.shape[1]
    if op == "BatchNormalization":
        return (op, g.pick(9, 14, 15)), [x, *(g.array([c]) for _ in range(3)), g.array([c], low=1)], maybe(g, 0.5, epsilon=0.1), 1
    if op == "InstanceNormalization":
        return (op, 6 + 7), [g.array([*x.shape[:2], 3, g.pick(1, 4)]), g.array([c]), g.array([c])], {"epsilon": 0.1}, 1
    if op == "LayerNormalization":
        axis = g.random.randrange(-rank, rank)
        row = x.shape[axis:] if axis < 0 else x.shape[axis:]
        return (op, 17), [x, g.array(list(row)), g.pick(None, g.array(list(row)))], {"axis": axis, "epsilon": 0.1}, g.pick(1, 1, 3)
    if op == "LRN":
        return (op, 13), [g.array([1, c, *sizes(g, 2, 1, 3)])], {"size": g.pick(1, 2, 3, 5), **maybe(g, 0.5, alpha=0.5, beta=0.5, bias=2.0)}, 1
    if op == "LpNormalization":
        return (op, 22 if g.chance(0.3) else 13), [x], maybe(g, 0.8, axis=g.random.randrange(-rank, rank), p=g.pick(1, 2)), 1
    if op == "GroupNormalization":
        x = g.array([g.pick(1, 2), 8, *sizes(g, g.pick(1, 2), 1, 3)])
        opset, groups = g.pick(18, 21), g.pick(1, 2, 4, 8)
        each = 8 if opset == 21 else groups
        return (op, opset), [x, g.array([each]), g.array([each])], {"num_groups": groups, "epsilon": 0.1}, 1
    return (op, g.pick(11, 13)), [x], maybe(g, 0.8, axis=g.random.randrange(-rank, rank)), 1


def arithmetic(g):
    op = g.pick("Pow", "Mod", "Div", "BitShift", "Where", "Clip", "PRelu", "Gemm", "MatMul", "Max", "Min", "Mean", "Sum", "Equal", "Less", "And")
    rank = g.pick(0, 1, 2, 3)
    a = sizes(g, rank)
    b = [1 if g.chance(0.4) else n for n in a][g.random.randint(0, rank):]
    kind = g.pick(F32, I64, I32, F64)
    if g.chance(0.5) and op != "BitShift":
        a, b = b, a
    if op == "Pow":
        return (op, 13), [g.array(a, kind, 1, 4), g.array(b, g.pick(F32, I64, I32), 0, 3)], {}, 1
    if op == "Mod":
        fmod = 1 if np.dtype(kind).kind == "f" else g.pick(0, 1)
        return (op, 13), [g.array(a, kind, -9, 9), g.pick(-1, 1) * g.array(b, kind, 3, 5)], {"fmod": fmod}, 1
    if op == "Div":
        return (op, 14), [g.array(a, kind, -9, 9), g.array(b, kind, 1, 4)], {}, 1
    if op == "BitShift":
        kind = g.pick(U8, np.uint32, np.uint64)
        return (op, 11), [g.array(a, kind, 0, 99), g.array(b, kind, 0, 7)], {"direction": g.pick("LEFT", "RIGHT")}, 1
    if op == "Where":
        c = [1 if g.chance(0.4) else n for n in a]
        kind = g.pick(F32, I64, U8, BOOL)
        return (op, 16), [g.array(c, BOOL), g.array(a, kind), g.array(b, kind)], {}, 1
    if op == "Clip":
        kind = g.pick(F32, I64, U8, I8, F64)
        return (op, 13), [g.array(a, kind), g.pick(None, g.array([], kind, 0, 2)), g.pick(None, g.array([], kind, 3, 5))], {}, 1
    if op == "PRelu":
        return (op, 16), [g.array(a, kind), g.array(b, kind)], {}, 1
    if op == "Gemm":
        m, k, n = g.pick(1, 3, 7), g.pick(1, 4, 9), g.pick(1, 5, 17)
        ta, tb = g.pick(0, 1), g.pick(0, 1)
        kind = g.pick(F32, F32, F64)
        c = g.pick(None, *(g.array(dims, kind) for dims in ([], [1], [n], [1, n], [m, 1], [m, n])))
        return (op, 13), [g.array([k, m] if ta else [m, k], kind), g.array([n, k] if tb else [k, n], kind), c], \
            {"transA": ta, "transB": tb, **maybe(g, 0.5, alpha=0.5, beta=g.pick(0.0, 2.0))}, 1
    if op == "MatMul":
        k, lead = g.pick(1, 4, 9), sizes(g, g.pick(0, 1, 2), 1, 2, 3)
        left = g.pick([k], [*lead, g.pick(0, 1, 5), k])
        right = g.pick([k], [*[g.pick(1, n) for n in lead], k, g.pick(0, 1, 3, 20)])
        kind = g.pick(F32, F32, I32, I64, F64)
        return (op, 13), [g.array(left, kind), g.array(right, kind)], {}, 1
    if op in ("Mean", "Sum"):
        return (op, 13), [g.array(dims) for dims in (a, b, b)][:g.pick(1, 2, 3)], {}, 1
    if op == "And":
        return (g.pick("And", "Or", "Xor"), 7), [g.array(a, BOOL), g.array(b, BOOL)], {}, 1
    kind = g.pick(kind, U8, I8)
    return (op, 13), [g.array(a, kind), g.array(b, kind)], {}, 1


NAMES = {conv: "Conv", conv_transpose: "ConvTranspose", resize: "Resize"}
FAMILIES = (conv, conv, conv_transpose, conv_transpose, pool, pool, resize, resize, resize, recurrent, recurrent, gather, scatter, cut, cut, pad, pad, reduce,
            reduce, moves, moves, moves, order, order, order, norms, norms, arithmetic, arithmetic, arithmetic)


def make(seed, families=FAMILIES):
    g = Graph(seed)
    family = g.pick(*families)
    named, inputs, attributes, count = family(g)
    op, opset = named if isinstance(named, tuple) else (NAMES[family], named)
    while inputs and inputs[-1] is None:
        inputs.pop()
    declared = g.pick("numbers", "symbols", "rank")
    given, held, infos = {}, [], []
    names = []
    for i, array in enumerate(inputs):
        names.append("" if array is None else f"x{i}")
        if array is None:
            continue
        # Sizes and axes as constants are planned with; as inputs, the result's shape is only known in the run.
        if i > 0 and g.chance(0.6) or array.dtype == F32 and array.size == 0 and op == "Resize":
            held.append(numpy_helper.from_array(np.asarray(array), names[-1]))
            continue
        given[names[-1]] = np.asarray(array)
        dims = {"numbers": list(array.shape), "symbols": [f"s{i}_{d}" for d in range(array.ndim)], "rank": None}[declared]
        infos.append(helper.make_tensor_value_info(names[-1], helper.np_dtype_to_tensor_dtype(array.dtype), dims))
    outputs = [f"y{i}" for i in range(count)]
    if count > 1 and g.chance(0.4):  # an output that nobody wants: without a name, or just not read
        left_out = g.random.randrange(count)
        node = helper.make_node(op, names, ["" if i == left_out and g.chance(0.6) else name for i, name in enumerate(outputs)], **attributes)
        outputs.pop(left_out)
    else:
        node = helper.make_node(op, names, outputs, **attributes)
    graph = helper.make_graph([node], "graph", infos, [ValueInfoProto(name=name) for name in outputs], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    text = f"{op}-{opset} {attributes} {[None if array is None else f'{array.dtype}{list(array.shape)}' for array in inputs]} {declared} held {[t.name for t in held]}"
    return Case(f"single_{seed}", model.SerializeToString(), [given, given], [text], family not in (reduce, order, pool))


class sampling:
    """The same of random_sampling.py's families."""

    @staticmethod
    def make(seed):
        return make(seed, random_sampling.FAMILIES)

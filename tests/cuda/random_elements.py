"""Random cases of operators that work on elements, move them or reduce them."""
import numpy as np
from onnx import TensorProto, helper

from random_maker import BOOL, F16, F32, F64, I32, I64, I8, U8


def broadcasts(m):
    for op, types in (("Add", (F32, F16, I32, I64, F64)), ("Sub", (F32, I64, U8, I8)), ("Mul", (F32, F16, I32)),
                      ("Div", (F32, I64, I32)), ("Max", (F32, I64, U8, F64)), ("Min", (F16, I32, F64)), ("Mod", (I64, I32, U8)),
                      ("Equal", (F32, I64, BOOL)), ("Less", (F32, I32)), ("GreaterOrEqual", (F16, I64)),
                      ("And", (BOOL,)), ("Xor", (BOOL,)), ("Or", (BOOL,)), ("PRelu", (F32,))):
        for dtype in types:
            shape = m.shape(m.integers(0, 6), 1, 5)
            other = [1 if m.integers(0, 2) == 0 else size for size in shape][m.integers(0, len(shape)):]
            a, b = m.array(shape, dtype), m.array(other, dtype)
            if op in ("Div", "Mod"):
                b = np.where(b == 0, np.asarray(3, dtype), b).astype(dtype)
            if op not in ("PRelu", "Mod") and m.integers(0, 1):
                a, b = (a, np.where(b == 0, np.asarray(2, dtype), b).astype(dtype)) if op == "Div" else (b, a)
            logical = op in ("Equal", "Less", "GreaterOrEqual")
            m.one(op, {"a": a, "b": b}, BOOL if logical else None)
    for dtype in (F32, I64, U8, F16):
        m.one("Where", {"c": m.array([3, 1, 4], BOOL), "a": m.array([5, 1], dtype), "b": m.array([2, 1, 5, 4], dtype)}, dtype)
    m.one("Max", {"a": m.array([3, 1], F32), "b": m.array([4], F32), "c": m.array([], F32)})
    m.one("Mean", {"a": m.array([3, 1], F32), "b": m.array([4], F32), "c": m.array([2, 1, 1], F32)})
    m.one("Sum", {"a": m.array([3, 4], F32)})
    for base, power in ((F32, I32), (I64, I32), (I32, I64), (F32, F32), (F64, F32), (I64, F32)):
        m.one("Pow", {"a": m.array([3, 4], base, 1, 4), "b": m.array([4], power, 0, 3)}, base)


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.4e38, -3.4e38, 0.5, -0.5, 1.5, 2.5, -2.5,
                    88.0, -88.0, 100.0, -100.0, 1e-3, 7.0], F32)


def unary(m):
    everywhere = ("Abs", "Neg", "Floor", "Ceil", "Round", "Sign", "Relu", "Sigmoid", "Tanh", "Erf", "Softsign", "LeakyRelu",
                  "Elu", "Selu", "HardSigmoid", "HardSwish", "Softplus", "Celu", "IsNaN", "IsInf", "Exp", "Identity")
    for op in everywhere:
        special = SPECIAL if op in ("Abs", "Neg", "Floor", "Ceil", "Round", "Sign", "Identity", "IsNaN", "IsInf") else \
            SPECIAL[np.isfinite(SPECIAL) & (np.abs(SPECIAL) < 80)]
        out = BOOL if op.startswith("Is") else None
        m.one(op, {"x": special}, out, opset=20 if op.startswith("Is") else 18)
        if op not in ("Celu", "Erf"):
            m.one(op, {"x": m.array(m.shape(m.integers(1, 5)), F16)}, out, opset=20)
    for op in ("Sqrt", "Log", "Reciprocal"):
        m.one(op, {"x": m.array([3, 7], F32, 0.1, 9)})
        m.one(op, {"x": m.array([17], F64, 0.1, 9)})
    for op in ("Exp", "Sigmoid", "Abs", "Tanh", "Floor", "Erf", "Relu"):
        m.one(op, {"x": m.array([5, 3], F64)})
    for op in ("Sin", "Cos", "Gelu", "Mish"):
        m.one(op, {"x": m.array([4, 33], F32)}, opset=20)
    for op, types in (("Abs", (I32, I64, I8)), ("Neg", (I32, I64, I8)), ("Sign", (I32, I64)), ("Not", (BOOL,))):
        for dtype in types:
            m.one(op, {"x": m.array([2, 9], dtype)})
    for dtype in (F32, F16, I32, I64, U8, F64):
        m.one("Clip", {"x": m.array([4, 9], dtype, 0, 9)}, constants={"low": np.asarray(2, dtype), "high": np.asarray(6, dtype)})
    for source in (F32, F16, F64, I32, I64, U8, BOOL):
        for target in (F32, F16, F64, I32, I64, U8, I8, BOOL):
            if source != target:
                # Below zero the hosts differ in what an unsigned number is made of.
                low = 0 if np.dtype(target).kind == "u" and np.dtype(source).kind == "f" else -9
                m.one("Cast", {"x": m.array([3, 5], source, low, 9)}, target,
                      to=helper.np_dtype_to_tensor_dtype(np.dtype(target)), opset=13)


def chains(m):
    steps = ("Add", "Mul", "Sub", "Relu", "Sigmoid", "Neg", "Abs", "Tanh", "Transpose", "Max", "Clip", "Where", "Reshape")
    for _ in range(30):
        shape, nodes, constants, value = m.shape(m.integers(1, 4), 1, 6), [], {}, "x"
        inputs = {"x": m.array(shape, F32)}
        shape = list(shape)
        for i in range(m.integers(2, 7)):
            op, out = steps[m.integers(0, len(steps) - 1)], f"v{i}"
            if op in ("Add", "Mul", "Sub", "Max"):
                constants[f"c{i}"] = m.array([1 if m.integers(0, 1) else size for size in shape], F32)
                order = [value, f"c{i}"] if m.integers(0, 1) else [f"c{i}", value]
                nodes.append(helper.make_node(op, order, [out]))
            elif op == "Transpose":
                perm = [int(p) for p in m.random.permutation(len(shape))]
                nodes.append(helper.make_node(op, [value], [out], perm=perm))
                shape = [shape[p] for p in perm]
            elif op == "Clip":
                constants[f"c{i}"], constants[f"d{i}"] = F32(-1.5), F32(1.5)
                nodes.append(helper.make_node(op, [value, f"c{i}", f"d{i}"], [out]))
            elif op == "Where":
                constants[f"c{i}"] = m.array(shape, BOOL)
                nodes.append(helper.make_node(op, [f"c{i}", value, "x" if shape == list(inputs["x"].shape) else value], [out]))
            elif op == "Reshape":
                shape = [int(np.prod(shape))] if len(shape) > 1 else [*shape, 1]
                constants[f"c{i}"] = np.array(shape, I64)
                nodes.append(helper.make_node(op, [value, f"c{i}"], [out]))
            else:
                nodes.append(helper.make_node(op, [value], [out]))
            value = out
        m.add("chain", nodes, inputs, {value: None}, constants, dynamic=False)
    # Whole numbers wrap between the steps.
    for dtype in (U8, I8):
        nodes = [helper.make_node("Sub", ["a", "b"], ["d"]), helper.make_node("Cast", ["d"], ["e"], to=TensorProto.INT32),
                 helper.make_node("Mul", ["e", "e"], ["y"])]
        m.add("wrap", nodes, {"a": m.array([6, 5], dtype, 0, 120), "b": m.array([5], dtype, 0, 120)}, {"y": I32}, opset=14)
    # What a cast to 16 bits makes infinite stays so.
    nodes = [helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16), helper.make_node("Cast", ["h"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("Mul", ["f", "x"], ["y"])]
    m.add("through_half", nodes, {"x": np.array([1, 70000, -1e6, 3.14159], F32)}, {"y": F32})


def reductions(m):
    ops = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
           "ReduceLogSum", "ReduceLogSumExp")
    for op in ops:
        for dtype in (F32, F16, I32, I64, F64):
            if op.startswith("ReduceLog") and dtype != F32:
                continue
            shape = m.shape(m.integers(1, 5), 1, 5)
            axes = sorted(m.random.permutation(len(shape))[:m.integers(1, len(shape))])
            axes = [int(a) - (len(shape) if m.integers(0, 1) else 0) for a in axes]
            x = m.array(shape, dtype, 1, 3)
            m.one(op, {"x": x}, constants={"axes": np.array(axes, I64)}, keepdims=m.integers(0, 1))
        m.one(op, {"x": m.array([3, 130], F32, 0.9, 1.1)}, constants={"axes": np.array([1], I64)}, keepdims=0)
        m.one(op, {"x": m.array([700, 3], F32, 0.99, 1.01)}, constants={"axes": np.array([0], I64)})
        m.one(op, {"x": m.array([4, 5], F32, 1, 2)}, keepdims=1)
        m.one(op, {"x": m.array([4, 5], F32, 1, 2)}, constants={"axes": np.zeros([0], I64)}, noop_with_empty_axes=1)
        m.one(op, {"x": m.array([], F32, 1, 2)})
    for op in ("ReduceMax", "ReduceMin"):
        for dtype in (U8, I8):
            m.one(op, {"x": m.array([3, 70], dtype, 0, 99)}, constants={"axes": np.array([1], I64)}, keepdims=0)
        m.one(op, {"x": np.array([[1, 2, 3], [-np.inf, 2, np.inf]], F32)}, constants={"axes": np.array([1], I64)})
    for op in ("ArgMax", "ArgMin"):
        for dtype in (F32, I32, F16, I64):
            shape = m.shape(3, 1, 9)
            m.one(op, {"x": m.array(shape, dtype)}, I64, axis=m.integers(-3, 2), keepdims=m.integers(0, 1))
        m.one(op, {"x": np.array([[2, 2, 1], [1, 1, 2]], F32)}, I64, axis=1)
        m.one(op, {"x": m.array([2, 300], F32)}, I64, axis=-1, keepdims=0)


def moves(m):
    for rank in (2, 3, 4, 5, 6, 6, 6):
        for dtype in (F32, (F16, I64, U8, BOOL)[rank % 4]):
            m.one("Transpose", {"x": m.array(m.shape(rank, 1, 5), dtype)}, perm=[int(p) for p in m.random.permutation(rank)])
    m.one("Transpose", {"x": m.array([2, 3, 4], F32)})
    for dtype in (F32, F16, I64, U8, BOOL, F32, F32):
        shape = m.shape(m.integers(1, 4), 1, 6)
        axis = m.integers(-len(shape), len(shape) - 1)
        size = shape[axis]
        for kind in (I64, I32):
            index = m.random.integers(-size, size, m.shape(m.integers(0, 3), 1, 4)).astype(kind)
            m.one("Gather", {"x": m.array(shape, dtype), "i": index}, axis=axis)
    m.one("Gather", {"x": m.array([5, 3], F32)}, constants={"i": np.array([-1, 0, 4, -5], I64)})
    for dtype in (F32, F32, F32, F16, I64, I32, U8, BOOL, F32, F32):
        shape = m.shape(m.integers(1, 5), 1, 8)
        chosen = [int(a) for a in m.random.permutation(len(shape))[:m.integers(1, len(shape))]]
        starts, ends, steps = [], [], []
        for axis in chosen:
            step = (1, -1, 2, -2, 3, -3)[m.integers(0, 5)]
            a, b = m.integers(-shape[axis] - 1, shape[axis] + 1), m.integers(-shape[axis] - 1, shape[axis] + 1)
            if step < 0 and m.integers(0, 1):
                a, b = shape[axis] + 5, -(1 << 62)
            elif step > 0 and m.integers(0, 1):
                a, b = 0, (1 << 62)
            starts.append(a), ends.append(b), steps.append(step)
        axes = [axis - (len(shape) if m.integers(0, 1) else 0) for axis in chosen]
        for dynamic in (False, True):
            m.one("Slice", {"x": m.array(shape, dtype)}, dynamic=dynamic, constants={
                "starts": np.array(starts, I64), "ends": np.array(ends, I64), "axes": np.array(axes, I64),
                "steps": np.array(steps, I64)})
    m.one("Slice", {"x": m.array([6, 4], F32)}, constants={"starts": np.array([1, -3], I32), "ends": np.array([-1, 4], I32)})
    m.one("Slice", {"x": m.array([6, 4], F32)}, constants={
        "starts": np.array([-1], I64), "ends": np.array([-(1 << 63)], I64), "axes": np.array([0], I64), "steps": np.array([-1], I64)})
    m.one("Slice", {"x": m.array([6, 4], F32)}, constants={
        "starts": np.array([0], I64), "ends": np.array([6], I64), "axes": np.array([0], I64), "steps": np.array([(1 << 62)], I64)})
    for dtype in (F32, I64, F16, BOOL):
        for sizes in ((2, 3), (1, 1, 4), (0, 5), (3, 0, 0, 2)):
            shape, axis = m.shape(3, 1, 4), m.integers(0, 2)
            parts = {}
            for i, size in enumerate(sizes):
                part = list(shape)
                part[axis] = size
                parts[f"x{i}"] = m.array(part, dtype)
            m.one("Concat", parts, axis=axis - (3 if m.integers(0, 1) else 0))
            whole = list(shape)
            whole[axis] = sum(sizes)
            m.one("Split", {"x": m.array(whole, dtype)}, constants={"sizes": np.array(sizes, I64)}, outputs=len(sizes), axis=axis)
    m.one("Split", {"x": m.array([7, 3], F32)}, outputs=3, num_outputs=3, axis=0)
    m.add("concat_twice", [helper.make_node("Concat", ["x", "x", "c"], ["y"], axis=1)], {"x": m.array([2, 3], F32)}, {"y": F32},
          {"c": m.array([2, 1], F32)})
    m.add("concat_one", [helper.make_node("Concat", ["x"], ["y"], axis=0)], {"x": m.array([2, 3], F32)}, {"y": F32})
    for dtype in (F32, I64, F16, I32, U8):
        shape = m.shape(3, 1, 5)
        pads = [m.integers(0, 3) for _ in range(6)]
        m.one("Pad", {"x": m.array(shape, dtype)}, constants={"pads": np.array(pads, I64), "value": np.asarray(3, dtype)})
    m.one("Pad", {"x": m.array([5, 6], F32)}, constants={"pads": np.array([-1, 2, 0, -2], I64)})
    m.one("Pad", {"x": m.array([0, 6], F32)}, constants={"pads": np.array([1, 0, 1, 0], I64)})
    for dtype in (F32, BOOL, I64):
        m.one("Expand", {"x": m.array([3, 1, 2], dtype)}, constants={"shape": np.array([4, 1, 5, 1], I64)})
    m.one("Reshape", {"x": m.array([2, 3, 4], I32)}, constants={"shape": np.array([0, -1], I64)})
    m.one("Reshape", {"x": m.array([0, 3], F32)}, constants={"shape": np.array([3, -1], I64)}, dynamic=False)
    m.one("Flatten", {"x": m.array([2, 3, 4], F16)}, axis=-1)
    m.one("Squeeze", {"x": m.array([2, 1, 4, 1], F32)}, constants={"axes": np.array([-1, 1], I64)})
    m.one("Unsqueeze", {"x": m.array([], I64)}, constants={"axes": np.array([0, 1], I64)})


def empties(m):
    for op in ("Relu", "Neg", "Sigmoid"):
        m.one(op, {"x": np.zeros([0, 3], F32)})
    m.one("Add", {"a": np.zeros([0, 3], F32), "b": m.array([3], F32)})
    m.one("Add", {"a": np.zeros([2, 0, 3], F32), "b": m.array([2, 1, 1], F32)})
    m.one("ReduceSum", {"x": np.zeros([3, 0, 2], F32)}, constants={"axes": np.array([1], I64)}, keepdims=0)
    m.one("ReduceSum", {"x": np.zeros([0, 4], F32)}, constants={"axes": np.array([1], I64)})
    m.one("ReduceProd", {"x": np.zeros([3, 0], F32)}, constants={"axes": np.array([1], I64)})
    m.one("Transpose", {"x": np.zeros([2, 0, 3], F32)}, perm=[2, 1, 0])
    m.one("Gather", {"x": m.array([4, 3], F32), "i": np.zeros([0], I64)})
    m.one("Gather", {"x": m.array([4, 0], F32), "i": np.array([1, 2], I64)})
    m.one("Concat", {"a": np.zeros([0, 3], F32), "b": np.zeros([0, 3], F32)}, axis=0)
    m.one("Slice", {"x": m.array([4, 3], F32)}, constants={"starts": np.array([3], I64), "ends": np.array([1], I64)})


def indexed(m):
    for dtype in (F32, F16, I64, U8, BOOL):
        for kind in (I64, I32):
            shape = m.shape(m.integers(1, 4), 2, 6)
            axis = m.integers(-len(shape), len(shape) - 1)
            by = [m.integers(1, size) for size in shape]
            index = m.random.integers(-shape[axis], shape[axis], by).astype(kind)
            m.one("GatherElements", {"x": m.array(shape, dtype), "i": index}, axis=axis)
            # Every index once along the axis: what is put twice may end as either.
            order = np.argsort(m.random.random(shape), axis=axis).astype(kind)
            m.one("ScatterElements", {"x": m.array(shape, dtype), "i": order, "u": m.array(shape, dtype)}, axis=axis)
            m.one("GatherND", {"x": m.array([3, 4, 5], dtype), "i": m.random.integers(-3, 3, [2, 6, 2]).astype(I64)})
            places = np.stack(np.unravel_index(m.random.permutation(12)[:7], [3, 4]), -1).astype(I64)
            m.one("ScatterND", {"x": m.array([3, 4, 5], dtype), "i": places, "u": m.array([7, 5], dtype)})
    m.one("GatherND", {"x": m.array([3, 4, 5], F32), "i": m.random.integers(0, 4, [3, 2, 1]).astype(I64)}, batch_dims=1)
    for reduction in ("add", "mul", "max", "min"):
        for dtype in (F32, I64, F16):
            m.one("ScatterElements", {"x": m.array([5, 6], dtype), "i": m.random.integers(-5, 5, [9, 6]).astype(I64),
                                      "u": m.array([9, 6], dtype)}, axis=0, reduction=reduction)
            m.one("ScatterND", {"x": m.array([5, 6], dtype), "i": m.random.integers(0, 5, [8, 1]).astype(I64), "u": m.array([8, 6], dtype)},
                  reduction=reduction)
    m.one("ScatterND", {"x": m.array([0, 3], F32), "i": np.zeros([0, 1], I64), "u": m.array([0, 3], F32)})
    m.one("ScatterElements", {"x": m.array([4, 3], F32), "i": np.zeros([0, 3], I64), "u": m.array([0, 3], F32)}, axis=0)
    for dtype, kind in ((F32, I64), (I64, I32), (F16, F32), (BOOL, I64)):
        for axis in (-1, 0, 1):
            m.one("OneHot", {"i": np.asarray(m.random.integers(-6, 6, [3, 4]), kind)}, dtype, constants={
                "d": np.asarray(5, I64), "v": np.asarray([0, 1] if dtype == BOOL else [2, 7], dtype)}, axis=axis)
    for dtype in (F32, F16, I64, BOOL):
        for upper in (0, 1):
            m.one("Trilu", {"x": m.array([2, 4, 5], dtype), "k": np.asarray(m.integers(-3, 3), I64)}, upper=upper)
        m.one("EyeLike", {"x": m.array([3, 5], F32)}, dtype, dtype=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), k=m.integers(-2, 2))
        m.one("Tile", {"x": m.array([2, 3, 1], dtype)}, constants={"r": np.array([2, 1, 4], I64)})
        m.one("ReverseSequence", {"x": m.array([5, 3, 2], dtype), "n": np.array([5, 1, 3], I64)})
    m.one("ReverseSequence", {"x": m.array([3, 5], F32), "n": np.array([2, 5, 4], I64)}, batch_axis=0, time_axis=1)
    m.one("Tile", {"x": m.array([2, 3], F32)}, constants={"r": np.array([0, 2], I64)})
    for mode in ("DCR", "CRD"):
        for dtype in (F32, F16):
            m.one("DepthToSpace", {"x": m.array([2, 12, 3, 5], dtype)}, blocksize=2, mode=mode)
    m.one("SpaceToDepth", {"x": m.array([2, 3, 6, 4], F32)}, blocksize=2)
    for mode in ("edge", "reflect", "wrap"):
        for dtype in (F32, F16, I64):
            m.one("Pad", {"x": m.array([3, 4, 5], dtype)}, constants={"pads": np.array([0, 2, 3, 1, 1, 4], I64)}, mode=mode, opset=19)
    for length in (1, 7, 300, 1000):
        for dtype in (F32, I64, I32):
            m.one("CumSum", {"x": m.array([2, length, 3], dtype)}, constants={"a": np.asarray(1, I32)}, exclusive=m.integers(0, 1),
                  reverse=m.integers(0, 1))
    m.one("CumSum", {"x": m.array([2, 0], F32)}, constants={"a": np.asarray(-1, I64)})
    for op, dtype in (("Tan", F32), ("Asin", F32), ("Acos", F32), ("Atan", F32), ("Sinh", F32), ("Cosh", F32), ("Asinh", F32),
                      ("Atanh", F32), ("ThresholdedRelu", F32), ("Shrink", F32)):
        m.one(op, {"x": m.array([3, 17], dtype, -0.9, 0.9)})
    m.one("Acosh", {"x": m.array([3, 17], F32, 1.1, 9)})
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        for dtype in (I32, U8, I64):
            m.one(op, {"a": m.array([3, 4], dtype, -100, 100), "b": m.array([4], dtype, -100, 100)})
    m.one("BitwiseNot", {"a": m.array([3, 4], I32, -100, 100)})
    for direction in ("LEFT", "RIGHT"):
        for dtype in (U8, np.uint32, np.uint64):
            m.one("BitShift", {"a": m.array([3, 4], dtype, 0, 100), "b": m.array([4], dtype, 0, 7)}, direction=direction)


def integers(m):
    for shape in ([3, 40], [1], [2, 0], [5, 4, 1000], [70000]):
        for low, high in ((-3, 5), (1, 2), (-7, -1), (0, 0)):
            m.add("DynamicQuantizeLinear", [helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])],
                  {"x": m.array(shape, F32, low, high)}, {"y": U8, "s": F32, "z": U8}, opset=11)
    for a_type, b_type in ((U8, U8), (U8, I8), (I8, I8), (I8, U8)):
        for a, b in (([3, 5], [5, 4]), ([2, 3, 17], [17, 9]), ([33, 100], [100, 70]), ([2, 70, 64], [64, 130]), ([2, 4, 33, 40], [2, 4, 40, 35]),
                     ([0, 5], [5, 3])):
            # Onnxruntime's sums of two products of unsigned and signed numbers saturate on some machines.
            high = 255 if b_type == a_type else 60
            x, w = m.array(a, a_type, -128, min(high, np.iinfo(a_type).max)), m.array(b, b_type, -60, 60)
            zero, zeros = np.asarray(m.integers(0, 60), a_type), m.array([b[-1]], b_type, -60, 60)
            m.one("MatMulInteger", {"a": x, "b": w}, I32, opset=10)
            m.one("MatMulInteger", {"a": x, "b": w, "p": zero, "q": np.asarray(7, b_type)}, I32, opset=10)
            if len(b) == 2:
                m.add("MatMulInteger", [helper.make_node("MatMulInteger", ["a", "b", "p", "q"], ["y"])], {"a": x, "p": zero}, {"y": I32},
                      {"b": w, "q": zeros}, opset=10)
    for a_type, b_type in ((U8, U8), (U8, I8)):
        for channels, outputs, group, size in ((3, 4, 1, [6, 7]), (5, 33, 1, [15, 14]), (16, 32, 1, [20, 20]), (8, 8, 8, [9, 9]), (6, 4, 2, [12]),
                                               (4, 40, 1, [90])):
            for pads in (0, 1):
                kernel = [m.integers(1, 3) for _ in size]
                x, w = m.array([2, channels, *size], a_type, 0, 255), m.array([outputs, channels // group, *kernel], b_type, -60, 60)
                attributes = {"pads": [pads] * 2 * len(size), "strides": [m.integers(1, 2) for _ in size], "group": group}
                zero = np.asarray(m.integers(0, 255), a_type)
                m.one("ConvInteger", {"x": x, "w": w, "p": zero}, I32, opset=10, **attributes)
                m.one("ConvInteger", {"x": x}, I32, constants={"w": w}, opset=10, **attributes)
                zeros = np.zeros([outputs], b_type) if b_type == I8 else m.array([outputs], b_type, 0, 9)
                scales = m.array([outputs], F32, 0.001, 0.01)
                m.add("QLinearConv", [helper.make_node("QLinearConv", ["x", "sx", "p", "w", "sw", "q", "sy", "r", "b"], ["y"], **attributes)],
                      {"x": x}, {"y": a_type}, {"sx": F32(0.02), "p": zero, "w": w, "sw": scales, "q": zeros, "sy": F32(0.3), "r": np.asarray(100, a_type),
                                                "b": m.array([outputs], I32, -500, 500)}, opset=10)
    for shape, columns in (([5, 40], 7), ([64, 100], 90)):
        m.add("QLinearMatMul", [helper.make_node("QLinearMatMul", ["x", "sx", "p", "w", "sw", "q", "sy", "r"], ["y"])],
              {"x": m.array(shape, U8, 0, 255)}, {"y": U8},
              {"sx": F32(0.02), "p": np.uint8(100), "w": m.array([shape[-1], columns], I8, -60, 60), "sw": F32(0.005),
               "q": np.int8(0), "sy": F32(0.3), "r": np.uint8(99)}, opset=10)
    # As onnxruntime's dynamic quantisation writes a product.
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]), helper.make_node("MatMulInteger", ["xq", "w", "xz", "wz"], ["p"]),
             helper.make_node("Cast", ["p"], ["f"], to=TensorProto.FLOAT), helper.make_node("Mul", ["xs", "ws"], ["s"]),
             helper.make_node("Mul", ["f", "s"], ["y"])]
    for rows, depth, columns in ((3, 20, 5), (40, 96, 72)):
        m.add("dynamic_product", nodes, {"x": m.array([rows, depth], F32)}, {"y": F32},
              {"w": m.array([depth, columns], I8, -60, 60), "wz": np.int8(0), "ws": F32(0.01)}, opset=13)

"""Small models of random shapes, types and attributes, the same each time: what operators have few node cases for.
Nobody says what they give; the CPU EPs of two hosts do. A case is named for its family, its operator and how many of
these came before, so that a new one renames no other."""
import collections

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import driver

F32, F16, F64, I32, I64, U8, I8, BOOL = (np.float32, np.float16, np.float64, np.int32, np.int64, np.uint8, np.int8,
                                         np.bool_)


class Maker:
    def __init__(self):
        self.cases, self.random, self.family, self.made = [], np.random.default_rng(17), "", collections.Counter()

    def array(self, shape, dtype, low=-4, high=4):
        if dtype == BOOL:
            return self.random.integers(0, 2, shape).astype(BOOL)
        if np.dtype(dtype).kind in "iu":
            return self.random.integers(max(low, 0) if np.dtype(dtype).kind == "u" else low, high + 1, shape).astype(dtype)
        return np.asarray(self.random.uniform(low, high, shape)).astype(dtype)

    def integers(self, low, high):
        return int(self.random.integers(low, high + 1))

    def shape(self, rank, low=1, high=6):
        return [self.integers(low, high) for _ in range(rank)]

    def add(self, name, nodes, inputs, outputs, constants=None, dynamic=None, opset=18):
        """`outputs`: {name: type or None where it is the first input's}; dynamic: symbols instead of sizes, or "rank" where
        not even the ranks are known."""
        if dynamic is None:
            dynamic = len(self.cases) % 3 == 2
        name = "_".join(part for part in ("random", self.family, name) if part)
        self.made[name] += 1
        name += f"_{self.made[name]}"
        first = next(iter(inputs.values())).dtype

        def dims(key, array):
            if dynamic == "rank":
                return None
            return [f"{key}{i}" for i in range(array.ndim)] if dynamic else list(array.shape)
        infos = [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(array.dtype), dims(key, array))
                 for key, array in inputs.items()]
        made = [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(np.dtype(dtype or first)), None)
                for key, dtype in outputs.items()]
        held = [numpy_helper.from_array(np.asarray(array), key) for key, array in (constants or {}).items()]
        graph = helper.make_graph(nodes, name, infos, made, held)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        self.cases.append(driver.Case(name, model.SerializeToString(), dict(inputs), [None] * len(outputs)))

    def one(self, op, inputs, out=None, constants=None, outputs=1, dynamic=None, opset=18, **attributes):
        """One node: `inputs` in order, those in `constants` by name; None for what is left out."""
        constants = constants or {}
        order = [name or "" for name in inputs] if isinstance(inputs, list) else [*inputs, *constants]
        fed = {} if isinstance(inputs, list) else inputs
        names = [f"y{i}" for i in range(outputs)]
        self.add(op, [helper.make_node(op, order, names, **attributes)], fed, {name: out for name in names}, constants,
                 dynamic, opset)


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


def products(m):
    for a, b in (([3, 5], [5, 4]), ([2, 3, 5], [5, 4]), ([2, 1, 3, 5], [4, 5, 7]), ([5], [5]), ([5], [3, 5, 2]), ([4, 5], [5]),
                 ([1, 1], [1, 1]), ([33, 17], [17, 65]), ([0, 5], [5, 4]), ([3, 0], [0, 4]), ([2, 0, 5], [5, 3])):
        for dtype in (F32, F16):
            m.one("MatMul", {"a": m.array(a, dtype), "b": m.array(b, dtype)})
            m.one("MatMul", {"a": m.array(a, dtype)}, constants={"b": m.array(b, dtype)})
    for turn_a in (0, 1):
        for turn_b in (0, 1):
            a, b = m.array([7, 5] if not turn_a else [5, 7], F32), m.array([5, 6] if not turn_b else [6, 5], F32)
            for c in ([6], [7, 1], [7, 6], []):
                m.one("Gemm", {"a": a}, constants={"b": b, "c": m.array(c, F32)}, transA=turn_a, transB=turn_b, alpha=0.5, beta=1.5)
            m.one("Gemm", {"a": a, "b": b}, transA=turn_a, transB=turn_b)
    for spatial, group, channels, outputs in ((1, 1, 3, 4), (2, 1, 5, 7), (2, 4, 8, 12), (2, 6, 6, 6), (2, 1, 16, 32), (2, 1, 3, 8)):
        for _ in range(3):
            kernel = [m.integers(1, 4) for _ in range(spatial)]
            size = [m.integers(6, 12) for _ in range(spatial)]
            attributes = {"strides": [m.integers(1, 3) for _ in range(spatial)], "dilations": [m.integers(1, 2) for _ in range(spatial)],
                          "pads": [m.integers(0, 2) for _ in range(2 * spatial)], "group": group}
            for dtype in (F32, F16):
                m.one("Conv", {"x": m.array([2, channels, *size], dtype)},
                      constants={"w": m.array([outputs, channels // group, *kernel], dtype), "b": m.array([outputs], dtype)}, **attributes)
    m.one("Conv", {"x": m.array([0, 3, 8, 8], F32)}, constants={"w": m.array([4, 3, 3, 3], F32)}, dynamic=True)
    for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        m.one("Conv", {"x": m.array([1, 4, 9, 10], F32)}, constants={"w": m.array([5, 4, 3, 2], F32)}, auto_pad=mode, strides=[2, 3])


def rows(m):
    for op in ("Softmax", "LogSoftmax"):
        for shape, axis in (([3, 5], -1), ([2, 7, 4], 1), ([2, 3, 4, 5], 1), ([2, 3, 4, 5], -1), ([1000], 0), ([4, 2049], 1), ([0, 5], 1),
                            ([3, 1], 1), ([2, 3, 4, 5], 2)):
            for dtype in (F32, F16):
                m.one(op, {"x": m.array(shape, dtype, -20, 20)}, axis=axis)
        m.one(op, {"x": m.array([2, 3, 4], F32)}, axis=1, opset=11)
    for shape, axis in (([3, 8], -1), ([2, 5, 33], -1), ([2, 3, 4, 5], 2), ([4, 1025], 1), ([1, 1], 1), ([0, 6], -1)):
        for dtype in (F32, F16):
            size = shape[axis:] if axis < 0 else shape[axis:]
            m.one("LayerNormalization", {"x": m.array(shape, dtype)}, constants={"s": m.array(size, dtype), "b": m.array(size, dtype)}, axis=axis)
    m.one("LayerNormalization", {"x": m.array([3, 7], F32)}, constants={"s": m.array([7], F32)})
    for op in ("MaxPool", "AveragePool"):
        for spatial in (1, 2):
            for _ in range(5):
                kernel = [m.integers(2, 4) for _ in range(spatial)]
                attributes = {"kernel_shape": kernel, "strides": [m.integers(1, 3) for _ in range(spatial)],
                              "pads": [m.integers(0, 1) for _ in range(2 * spatial)], "ceil_mode": m.integers(0, 1)}
                if op == "AveragePool":
                    attributes["count_include_pad"] = m.integers(0, 1)
                else:
                    attributes["dilations"] = [m.integers(1, 2) for _ in range(spatial)]
                m.one(op, {"x": m.array([2, 5, *(m.integers(8, 13) for _ in range(spatial))], F32)}, **attributes)
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        for shape in ([2, 3, 5, 7], [1, 8, 4], [2, 33, 1, 1], [0, 3, 4, 4]):
            m.one(op, {"x": m.array(shape, F32)})
    for shape in ([2, 5], [2, 5, 4], [2, 5, 3, 4]):
        m.one("BatchNormalization", {"x": m.array(shape, F32)}, constants={
            "s": m.array([5], F32), "b": m.array([5], F32), "mean": m.array([5], F32), "var": m.array([5], F32, 0.5, 2)})


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


def sizes(m):
    """Shapes that the model computes from shapes: numbers once the sizes are, whatever they go through."""
    def node(op, inputs, out, **attributes):
        return helper.make_node(op, inputs, [out], **attributes)
    shape = node("Shape", ["x"], "s")
    one, zero, last = np.array([1], I64), np.array([0], I64), np.array([-1], I64)
    first = node("Gather", ["s", "c0"], "n")  # a number
    first_of_one = [shape, first, node("Unsqueeze", ["n", "axis"], "n1")]
    known = {"c0": np.array(0, I64), "axis": zero, "minus": last, "one": one, "two": np.array([2], I64), "c1": np.array(1, I64)}
    ways = {
        "concat": [*first_of_one, node("Concat", ["n1", "minus"], "t", axis=0)],
        "reversed": [shape, node("Gather", ["s", "order"], "t")],
        "gather_negative": [shape, node("Gather", ["s", "minus"], "g"), node("Concat", ["g", "minus"], "t", axis=0)],
        "slice": [shape, node("Slice", ["s", "one", "three"], "g"), node("Concat", ["g", "minus"], "t", axis=0)],
        "slice_backwards": [shape, node("Slice", ["s", "minus", "far", "axis", "minus"], "t")],
        "product": [shape, node("ReduceProd", ["s"], "t", keepdims=1)],
        "product_of_all": [shape, node("ReduceProd", ["s", "axis"], "p", keepdims=0), node("Unsqueeze", ["p", "axis"], "t")],
        "size": [node("Size", ["x"], "p"), node("Unsqueeze", ["p", "axis"], "t")],
        "reshape": [shape, first, node("Reshape", ["n", "one"], "n1"), node("Concat", ["n1", "minus"], "t", axis=0)],
        "squeeze": [shape, node("Slice", ["s", "axis", "one"], "g"), node("Squeeze", ["g", "axis"], "n"),
                    node("Unsqueeze", ["n", "axis"], "n1"), node("Concat", ["minus", "n1"], "t", axis=0)],
        "arithmetic": [shape, first, node("Mul", ["n", "two"], "d"), node("Div", ["d", "two"], "h"), node("Add", ["h", "one"], "a"),
                       node("Sub", ["a", "one"], "b"), node("Concat", ["b", "minus"], "t", axis=0)],
        "least": [*first_of_one, node("Max", ["n1", "one"], "a"), node("Min", ["a", "n1"], "b"), node("Concat", ["b", "minus"], "t", axis=0)],
        "casts": [shape, node("Cast", ["s"], "i", to=TensorProto.INT32), node("Cast", ["i"], "t", to=TensorProto.INT64)],
        "floats": [shape, node("Cast", ["s"], "f", to=TensorProto.FLOAT), node("Cast", ["f"], "t", to=TensorProto.INT64)],
        "scaled": [shape, node("Cast", ["s"], "f", to=TensorProto.FLOAT), node("Mul", ["f", "unit"], "g"),
                   node("Floor", ["g"], "h"), node("Cast", ["h"], "t", to=TensorProto.INT64)],
        "where": [shape, node("Equal", ["asked", "threes"], "e"), node("Where", ["e", "s", "asked"], "t")],
        "matrix": [shape, node("Reshape", ["s", "square"], "q"), node("Slice", ["q", "axis", "one"], "r"),
                   node("Reshape", ["r", "minus"], "t0"), node("Concat", ["t0", "minus"], "t", axis=0)],
        "part": [node("Shape", ["x"], "g", start=0, end=1), node("Concat", ["g", "minus"], "t", axis=0)],
        "expanded": [*first_of_one, node("Expand", ["n1", "one"], "g"), node("Concat", ["g", "minus"], "t", axis=0)],
        "identity": [shape, node("Identity", ["s"], "t")],
        "less": [*first_of_one, node("Less", ["n1", "two"], "e"), node("Where", ["e", "n1", "n1"], "g"),
                 node("Concat", ["g", "minus"], "t", axis=0)],
    }
    constants = {**known, "order": np.array([2, 0, 1], I64), "three": np.array([2], I64), "far": np.array([-100], I64),
                 "unit": np.array(1, F32), "asked": np.array([-1, 1, 1], I64), "threes": np.array([-1, 1, 1], I64),
                 "square": np.array([1, 3], I64)}
    for name, nodes in ways.items():
        used = {key for each in nodes for key in each.input}
        for dynamic in (False, True):
            m.add(f"sizes_{name}", [*nodes, node("Reshape", ["x", "t"], "v"), node("Neg", ["v"], "y")], {"x": m.array([4, 2, 3], F32)},
                  {"y": F32}, {key: value for key, value in constants.items() if key in used}, dynamic)
    for dynamic in (False, True):
        x = {"x": m.array([4, 3], F32)}
        m.add("sizes_constant", [shape, node("ConstantOfShape", ["s"], "c", value=numpy_helper.from_array(np.array([2.5], F32))),
                                 node("Add", ["c", "x"], "y")], x, {"y": F32}, {}, dynamic)
        m.add("sizes_whole", [shape, node("ConstantOfShape", ["s"], "c", value=numpy_helper.from_array(np.array([7], I64))),
                              node("Cast", ["x"], "i", to=TensorProto.INT64), node("Mul", ["c", "i"], "y")], x, {"y": I64}, {}, dynamic)
        m.add("sizes_range", [shape, first, node("Range", ["c0", "n", "c1"], "r"), node("Gather", ["x", "r"], "y")], x, {"y": F32},
              {"c0": known["c0"], "c1": known["c1"]}, dynamic)
        m.add("sizes_mask", [shape, first, node("Range", ["c0", "n", "c1"], "r"), node("Unsqueeze", ["r", "one"], "a"),
                             node("Unsqueeze", ["r", "axis"], "b"), node("Less", ["a", "b"], "l"),
                             node("Cast", ["l"], "m", to=TensorProto.FLOAT), node("MatMul", ["m", "x"], "y")], x, {"y": F32},
              {key: known[key] for key in ("c0", "c1", "one", "axis")}, dynamic)
        m.add("sizes_expand", [shape, node("Expand", ["row", "s"], "e"), node("Sub", ["x", "e"], "y")], x, {"y": F32},
              {"row": m.array([1, 3], F32)}, dynamic)
        # The shape is a result too, and that of something computed.
        m.add("sizes_result", [node("Relu", ["x"], "a"), node("Shape", ["a"], "y"), node("Neg", ["a"], "z")], x, {"y": I64, "z": F32}, {},
              dynamic)


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


def normalised(m):
    for dtype in (F32, F16):
        for shape in ([2, 6, 5, 7], [1, 6, 300], [3, 6, 1], [0, 6, 4]):
            scale, bias = m.array([6], dtype), m.array([6], dtype)
            m.one("InstanceNormalization", {"x": m.array(shape, dtype)}, constants={"s": scale, "b": bias})
            m.one("GroupNormalization", {"x": m.array(shape, dtype)}, constants={"s": scale, "b": bias}, num_groups=3, opset=21)
        for axis in (-1, 0, 1):
            for p in (1, 2):
                m.one("LpNormalization", {"x": m.array([3, 4, 5], dtype)}, axis=axis, p=p)
        m.one("LayerNormalization", {"x": m.array([3, 5, 8], dtype), "s": m.array([8], dtype), "b": m.array([8], dtype)})
        m.one("LayerNormalization", {"x": m.array([3, 5, 8], dtype), "s": m.array([5, 8], dtype)}, axis=1)
        m.one("RMSNormalization", {"x": m.array([3, 5, 8], dtype)}, constants={"s": m.array([8], dtype)}, opset=23)
    m.one("LayerNormalization", {"x": m.array([3, 5, 8], F32)}, constants={"s": m.array([8], F32), "b": m.array([8], F32)}, outputs=3)
    m.one("LpNormalization", {"x": np.zeros([2, 3], F32)})
    m.one("MeanVarianceNormalization", {"x": m.array([2, 3, 4, 5], F32)})
    for op in ("MaxPool", "AveragePool"):
        for _ in range(3):
            attributes = {"dilations": [1, 2, 1]} if op == "MaxPool" else {"count_include_pad": m.integers(0, 1)}
            m.one(op, {"x": m.array([2, 3, 7, 8, 6], F32)}, kernel_shape=[2, 3, 2], strides=[m.integers(1, 2) for _ in range(3)],
                  pads=[m.integers(0, 1) for _ in range(6)], ceil_mode=m.integers(0, 1), **attributes)
    for dtype in (U8, I8):
        m.one("MaxPool", {"x": m.array([2, 3, 9, 9], dtype, -90, 90)}, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    m.add("MaxPool_places", [helper.make_node("MaxPool", ["x"], ["y", "z"], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])],
          {"x": m.array([2, 3, 9, 8], F32)}, {"y": F32, "z": I64})
    for p in (1, 2, 3):
        m.one("LpPool", {"x": m.array([2, 3, 9, 8], F32)}, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], p=p)


def computed_weights(m):
    for spatial, group, channels, outputs in ((1, 1, 3, 4), (2, 1, 5, 7), (2, 4, 8, 12), (2, 16, 16, 16), (2, 1, 16, 32), (3, 1, 3, 4),
                                              (3, 2, 4, 6)):
        kernel = [m.integers(1, 3) for _ in range(spatial)]
        size = [m.integers(6, 9) for _ in range(spatial)]
        attributes = {"strides": [m.integers(1, 2) for _ in range(spatial)], "dilations": [m.integers(1, 2) for _ in range(spatial)],
                      "pads": [m.integers(0, 2) for _ in range(2 * spatial)], "group": group}
        for dtype in (F32, F16):
            x, w, b = m.array([2, channels, *size], dtype), m.array([outputs, channels // group, *kernel], dtype), m.array([outputs], dtype)
            m.one("Conv", {"x": x, "w": w, "b": b}, **attributes)
            m.one("Conv", {"x": x, "w": w}, **attributes)
            if spatial == 3:
                m.one("Conv", {"x": x}, constants={"w": w, "b": b}, **attributes)
            turned = np.moveaxis(w.reshape(group, outputs // group, channels // group, *kernel), 1, 2)
            turned = np.ascontiguousarray(turned.reshape(channels, outputs // group, *kernel))
            m.one("ConvTranspose", {"x": x, "w": turned, "b": b}, strides=attributes["strides"], group=group)
    # A residual and an activation after computed weights.
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Add", ["c", "x"], ["s"]),
             helper.make_node("Relu", ["s"], ["y"])]
    for dtype in (F32, F16):
        m.add("Conv_residual", nodes, {"x": m.array([2, 8, 9, 9], dtype), "w": m.array([8, 8, 3, 3], dtype), "b": m.array([8], dtype)}, {"y": dtype})
    for c in ([6], [7, 1], [7, 6], [], [1, 6]):
        m.one("Gemm", {"a": m.array([7, 5], F32), "b": m.array([5, 6], F32), "c": m.array(c, F32)}, alpha=0.5, beta=1.5)


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


def sampled(m):
    for equation, shapes in (("ij,jk->ik", ([3, 4], [4, 5])), ("bij,bjk->bik", ([2, 3, 4], [2, 4, 5])), ("bhqd,bhkd->bhqk", ([2, 3, 4, 5], [2, 3, 6, 5])),
                             ("bhqk,bkhd->bqhd", ([2, 3, 4, 6], [2, 6, 3, 5])), ("ij->ji", ([3, 4],)), ("ii->i", ([4, 4],)), ("ij->", ([3, 4],)),
                             ("i,j->ij", ([3], [4])), ("...ij,...jk->...ik", ([2, 1, 3, 4], [5, 4, 6])), ("ij,jk", ([3, 4], [4, 5])),
                             ("i,i,i->i", ([5], [5], [5])), ("bij,bkj->bki", ([4, 33, 40], [4, 35, 40])), ("abcd,dce->bae", ([7, 5, 8, 20], [20, 8, 30]))):
        for dtype in (F32, F16, I32):
            m.one("Einsum", {name: m.array(shape, dtype, -2, 2) for name, shape in zip("abc", shapes)}, equation=equation, dynamic=False)
    for opset, modes in ((16, ("bilinear", "nearest", "bicubic")), (20, ("linear", "nearest", "cubic"))):
        for mode in modes:
            for padding in ("zeros", "border", "reflection"):
                for corners in (0, 1):
                    m.one("GridSample", {"x": m.array([2, 3, 5, 7], F32), "g": m.array([2, 4, 6, 2], F32, -1.7, 1.7)}, mode=mode,
                          padding_mode=padding, align_corners=corners, opset=opset)
    for mode in ("linear", "nearest"):
        m.one("GridSample", {"x": m.array([1, 2, 4, 5, 6], F32), "g": m.array([1, 3, 2, 4, 3], F32, -1.3, 1.3)}, mode=mode, opset=20)


def reviewed(m):
    """What was wrong once, found by many more random cases than these."""
    for k in ((1 << 63) - 1, -(1 << 63)):
        for upper in (0, 1):
            m.one("Trilu", {"x": m.array([3, 4], F32)}, constants={"k": np.asarray(k, I64)}, upper=upper)
    # Scales that repeat, and what no trial of sizes shows.
    for scale in ([5, 1, 1], [1, 1, 4], [3, 1]):
        m.one("LayerNormalization", {"x": m.array([2, 5, 3, 4], F32)}, constants={"s": m.array(scale, F32), "b": m.array(scale, F32)}, axis=1,
              dynamic=True, opset=17)
    m.one("ScatterElements", {"x": m.array([5, 2, 4], BOOL)}, constants={"i": np.zeros([3, 2, 4], I64), "u": m.array([3, 2, 4], BOOL)}, axis=0,
          reduction="max", dynamic=True)
    for dtype in (F32, F16, F64):
        m.add("GlobalAveragePool", [helper.make_node("Reshape", ["x", "s"], ["v"]), helper.make_node("GlobalAveragePool", ["v"], ["y"])],
              {"x": m.array([2, 3, 24], dtype)}, {"y": dtype}, {"s": np.array([2, 3, 2, 3, 4], I64)})
    # Version 10 rounds up to shrink; a scale of 0.7 is a little less than that.
    for scales in ([1, 0.6], [2, 0.5], [0.7, 1.5]):
        m.one("Resize", {"x": m.array([4, 8], F32)}, constants={"s": np.array(scales, F32)}, mode="nearest", opset=10)
        for mode in ("half_pixel", "pytorch_half_pixel", "asymmetric"):
            m.one("Resize", {"x": m.array([6, 5], F32)}, constants={"r": np.zeros([0], F32), "s": np.array(scales, F32)}, mode="nearest",
                  coordinate_transformation_mode=mode)
    # What mutations of the code left right.
    for a, b in (([3, 1], [4, 5]), ([3, 4], [1, 5])):
        m.one("Einsum", {"a": m.array(a, F32), "b": m.array(b, F32)}, equation="ij,jk->ik", dynamic=False)
    for mode in ("SAME_UPPER", "SAME_LOWER"):
        m.one("AveragePool", {"x": m.array([1, 2, 7, 6, 5], F32)}, kernel_shape=[2, 4, 3], strides=[2, 1, 2], auto_pad=mode, count_include_pad=1)
    for dtype in (I32, I64):
        m.one("Pow", {"a": np.array([-1, -1, 1, 2, -3, 2], dtype), "b": np.array([-3, -2, -1, -1, -2, 5], dtype)}, opset=15)
    for order in (["c", "r", "y"], ["c", "s", "y"]):
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 6)]
        nodes += ([helper.make_node("Relu", ["c"], ["r"]), helper.make_node("Add", ["r", "x"], ["y"])] if order[1] == "r" else
                  [helper.make_node("Add", ["c", "x"], ["s"]), helper.make_node("Relu", ["s"], ["y"])])
        m.add("Conv_3d_residual", nodes, {"x": m.array([1, 3, 4, 5, 6], F32)}, {"y": F32}, {"w": m.array([3, 3, 3, 3, 3], F32)})
    m.one("MatMulInteger", {"a": m.array([3, 2, 4], U8, 0, 99), "b": m.array([3, 4, 5], I8, -60, 60)}, I32, opset=10)
    for c in ([5, 0], [0]):
        m.one("Gemm", {"a": m.array([2, 5], F32), "b": m.array([0, 2], F32), "c": m.array(c, F32)}, transA=1, transB=1, beta=1.5)
    m.add("product_of_nothing", [helper.make_node("MatMul", ["a", "b"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
          {"a": m.array([0, 3, 4], F32), "b": m.array([0, 4, 5], F32)}, {"y": F32}, dynamic=True)
    # What no size changes is refused though ranks are unknown, and what is served is taken.
    for reduction in ("none", "max"):
        m.one("ScatterElements", {"x": m.array([3, 4], BOOL), "i": np.zeros([1, 4], I64), "u": m.array([1, 4], BOOL)}, axis=0, reduction=reduction,
              dynamic="rank")
    for dtype in (F32, I32):
        m.one("Shrink", {"x": m.array([7], dtype)}, lambd=1.0, dynamic="rank")
    m.one("Slice", {"x": m.array([5, 4], F32)}, starts=[1], ends=[4], axes=[0], opset=9, dynamic="rank")
    m.one("DequantizeLinear", {"x": m.array([2, 3, 4], U8), "s": m.array([3], F32, 0.1, 1)}, F32, axis=1, opset=13, dynamic="rank")


def tiled(m):
    """Sizes from which on kernels work in tiles, parts and chunks."""
    for dtype in (F32, F16, F64, I64, U8, BOOL):
        m.one("Transpose", {"x": m.array([40, 70], dtype)}, perm=[1, 0])
        m.one("Transpose", {"x": m.array([3, 33, 2, 50], dtype)}, perm=[int(p) for p in m.random.permutation(4)])
    for perm in ([0, 2, 1], [2, 1, 0], [2, 0, 1], [1, 2, 0]):
        m.one("Transpose", {"x": m.array([17, 20, 65], F32)}, perm=perm)
    turned = helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1])
    for other in ([2, 40, 33], [40, 33], [40, 1], [33], [2, 1, 1]):
        m.add("turned_add", [turned, helper.make_node("Add", ["t", "z"], ["y"])],
              {"x": m.array([2, 33, 40], F32), "z": m.array(other, F32)}, {"y": F32})
    m.add("turned_twice", [turned, helper.make_node("Transpose", ["z"], ["s"], perm=[0, 2, 1]),
                           helper.make_node("Mul", ["t", "s"], ["v"]), helper.make_node("Relu", ["v"], ["y"])],
          {"x": m.array([2, 33, 40], F32), "z": m.array([2, 33, 40], F32)}, {"y": F32})
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
               "ReduceLogSumExp"):
        for shape, axes in (([3, 40000], [1]), ([20000, 3], [0]), ([4, 5000, 6], [1]), ([9, 64, 40], [0, 2]), ([50, 24], [1]),
                            ([7, 50, 33], [0]), ([120000], [0]), ([5, 6, 4, 4], [2])):
            m.one(op, {"x": m.array(shape, F32, 0, 2)}, constants={"axes": np.array(axes, I64)}, keepdims=m.integers(0, 1))
        if not op.startswith("ReduceLog"):
            m.one(op, {"x": m.array([2, 40001], F64, 0, 2)}, constants={"axes": np.array([1], I64)})
            m.one(op, {"x": m.array([70000], I32, 0, 2)}, constants={"axes": np.array([0], I64)})
            m.one(op, {"x": m.array([40, 1024], F16, 0, 1)}, constants={"axes": np.array([1], I64)})
    m.one("ReduceProd", {"x": m.array([2, 6000], F32, 0.999, 1.001)}, constants={"axes": np.array([1], I64)})
    for dtype in (U8, I8):
        m.one("ReduceMax", {"x": m.array([3, 70000], dtype, 0, 120)}, constants={"axes": np.array([1], I64)})
        m.one("ReduceMin", {"x": m.array([70000, 2], dtype, 0, 120)}, constants={"axes": np.array([0], I64)})
    for op in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            for shape, axis in (([2, 40000], 1), ([40000, 2], 0), ([6, 300], 1), ([5, 20, 33], 1)):
                m.one(op, {"x": m.array(shape, F32, -99, 99)}, I64, axis=axis, select_last_index=last)
                m.one(op, {"x": m.array(shape, I32, -99, 99)}, I64, axis=axis, select_last_index=last)
    for shape, axis in (([3, 9000], 1), ([2, 5000, 40], 1), ([4096], 0), ([2, 257], 1), ([70000, 2], 0)):
        for dtype in (F32, I32, F64):
            m.one("CumSum", {"x": m.array(shape, dtype, 0, 2)}, constants={"a": np.asarray(axis, I64)},
                  exclusive=m.integers(0, 1), reverse=m.integers(0, 1))
    for reduction in ("add", "max", "min", "mul"):
        for dtype in (F32, F16, F64, I32, I64, U8):
            whole = np.dtype(dtype).kind in "iu"
            low, high = (1, 1) if reduction == "mul" else (0, 3)
            for axis, by in ((0, [90, 6]), (1, [5, 90])):
                m.one("ScatterElements", {"x": m.array([5, 6], dtype, low, high),
                                          "i": m.random.integers(-5, 5, by).astype(I64),
                                          "u": m.array(by, dtype, low, high)}, axis=axis, reduction=reduction)
            m.one("ScatterND", {"x": m.array([7, 3, 4], dtype, low, high), "i": m.random.integers(0, 3, [80, 2]).astype(I64),
                                "u": m.array([80, 4], dtype, low, high if whole else 2.5)}, reduction=reduction)
    # What fixed point has to do right: numbers far apart, zeros, numbers too small to be normal, and what is none.
    steep = (m.array([80, 4], F32, -1, 1) * 10.0 ** m.random.integers(-44, 38, [80, 4])).astype(F32)
    index = m.random.integers(0, 6, [80, 4]).astype(I64)
    for name, updates in (("far_apart", steep), ("tiny", (steep * 0 + m.array([80, 4], F32) * 1e-42).astype(F32)),
                          ("special", np.where(m.random.random([80, 4]) < 0.02, np.inf, m.array([80, 4], F32)).astype(F32)),
                          ("zeros", np.zeros([80, 4], F32))):
        m.add(f"scatter_{name}", [helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction="add")],
              {"x": m.array([6, 4], F32) * F32(0 if name == "tiny" else 1), "i": index, "u": updates}, {"y": F32})
    for x, w, attributes in (([1, 16, 5, 6, 7], [8, 16, 3, 3, 3], {"pads": [1] * 6}),
                             ([2, 3, 7, 6, 8], [5, 3, 3, 2, 3], {"strides": [2, 1, 2], "pads": [1, 0, 2, 0, 1, 1]}),
                             ([1, 8, 4, 5, 6], [16, 8, 1, 1, 1], {}),
                             ([2, 4, 6, 5, 5], [8, 4, 2, 3, 3], {"dilations": [2, 1, 1], "auto_pad": "SAME_UPPER"}),
                             ([1, 8, 6, 5, 5], [8, 4, 3, 3, 3], {"group": 2})):
        for dtype in (F32, F16):
            m.one("Conv", {"x": m.array(x, dtype)}, constants={"w": m.array(w, dtype, -1, 1), "b": m.array(w[:1], dtype)},
                  **attributes)
    # A thread takes several elements of what is large and lies apart.
    m.one("Slice", {"x": m.array([1030, 2050], F32)}, constants={
        "starts": np.array([1], I64), "ends": np.array([2050], I64), "axes": np.array([1], I64), "steps": np.array([2], I64)})
    m.one("Pad", {"x": m.array([1024, 1029], U8)}, constants={"pads": np.array([0, 2, 3, 0], I64)})
    m.one("Relu", {"x": m.array([1055751], F32)})
    m.one("Gather", {"x": m.array([1055, 1001], F16), "i": m.random.integers(0, 1055, [1051]).astype(I64)}, axis=0)
    for equation, shapes in (("bi,bj->bij", ([3, 5], [3, 7])), ("i,j,k->kji", ([3], [4], [5])), ("ii,j->ji", ([4, 4], [3])),
                             ("...i,...j->...ji", ([2, 1, 3], [2, 4, 5])), ("i->i", ([6],)), (",->", ([], []))):
        for dtype in (F32, F16, I64):
            m.one("Einsum", {f"x{i}": m.array(shape, dtype) for i, shape in enumerate(shapes)}, equation=equation)
    # Sixteen channels of a place are read at once.
    for dtype, attributes in ((U8, {"pads": [1, 0, 1, 2]}), (I8, {"strides": [2, 1], "pads": [2] * 4, "dilations": [1, 2]}), (U8, {})):
        m.one("ConvInteger", {"x": m.array([2, 32, 9, 7], dtype, -100, 120)}, I32, constants={
            "w": m.array([24, 32, 3, 3], I8, -100, 100), "z": np.asarray(7, dtype)}, **attributes)
    # Groups whose channels are whole fours.
    for dtype, by, group, shape in ((U8, I8, 2, [12, 4, 3, 3]), (I8, I8, 3, [6, 8, 1, 2]), (U8, U8, 2, [20, 4, 2, 2]),
                                    (U8, I8, 2, [6, 4, 3])):
        size = [2, shape[1] * group, 7, 6][:len(shape)]
        for known in (True, False):
            x, w, z = m.array(size, dtype, -100, 120), m.array(shape, by, -100, 100), np.asarray(7, dtype)
            zeros = np.asarray(3, by) if known else m.array(shape[:1], by, 0, 9)  # onnxruntime takes one for all
            pads = [1, 0, 2, 1] if len(shape) == 4 else [1, 2]
            m.one("ConvInteger", {"x": x, **({} if known else {"w": w})}, I32, constants={**({"w": w} if known else {}), "z": z, "q": zeros},
                  group=group, pads=pads)
    m.one("ConvInteger", {"x": m.array([1, 8, 5, 5], U8, 0, 255)}, I32, constants={"w": m.array([4, 4, 3, 3], I8, -128, 127)}, group=2)
    for width, stride in ((41, 1), (83, 2)):
        m.one("ConvInteger", {"x": m.array([2, 32, 110 * stride, width], U8, 0, 255)}, I32, constants={
            "w": m.array([32, 1, 3, 3], I8), "z": np.asarray(128, U8), "q": np.asarray(2, I8)}, group=32, pads=[1] * 4, strides=[stride] * 2)
    # Large updates that cancel leave what is small, which float32 keeps in any order.
    large = np.where(np.arange(80)[:, None] % 2 == 0, 65536, -65536) + np.zeros([80, 4])
    small = m.random.integers(-8, 9, [80, 4]) / 8
    m.add("scatter_cancels", [helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction="add")],
          {"x": np.ones([6, 4], F32), "i": np.concatenate([np.zeros([80, 4]), np.arange(320).reshape(80, 4) % 6]).astype(I64),
           "u": np.concatenate([large, small]).astype(F32)}, {"y": F32})
    # Indices of no width, each of which names all of the data.
    for dynamic in (False, True):
        for reduction, dtype, count in (("none", F32, 1), ("none", F32, 0), ("add", F32, 3), ("add", F32, 40), ("add", I64, 40), ("max", F16, 5)):
            m.one("ScatterND", {"x": m.array([3, 4], dtype), "i": np.zeros([count, 0], I64), "u": m.array([count, 3, 4], dtype)},
                  reduction=reduction, dynamic=dynamic)


# Convolutions whose images have channels first on both sides, and transposed ones whose window is a whole number of strides.
def borders(m):
    for x, w, attributes in (([2, 6, 9, 11], [6, 1, 3, 3], {"pads": [1] * 4}), ([1, 4, 12, 10], [8, 1, 3, 2], {"strides": [2, 1], "pads": [0, 1, 2, 0]}),
                             ([2, 3, 14, 15], [3, 1, 3, 3], {"dilations": [3, 2], "pads": [3, 2, 3, 2], "strides": [1, 2]}), ([2, 5, 40], [5, 1, 7], {"pads": [3, 3]}),
                             ([1, 4, 9, 9], [4, 1, 7, 7], {"auto_pad": "SAME_LOWER"}), ([1, 3, 9, 9], [3, 1, 8, 8], {}),
                             ([1, 20, 161, 170], [20, 1, 3, 3], {"pads": [1] * 4}), ([1, 64, 130, 130], [64, 1, 5, 5], {"strides": [2, 2], "pads": [2] * 4})):
        for dtype in (F32, F16):
            b = m.array(w[:1], dtype)
            m.one("Conv", {"x": m.array(x, dtype)}, constants={"w": m.array(w, dtype, -1, 1), "b": b}, group=x[1], **attributes)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4, group=6), helper.make_node("Add", ["c", "x"], ["s"]),
             helper.make_node("Relu", ["s"], ["y"])]
    m.add("Conv_first_residual", nodes, {"x": m.array([2, 6, 9, 7], F32), "w": m.array([6, 1, 3, 3], F32)}, {"y": F32}, {"b": m.array([6], F32)})
    for x, outputs in (([2, 16, 8, 8], 24), ([1, 8, 4, 5, 16], 8), ([3, 32, 80], 5)):
        w = [outputs, x[1]] + [1] * (len(x) - 2)
        for dtype in (F32, F16):
            m.one("Conv", {"x": m.array(x, dtype)}, constants={"w": m.array(w, dtype, -1, 1)})
            m.one("Conv", {"x": m.array(x, dtype)}, constants={"w": m.array(w, dtype, -1, 1), "b": m.array([outputs], dtype)})
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"]), helper.make_node("Add", ["c", "z"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    for dtype in (F32, F16):
        m.add("Conv_pixels_residual", nodes, {"x": m.array([2, 16, 8, 16], dtype), "z": m.array([2, 8, 8, 16], dtype)}, {"y": dtype},
              {"w": m.array([8, 16, 1, 1], dtype, -1, 1), "b": m.array([8], dtype)})
    for x, w, attributes in (([2, 16, 5, 6], [16, 8, 4, 4], {"strides": [2, 2], "pads": [1] * 4}), ([1, 5, 7, 6], [5, 40, 3, 3], {"pads": [1] * 4}),
                             ([2, 8, 6, 7], [8, 33, 6, 4], {"strides": [3, 2], "pads": [1, 0, 2, 3]}), ([2, 8, 9], [8, 6, 16], {"strides": [8], "pads": [4, 4]}),
                             ([1, 4, 5, 40], [4, 35, 4, 2], {"strides": [2, 1], "pads": [3, 1, 0, 1], "output_padding": [1, 0]}),
                             ([1, 8, 6, 6], [8, 4, 6, 6], {"strides": [3, 3], "auto_pad": "SAME_UPPER"}),
                             ([1, 6, 5, 4], [6, 3, 4, 4], {"strides": [2, 2], "output_shape": [11, 9]}),
                             ([1, 6, 5, 4], [6, 1, 4, 4], {"strides": [2, 2], "pads": [1] * 4})):
        for dtype in (F32, F16):
            m.one("ConvTranspose", {"x": m.array(x, dtype)}, constants={"w": m.array(w, dtype, -1, 1), "b": m.array(w[1:2], dtype)}, **attributes)
    # Channels last behind it, and channels first: with what is added, and an activation.
    for stride, kernel, size in (([2, 2], [4, 4], 12), ([1, 1], [3, 3], 6)):
        nodes = [helper.make_node("ConvTranspose", ["x", "w", "b"], ["t"], strides=stride, pads=[1] * 4), helper.make_node("Add", ["t", "z"], ["s"]),
                 helper.make_node("Relu", ["s"], ["y"])]
        further = [helper.make_node("Conv", ["y", "v"], ["u"], pads=[1] * 4)]
        for more, made in (([], "y"), (further, "u")):
            for dtype in (F32, F16):
                m.add("ConvTranspose_residual", nodes + more, {"x": m.array([2, 8, 6, 6], dtype), "z": m.array([2, 16, size, size], dtype)}, {made: dtype},
                      {"w": m.array([8, 16, *kernel], dtype, -1, 1), "b": m.array([16], dtype), **({"v": m.array([8, 16, 3, 3], dtype, -1, 1)} if more else {})})
    # Sums of as many rows and columns as larger tiles want, with and without zero points, in pairs and not.
    for a_type, b_type, rows, depth, columns in ((U8, I8, 2200, 48, 512), (I8, I8, 4300, 33, 61), (U8, U8, 9001, 16, 60), (I8, U8, 1500, 80, 1411)):
        zero, zeros = np.asarray(m.integers(0, 60), a_type), m.array([columns], b_type, -60, 60)
        a = m.array([rows, depth], a_type, -128, 127 if a_type == I8 else 60)
        m.one("MatMulInteger", {"a": a}, I32, constants={"b": m.array([depth, columns], b_type, -60, 60), "p": zero}, opset=10)
        m.add("MatMulInteger", [helper.make_node("MatMulInteger", ["a", "b", "p", "q"], ["y"])], {"a": a, "p": zero}, {"y": I32},
              {"b": m.array([depth, columns], b_type, -60, 60), "q": zeros}, opset=10)
    # Windows that a product's kernel reads itself, with its larger tiles too.
    for dtype, outputs, group, x, attributes in ((U8, 128, 1, [5, 32, 64, 64], {"pads": [1] * 4}), (I8, 64, 1, [3, 16, 90, 81], {"pads": [0, 1, 2, 1]}),
                                                 (U8, 24, 1, [2, 48, 21, 22], {"strides": [2, 1], "dilations": [1, 2]}), (U8, 33, 1, [2, 16, 20], {"pads": [2, 1]}),
                                                 (U8, 64, 64, [2, 64, 71, 60], {"pads": [1] * 4}), (I8, 12, 6, [2, 6, 13, 12], {"strides": [2, 2], "pads": [1] * 4}),
                                                 (U8, 64, 4, [2, 64, 9, 10], {"pads": [1] * 4})):
        w, zeros = m.array([outputs, x[1] // group, *[3] * (len(x) - 2)], I8, -60, 60), np.zeros([outputs], I8)
        m.add("QLinearConv", [helper.make_node("QLinearConv", ["x", "sx", "p", "w", "sw", "q", "sy", "r", "b"], ["y"], group=group, **attributes)],
              {"x": m.array(x, dtype, -128, 127 if dtype == I8 else 255)}, {"y": dtype},
              {"sx": F32(0.02), "p": np.asarray(9, dtype), "w": w, "sw": m.array([outputs], F32, 0.001, 0.01), "q": zeros, "sy": F32(0.3),
               "r": np.asarray(20, dtype), "b": m.array([outputs], I32, -500, 500)}, opset=10)
    for dtype in (U8, I8):
        m.add("QLinearMatMul", [helper.make_node("QLinearMatMul", ["x", "sx", "p", "w", "sw", "q", "sy", "r"], ["y"])],
              {"x": m.array([3, 70, 100], dtype, -100, 100)}, {"y": dtype},
              {"sx": F32(0.02), "p": np.asarray(10, dtype), "w": m.array([100, 91], I8, -60, 60), "sw": m.array([91], F32, 0.001, 0.01),
               "q": np.zeros([91], I8), "sy": F32(0.3), "r": np.asarray(9, dtype)}, opset=10)


def promised(m):
    """What sizes that only a run knows may turn out to be: none to add up, and one matrix for a whole batch."""
    for dtype in (F32, F16):
        for stride in (1, 2):
            m.one("ConvTranspose", {"x": m.array([2, 0, 3, 4], dtype)}, constants={"w": m.array([0, 3, 2, 2], dtype), "b": m.array([3], dtype)},
                  dynamic=True, strides=[stride, stride])
        m.one("ConvTranspose", {"x": m.array([1, 0, 5], dtype), "w": m.array([0, 4, 3], dtype)}, dynamic=True)
        m.one("Conv", {"x": m.array([1, 0, 4, 5], dtype), "w": m.array([3, 0, 2, 2], dtype), "b": m.array([3], dtype)}, dynamic=True)
        m.one("Gemm", {"a": m.array([3, 0], dtype), "b": m.array([0, 4], dtype), "c": m.array([4], dtype)}, dynamic=True)
        m.one("MatMul", {"a": m.array([2, 3, 0], dtype), "b": m.array([2, 0, 5], dtype)}, dynamic=True)
    m.one("LSTM", {"x": m.array([3, 2, 0], F32), "w": m.array([1, 20, 0], F32), "r": m.array([1, 20, 5], F32, -1, 1),
                   "b": m.array([1, 40], F32, -1, 1)}, dynamic=True, hidden_size=5)
    for a, b in (([1, 3, 4], [2, 4, 5]), ([3, 1, 4, 6], [1, 2, 6, 5]), ([1, 70, 65], [3, 65, 66]), ([2, 70, 65], [3, 1, 65, 66]), ([2, 3, 4], [1, 4, 5])):
        m.one("MatMulInteger", {"a": m.array(a, U8, 0, 99), "b": m.array(b, I8, -99, 99), "p": m.array([], U8, 0, 9)}, I32, dynamic=True, opset=10)
    m.add("QLinearMatMul", [helper.make_node("QLinearMatMul", ["x", "sx", "p", "w", "sw", "q", "sy", "r"], ["y"])],
          {"x": m.array([1, 7, 10], U8, 0, 100), "w": m.array([3, 10, 9], I8, -60, 60)}, {"y": U8},
          {"sx": F32(0.02), "p": np.asarray(10, U8), "sw": F32(0.01), "q": np.asarray(0, I8), "sy": F32(0.3), "r": np.asarray(9, U8)}, dynamic=True, opset=10)
    for dtype in (F32, F16, I64):
        m.one("Split", {"x": m.array([3, 4], dtype)}, outputs=3, constants={"n": np.array([0, 4, 0], I64)}, axis=1, dynamic=True)
        m.one("Split", {"x": m.array([0, 4], dtype)}, outputs=2, axis=1, dynamic=True, num_outputs=2)


def make():
    m = Maker()
    for family in (broadcasts, unary, chains, reductions, moves, products, rows, empties, sizes, indexed, normalised, computed_weights, integers, sampled,
                   reviewed, tiled, borders, promised):
        m.family = family.__name__
        family(m)
    return m.cases

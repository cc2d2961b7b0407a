"""Random graphs of QuantizeLinear and DequantizeLinear around products, convolutions, functions and moves, and of dynamic
quantisation, against ONNX Runtime without optimizations: what the passes fuse into products of bytes is what the
operators give one by one, but for numbers next to a tie between two integers.

TENON_QUANTIZED=SEED:MODELS makes other graphs than the fixed ones.
"""
import os

import numpy as np
import onnx
from onnx import helper, numpy_helper

import driver

SEED, MODELS = (int(text) for text in os.environ.get("TENON_QUANTIZED", "1:300").split(":"))


class Quantized:
    """One model, its inputs, and the step of its output (0: float numbers that no step rounds last)."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.graph = onnx.GraphProto(name="g")
        self.feed = {}
        self.count = 0
        self.step = 0.0
        self.marks = []
        self.zeros = False  # whether each tensor of bytes has a zero point
        value = self.pick(self.matmul, self.matmul, self.conv, self.dynamic_matmul, self.dynamic_conv,
                          self.softmax, self.elements, self.maps, self.maps, self.channels, self.operators)()
        self.graph.output.append(helper.make_empty_tensor_value_info(value))

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def fresh(self):
        self.count += 1
        return f"v{self.count}"

    def node(self, op, inputs, outputs=1, **attributes):
        names = [self.fresh() for _ in range(outputs)]
        attributes.setdefault("domain", "com.microsoft" if op.startswith("QLinear") and op != "QLinearConv" else "")
        self.graph.node.append(helper.make_node(op, inputs, names, **attributes))
        self.marks.append(op)
        return names[0] if outputs == 1 else names

    def constant(self, value):
        name = self.fresh()
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def input(self, shape):
        name = self.fresh()
        dims = [f"{name}_{i}" if self.rng.random() < 0.3 else size for i, size in enumerate(shape)]
        self.graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims))
        self.feed[name] = self.rng.normal(0, 1, shape).astype(np.float32)
        return name

    def floats(self, *shape):
        return self.rng.normal(0, 0.5, shape).astype(np.float32)

    def byte(self):
        return self.pick(np.uint8, np.int8)

    def quantize(self, x, step, dtype=None):
        """Bytes and the two constants of x."""
        dtype = dtype or self.byte()
        low = np.iinfo(dtype).min
        scale = self.constant(np.float32(step))
        zero = self.constant(np.array(low + self.rng.integers(90, 160), dtype)) if dtype == np.int8 or self.zeros or self.rng.random() < 0.9 else ""
        return self.node("QuantizeLinear", [x, scale] + [zero] * (zero != "")), scale, zero

    def dequantize(self, bytes_, scale, zero):
        return self.node("DequantizeLinear", [bytes_, scale] + [zero] * (zero != ""))

    def rounded(self, x, step):
        return self.dequantize(*self.quantize(x, step))

    def weights(self, shape, axis):
        dtype = self.byte()
        info = np.iinfo(dtype)
        data = self.constant(self.rng.integers(info.min, info.max + 1, shape).astype(dtype))
        lines = shape[axis] if self.rng.random() < 0.6 else None
        symmetric = dtype == np.int8 and self.rng.random() < 0.6
        scale = self.constant((self.rng.uniform(0.2, 1, lines) / 128 / np.sqrt(np.prod(shape) / shape[axis])).astype(np.float32))
        zero = self.constant(np.zeros(lines or (), dtype) if symmetric else self.rng.integers(-20, 20, lines or ()).astype(np.int64).clip(info.min, info.max)
                             .astype(dtype) if dtype == np.int8 else self.rng.integers(100, 156, lines or ()).astype(dtype))
        return self.node("DequantizeLinear", [data, scale, zero], **({} if lines is None else {"axis": axis}))

    def function(self, x):
        kind = self.pick("Relu", "Gelu", "Tanh", "Sigmoid", "Mul", "Silu", "Clip")
        if kind == "Mul":
            return self.node("Mul", [x, self.constant(np.float32(0.37))])
        if kind == "Silu":
            return self.node("Mul", [x, self.node("Sigmoid", [x])])
        if kind == "Clip":
            return self.node("Clip", [x, self.constant(np.float32(-0.5)), self.constant(np.float32(0.75))])
        return self.node(kind, [x])

    def last(self, x):
        """The graph's output: bytes, or the numbers that they stand for."""
        self.step = 0.021
        bytes_, scale, zero = self.quantize(x, self.step)
        if self.rng.random() < 0.5:
            self.step = 1
            return bytes_
        return self.dequantize(bytes_, scale, zero)

    def matmul(self):
        rows, depth, columns = (int(self.rng.integers(1, 40)) for _ in range(3))
        shape = self.pick((rows, depth), (2, rows, depth))
        x = self.rounded(self.input(shape), 0.03)
        if self.rng.random() < 0.25:
            y = self.node("MatMul", [x, self.rounded(self.input((*shape[:-2], depth, columns)), 0.01)])
        elif len(shape) == 2 and self.rng.random() < 0.5:
            transposed = self.rng.random() < 0.5
            w = self.weights((columns, depth) if transposed else (depth, columns), 0 if transposed else 1)
            bias = [self.constant(self.floats(columns))] * (self.rng.random() < 0.5)
            y = self.node("Gemm", [x, w, *bias], transB=int(transposed))
        else:
            y = self.node("MatMul", [x, self.weights((depth, columns), 1)])
        residual = self.input((*shape[:-1], columns)) if self.rng.random() < 0.3 else None
        if self.rng.random() < 0.3:
            y = self.node("Add", [y, self.constant(self.floats(columns))])
        if self.rng.random() < 0.3:
            y = self.function(y)
        if self.rng.random() < 0.7:
            y = self.rounded(y, 0.02)
            if self.rng.random() < 0.6:
                y = self.node("Add", [self.constant(self.floats(columns)), y])
            if self.rng.random() < 0.4:
                y = self.function(y)
        if residual is not None:
            y = self.node("Add", [residual, y])
        if self.rng.random() < 0.4:
            y = self.node("Transpose", [y], perm=list(reversed(range(len(shape)))))
            if self.rng.random() < 0.5:
                y = self.node("Reshape", [y, self.constant(np.array([-1, 1]))])
            if self.rng.random() < 0.5:
                y = self.node("Mul", [y, self.constant(np.float32(1.3))])
        return self.last(y) if self.rng.random() < 0.7 else y

    def softmax(self):
        shape = tuple(int(self.rng.integers(1, 90)) for _ in range(self.pick(1, 2, 3)))
        x = self.rounded(self.input(shape), 0.03)
        if self.rng.random() < 0.4:
            x = self.rounded(self.function(x), 0.02)
        y = self.node("Softmax", [x], axis=-1)
        self.step = 1
        return self.quantize(y, 0.004)[0]

    def elements(self):
        """Rows of a table, sums, products and functions of few sources, with steps between them."""
        rows, columns = int(self.rng.integers(1, 30)), int(self.rng.integers(1, 40))
        dtype = self.byte()
        # One type, so that sums and products are those of bytes.
        self.byte = lambda: dtype
        if self.rng.random() < 0.5:
            table = self.weights((50, columns), 1)
            name = self.fresh()
            self.graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [rows]))
            self.feed[name] = self.rng.integers(-50, 50, rows)
            known = [self.node("Gather", [table, name], axis=0)]
        else:
            known = [self.rounded(self.input((rows, columns)), 0.02911)]
        known.append(self.rounded(self.input(self.pick((rows, columns), (columns,), (rows, 1))), 0.02087))
        for _ in range(int(self.rng.integers(1, 7))):
            kind = self.pick("function", "function", "pair", "pair", "again", "guard")
            x = self.pick(*known)
            if kind == "function":
                y = self.function(x)
            elif kind == "pair":
                y = self.node(self.pick("Add", "Mul", "Sub", "Max"), [x, self.pick(*known)])
            elif kind == "guard":
                y = self.node("Where", [self.node("IsNaN", [x]), self.constant(np.float32(0)), x])
            else:
                y = x
            known.append(self.rounded(y, self.pick(0.01937, 0.03119)))  # few sums lie next to a tie
        return self.last(self.node("Add", [known[-1], known[0]]) if self.rng.random() < 0.3 else known[-1])

    def channels(self):
        """Functions between steps that have parameters for each channel."""
        channels, planes = int(self.rng.integers(1, 20)), self.pick((24, 25), (600,), (9, 9, 9), (5, 7))
        shape = [channels] + [1] * len(planes)
        first = y = self.rounded(self.input((self.pick(1, 3), channels, *planes)), 0.03)
        for _ in range(int(self.rng.integers(1, 4))):
            kind = self.pick("BatchNormalization", "PRelu", "Mul", "Add", "function")
            if kind == "BatchNormalization":
                spread = [self.constant(self.rng.uniform(0.5, 2, channels).astype(np.float32)) for _ in range(2)]
                y = self.node(kind, [y, spread[0], self.constant(self.floats(channels)), self.constant(self.floats(channels)), spread[1]])
            elif kind == "function":
                y = self.function(y)
            else:
                operands = [y, self.constant(self.floats(*self.pick(shape, [1, *shape])))]
                y = self.node(kind, operands if kind == "PRelu" or self.rng.random() < 0.5 else operands[::-1])
            if self.rng.random() < 0.3:
                y = self.rounded(y, self.pick(0.01937, 0.03119))
        if self.rng.random() < 0.5:
            parts = [self.rounded(y, 0.021), first, self.node("Neg", [first])]
            y = self.node("Concat", parts[:self.pick(2, 2, 3)], axis=self.pick(1, 2))
        return self.last(y)

    def operators(self):
        """Operators of bytes, most of which depend on one tensor alone."""
        dtype = self.byte()
        low = np.iinfo(dtype).min
        step = lambda: (self.constant(np.float32(self.rng.uniform(0.01, 0.03))), self.constant(np.array(low + self.rng.integers(90, 160), dtype)))
        channels = int(self.rng.integers(1, 12))
        known = [self.quantize(self.input((1, channels, 9, 8)), 0.03, dtype)]
        if known[0][2] == "":
            known = [(*known[0][:2], self.constant(np.zeros((), dtype)))]
        if self.rng.random() < 0.5:
            weights = self.constant(self.rng.integers(-128, 128, (6, channels, 1, 3)).astype(np.int8))
            y = step()
            scale, zero = self.constant(np.float32(0.006)), self.constant(np.int8(3))
            known = [(self.node("QLinearConv", [*known[0], weights, scale, zero, *y], pads=[0, 1, 0, 1]), *y)]
        for _ in range(int(self.rng.integers(1, 6))):
            kind, x, y = self.pick("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu"), self.pick(*known), step()
            if kind in ("QLinearAdd", "QLinearMul"):
                number = (self.constant(np.asarray(low + self.rng.integers(0, 256, self.pick((), (1,), (1, 1), (8,)))).astype(dtype)), *step())
                pair = [x, self.pick(number, *known)]
                known.append((self.node(kind, [*pair[0], *pair[1], *y] if self.rng.random() < 0.5 else [*pair[1], *pair[0], *y]), *y))
            else:
                known.append((self.node(kind, [*x, *y]), *y))
        self.step = 1
        return known[-1][0]

    def window(self, spatial):
        kernel = [int(self.rng.integers(1, 4)) for _ in range(spatial)]
        return kernel, {"pads": [k // 2 for k in kernel] * 2, "strides": [self.pick(1, 1, 2)] * spatial, "dilations": [self.pick(1, 1, 2)] * spatial}

    def conv(self):
        spatial, group = self.pick(1, 2), self.pick(1, 1, 2)
        channels, outputs = group * int(self.rng.integers(1, 12)), group * int(self.rng.integers(1, 20))
        if self.rng.random() < 0.3:
            group = outputs = channels
        kernel, window = self.window(spatial)
        x = self.rounded(self.input((self.pick(1, 2), channels, *(int(self.rng.integers(6, 20)) for _ in range(spatial)))), 0.03)
        bias = [self.constant(self.floats(outputs))] * (self.rng.random() < 0.6)
        y = self.node("Conv", [x, self.weights((outputs, channels // group, *kernel), 0), *bias], group=group, **window)
        if self.rng.random() < 0.4:
            y = self.function(y)
        if self.rng.random() < 0.7:
            y = self.rounded(y, 0.02)
            if self.rng.random() < 0.6:
                y = self.function(y)
        return self.last(y) if self.rng.random() < 0.7 else y

    def maps(self):
        """Bytes behind a convolution of float32, which makes blocks of channels, and what leaves or changes those."""
        dtype = self.byte()
        self.byte = lambda: dtype  # one type, so that sums and products are those of bytes
        self.zeros = True
        size = [int(self.rng.integers(3, 20)) for _ in range(2)]
        channels = self.pick(8, 16, 24, int(self.rng.integers(1, 20)))
        x = self.input((self.pick(1, 2), 5, *size))
        batch = self.feed[x].shape[0]
        known = []  # bytes, their scale and zero point, and (channels, height, width)
        for _ in range(self.pick(1, 2)):
            y = self.node("Conv", [x, self.constant(self.floats(channels, 5, 1, 1))])
            known.append((*self.quantize(y, 0.03), (channels, *size)))
        for _ in range(int(self.rng.integers(1, 5))):
            kind = self.pick(self.map_pool, self.map_pair, self.map_pair, self.map_gate, self.map_parts, self.map_join, self.map_space, self.map_function)
            made = kind(known, batch, *known[self.rng.integers(len(known))])
            known.append(made)
        bytes_, scale, zero, shape = known[-1]
        y = self.dequantize(bytes_, scale, zero)
        if self.rng.random() < 0.3:
            y = self.node("Conv", [y, self.constant(self.floats(4, shape[0], 1, 1) / shape[0])])
        return self.last(y) if self.rng.random() < 0.7 else y

    def map_pool(self, _, __, x, scale, zero, shape):
        c, h, w = shape
        kernel = [int(self.rng.integers(1, min(size, 4) + 1)) for size in (h, w)]
        strides = [self.pick(1, 1, 2, 3) for _ in kernel]
        pads = [k // 2 for k in kernel] * 2
        out = [(size + 2 * pad - k) // stride + 1 for size, pad, k, stride in zip((h, w), pads, kernel, strides)]
        if self.rng.random() < 0.6:
            return self.node("MaxPool", [x], kernel_shape=kernel, strides=strides, pads=pads), scale, zero, (c, *out)
        y = self.node("AveragePool", [self.dequantize(x, scale, zero)], kernel_shape=kernel, strides=strides, pads=pads)
        return *self.quantize(y, 0.02911), (c, *out)

    def map_pair(self, known, _, x, scale, zero, shape):
        other = self.pick(*(k for k in known if k[3] == shape))
        y = self.node(self.pick("Add", "Mul"), [self.dequantize(x, scale, zero), self.dequantize(*other[:3])])
        return *self.quantize(y, 0.03119), shape

    def map_gate(self, _, __, x, scale, zero, shape):
        """A factor for each channel."""
        mean = self.quantize(self.node("GlobalAveragePool", [self.dequantize(x, scale, zero)]), 0.01931)
        gate = self.rounded(self.node("Sigmoid", [self.dequantize(*mean)]), 0.00391)
        return *self.quantize(self.node("Mul", [self.dequantize(x, scale, zero), gate]), 0.02087), shape

    def map_parts(self, _, __, x, scale, zero, shape):
        c, h, w = shape
        first = self.pick(8, int(self.rng.integers(1, c + 1)))
        if first >= c:
            return x, scale, zero, shape
        if self.rng.random() < 0.5:
            parts = self.node("Split", [x, self.constant(np.array([first, c - first]))], 2, axis=1)
            which = int(self.rng.integers(2))
            return parts[which], scale, zero, ((first, c - first)[which], h, w)
        y = self.node("Slice", [x, self.constant(np.array([first])), self.constant(np.array([c])), self.constant(np.array([1]))])
        return y, scale, zero, (c - first, h, w)

    def map_join(self, known, _, x, scale, zero, shape):
        others = [k for k in known if k[3][1:] == shape[1:]]
        parts = [(x, scale, zero, shape)] + [self.pick(*others) for _ in range(self.pick(1, 2))]
        channels = sum(part[3][0] for part in parts)
        if self.rng.random() < 0.5:
            y = self.node("QLinearConcat", [scale, zero, *(name for part in parts for name in part[:3])], domain="com.microsoft", axis=1)
        else:
            y = self.node("Concat", [part[0] for part in parts], axis=self.pick(1, -3))
        return y, scale, zero, (channels, *shape[1:])

    def map_space(self, _, batch, x, scale, zero, shape):
        """Pixels that are added, taken away or repeated."""
        c, h, w = shape
        kind = self.pick("Pad", "Slice", "Resize")
        if kind == "Pad":
            pads = np.array([0, 0, 1, 0, 0, 0, self.pick(0, 2), 1])
            return self.node("Pad", [x, self.constant(pads), zero]), scale, zero, (c, h + 1 + int(pads[6]), w + 1)
        if kind == "Slice":
            y = self.node("Slice", [x, self.constant(np.array([h // 2])), self.constant(np.array([h])), self.constant(np.array([2]))])
            return y, scale, zero, (c, h - h // 2, w)
        if h * w > 900:
            return x, scale, zero, shape
        y = self.node("Resize", [x, "", self.constant(np.array([1, 1, 2, 2], np.float32))], mode="nearest", coordinate_transformation_mode="asymmetric",
                      nearest_mode="floor")
        return y, scale, zero, (c, 2 * h, 2 * w)

    def map_function(self, _, __, x, scale, zero, shape):
        if self.rng.random() < 0.4:
            step = self.constant(np.float32(0.023))
            return self.node(self.pick("QLinearSigmoid", "QLinearLeakyRelu"), [x, scale, zero, step, zero], domain="com.microsoft"), step, zero, shape
        return *self.quantize(self.function(self.dequantize(x, scale, zero)), 0.01937), shape

    def dynamic_matmul(self):
        rows, depth, columns = (int(self.rng.integers(1, 40)) for _ in range(3))
        x, x_scale, x_zero = self.node("DynamicQuantizeLinear", [self.input(self.pick((rows, depth), (2, rows, depth)))], outputs=3)
        dtype = self.byte()
        info = np.iinfo(dtype)
        w = self.constant(self.rng.integers(info.min, info.max + 1, (depth, columns)).astype(dtype))
        zero = [self.constant(np.array(self.rng.integers(info.min, info.max), dtype))] * (self.rng.random() < 0.7)
        scale = self.constant(self.rng.uniform(0.001, 0.01, columns if self.rng.random() < 0.5 else ()).astype(np.float32))
        y = self.node("Cast", [self.node("MatMulInteger", [x, w, x_zero, *zero])], to=onnx.TensorProto.FLOAT)
        y = self.node("Mul", [y, self.node("Mul", [x_scale, scale])])
        if self.rng.random() < 0.5:
            y = self.node("Add", [y, self.constant(self.floats(columns))])
        return self.function(y) if self.rng.random() < 0.5 else y

    def dynamic_conv(self):
        channels, outputs = int(self.rng.integers(1, 12)), int(self.rng.integers(1, 20))
        kernel, window = self.window(2)
        size = [int(self.rng.integers(6, 20)) for _ in range(2)]
        x, x_scale, x_zero = self.node("DynamicQuantizeLinear", [self.input((1, channels, *size))], outputs=3)
        w = self.constant(self.rng.integers(0, 256, (outputs, channels, *kernel)).astype(np.uint8))
        y = self.node("ConvInteger", [x, w, x_zero, self.constant(np.uint8(self.rng.integers(90, 160)))], **window)
        scale = self.node("Mul", [x_scale, self.constant(np.float32(0.004))])
        if self.rng.random() < 0.6:
            whole = self.node("Cast", [self.node("Floor", [self.node("Div", [self.constant(self.floats(outputs)), scale])])], to=onnx.TensorProto.INT32)
            y = self.node("Add", [y, self.node("Reshape", [whole, self.constant(np.array([1, -1, 1, 1]))])])
        y = self.node("Mul", [self.node("Cast", [y], to=onnx.TensorProto.FLOAT), scale])
        return self.function(y) if self.rng.random() < 0.6 else y

    def model(self):
        return helper.make_model(self.graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)], ir_version=9).SerializeToString()


def test_fused_quantised_graphs_give_what_their_operators_give(tmp_path):
    graphs = {f"{seed} {' '.join(graph.marks)}": graph for seed in range(SEED, SEED + MODELS) for graph in [Quantized(seed)]}
    cases = []
    for name, graph in graphs.items():
        model = graph.model()
        cases.append(driver.Case(name, model, graph.feed, driver.plain_session(model).run(None, graph.feed)))
    for environment in ({}, {"TENON_CPU_ISA": "avx2"}):
        folder = tmp_path / ("first" if not environment else "second")
        folder.mkdir()
        outcomes = driver.run_all(cases, folder, environment=environment)
        failures = []
        for case in cases:
            outcome = outcomes[case.name]
            if not outcome.ok:
                failures.append(f"{case.name}: {outcome.status}")
                continue
            want, got = case.outputs[0], outcome.outputs[0]
            if want.shape != got.shape or want.dtype != got.dtype:
                failures.append(f"{case.name}: {got.dtype}{got.shape} instead of {want.dtype}{want.shape}")
                continue
            off = np.abs(got.astype(np.float64) - want.astype(np.float64))
            # An element next to a tie may be a step off; a step of an earlier rounding is worth up to three of the last.
            step = graphs[case.name].step or 0.03
            exact = 1e-5 * max(1.0, float(np.max(np.abs(want.astype(np.float64)), initial=0)))
            if np.max(off, initial=0) > 3 * step + exact or np.mean(off > exact) > 0.02 + 2 / max(1, off.size):
                failures.append(f"{case.name}: off by {np.max(off)} at most, {np.sum(off > exact)} of {off.size} differ")
        assert not failures, f"{len(failures)} of {len(cases)}:\n" + "\n".join(failures)

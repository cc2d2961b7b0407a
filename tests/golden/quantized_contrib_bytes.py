"""QLinear operators on uint8 and int8, MulInteger."""
import itertools

import numpy as np

from quantized_contrib_test import Problem

KINDS = (np.uint8, np.int8)


class Maker:
    """Random tensors with their scales and zero points; the scales are such that few quotients lie half way."""

    def __init__(self, kind, seed=1):
        self.kind, self.rng = kind, np.random.default_rng(seed)

    def data(self, *shape):
        low, high = (0, 256) if self.kind == np.uint8 else (-128, 128)
        return self.rng.integers(low, high, shape).astype(self.kind)

    def zero(self):
        return np.array(self.rng.integers(100, 150) if self.kind == np.uint8 else self.rng.integers(-20, 20), self.kind)

    def x(self, *shape, scale=0.0213):
        return [self.data(*shape), np.array(scale, np.float32), self.zero()]

    def y(self, scale=0.0317):
        return [np.array(scale, np.float32), self.zero()]


def of_bytes(name, operator, inputs, weights=(), share=0.02, **attributes):
    # A quotient that lies between two integers may be rounded to either.
    return Problem(name, operator, inputs, attributes, weights=weights, steps=1, share=share)


def without_kernel(problem, expected):
    """ONNX Runtime has the schema of the operator alone."""
    problem.expected = lambda: [expected(problem)]
    return problem


def reduce_mean(problem):
    x, scale, zero, y_scale, y_zero = (array.astype(np.float64) for array in problem.inputs)
    mean = np.mean((x - zero) * scale, axis=tuple(problem.attributes["axes"]), keepdims=bool(problem.attributes["keepdims"]))
    limits = np.iinfo(problem.inputs[0].dtype)
    return np.clip(np.round(mean / y_scale) + y_zero, limits.min, limits.max).astype(problem.inputs[0].dtype)


def mul_integer(problem):
    a, a_zero, b, b_zero = (np.int32(0) if array is None else array.astype(np.int32) for array in problem.inputs)
    return (a - a_zero) * (b - b_zero)


def problems():
    for kind in KINDS:
        text = kind.__name__
        make = Maker(kind)
        for operator in ("QLinearAdd", "QLinearMul"):
            for a, b in (((2, 3, 5), (2, 3, 5)), ((2, 3, 65), (65,)), ((4, 1, 33), (3, 1)), ((), (3, 7)), ((3, 7), ()), ((0, 3), (3,)), ((1, 40, 9, 9), (1, 40, 1, 1))):
                yield of_bytes(f"{text} {list(a)} {list(b)}", operator, make.x(*a) + make.x(*b, scale=0.0107) + make.y(0.0411), (1, 2, 3, 4, 5, 6, 7))
        for operator, attributes in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", {}), ("QLinearLeakyRelu", {"alpha": 0.3})):
            yield of_bytes(f"{text} {attributes}", operator, make.x(3, 117) + make.y(0.0113), (1, 2, 3, 4), **attributes)
        for shape, axis, opset in (((3, 7), -1, 13), ((2, 3, 8), 1, 12), ((2, 3, 8), 1, 13), ((2, 3, 8), 0, 13), ((5,), 0, 13)):
            yield of_bytes(f"{text} {list(shape)} axis {axis} opset {opset}", "QLinearSoftmax",
                           make.x(*shape) + [np.array(1 / 256, np.float32), np.array(0 if kind == np.uint8 else -128, kind)], (1, 2, 3, 4), axis=axis, opset=opset)
        for c, a, b in (((3, 4), (3, 4), (3, 4)), ((3, 1), (1, 4), (3, 4)), ((), (2, 3), ()), ((4,), (), (2, 1))):
            condition = make.rng.integers(0, 2, c).astype(np.bool_)
            yield of_bytes(f"{text} {list(c)} {list(a)} {list(b)}", "QLinearWhere", [condition] + make.x(*a) + make.x(*b) + make.y(), (2, 3, 5, 6, 7, 8))
        for axis, shapes in ((1, [(2, 3, 4), (2, 5, 4)]), (0, [(1, 3), (2, 3), (4, 3)]), (-1, [(2, 2)])):
            parts = list(itertools.chain.from_iterable(make.x(*shape, scale=0.0107 * (i + 1)) for i, shape in enumerate(shapes)))
            yield of_bytes(f"{text} axis {axis}, {len(shapes)} parts", "QLinearConcat", make.y() + parts, (0, 1), axis=axis)
        for axes, keep in (([-1], 1), ([1, 2], 0), ([0, 2], 1), ([0, 1, 2], 0)):
            inputs = make.x(4, 6, 7) + make.y(0.0237)
            yield without_kernel(of_bytes(f"{text} {axes} keepdims {keep}", "QLinearReduceMean", inputs, (1, 2, 3, 4), axes=axes, keepdims=keep), reduce_mean)
        for last in (0, 1):
            shape = (2, 8, 7, 5) if last else (2, 5, 8, 7)
            for attributes in ({"kernel_shape": [3, 2]}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
                               {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "count_include_pad": 1}, {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
                               {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}):
                yield of_bytes(f"{text} last {last} {attributes}", "QLinearAveragePool", make.x(*shape) + make.y(0.0237), (1, 2, 3, 4), channels_last=last, **attributes)
            yield of_bytes(f"{text} last {last}", "QLinearGlobalAveragePool", make.x(*shape) + make.y(0.0113), (1, 2, 3, 4), channels_last=last)
        yield of_bytes(f"{text} 1d", "QLinearAveragePool", make.x(2, 3, 9) + make.y(0.0237), kernel_shape=[3])
        for a, b in (((3, 7), (3, 7)), ((4, 1), (3,))):
            x, z = make.x(*a), make.x(*b)
            for name, zeros in (("", [x[2], z[2]]), (" no zero points", [None, None])):
                inputs = [x[0], zeros[0], z[0], zeros[1]]
                yield without_kernel(of_bytes(f"{text} {list(a)} {list(b)}{name}", "MulInteger", inputs, share=0), mul_integer)

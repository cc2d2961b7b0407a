"""QuantizeLinear, DequantizeLinear and QLinearConv of com.microsoft."""
import functools

import ml_dtypes
import numpy as np

from quantized_contrib_test import Problem

TYPES = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16, "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}


def limits(dtype):
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def numbers(rng, dtype, shape):
    low, high = limits(dtype)
    return np.asarray(rng.integers(low, high + 1, shape)).astype(np.int32).astype(dtype)


def quantized(x, scale, zero, axis):
    size = [1] * x.ndim
    if axis is not None:
        size[axis] = -1
    low, high = limits(zero.dtype)
    q = np.round(x / scale.reshape(size)) + zero.astype(np.float32).reshape(size)
    return [np.clip(q, low, high).astype(np.int8).astype(zero.dtype)]


def conv(name, x, w, x_kind=np.uint8, w_kind=np.uint8, columns=False, bias=True, **attributes):
    rng = np.random.default_rng(4)
    size = (w[0],) if columns else ()
    middle = {np.uint8: 128, np.int8: 0}
    inputs = [numbers(rng, x_kind, x), np.float32(0.02), np.array(middle[x_kind] + 3, x_kind), numbers(rng, w_kind, w),
              np.asarray(rng.uniform(0.01, 0.02, size)).astype(np.float32), np.full(size, middle[w_kind], w_kind),
              np.float32(0.5), np.array(middle[x_kind] - 2, x_kind), rng.integers(-999, 999, w[0]).astype(np.int32) if bias else None]
    inputs = [array if array is None else np.asarray(array) for array in inputs]
    return Problem(name, "QLinearConv", inputs, attributes, weights=(1, 2, 3, 4, 5, 6, 7, 8), steps=1, share=0.02)


def problems():
    rng = np.random.default_rng(3)
    for name, dtype in TYPES.items():
        low, high = limits(dtype)
        for axis, shape, size in ((None, (3, 14), ()), (1, (2, 3, 5), (3,)), (0, (4, 6), (4,)), (-1, (2, 7), (7,))):
            attributes = {} if axis is None else {"axis": axis}
            scale = np.asarray(rng.uniform(0.1, 0.2, size)).astype(np.float32)
            zero = np.asarray(rng.integers(low // 2, high // 2 + 1, size)).astype(np.int32).astype(dtype)
            x = rng.uniform(-2, 2, shape).astype(np.float32) * (1 if high < 20 else 8)
            title = f"{name} axis {axis}"
            problem = Problem(title, "QuantizeLinear", [x, scale, zero], attributes, weights=(1, 2), steps=1, share=0)
            if "int4" in name:  # ONNX Runtime's Python package gives no such outputs
                problem.expected = functools.partial(quantized, x, scale, zero, attributes.get("axis"))
            yield problem
            yield Problem(title, "DequantizeLinear", [numbers(rng, dtype, shape), scale, zero], attributes, weights=(1, 2), tolerance=1e-6)
        if name == "uint8":
            yield Problem("no zero point", "QuantizeLinear", [rng.uniform(0, 30, (3, 14)).astype(np.float32), np.array(0.15, np.float32)], weights=(1,), steps=1, share=0)
    x = rng.integers(-999999, 999999, (3, 14)).astype(np.int32)
    yield Problem("int32", "DequantizeLinear", [x, np.array(0.01, np.float32)], weights=(1,), tolerance=1e-6)
    for kinds in ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)):
        text = " ".join(kind.__name__ for kind in kinds)
        yield conv(f"{text}", (1, 3, 8, 7), (5, 3, 3, 3), *kinds)
        yield conv(f"{text} columns", (2, 4, 9, 9), (6, 4, 3, 3), *kinds, columns=True, pads=[1, 1, 1, 1], strides=[2, 2])
        yield conv(f"{text} depthwise", (1, 6, 7, 7), (6, 1, 3, 3), *kinds, bias=False, group=6)
    for kinds in ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)):
        text = f"channels last {kinds[0].__name__} {kinds[1].__name__}"
        yield conv(f"{text}", (1, 8, 7, 3), (5, 3, 3, 3), *kinds, channels_last=1)
        yield conv(f"{text} columns", (2, 9, 9, 4), (6, 4, 3, 3), *kinds, columns=True, pads=[1, 1, 1, 1], strides=[2, 2], channels_last=1)
        yield conv(f"{text} depthwise", (1, 7, 7, 6), (6, 1, 3, 3), *kinds, bias=False, group=6, channels_last=1)

"""Products with quantised operands: MatMulInteger16, MatMulIntegerToFloat, DynamicQuantizeMatMul, QGemm."""
import numpy as np

from quantized_contrib_test import Problem

BYTES = (np.uint8, np.int8)


def integers(rng, kind, shape):
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max + 1, shape).astype(kind)


def zeros(rng, kind, shape):
    return np.asarray(rng.integers(-9, 9, shape) + (128 if kind == np.uint8 else 0)).astype(kind)


def scales(rng, shape):
    return np.asarray(rng.uniform(0.01, 0.02, shape)).astype(np.float32)


def problems():
    rng = np.random.default_rng(1)
    for b in BYTES:
        for columns in (False, True):
            for shape, k, n in (((3, 7), 7, 5), ((1, 64), 64, 33), ((2, 9, 40), 40, 17), ((40,), 40, 6)):
                size = (n,) if columns else ()
                for zero in (False, True):
                    inputs = [rng.uniform(-1, 2, shape).astype(np.float32), integers(rng, b, (k, n)), scales(rng, size), zeros(rng, b, size) if zero else None]
                    name = f"{b.__name__} {list(shape)} columns {columns} zero points {zero}"
                    yield Problem(name, "DynamicQuantizeMatMul", inputs, weights=(1, 2, 3), tolerance=1e-5)
                    yield Problem(name + " bias", "DynamicQuantizeMatMul", [*inputs, rng.uniform(-1, 1, n).astype(np.float32)], weights=(1, 2, 3, 4), tolerance=1e-5)
                    for a in BYTES:
                        if len(shape) == 1 or (a == np.int8 and b == np.uint8):  # ONNX Runtime has no kernel
                            continue
                        x = [integers(rng, a, shape), inputs[1], scales(rng, ()), inputs[2], zeros(rng, a, ()) if zero else None, inputs[3]]
                        yield Problem(f"{a.__name__} {name}", "MatMulIntegerToFloat", x, weights=(1, 2, 3, 4, 5), tolerance=1e-5)
                        yield Problem(f"{a.__name__} {name} bias", "MatMulIntegerToFloat", [*x, rng.uniform(-1, 1, n).astype(np.float32)], weights=(1, 2, 3, 4, 5, 6), tolerance=1e-5)
    for shape in ((3, 7), (2, 3, 7)):
        yield Problem(f"{list(shape)}", "MatMulInteger16", [integers(rng, np.int16, shape) // 16, integers(rng, np.int16, (7, 5)) // 16], weights=(1,))
    for a in BYTES:
        for b in BYTES:
            if a == np.int8 and b == np.uint8:
                continue  # ONNX Runtime has no kernel
            for trans_a, trans_b in ((0, 0), (0, 1), (1, 0), (1, 1)):
                for columns in (False, True):
                    for y in (None, np.uint8, np.int8):
                        m, n, k = 5, 9, 33
                        if y is not None and y != a:
                            continue  # ONNX Runtime has the type of A alone
                        size = (n,) if columns else ()
                        inputs = [integers(rng, a, (k, m) if trans_a else (m, k)), scales(rng, ()), zeros(rng, a, ()), integers(rng, b, (n, k) if trans_b else (k, n)),
                                  scales(rng, size), zeros(rng, b, size), rng.integers(-9999, 9999, (n,)).astype(np.int32) if trans_a else None]
                        if y is not None:
                            inputs += [np.array(0.05, np.float32), zeros(rng, y, ())]
                        name = f"{a.__name__} {b.__name__} {trans_a}{trans_b} columns {columns} to {y and y.__name__}"
                        yield Problem(name, "QGemm", inputs, {"transA": trans_a, "transB": trans_b, "alpha": 0.5 if columns else 1.0}, weights=(1, 2, 3, 4, 5, 6, 7, 8), tolerance=1e-5,
                                      steps=0 if y is None else 1, share=0.02)
                        if y is not None:  # a scale alone keeps float32
                            yield Problem(f"{name}, no zero point", "QGemm", inputs[:-1], {"transA": trans_a, "transB": trans_b}, weights=(1, 2, 3, 4, 5, 6, 7), tolerance=1e-5)
                            # A zero point alone makes bytes, by a scale of 1.
                            yield Problem(f"{name}, no scale", "QGemm", [*inputs[:-2], None, inputs[-1]], {"transA": trans_a, "transB": trans_b},
                                          weights=(1, 2, 3, 4, 5, 6, 8), tolerance=1e-5, steps=1, share=0.02)

"""QAttention and QEmbedLayerNormalization."""
import numpy as np

from quantized_contrib_test import Problem


def attention(name, b, s, h, heads, mask=None, kind=np.int8, columns=False, past=0, bias_only=False, outputs=1, zero=True, seed=1, **attributes):
    rng = np.random.default_rng(seed)
    size = (3 * h,) if columns else ()
    low, high = (-127, 128) if kind == np.int8 else (0, 256)
    inputs = [rng.integers(0, 256, (b, s, h)).astype(np.uint8), rng.integers(low, high, (h, 3 * h)).astype(kind), rng.uniform(-0.5, 0.5, 3 * h).astype(np.float32),
              np.array(0.01, np.float32), np.asarray(rng.uniform(0.002, 0.004, size)).astype(np.float32), None if mask is None else np.array(mask, np.int32),
              np.array(120, np.uint8) if zero else None, np.full(size, 0 if kind == np.int8 else 128, kind) if zero else None,
              rng.uniform(-1, 1, (2, b, heads, past, h // heads)).astype(np.float32) if past else None]
    return Problem(name, "QAttention", inputs, {"num_heads": heads, **attributes}, outputs, (1, 2, 3, 4, 6, 7), tolerance=5e-5)


def embedding(name, b, s, h, mask, segments, kind=np.uint8, epsilon=1e-5):
    rng = np.random.default_rng(2)

    def table(*shape):
        return rng.integers(0 if kind == np.uint8 else -128, 256 if kind == np.uint8 else 128, shape).astype(kind)

    inputs = [rng.integers(0, 11, (b, s)).astype(np.int32), rng.integers(0, 2, (b, s)).astype(np.int32) if segments else None, table(11, h), table(s + 2, h),
              table(2, h) if segments else None, table(h), table(h), np.array(mask, np.int32) if mask else None]
    inputs += [np.asarray(scale, np.float32) for scale in rng.uniform(0.01, 0.02, 5)]
    inputs += [np.array(value, kind) for value in rng.integers(100, 120, 5)]
    if not segments:
        inputs[10] = inputs[15] = None
    return Problem(name, "QEmbedLayerNormalization", inputs, {"epsilon": epsilon}, 2, (2, 3, 4, 5, 6, *range(8, 18)), tolerance=2e-5)


def problems():
    for kind in (np.int8, np.uint8):
        yield attention(f"{kind.__name__}", 2, 5, 16, 4, kind=kind)
        yield attention(f"{kind.__name__} columns", 1, 7, 24, 2, kind=kind, columns=True)
    yield attention("no zero points", 1, 4, 16, 2, zero=False)
    yield attention("lengths", 2, 5, 16, 4, mask=[3, 5])
    yield attention("lengths and starts", 2, 5, 16, 4, mask=[4, 5, 1, 0])
    yield attention("keys", 2, 4, 16, 4, mask=[[1, 1, 0, 1], [1, 0, 0, 0]])
    yield attention("queries", 2, 3, 16, 4, mask=np.tril(np.ones((2, 3, 3))))
    yield attention("causal", 1, 6, 16, 2, unidirectional=1)
    yield attention("past", 1, 3, 16, 2, past=4, outputs=2, unidirectional=1)
    yield attention("present", 2, 3, 16, 2, past=2, outputs=2)
    yield attention("filter value", 2, 4, 16, 4, mask=[[1, 1, 0, 1], [1, 0, 0, 0]], mask_filter_value=-2.0)
    yield attention("large", 1, 32, 128, 8)
    yield embedding("segments", 2, 5, 16, [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], True)
    yield embedding("no segments", 2, 5, 24, [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], False)
    yield embedding("no mask", 1, 4, 8, None, True)
    yield embedding("int8", 1, 4, 8, None, True, kind=np.int8)

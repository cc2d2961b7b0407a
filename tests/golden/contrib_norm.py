"""Normalisations of ONNX Runtime with what stands around them."""
import numpy as np

from contrib_problems import problem


def problems():
    rng = np.random.default_rng(3)

    def floats(*shape, kind=np.float32):
        return rng.uniform(-2, 2, shape).astype(kind)

    found = []
    for shape in ((2, 5, 16), (1, 3, 33), (2, 128, 24)):
        width = shape[-1]
        for bias in (False, True):
            for beta in (False, True):
                inputs = [floats(*shape), floats(*shape), floats(width), floats(width) if beta else None, floats(width) if bias else None]
                for outputs, absent in ((1, ()), (4, (1, 2))):
                    found.append(problem("SkipLayerNormalization", inputs, outputs=outputs, absent=absent, epsilon=1e-5, dynamic=outputs == 4,
                                         constants=() if bias else (2,), title=f"{outputs} outputs"))
            inputs = [floats(*shape), floats(*shape), floats(width), floats(width) if bias else None]
            for outputs, absent in ((1, ()), (4, (1, 2))):
                found.append(problem("SkipSimplifiedLayerNormalization", inputs, outputs=outputs, absent=absent, epsilon=1e-5, dynamic=bias,
                                     title=f"{outputs} outputs"))
        for skip in ((1, *shape[1:]), shape[1:]):
            found.append(problem("SkipLayerNormalization", [floats(*shape), floats(*skip), floats(width), floats(width)]))
        for axis in (-1, 2):
            found.append(problem("SimplifiedLayerNormalization", [floats(*shape), floats(width)], domain="", axis=axis, epsilon=1e-6))
        found.append(problem("SimplifiedLayerNormalization", [floats(*shape), floats(width)], domain="", outputs=2, dynamic=True, title="2 outputs"))
    found.append(problem("SkipLayerNormalization", [floats(7, 16), floats(7, 16), floats(16), floats(16)]))
    words, segments, places = floats(20, 8), floats(2, 8), floats(12, 8)
    ids, kinds = rng.integers(0, 20, (2, 6)).astype(np.int32), rng.integers(0, 2, (2, 6)).astype(np.int32)
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)
    positions = rng.integers(0, 12, (2, 6)).astype(np.int32)
    gamma, beta = floats(8), floats(8)
    for dynamic in (False, True):
        for segment in (kinds, None):
            table = None if segment is None else segments
            for given in (None, positions, positions[:1]):
                found.append(problem("EmbedLayerNormalization", [ids, segment, words, places, table, gamma, beta, mask, given], outputs=2, dynamic=dynamic, title="mask",
                                     constants=(2, 3, 4, 5, 6) if dynamic else ()))
                found.append(problem("EmbedLayerNormalization", [ids, segment, words, places, table, gamma, beta, None, given], outputs=3, dynamic=dynamic,
                                     constants=(2, 3, 4, 5, 6), title="sum"))
    found.append(problem("EmbedLayerNormalization", [ids, None, words, places, segments, gamma, beta], outputs=3, title="segments without their numbers"))
    found.append(problem("EmbedLayerNormalization", [ids, kinds, words, places, segments, gamma, beta, mask * 3 - (ids == ids[0, 0])], outputs=2, title="a mask of other numbers"))
    found.append(problem("EmbedLayerNormalization", [ids, kinds, words, places, segments, gamma, beta, np.where(mask == 0, -2, mask).astype(np.int32)], outputs=2,
                         title="a mask of numbers below 0"))
    return found

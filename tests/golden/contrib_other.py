"""Operators of com.microsoft with kernels of their own."""
import numpy as np

from contrib_problems import problem


def problems():
    rng = np.random.default_rng(6)

    def floats(*shape, kind=np.float32, low=-1.0, high=1.0):
        return rng.uniform(low, high, shape).astype(kind)

    found = []
    for shape in ((3, 3), (2, 4, 4), (2, 3, 5, 5), (1, 1)):
        for kind in (np.float32, np.float64):
            matrix = floats(*shape, kind=kind) + 2 * np.eye(shape[-1], dtype=kind)
            found.append(problem("Inverse", [matrix], dynamic=kind == np.float64))
    for size in (1, 2, 3):
        ids = rng.integers(0, 4, (3, 12))
        found.append(problem("NGramRepeatBlock", [ids, floats(3, 6)], ngram_size=size))
    found.append(problem("NGramRepeatBlock", [rng.integers(0, 4, (2, 3)), floats(2, 6)], ngram_size=5))
    boxes = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [0.5, 0.5, 1.5, 1.2], [0.9, 0.8, 0.1, 0.2]], np.float32)
    numbers = np.array([0, 1, 1, 0], np.int32)
    for mode in ("bilinear", "nearest"):
        for size in ((3, 4), (1, 1), (6, 1)):
            found.append(problem("CropAndResize", [floats(2, 3, 6, 7), boxes, numbers, np.array(size, np.int32)], mode=mode, extrapolation_value=0.5, constants=(3,),
                                 title=f"size {size}"))
        found.append(problem("CropAndResize", [floats(2, 3, 6, 7), boxes, numbers, np.array((2, 5), np.int32)], mode=mode, dynamic=True))
    for dim in (0, 1, 2, -1):
        for size, step in ((2, 1), (3, 2), (1, 1)):
            for kind in (np.float32, np.float64, np.int32):
                found.append(problem("UnfoldTensor", [floats(4, 5, 6).astype(kind) if kind != np.int32 else rng.integers(0, 9, (4, 5, 6)).astype(kind)], dim=dim,
                                     size=size, step=step, title=np.dtype(kind).name))
    # Quotients next to a half, which float16 rounds to it.
    for x in (np.array([-4.75, 4.75, -2.625, -13.5, 5.875], np.float16), floats(2, 257, kind=np.float16, low=-16, high=16)):
        found.append(problem("QuantizeLinear", [x, np.full(x.shape[-1:], 0.1203, np.float16), np.full(x.shape[-1:], 56, np.uint8)], axis=-1,
                             title=f"of halves {x.shape}"))
    return found

"""The GELU family, products with activations and small arithmetic of com.microsoft."""
import numpy as np

from contrib_problems import problem


def problems():
    rng = np.random.default_rng(1)

    def floats(*shape, kind=np.float32, low=-3.0, high=3.0):
        return rng.uniform(low, high, shape).astype(kind)

    found = []
    for shape in ((2, 3, 7), (5,), (1, 4, 33), (0, 4)):
        found.append(problem("Gelu", [floats(*shape)]))
        found.append(problem("QuickGelu", [floats(*shape)]))
        found.append(problem("QuickGelu", [floats(*shape)], alpha=0.75, dynamic=True))
        found.append(problem("FastGelu", [floats(*shape)]))
        if shape[-1] != 0:
            found.append(problem("FastGelu", [floats(*shape), floats(shape[-1])], dynamic=True))
            found.append(problem("FastGelu", [floats(*shape), floats(shape[-1])], constants=(1,)))
            found.append(problem("BiasGelu", [floats(*shape), floats(shape[-1])]))
            found.append(problem("BiasGelu", [floats(*shape), floats(shape[-1])], constants=(1,), dynamic=True))
    for metric in ("euclidean", "sqeuclidean"):
        for kind in (np.float32, np.float64):
            found.append(problem("CDist", [floats(5, 3, kind=kind), floats(4, 3, kind=kind)], metric=metric))
            found.append(problem("CDist", [floats(33, 20, kind=kind), floats(17, 20, kind=kind)], metric=metric, dynamic=True))
    return found

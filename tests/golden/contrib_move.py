"""Operators of com.microsoft that the standard has by now, with their own types of sizes and indices."""
import numpy as np

from contrib_problems import problem


def problems():
    rng = np.random.default_rng(4)

    def floats(*shape, kind=np.float32):
        return rng.uniform(-2, 2, shape).astype(kind)

    found = []
    for axis in (0, 1, 2, -1, -3):
        for constants in ((), (1,)):
            found.append(problem("ExpandDims", [floats(2, 3), np.array(axis, np.int32)], constants=constants, title=f"axis {axis}"))
    for kind in (np.int32, np.int64):
        found.append(problem("GatherND", [floats(3, 4, 2), np.array([[0, 1], [2, 3]], kind)], title=np.dtype(kind).name))
        found.append(problem("GatherND", [floats(3, 4, 2), np.array([[[0]], [[2]]], kind)], dynamic=True, title=np.dtype(kind).name))
    for mode in ("constant", "reflect", "edge"):
        found.append(problem("Pad", [floats(3, 4), np.array([1, 0, 2, 1]), np.array([0.5], np.float32)], mode=mode, constants=(1,)))
    found.append(problem("Pad", [floats(3, 4), np.array([-1, 0, 2, 1])], constants=(1,)))
    for kind in (np.float32, np.float64, np.int16, np.int32, np.int64):
        found.append(problem("Range", [np.array([1], kind), np.array([9], kind), np.array([2], kind)], constants=(0, 1, 2), title=np.dtype(kind).name))
        found.append(problem("Range", [np.array(1, kind), np.array(5, kind)], title=np.dtype(kind).name))
    for upper in (0, 1):
        for k in (None, -1, 0, 2):
            found.append(problem("Trilu", [floats(2, 4, 5)] + ([] if k is None else [np.array(k)]), upper=upper, title=f"k {k}"))
    found.append(problem("SampleOp", [floats(2, 3)]))
    return found

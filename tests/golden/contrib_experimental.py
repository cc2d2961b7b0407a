"""Operators that ai.onnx had on trial until opset 10, and ONNX Runtime's copies between devices."""
import numpy as np

from contrib_problems import problem


def problems():
    rng = np.random.default_rng(8)
    images = rng.uniform(-1, 1, (2, 3, 5, 6)).astype(np.float32)

    def one(operator, *inputs, **settings):
        return problem(operator, [images, *inputs], domain="", opset=9, **settings)

    found = []
    for dynamic in (False, True, "unranked"):
        found.append(one("ImageScaler", scale=0.5, bias=[1.0, -2.0, 3.0], dynamic=dynamic))
        found.append(one("ImageScaler", bias=[1.0, -2.0, 3.0], dynamic=dynamic))
        found.append(one("Crop", border=[1, 2, 1, 1], dynamic=dynamic))
        found.append(one("Crop", border=[1, 2, 0, 0], dynamic=dynamic))
        found.append(one("Crop", border=[1, 2, 1, 1], scale=[2, 3], dynamic=dynamic))
        found.append(one("Affine", alpha=2.0, beta=-1.0, dynamic=dynamic))
        found.append(one("ParametricSoftplus", alpha=0.5, beta=2.0, dynamic=dynamic))
        found.append(one("ScaledTanh", alpha=0.5, beta=2.0, dynamic=dynamic))
        found.append(one("DynamicSlice", np.array([1, 2]), np.array([2, 4]), np.array([1, -1]), dynamic=dynamic))
    found += [one("Affine"), one("Scale"), one("Scale", scale=-3.0), one("MemcpyFromHost"), one("MemcpyToHost")]
    found.append(one("DynamicSlice", np.array([0, 1, -2], np.int32), np.array([1, 2, 99], np.int32), constants=(1, 2)))
    return found

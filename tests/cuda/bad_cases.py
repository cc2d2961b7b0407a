"""Models whose shapes contradict each other only once their sizes are numbers, and indices that name nothing: the first
are errors, the second touch nothing beside their tensors."""
import numpy as np
from onnx import helper, numpy_helper

from node_cases import driver, random_maker

F32, I32, I64, U8 = random_maker.F32, random_maker.I32, random_maker.I64, random_maker.U8
FAR = 1 << 40
LEAST = -(1 << 63)


def refused():
    """Sizes are symbols in all of them, so that the EP meets the numbers first."""
    m = random_maker.Maker()

    def add(op, inputs, out=None, constants=None, opset=18, **attributes):
        m.one(op, {key: np.asarray(array) for key, array in inputs.items()}, out, constants, dynamic=True, opset=opset, **attributes)

    def x(*shape):
        return m.array(list(shape), F32)

    def at(*shape):
        return np.zeros(shape, I64)
    add("Gather", {"x": x(0, 5), "i": at(1)})
    add("GatherElements", {"x": x(4, 5), "i": at(4, 6)}, axis=0)
    add("GatherElements", {"x": x(4, 5), "i": at(50, 5)}, axis=1)
    add("GatherElements", {"x": x(0, 5), "i": at(2, 5)}, axis=0)
    add("GatherND", {"x": x(4, 5), "i": at(3, 1)}, batch_dims=1)
    add("GatherND", {"x": x(4, 5), "i": at(1, 3)})
    add("GatherND", {"x": x(4, 5), "i": at(3, 0)})
    for reduction in ("none", "add"):
        add("ScatterElements", {"x": x(4, 5), "i": at(4, 6), "u": x(4, 6)}, axis=0, reduction=reduction)
        add("ScatterElements", {"x": x(4, 5), "i": at(400, 5), "u": x(400, 5)}, axis=1, reduction=reduction)
        add("ScatterElements", {"x": x(4, 5), "i": at(4, 5), "u": x(1, 2)}, axis=0, reduction=reduction)
        add("ScatterND", {"x": x(4, 5), "i": at(2, 1), "u": x(1, 5)}, reduction=reduction)
        add("ScatterND", {"x": x(4, 5), "i": at(2, 1), "u": x(5, 2)}, reduction=reduction)
        add("ScatterND", {"x": x(4, 5), "i": at(1, 3), "u": x(1)}, reduction=reduction)
        add("ScatterND", {"x": x(4, 5), "i": at(2, 0), "u": x(2, 5)}, reduction=reduction)
    add("ReverseSequence", {"x": x(5, 300, 2), "n": at(1)})
    add("Trilu", {"x": x(5, 5), "k": at(0)})
    add("Trilu", {"x": x(5, 5), "k": at(2)})
    add("DepthToSpace", {"x": x(1, 6, 2, 2)}, blocksize=2)
    add("InstanceNormalization", {"x": x(2, 600, 3), "s": x(1), "b": x(1)})
    add("GroupNormalization", {"x": x(2, 600, 3), "s": x(1), "b": x(1)}, num_groups=2, opset=21)
    add("GroupNormalization", {"x": x(2, 5, 3), "s": x(5), "b": x(5)}, num_groups=2, opset=21)
    add("LayerNormalization", {"x": x(2, 600), "s": x(7), "b": x(7)})
    add("LayerNormalization", {"x": x(2, 600)}, constants={"s": x(7), "b": x(7)})
    add("BatchNormalization", {"x": x(2, 600, 3)}, constants={"s": x(1), "b": x(1), "m": x(1), "v": x(1)})
    add("PRelu", {"x": x(2, 3), "s": x(7)})
    add("Einsum", {"a": x(3, 4), "b": x(5, 6)}, equation="ij,jk->ik")
    add("Einsum", {"a": x(3, 4)}, equation="ii->i")
    add("GridSample", {"x": x(9, 2, 4, 4), "g": x(1, 3, 3, 2)})
    add("GridSample", {"x": x(1, 2, 0, 4), "g": x(1, 3, 3, 2)})
    add("MatMulInteger", {"a": m.array([3, 5], U8), "b": m.array([4, 6], U8)}, I32)
    add("MatMulInteger", {"a": m.array([65, 65], U8), "b": m.array([65, 65], U8), "p": m.array([7], U8), "q": m.array([7], U8)}, I32)
    for spatial in (1, 2, 3):
        size, kernel = [4] * spatial, [2] * spatial
        add("Conv", {"x": x(1, 4, *size), "w": x(4, 3, *kernel)})
        add("Conv", {"x": x(1, 4, *size), "w": x(4, 4, *kernel)}, group=3)
        add("Conv", {"x": x(1, 4, *size), "w": x(400, 4, *kernel), "b": x(1)})
        add("MaxPool", {"x": x(1, 4, *size)}, kernel_shape=[9] * spatial)
        add("ConvInteger", {"x": m.array([1, 4, *size], U8), "w": m.array([4, 3, *kernel], U8)}, I32)
    add("Add", {"a": x(2, 3), "b": x(2, 4)})
    add("MatMul", {"a": x(2, 3), "b": x(4, 2)})
    return {f"refused_{case.name}": driver.Case(f"refused_{case.name}", case.model, case.inputs, case.outputs) for case in m.cases}


def far_indices():
    """With the values that they have to give: reads take the nearest element, writes have no effect."""
    cases = {}
    x = np.arange(20, dtype=F32).reshape(4, 5)
    u = np.arange(100, 120, dtype=F32).reshape(4, 5)

    def add(op, inputs, wanted, constants=None, **attributes):
        constants = constants or {}
        graph = helper.make_graph(
            [helper.make_node(op, [*inputs, *constants], ["y"], **attributes)], "far",
            [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(array.dtype), [f"{key}{i}" for i in range(array.ndim)])
             for key, array in inputs.items()], [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(wanted.dtype), None)],
            [numpy_helper.from_array(array, key) for key, array in constants.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        name = f"far_{len(cases):02}_{op}"
        cases[name] = driver.Case(name, model.SerializeToString(), inputs, [wanted])
    add("Gather", {"x": x, "i": np.array([9, -9, FAR, LEAST, 1], I64)}, x[[3, 0, 3, 0, 1]], axis=0)
    add("GatherElements", {"x": x, "i": np.array([[FAR, -FAR, 4, LEAST, 1]], I64)}, np.array([[15, 1, 17, 3, 9]], F32), axis=0)
    add("GatherND", {"x": x, "i": np.array([[9, 9], [-100, 0], [FAR, LEAST]], I64)}, np.array([19, 0, 15], F32))
    index = np.array([[9, -9, FAR, LEAST, -1]], I64)
    for reduction, there in (("none", u[0, 4]), ("add", x[3, 4] + u[0, 4])):
        wanted = x.copy()
        wanted[3, 4] = there
        add("ScatterElements", {"x": x, "i": index, "u": u[:1]}, wanted, axis=0, reduction=reduction)
        wanted = x.copy()
        wanted[3] = u[4 - 1] if reduction == "none" else x[3] + u[3]
        add("ScatterND", {"x": x, "i": np.array([[9], [FAR], [LEAST], [-1]], I64), "u": u}, wanted, reduction=reduction)
    add("OneHot", {"i": np.array([9, -9, FAR, LEAST, -1], I64)}, np.array([[2, 2, 2]] * 4 + [[2, 2, 7]], F32),
        {"d": np.array(3, I64), "v": np.array([2, 7], F32)})
    add("ReverseSequence", {"x": x, "n": np.array([FAR, -FAR, 0, 2, LEAST], I64)},
        np.stack([x[::-1, 0], x[:, 1], x[:, 2], x[[1, 0, 2, 3], 3], x[:, 4]], 1))
    return cases

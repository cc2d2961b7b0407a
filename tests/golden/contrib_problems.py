"""Models of one operator that ONNX Runtime has beyond the standard, for contrib_test.py.

A file contrib_FAMILY.py has a function problems() that gives a list of problem(...). An input is an array, or None where
it is absent. An output's name in `ignored` is not compared (None as expected value).
"""
import dataclasses

import numpy as np
import onnx
from onnx import helper


@dataclasses.dataclass
class Problem:
    name: str
    model: onnx.ModelProto
    inputs: dict  # name -> array
    tolerance: float  # relative to the largest value of an output
    ignored: tuple  # numbers of outputs that are not compared


def problem(operator, inputs, outputs=1, constants=(), dynamic=False, domain="com.microsoft", tolerance=None, ignored=(), absent=(), title="", opset=21,
            **attributes):
    """A node of `operator`. `constants` are numbers of inputs that are initializers; with `dynamic` the sizes of the others
    are symbols, with "unranked" their ranks are unknown too; `absent` are numbers of outputs that the node leaves out."""
    feeds, names, initializers, values = {}, [], [], []
    for number, array in enumerate(inputs):
        if array is None:
            names.append("")
            continue
        name = f"x{number}"
        names.append(name)
        array = np.asarray(array)
        if number in constants:
            initializers.append(onnx.numpy_helper.from_array(array, name))
            continue
        feeds[name] = array
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        shape = None if dynamic == "unranked" else [f"{name}_{axis}" for axis in range(array.ndim)] if dynamic else array.shape
        values.append(helper.make_tensor_value_info(name, kind, shape))
    made = ["" if number in absent else f"y{number}" for number in range(outputs)]
    attributes = {key: value for key, value in attributes.items() if value is not None}
    node = helper.make_node(operator, names, made, domain=domain, **attributes)
    graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name=name) for name in made if name], initializers)
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    shapes = " ".join("absent" if array is None else "x".join(map(str, np.shape(array))) or "scalar" for array in inputs)
    settings = " ".join(f"{key}={value}" for key, value in attributes.items() if not isinstance(value, onnx.GraphProto))
    kinds = {array.dtype.name for array in feeds.values() if array.dtype.kind == "f"}
    name = " ".join(filter(None, [operator, title, *sorted(kinds), shapes, settings, f"constant={list(constants)}" if constants else "",
                                  dynamic if dynamic == "unranked" else "dynamic" if dynamic else ""]))
    if tolerance is None:
        tolerance = 4e-3 if any(kind == "float16" for kind in kinds) else 2e-5
    return Problem(name, model, feeds, tolerance, tuple(ignored))

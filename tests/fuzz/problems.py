"""Problems of the differential fuzzer: a model with the inputs of one or more runs, and how a model is put together."""
import dataclasses

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

# Types that numpy itself lacks: ONNX Runtime's Python package takes and gives no tensors of them.
ODD = {np.dtype(getattr(ml_dtypes, name)) for name in (
    "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4", "int2", "uint2")}


@dataclasses.dataclass
class Problem:
    name: str  # the seed's words: generator, number
    model: bytes
    feeds: list  # {input: value} of each run on one session
    threads: int = 1
    bound: bool = False  # outputs lie in memory of the caller
    environment: dict = dataclasses.field(default_factory=dict)
    step: float = 0  # of a quantised output: a few elements may be so far off

    def proto(self):
        return onnx.load_from_string(self.model)

    def operators(self):
        return [f"{node.domain}.{node.op_type}" if node.domain else node.op_type for node in all_nodes(self.proto().graph)]


def all_nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(attribute.g)


def is_tensor(value):
    return isinstance(value, (np.ndarray, np.generic))


def number_of(array):
    return onnx.TensorProto.STRING if array.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(array.dtype)


def tensor_of(name, array):
    if array.dtype.kind in "OUS":
        return helper.make_tensor(name, onnx.TensorProto.STRING, array.shape, [str(text).encode() for text in array.flatten()])
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def declare(name, array, how):
    """A ValueInfoProto; `how`: "numbers", "symbols" (one for each size), "own" (one for each axis), "none" or "rank"."""
    if how == "rank":
        dims = None
    else:
        dims = [{"numbers": size, "symbols": f"s{size}", "own": f"{name}_{axis}", "none": None}[how] for axis, size in enumerate(array.shape)]
    return helper.make_tensor_value_info(name, number_of(array), dims)


def model_of(nodes, opset, versions, given, held, outputs, declared="numbers", types=()):
    """`given` are arrays of the first run; `types` the TypeProtos of those that are none."""
    types = dict(types)
    infos = [helper.make_value_info(name, types[name]) if name in types else declare(name, np.asarray(value), declared) for name, value in given.items()]
    graph = helper.make_graph(nodes, "fuzz", infos, [onnx.ValueInfoProto(name=name) for name in outputs],
                              [tensor_of(name, np.asarray(array)) for name, array in held.items()])
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, version) for domain, version in versions.items() if domain)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8 if opset < 19 else 10 if opset < 24 else 13).SerializeToString()


def node_of(template, inputs, outputs, name=""):
    node = onnx.NodeProto(op_type=template.operator, domain=template.domain, name=name, input=inputs, output=outputs)
    while node.input and not node.input[-1]:
        node.input.pop()
    node.attribute.extend(template.attributes.values())
    return node

"""Small models for the probe: each shows something of the graph API."""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def _model(nodes, inputs, outputs, initializers=(), name="probe graph", opset=17, **fields):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    for field, value in fields.items():
        setattr(model, field, value)
    return model


def _tensor(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.array(values, dtype=dtype), name)


def chain():
    """Add, Mul, Relu, LeakyRelu on [batch, 3] with constants, a Constant node, and a value that is read twice."""
    nodes = [
        helper.make_node("Add", ["x", "c"], ["a"], name="add"),
        helper.make_node("Constant", [], ["two"], name="make two", value=_tensor("v", [2.0])),
        helper.make_node("Mul", ["a", "two"], ["m"], name="mul"),
        helper.make_node("Relu", ["m"], ["r"], name=""),
        helper.make_node("LeakyRelu", ["m"], ["l"], name="leaky", alpha=0.25),
        helper.make_node("LeakyRelu", ["l"], ["l2"], name="leaky by default"),
        helper.make_node("Add", ["r", "l2"], ["y"], name="sum"),
    ]
    model = _model(nodes, [helper.make_tensor_value_info("x", FLOAT, ["batch", 3])],
                   [helper.make_tensor_value_info("y", FLOAT, ["batch", 3]),
                    helper.make_tensor_value_info("a", FLOAT, ["batch", 3])],
                   [_tensor("c", [1.0, 2.0, 3.0]), _tensor("unused", [7.0])],
                   producer_name="the tests", producer_version="3", domain="org.tenon", model_version=12,
                   doc_string="A chain.")
    helper.set_model_props(model, {"author": "nobody", "purpose": "probe"})
    return model


def mixed():
    """What the EP takes between what it does not: Neg, Add, Abs, Mul."""
    nodes = [
        helper.make_node("Neg", ["x"], ["n"], name="neg"),
        helper.make_node("Add", ["n", "z"], ["a"], name="add"),
        helper.make_node("Abs", ["a"], ["b"], name="abs"),
        helper.make_node("Mul", ["b", "n"], ["y"], name="mul"),
    ]
    info = helper.make_tensor_value_info
    return _model(nodes, [info("x", FLOAT, [2, 3]), info("z", FLOAT, [2, 3])], [info("y", FLOAT, [2, 3])])


def attributes():
    """Attributes of each kind, absent inputs and outputs."""
    nodes = [
        helper.make_node("Conv", ["x", "w", ""], ["c"], name="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1],
                         auto_pad="NOTSET"),
        helper.make_node("Clip", ["c", "", "max"], ["k"], name="clip"),
        helper.make_node("Resize", ["k", "", "scales"], ["z"], name="resize", mode="nearest", cubic_coeff_a=-0.5),
        helper.make_node("ConstantOfShape", ["shape"], ["f"], name="fill", value=_tensor("v", [0.5])),
        helper.make_node("Dropout", ["z"], ["d", ""], name="dropout", seed=3),
        helper.make_node("Add", ["d", "f"], ["y"], name="add"),
    ]
    info = helper.make_tensor_value_info
    return _model(nodes, [info("x", FLOAT, [1, 2, 4, 4])], [info("y", FLOAT, None)],
                  [_tensor("w", np.arange(36).reshape(2, 2, 3, 3) / 10), _tensor("max", 6.0),
                   _tensor("scales", [1, 1, 2, 2]), _tensor("shape", [1], np.int64)])


def branches():
    """If with subgraphs that read outer values, one of them two levels up."""
    info = helper.make_tensor_value_info
    inner = helper.make_graph([helper.make_node("Add", ["x", "o"], ["i"], name="inner add")], "inner",
                              [], [info("i", FLOAT, [2, 2])])
    other = helper.make_graph([helper.make_node("Identity", ["o"], ["j"], name="inner copy")], "other",
                              [], [info("j", FLOAT, [2, 2])])
    then = helper.make_graph([helper.make_node("Mul", ["h", "k"], ["o"], name="then mul"),
                              helper.make_node("If", ["flag"], ["t"], name="inner if", then_branch=inner,
                                               else_branch=other)],
                             "then", [], [info("t", FLOAT, [2, 2])], [_tensor("k", [3.0])])
    els = helper.make_graph([helper.make_node("Relu", ["h"], ["e"], name="else relu")], "else", [],
                            [info("e", FLOAT, [2, 2])])
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="relu"),
        helper.make_node("ReduceSum", ["h"], ["s"], name="reduce", keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["flag"], name="greater"),
        helper.make_node("If", ["flag"], ["b"], name="if", then_branch=then, else_branch=els),
        helper.make_node("Add", ["b", "h"], ["y"], name="after"),
    ]
    return _model(nodes, [info("x", FLOAT, [2, 2])], [info("y", FLOAT, [2, 2])], [_tensor("zero", 0.0)])


def overridable():
    """Initializers that are graph inputs too, and values out of topological order."""
    nodes = [
        helper.make_node("Mul", ["a", "b"], ["y"], name="second"),
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
    ]
    info = helper.make_tensor_value_info
    return _model([nodes[1], nodes[0]], [info("x", FLOAT, [3]), info("b", FLOAT, [1])], [info("y", FLOAT, [3])],
                  [_tensor("b", [2.0])])


def external(directory):
    """Two initializers in a file beside the model."""
    model = chain()
    big = _tensor("c", np.arange(3) + 0.5)
    model.graph.initializer[0].CopyFrom(big)
    path = pathlib.Path(directory) / "external.onnx"
    onnx.save_model(model, path, save_as_external_data=True, all_tensors_to_one_file=True, location="external.data",
                    size_threshold=0)
    return path


def write_all(directory):
    """The models by name, as files of the directory."""
    directory = pathlib.Path(directory)
    paths = {}
    for make in (chain, mixed, attributes, branches, overridable):
        paths[make.__name__] = directory / f"{make.__name__}.onnx"
        onnx.save_model(make(), paths[make.__name__])
    paths["external"] = external(directory)
    return paths

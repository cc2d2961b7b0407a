"""Small models for the tests."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def value(name, element_type, shape):
    return helper.make_tensor_value_info(name, element_type, shape)


def model(nodes, inputs, outputs, initializers=(), opset=17, ml=False, **properties):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid("ai.onnx.ml", 3)] if ml else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10 if opset > 18 else 8, **properties)


def one_node(op, element_type=FLOAT, shape=("n", 2), opset=17, **attributes):
    """y = op(x)"""
    return model([helper.make_node(op, ["x"], ["y"], **attributes)], [value("x", element_type, list(shape))],
                 [value("y", element_type, list(shape))], opset=opset).SerializeToString()


def add_one():
    """y = x + 1, with the initializer as an overridable input."""
    one = numpy_helper.from_array(np.ones(2, np.float32), "one")
    return model([helper.make_node("Add", ["x", "one"], ["y"])], [value("x", FLOAT, ["n", 2]), value("one", FLOAT, [2])],
                 [value("y", FLOAT, ["n", 2])], [one]).SerializeToString()


def low_rank():
    """y = x + (x a) b, with initializers of zeroes as overridable inputs: what LoRA adapters replace"""
    nodes = [helper.make_node("MatMul", ["x", "a"], ["t"]), helper.make_node("MatMul", ["t", "b"], ["u"]),
             helper.make_node("Add", ["x", "u"], ["y"])]
    zeroes = [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in (("a", (4, 2)), ("b", (2, 4)))]
    inputs = [value("x", FLOAT, ["n", 4]), value("a", FLOAT, [4, "r"]), value("b", FLOAT, ["r", 4])]
    return model(nodes, inputs, [value("y", FLOAT, ["n", 4])], zeroes).SerializeToString()


def insert():
    """r = the sequence s with x at its end"""
    sequence = helper.make_tensor_sequence_value_info
    return model([helper.make_node("SequenceInsert", ["s", "x"], ["r"])], [sequence("s", FLOAT, None), value("x", FLOAT, None)],
                 [sequence("r", FLOAT, None)]).SerializeToString()


def zip_map():
    """A dictionary from 3 and 4 to the two columns of x, for each row"""
    info = helper.make_value_info("y", helper.make_sequence_type_proto(
        helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, None))))
    return model([helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[3, 4])],
                 [value("x", FLOAT, ["n", 2])], [info], opset=15, ml=True).SerializeToString()


def dictionary():
    """The values of "a" and "b" in a dictionary"""
    info = helper.make_value_info("x", helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(INT64, [])))
    return model([helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])],
                 [info], [value("y", INT64, None)], opset=15, ml=True).SerializeToString()


def optional():
    """r = the optional o"""
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    return model([helper.make_node("Identity", ["o"], ["r"])], [helper.make_value_info("o", kind)],
                 [helper.make_value_info("r", kind)], opset=18).SerializeToString()

"""Writes a small model, Relu(Conv(x)) on [batch, 1, 8, 8], for programs that need any model at all."""
import sys

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

weights = np.linspace(-1, 1, 2 * 9, dtype=np.float32).reshape(2, 1, 3, 3)
graph = helper.make_graph(
    [helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
     helper.make_node("Relu", ["c"], ["y"], name="relu")],
    "small",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, 8, 8])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2, 8, 8])],
    [numpy_helper.from_array(weights, "w")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
checker.check_model(model)
save(model, sys.argv[1])

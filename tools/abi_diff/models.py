"""The small models that the calls open. write(folder) makes them; INPUTS has their feeds, as (name, type, dimensions)."""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, I, S, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.BOOL
# model: ([(input, element type, dimensions that fit)], [outputs])
INPUTS = {
    "add": ([("x", F, [2, 4]), ("y", F, [2, 4])], ["sum"]),
    "two": ([("x", F, [2, 3])], ["positive", "negative"]),
    "fixed": ([("x", F, [2, 3])], ["y"]),
    "strings": ([("x", S, [2])], ["y"]),
    "scalar": ([("x", F, [])], ["twice"]),
    "overridable": ([("x", F, [2, 4])], ["y"]),
    "nonzero": ([("x", F, [2, 4])], ["where"]),
    "sequence": ([("x", F, [2, 4]), ("y", F, [2, 4])], ["all", "length"]),
    "at": ([("all", "sequence", None), ("i", I, [])], ["y"]),
    "map": ([("x", F, [2, 3])], ["label", "scores"]),
    "branch": ([("c", B, []), ("x", F, [2, 4])], ["y"]),
    "loop": ([("n", I, []), ("x", F, [2, 4])], ["y"]),
    "optional": ([("x", F, [2, 4])], ["o"]),
    "integers": ([("x", I, [3])], ["y"]),
    "denoted": ([("x", F, [1, 3, 4])], ["y"]),
}
BROKEN = ["missing.onnx", "garbage.onnx", "empty.onnx", "truncated.onnx", "unknown.onnx", "", ".", "models\xff", "no_opset.onnx"]


def info(name, shape, kind=F):
    return helper.make_tensor_value_info(name, kind, shape)


def save(folder, name, nodes, inputs, outputs, initializers=(), opsets=(("", 17),), metadata=None):
    graph = helper.make_graph(nodes, name + "_graph", inputs, outputs, list(initializers), doc_string="the graph's text")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*one) for one in opsets], ir_version=9)
    if metadata:
        helper.set_model_props(model, metadata)
        model.producer_name, model.domain, model.model_version, model.doc_string = "abi_diff", "example", 42, "the model's text"
    onnx.save(model, folder / f"{name}.onnx")


def write(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    node, tensor = helper.make_node, numpy_helper.from_array
    rows = ["N", 4]
    save(folder, "add", [node("Add", ["x", "y"], ["sum"], name="adds")], [info("x", rows), info("y", rows)], [info("sum", rows)],
         metadata={"author": "somebody", "empty": "", "odd\n": "\u00e9"})
    save(folder, "two", [node("Relu", ["x"], ["positive"]), node("Neg", ["x"], ["negative"])], [info("x", ["batch", 3])],
         [info("positive", ["batch", 3]), info("negative", ["batch", 3])])
    save(folder, "fixed", [node("Relu", ["x"], ["y"])], [info("x", [2, 3])], [info("y", [2, 3])])
    save(folder, "strings", [node("Identity", ["x"], ["y"])], [info("x", ["N"], S)], [info("y", ["N"], S)])
    save(folder, "scalar", [node("Add", ["x", "x"], ["twice"])], [info("x", [])], [info("twice", [])])
    save(folder, "overridable", [node("Mul", ["x", "w"], ["y"])], [info("x", rows), info("w", [4])], [info("y", rows)],
         [tensor(np.arange(4, dtype=np.float32), "w")])
    save(folder, "nonzero", [node("NonZero", ["x"], ["where"])], [info("x", rows)], [info("where", [2, None], I)])
    sequence = helper.make_tensor_sequence_value_info("all", F, None)
    save(folder, "sequence", [node("SequenceConstruct", ["x", "y"], ["all"]), node("SequenceLength", ["all"], ["length"])],
         [info("x", rows), info("y", rows)], [sequence, info("length", [], I)])
    save(folder, "at", [node("SequenceAt", ["all", "i"], ["y"])], [sequence, info("i", [], I)], [info("y", None)])
    scores = helper.make_value_info("scores", helper.make_sequence_type_proto(helper.make_map_type_proto(S, helper.make_tensor_type_proto(F, []))))
    save(folder, "map", [node("ArgMax", ["x"], ["label"], axis=1, keepdims=0),
                         node("ZipMap", ["x"], ["scores"], domain="ai.onnx.ml", classlabels_strings=["a", "b", "c"])],
         [info("x", ["N", 3])], [info("label", ["N"], I), scores], opsets=(("", 17), ("ai.onnx.ml", 3)))
    bodies = [helper.make_graph([node(op, ["x"], [op])], op, [], [info(op, rows)]) for op in ("Neg", "Relu")]
    save(folder, "branch", [node("If", ["c"], ["y"], then_branch=bodies[0], else_branch=bodies[1])], [info("c", [], B), info("x", rows)],
         [info("y", rows)])
    body = helper.make_graph([node("Identity", ["k"], ["ko"]), node("Add", ["v", "x"], ["vo"])], "body",
                             [info("i", [], I), info("k", [], B), info("v", rows)], [info("ko", [], B), info("vo", rows)])
    save(folder, "loop", [node("Loop", ["n", "", "x"], ["y"], body=body)], [info("n", [], I), info("x", rows)], [info("y", rows)])
    optional = helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(F, rows)))
    save(folder, "optional", [node("Optional", ["x"], ["o"])], [info("x", rows)], [optional])
    save(folder, "integers", [node("Add", ["x", "x"], ["y"])], [info("x", ["N"], I)], [info("y", ["N"], I)])
    save(folder, "denoted", [node("Relu", ["x"], ["y"])], [info("x", [None, 3, "H"])], [info("y", [None, 3, "H"])])
    model = onnx.load(folder / "denoted.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    model.graph.input[0].type.denotation = "IMAGE"
    onnx.save(model, folder / "denoted.onnx")
    save(folder, "unknown", [node("NoSuchOperator", ["x"], ["y"])], [info("x", [1])], [info("y", [1])])
    save(folder, "no_opset", [node("Relu", ["x"], ["y"], domain="example.none")], [info("x", [1])], [info("y", [1])])
    custom = node("Custom", ["x", "k"], ["y"], domain="example.custom", name="the_node", number=7, real=1.5, text="some text",
                  numbers=[1, 2, 3], reals=[0.5, 0.25], texts=["a", "", "\u00e9"], value=tensor(np.arange(3, dtype=np.int32), "value"))
    save(folder, "custom", [custom], [info("x", ["N", 4])], [info("y", None)], [tensor(np.ones(4, np.float32), "k")],
         opsets=(("", 17), ("example.custom", 1)))  # without a shape, so that the operator is asked for it
    # The graph that a plugin sees: constants, an absent input, a body with implicit inputs, an external initializer.
    steps = [node("Mul", ["x", "w"], ["m"], name="times"), node("Clip", ["m", "", "most"], ["c"]), node("Add", ["c", "m"], ["a"], name="plus"),
             node("If", ["flag"], ["i"], name="either", then_branch=helper.make_graph([node("Sub", ["a", "w"], ["t"])], "then", [], [info("t", rows)]),
                  else_branch=helper.make_graph([node("Relu", ["a"], ["e"])], "else", [], [info("e", rows)])),
             node("Split", ["i"], ["y", "z"], axis=1), node("LeakyRelu", ["z"], ["l"], alpha=0.5)]
    save(folder, "graph", steps, [info("x", rows), info("flag", [], B)], [info("y", ["N", 2]), info("l", ["N", 2])],
         [tensor(np.arange(4, dtype=np.float32), "w"), tensor(np.array(6, np.float32), "most")], metadata={"author": "somebody"})
    (folder / "garbage.onnx").write_bytes(b"this is no model, whatever its name says" * 4)
    (folder / "empty.onnx").write_bytes(b"")
    whole = (folder / "add.onnx").read_bytes()
    (folder / "truncated.onnx").write_bytes(whole[:len(whole) // 2])

"""The small models that the drop-in programs open. Usage: models.py FOLDER"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def info(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save(folder, name, nodes, inputs, outputs, initializers=(), **graph_fields):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers), **graph_fields)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    if name == "add":
        model.producer_name = "drop-in"
        model.producer_version = "1.2"
        model.domain = "example.tenon"
        model.model_version = 42
        model.doc_string = "adds two tensors"
        graph.doc_string = "the graph's own text"
        model.graph.doc_string = graph.doc_string
        helper.set_model_props(model, {"author": "somebody", "empty": "", "labels": "a,b,c"})
    onnx.save(model, folder / f"{name}.onnx")
    return model


def custom(source, target):
    return helper.make_node("Custom", [source], [target], domain="example.custom")


def save_custom(folder, name, nodes, inputs, outputs, initializers=()):
    model = save(folder, name, nodes, inputs, outputs, initializers)
    model.opset_import.append(helper.make_opsetid("example.custom", 1))
    onnx.save(model, folder / f"{name}.onnx")


def write_custom_bodies(folder):
    """The custom operator (three times its input, of one element) inside of If, Loop and Scan, and If in Loop."""
    node, graph = helper.make_node, helper.make_graph
    zero = numpy_helper.from_array(np.zeros(1, np.float32), "zero")
    yes = numpy_helper.from_array(np.array(True), "yes")
    three = numpy_helper.from_array(np.array(3, np.int64), "three")
    x, y = info("x", [1]), info("y", [1])

    def branches(source, suffix=""):
        return dict(then_branch=graph([custom(source, "t" + suffix)], "then", [], [info("t" + suffix, [1])]),
                    else_branch=graph([node("Neg", [source], ["n" + suffix]), custom("n" + suffix, "e" + suffix)], "else", [],
                                      [info("e" + suffix, [1])]))

    greater = [node("Greater", ["x", "zero"], ["g"]), node("Squeeze", ["g"], ["c"])]
    save_custom(folder, "custom_if", [*greater, node("If", ["c"], ["y"], **branches("x"))], [x], [y], [zero])
    save_custom(folder, "custom_constant_if", [node("If", ["yes"], ["y"], **branches("x"))], [x], [y], [yes])
    loop = graph([node("Identity", ["keep"], ["keep_out"]), custom("v", "v_out"), custom("x", "w"),
                  node("Add", ["v_out", "w"], ["s"]), node("Identity", ["s"], ["s_out"])], "loop",
                 [info("i", [], TensorProto.INT64), info("keep", [], TensorProto.BOOL), info("v", [1])],
                 [info("keep_out", [], TensorProto.BOOL), info("v_out", [1]), info("s_out", [1])])
    save_custom(folder, "custom_loop", [node("Loop", ["three", "yes", "x"], ["y", "all"], body=loop)], [x],
                [y, info("all", [None, 1])], [three, yes])
    scan = graph([custom("state", "a"), custom("part", "b"), node("Add", ["a", "b"], ["state_out"]),
                  node("Identity", ["b"], ["b_out"])], "scan", [info("state", [1]), info("part", [1])],
                 [info("state_out", [1]), info("b_out", [1])])
    parts = numpy_helper.from_array(np.arange(3, dtype=np.float32).reshape(3, 1), "parts")
    save_custom(folder, "custom_scan", [node("Scan", ["x", "parts"], ["y", "all"], body=scan, num_scan_inputs=1)], [x],
                [y, info("all", [3, 1])], [parts])
    # The operator reads a value two graphs further out, and a constant of its own body.
    inner = branches("x", "_in")
    inner["else_branch"] = graph([custom("five", "e_in")], "else", [], [info("e_in", [1])],
                                 [numpy_helper.from_array(np.full(1, 5, np.float32), "five")])
    nested = graph([node("Identity", ["keep"], ["keep_out"]), node("Greater", ["v", "ten"], ["g"]),
                    node("Squeeze", ["g"], ["c"]), node("If", ["c"], ["w"], **inner), node("Add", ["v", "w"], ["v_out"])],
                   "loop", [info("i", [], TensorProto.INT64), info("keep", [], TensorProto.BOOL), info("v", [1])],
                   [info("keep_out", [], TensorProto.BOOL), info("v_out", [1])],
                   [numpy_helper.from_array(np.full(1, 10, np.float32), "ten")])
    save_custom(folder, "custom_nested", [node("Loop", ["three", "yes", "x"], ["y"], body=nested)], [x], [y], [three, yes])


def write_odd(folder):
    """What exporters write and a checker might refuse: each takes x of [2, 4]."""
    node = helper.make_node
    x, y = info("x", ["N", 4]), info("y", ["N", 4])
    one, hundred = (numpy_helper.from_array(np.full(4, value, np.float32), "w") for value in (1, 100))
    add, relu = [node("Add", ["x", "w"], ["y"])], [node("Relu", ["x"], ["y"])]

    def odd(name, nodes=relu, inputs=(x,), outputs=(y,), initializers=(), change=None, **fields):
        model = save(folder, "odd_" + name, nodes, list(inputs), list(outputs), initializers, **fields)
        if change is not None:
            change(model)
            onnx.save(model, folder / f"odd_{name}.onnx")

    odd("initializer_twice", add, initializers=[one, hundred])
    odd("initializer_twice_reversed", add, initializers=[hundred, one])
    odd("initializer_of_input_twice", add, [x, info("w", [4])], initializers=[one, hundred])
    constant, other = [node("Constant", [], ["w"], value=one)], [node("Constant", [], ["w"], value=hundred)]
    odd("constant_and_initializer", constant + add, initializers=[hundred])
    odd("constant_and_initializer_later", add + constant, initializers=[hundred])
    odd("constant_twice", constant + other + add)
    odd("constant_and_input", constant + add, [x, info("w", [4])])
    odd("constant_and_input_without_value", constant + [node("Relu", ["x"], ["y"])], [info("w", [4]), x])
    odd("constant_is_output", [node("Neg", ["x"], ["n"]), node("Constant", [], ["y"], value=one)],
        outputs=[info("y", [4])], initializers=[numpy_helper.from_array(np.full(4, 5, np.float32), "y")])
    odd("constant_and_node", [node("Neg", ["x"], ["w"])] + constant + add)
    odd("constants_differ", constant + add, initializers=[numpy_helper.from_array(np.ones(1, np.float32), "w")])

    def only(*imports):
        def change(model):
            del model.opset_import[:]
            model.opset_import.extend(helper.make_opsetid(*one) for one in imports)
        return change

    odd("no_import_of_onnx", change=only(("ai.onnx.ml", 3)))
    odd("no_import_at_all", change=only())
    odd("initializers_differ", add, initializers=[numpy_helper.from_array(np.ones(1, np.float32), "w"), hundred])
    # ReduceSum has its axes as an attribute up to opset 12.
    odd("opset_twice", [node("ReduceSum", ["x"], ["y"], axes=[1])], outputs=[info("y", ["N", 1])],
        change=lambda model: model.opset_import.append(helper.make_opsetid("", 11)))
    odd("private_attribute", [node("Relu", ["x"], ["y"], __backend="any", __layer=3)])
    odd("ir_1", add, [x, info("w", [4])], initializers=[one], change=lambda model: setattr(model, "ir_version", 1))
    odd("ir_2", add, [x, info("w", [4])], initializers=[one], change=lambda model: setattr(model, "ir_version", 2))
    odd("unsorted", [node("Neg", ["a"], ["y"]), node("Relu", ["x"], ["a"])])
    odd("unused_initializer", initializers=[one])
    odd("dead_node", [*relu, node("Cast", ["x"], ["text"], to=TensorProto.STRING)])
    odd("unused_input_types", value_info=[info("nothing", [3], TensorProto.STRING)])
    odd("output_rank", outputs=[info("y", ["N"])])
    odd("output_dimension", outputs=[info("y", ["N", 7])])
    odd("inner_shape", [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["y"])], value_info=[info("a", [9, 9, 9])])
    odd("unused_import", change=lambda model: model.opset_import.append(helper.make_opsetid("example.nothing", 3)))
    odd("one_symbol_two_sizes", [node("Concat", ["x", "x"], ["y"], axis=0)])
    odd("empty_names", [node("Clip", ["x", "", ""], ["a"]), node("Dropout", ["a"], ["y", ""])])
    odd("no_shapes", inputs=[info("x", None)], outputs=[info("y", None)])


def write_shapes(folder):
    """Of shapes.c: names, scalars and outputs that are not what a run gives."""
    node, int64 = helper.make_node, TensorProto.INT64
    save(folder, "scalar_times", [node("Mul", ["x", "s"], ["y"]), node("Shape", ["y"], ["shape"])],
         [info("x", ["N", 4]), info("s", [])], [info("y", ["N", 4]), info("shape", [2], int64)])
    save(folder, "scalar_vector", [node("Mul", ["x", "s"], ["y"])], [info("x", ["N", 4]), info("s", [1])],
         [info("y", ["N", 4])])
    rate = numpy_helper.from_array(np.array(16000, np.int64), "rate")
    branches = [helper.make_graph([node(op, ["x"], [f"{op}_y"])], op, [], [info(f"{op}_y", ["T"])])
                for op in ("Neg", "Relu")]
    save(folder, "sample_rate", [node("Equal", ["sr", "rate"], ["fast"]),
                                 node("If", ["fast"], ["y"], then_branch=branches[0], else_branch=branches[1])],
         [info("x", ["T"]), info("sr", [], int64)], [info("y", ["T"])], [rate])
    pair, z = [info("x", ["N", "N"]), info("y", ["N", "N"])], [info("z", ["N", "N"])]
    save(folder, "names_add", [node("Add", ["x", "y"], ["z"])], pair, z)
    save(folder, "names_concat", [node("Concat", ["x", "y"], ["z"], axis=0)], pair, z)
    save(folder, "names_matmul", [node("MatMul", ["x", "y"], ["z"])], pair, z)
    save(folder, "names_reshape", [node("Shape", ["y"], ["s"]), node("Reshape", ["x", "s"], ["z"])], pair, z)
    save(folder, "names_expand", [node("Shape", ["y"], ["s"]), node("Expand", ["x", "s"], ["z"])], pair, z)
    save(folder, "names_where", [node("Less", ["x", "y"], ["less"]), node("Where", ["less", "x", "y"], ["z"])], pair, z)
    square = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    save(folder, "names_residual", [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "y"], ["a"]),
                                    node("Relu", ["a"], ["z"])], pair, z, [square])
    yes = numpy_helper.from_array(np.array(1, np.int64), "one")
    bodies = [helper.make_graph([node(op, ["x", "y"], [f"{op}_z"])], op, [], [info(f"{op}_z", ["N", "N"])])
              for op in ("Add", "Sub")]
    save(folder, "names_if", [node("Shape", ["x"], ["s"]), node("ReduceMin", ["s"], ["least"], keepdims=0),
                              node("Equal", ["least", "one"], ["is_one"]),
                              node("If", ["is_one"], ["z"], then_branch=bodies[0], else_branch=bodies[1])], pair, z, [yes])
    for name, given, says in (("other_size", 4, [3]), ("other_rank", 4, [4, 1]), ("scalar", "N", []), ("fixed", "N", [3]),
                              ("renamed", "N", ["M"]), ("no_shape", "N", None)):
        save(folder, f"output_{name}", [node("Relu", ["x"], ["y"])], [info("x", [given])], [info("y", says)])


def write_ort(folder):
    """The same in ONNX Runtime's own format, which the onnxruntime package of this Python writes: {name}.ort."""
    import onnxruntime
    body = helper.make_graph(
        [helper.make_node("Identity", ["k"], ["ko"]), helper.make_node("Mul", ["v", "w"], ["m"]),
         helper.make_node("Add", ["m", "x"], ["vo"])], "body",
        [info("i", [], TensorProto.INT64), info("k", [], TensorProto.BOOL), info("v", ["N", 4])],
        [info("ko", [], TensorProto.BOOL), info("vo", ["N", 4])], [numpy_helper.from_array(np.full(4, 3, np.float32), "w")])
    save(folder, "loop", [helper.make_node("Clip", ["x", "", "most"], ["c"]),
                          helper.make_node("Loop", ["three", "", "c"], ["y"], body=body)], [info("x", ["N", 4])],
         [info("y", ["N", 4])], [numpy_helper.from_array(np.array(3, np.int64), "three"),
                                 numpy_helper.from_array(np.array(0.5, np.float32), "most")])
    for name in ("matmul", "loop", "odd_no_shapes", "denoted"):
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(folder / f"{name}.ort")
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.add_session_config_entry("session.save_model_format", "ORT")
        onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), options, providers=["CPUExecutionProvider"])


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    node = helper.make_node
    save(folder, "add", [node("Add", ["x", "y"], ["sum"])], [info("x", ["N", 4]), info("y", ["N", 4])],
         [info("sum", ["N", 4])])
    kinds = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13]
    save(folder, "types", [node("Identity", [f"in{k}"], [f"out{k}"]) for k in kinds],
         [info(f"in{k}", [2], k) for k in kinds], [info(f"out{k}", [2], k) for k in kinds])
    save(folder, "two_outputs", [node("Relu", ["x"], ["positive"]), node("Neg", ["x"], ["negative"])],
         [info("x", ["batch", 3])], [info("positive", ["batch", 3]), info("negative", ["batch", 3])])
    save(folder, "nonzero", [node("NonZero", ["x"], ["where"])], [info("x", ["N"])],
         [info("where", [1, None], TensorProto.INT64)])
    save(folder, "scalar", [node("Add", ["x", "x"], ["twice"])], [info("x", [])], [info("twice", [])])
    save(folder, "chain", [node("Relu" if i == 0 else "Add", ["x"] if i == 0 else [f"t{i - 1}", "x"], [f"t{i}"])
                           for i in range(64)], [info("x", [8])], [info("t63", [8])])
    # About a second of work in many steps: long enough to be ended in its middle.
    square = numpy_helper.from_array(np.eye(512, dtype=np.float32), "w")
    save(folder, "long", [node("MatMul", ["x" if i == 0 else f"t{i - 1}", "w"], [f"t{i}"]) for i in range(128)],
         [info("x", [512, 512])], [info("t127", [512, 512])], [square])
    weight = numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")
    save(folder, "overridable", [node("Mul", ["x", "w"], ["y"])], [info("x", ["N", 4]), info("w", [4])],
         [info("y", ["N", 4])], [weight])
    save(folder, "weights", [node("Mul", ["x", "w"], ["y"])], [info("x", ["N", 4])], [info("y", ["N", 4])], [weight])
    model = save(folder, "denoted", [node("Relu", ["x"], ["y"])], [info("x", [None, 3, "H"])],
                 [info("y", [None, 3, "H"])])
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[0].denotation, dims[1].denotation, dims[2].denotation = "DATA_BATCH", "DATA_CHANNEL", "DATA_FEATURE"
    onnx.save(model, folder / "denoted.onnx")
    model = save(folder, "external", [node("Mul", ["x", "w"], ["y"])], [info("x", ["N", 4])], [info("y", ["N", 4])],
                 [weight])
    onnx.save_model(model, folder / "external.onnx", save_as_external_data=True, location="external.bin",
                    size_threshold=0)
    model = save(folder, "missing", [node("Mul", ["x", "w"], ["y"])], [info("x", ["N", 4])], [info("y", ["N", 4])],
                 [weight])
    onnx.save_model(model, folder / "missing.onnx", save_as_external_data=True, location="missing.bin",
                    size_threshold=0)
    (folder / "missing.bin").unlink()
    save(folder, "strings", [node("Identity", ["x"], ["y"])], [info("x", ["N"], TensorProto.STRING)],
         [info("y", ["N"], TensorProto.STRING)])
    save(folder, "unknown_op", [node("NoSuchOperator", ["x"], ["y"])], [info("x", [1])], [info("y", [1])])
    save(folder, "custom_op", [node("Custom", ["x"], ["y"], domain="example.custom")], [info("x", [1])],
         [info("y", [1])])
    model = save(folder, "custom_domain", [node("Custom", ["x"], ["y"], domain="example.custom")], [info("x", [1])],
                 [info("y", [1])])
    model.opset_import.append(helper.make_opsetid("example.custom", 1))
    onnx.save(model, folder / "custom_domain.onnx")
    write_custom_bodies(folder)
    write_odd(folder)
    weights = np.eye(8, dtype=np.float32) * 2
    save(folder, "matmul", [node("MatMul", ["x", "w"], ["product"]), node("Relu", ["product"], ["y"])],
         [info("x", ["N", 8])], [info("y", ["N", 8])], [numpy_helper.from_array(weights, "w")])
    write_shapes(folder)
    write_ort(folder)
    (folder / "garbage.onnx").write_bytes(b"this is no model, whatever its name says" * 4)
    (folder / "empty.onnx").write_bytes(b"")
    whole = (folder / "matmul.onnx").read_bytes()
    (folder / "truncated.onnx").write_bytes(whole[:len(whole) // 2])


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))

"""The files that messages_test.py makes messages about: models and arrays, each with one mistake, and the sound ones beside."""
import numpy
import onnx
from onnx import TensorProto, helper

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape, kind=F32):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, shape, kind=F32):
    return helper.make_tensor(name, kind, shape, numpy.arange(numpy.prod(shape, dtype=int)).tolist())


def node(op, inputs, outputs, name, **attributes):
    return helper.make_node(op, inputs, outputs, name=name, **attributes)


def model(nodes, inputs, outputs, constants=(), opset=17, domain=""):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)], ir_version=8)


def one_node(op, **attributes):
    return model([node(op, ["x"], ["y"], "odd", **attributes)], [value("x", [2])], [value("y", [2])])


def with_data(**entries):
    """y = x + w, where w's values are in another file."""
    made = model([node("Add", ["x", "w"], ["y"], "add")], [value("x", [4])], [value("y", [4])], [constant("w", [4])])
    weights = made.graph.initializer[0]
    weights.ClearField("float_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, text in entries.items():
        entry = weights.external_data.add()
        entry.key, entry.value = key, str(text)
    return made


def models():
    return {
        "dense": model([node("MatMul", ["x", "w"], ["m"], "product"), node("Relu", ["m"], ["y"], "relu")],
                       [value("x", ["batch", 4])], [value("y", ["batch", 3])], [constant("w", [4, 3])]),
        "three": model([node("Add", ["a", "b"], ["t"], "add"), node("Mul", ["t", "s"], ["y"], "mul")],
                       [value("a", ["n", 4]), value("b", ["n", "m"]), value("s", [])], [value("y", ["n", 4])]),
        "fixed": one_node("Relu"),
        "chain": model([node(op, [a], [b], op.lower()) for op, a, b in
                        (("Relu", "x", "a"), ("Neg", "a", "b"), ("Abs", "b", "c"), ("Relu", "c", "y"))],
                       [value("x", [2])], [value("y", [2])]),
        "same": one_node("Identity"),
        "unnamed": model([node("Relu", ["x"], ["y"], "relu")], [value("x", [None, 4])], [value("y", [None, 4])]),
        "shapeless": model([node("Relu", ["x"], ["y"], "relu")], [value("x", None)], [value("y", None)]),
        "strings": model([node("Identity", ["x"], ["y"], "same")], [value("x", [2], TensorProto.STRING)],
                         [value("y", [2], TensorProto.STRING)]),
        "unknown": one_node("Frobnicate"),
        "stranger": model([helper.make_node("Relu", ["x"], ["y"], "odd", domain="com.example")], [value("x", [2])],
                          [value("y", [2])], domain="com.example", opset=1),
        "unserved": model([node("ImageDecoder", ["x"], ["y"], "odd")], [value("x", [2], TensorProto.UINT8)],
                          [value("y", [1, 1, 3], TensorProto.UINT8)], opset=20),
        "newer": model([node("Relu", ["x"], ["y"], "relu")], [value("x", [2])], [value("y", [2])], opset=99),
        "cycle": model([node("Relu", ["b"], ["a"], "first"), node("Relu", ["a"], ["b"], "second")], [value("x", [2])],
                       [value("b", [2])]),
        "nowhere": model([node("Add", ["x", "nope"], ["y"], "add")], [value("x", [2])], [value("y", [2])]),
        "twice": model([node("Relu", ["x"], ["y"], "first"), node("Neg", ["x"], ["y"], "second")], [value("x", [2])],
                       [value("y", [2])]),
        "no_output": model([node("Relu", ["x"], ["y"], "relu")], [value("x", [2])], [value("z", [2])]),
        "axis": one_node("Softmax", axis=7),
        "attribute": one_node("Softmax", axis="one"),
        "arity": one_node("Add"),
        "mixed": model([node("Add", ["x", "z"], ["y"], "add")], [value("x", [2]), value("z", [2], TensorProto.INT32)],
                       [value("y", [2])]),
        "shapes": model([node("MatMul", ["x", "w"], ["y"], "product")], [value("x", [2, 5])], [value("y", [2, 3])],
                        [constant("w", [4, 3])]),
        "reshape": model([node("Reshape", ["x", "s"], ["y"], "reshape")], [value("x", ["n"])], [value("y", [2, 3])],
                         [helper.make_tensor("s", I64, [2], [2, 3])]),
        "gather": model([node("Gather", ["x", "i"], ["y"], "gather")], [value("x", [3]), value("i", [2], I64)],
                        [value("y", [2])]),
        "fill": model([node("ConstantOfShape", ["s"], ["y"], "fill")], [value("s", [2], I64)], [value("y", ["a", "b"])]),
        "square": model([node("MatMul", ["x", "x"], ["y"], "product")], [value("x", ["n", "n"])], [value("y", ["n", "n"])]),
        "data_missing": with_data(location="none.bin"),
        "data_short": with_data(location="w.bin"),
        "data_outside": with_data(location="../w.bin"),
        "data_offset": with_data(location="w.bin", offset="some"),
    }


def write(folder):
    for name, made in models().items():
        (folder / f"{name}.onnx").write_bytes(made.SerializeToString())
    whole = (folder / "dense.onnx").read_bytes()
    (folder / "cut.onnx").write_bytes(whole[:-9])
    (folder / "empty.onnx").write_bytes(b"")
    (folder / "garbage.onnx").write_bytes(bytes(range(256)) * 8)
    (folder / "pointer.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    (folder / "w.bin").write_bytes(bytes(8))
    (folder / "none.so").write_text("no library")
    (folder / "notes.txt").write_text("")
    for name, array in {
        "x": numpy.ones((2, 4), numpy.float32), "double": numpy.ones((2, 4)), "rank": numpy.ones((2, 4, 1), numpy.float32),
        "shape": numpy.ones((2, 5), numpy.float32), "text": numpy.array(["a", "b"]), "two": numpy.ones(2, numpy.float32),
        "three": numpy.ones(3, numpy.float32),
        "five": numpy.ones(5, numpy.float32), "indices": numpy.array([0, 9]), "sizes": numpy.array([1 << 40, 1 << 20]),
        "large": numpy.array([1 << 22, 1 << 22]), "negative": numpy.array([-1, 2]),
        "fortran": numpy.asfortranarray(numpy.ones((2, 4), numpy.float32)),
        "big": numpy.ones((2, 4), ">f4"),
    }.items():
        numpy.save(folder / f"{name}.npy", array)
    whole = (folder / "x.npy").read_bytes()
    (folder / "cut.npy").write_bytes(whole[:-1])
    (folder / "zip.npy").write_bytes(b"PK\x03\x04 an archive of arrays")

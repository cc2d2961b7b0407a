"""Feeds of every kind for inputs of every declared shape and type, over one engine: call_cases.py [tenon]

Prints for each case the results, or the error's class, as one JSON object (calls_test.py compares two engines).
"""
import collections
import json
import sys
import types
import warnings

if "tenon" in sys.argv:
    import tenon

    tenon.install_as_onnxruntime()
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL, UINT8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.UINT8
node = helper.make_node


def model(nodes, inputs, outputs, constants=()):
    infos = [[helper.make_tensor_value_info(*value) for value in values] for values in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *infos, [numpy_helper.from_array(np.array(array), name) for name, array in dict(constants).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString()


def unary(op, kind, shape):
    return model([node(op, ["x"], ["y"])], [("x", kind, shape)], [("y", kind, None)])


def session(made):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(made, options, providers=["CPUExecutionProvider"])


def shown(result):
    if isinstance(result, (list, tuple)):
        return [shown(one) for one in result]
    if isinstance(result, np.ndarray):
        return [str(result.dtype), list(result.shape), [str(element) for element in result.ravel()[:20].tolist()]]
    return [type(result).__name__, str(result)[:80]]


def answer(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ["ok", shown(call())]
        except Exception as error:  # noqa: BLE001
            return ["error", type(error).__name__, str(error)[:200]]


def array(*shape):
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


SHAPES = {"a scalar": [], "no shape": None, "n": ["n"], "1": [1], "3": [3], "n, n": ["n", "n"], "n, 2": ["n", 2], "0": [0], "n, 0": ["n", 0],
          "-1": [-1], "2, n, 2": [2, "n", 2], "no name": [""]}
FEEDS = {"[]": np.array(3, np.float32), "[1]": array(1), "[3]": array(3), "[1,1]": array(1, 1), "[2,2]": array(2, 2), "[2,3]": array(2, 3), "[0]": array(0),
         "[2,0]": array(2, 0), "[2,3,2]": array(2, 3, 2), "[1] * 9": array(*[1] * 9), "numpy's scalar": np.float32(3), "2.5": 2.5, "2": 2, "True": True,
         "list": [1.0, 2.0], "list of integers": [1, 2], "list of lists": [[1.0, 2.0], [3.0, 4.0]], "tuple": (1.0, 2.0), "empty list": [],
         "ragged list": [[1.0], [1.0, 2.0]], "None": None, "str": "a", "list of str": ["a", "b"], "list of None": [None], "list of arrays": [array(2)],
         "list of numpy's": [np.float32(1)], "float64": np.ones(3), "int32": np.ones(3, np.int32), "float16": np.ones(3, np.float16),
         "longdouble": np.ones(3, np.longdouble), "complex64": np.ones(3, np.complex64), "datetime64": np.array(["2020"], "M8[D]"),
         "structured": np.zeros(3, [("a", "f4")]), "Fortran": np.asfortranarray(array(2, 3)), "reversed": array(3)[::-1], "strided": array(6)[::2],
         "transposed": array(3, 2).T, "broadcast": np.broadcast_to(np.float32(1), (3,)), "read-only": np.frombuffer(b"\0\0\x80?" * 3, np.float32),
         "unaligned": np.frombuffer(b"x" + b"\0\0\x80?" * 3, np.uint8)[1:].view(np.float32), "matrix": np.matrix([[1, 2]], np.float32),
         "masked": np.ma.array(array(3), mask=[0, 1, 0]), "objects": np.array([1.0, 2.0, 3.0], object), "bytes": b"abc", "bytearray": bytearray(b"abc"),
         "dictionary": {"a": 1.0}, "set": {1.0}, "range": range(3), "memoryview": memoryview(array(3))}
KINDS = {"int64": INT64, "int32": TensorProto.INT32, "int8": TensorProto.INT8, "uint8": UINT8, "uint64": TensorProto.UINT64, "bool": BOOL,
         "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16, "string": TensorProto.STRING}
VALUES = {"1": 1, "2.5": 2.5, "True": True, "numpy's bool": np.bool_(True), "numpy's int64": np.int64(4), "numpy's float64": np.float64(1.5),
          "array of no dimensions": np.array(5), "list of integers": [1, 2], "list of floats": [1.0, 2.5], "list of bools": [True, False],
          "list of numbers": [1, 2.5, True], "large list": [2**40], "huge list": [2**70], "negative list": [-1], "list of words": ["a", "bc"],
          "list of digits": ["1", "2"], "list of bytes": [b"ab"], "lists of words": [["a", "b"], ["c", "d"]], "str": "abc", "numpy's str": np.str_("abc"),
          "tuple of words": ("a", "b"), "None": None, "list with None": [None, "a"], "empty list": [], "uint8": np.array([0, 1, 2], np.uint8),
          "bools": np.array([True, False]), "int64": np.array([1, 2]), "other byte order": np.array([1, 2], ">i8"), "S": np.array([b"ab", b"c"]),
          "U": np.array(["ab", "c"]), "objects": np.array(["ab", "c"], object), "mixed objects": np.array(["ab", 1, None, 2.5], object),
          "objects of bytes": np.array([b"ab"], object), "rows of objects": np.array([["a"], ["b"]], object), "an empty word": np.array([""], "U"),
          "no words": np.array([], "U"), "no objects": np.array([], object), "a word": np.array("a"), "an object": np.array("a", object)}


def value_cases():
    """Values for each declared shape, and for each type."""
    for label, shape in SHAPES.items():
        made = session(unary("Relu", FLOAT, shape))
        yield f"the shape of {label}", lambda s=made: str((s.get_inputs()[0].shape, s.get_inputs()[0].type))
        for feed, x in FEEDS.items():
            yield f"{label} is fed {feed}", lambda s=made, x=x: s.run(None, {"x": x})
        for feed in ("[]", "[1]", "[3]", "[2,2]", "2.5", "list", "None", "float64", "list of str"):
            x = FEEDS[feed]
            yield (f"{label} is fed the value of {feed}",
                   lambda s=made, x=x: s.run_with_ort_values(None, {"x": ort.OrtValue.ortvalue_from_numpy(x)})[0].numpy())
            yield f"{label} is bound to {feed}", lambda s=made, x=x: bound(s, x)
    for kind, number in KINDS.items():
        for label in ("a scalar", "no shape", "n"):
            made = session(unary("Identity", number, SHAPES[label]))
            for feed, x in VALUES.items():
                yield f"{label} of {kind} is fed {feed}", lambda s=made, x=x: s.run(None, {"x": x})


def bound(made, x):
    binding = made.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    made.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


def call_forms():
    """Names, dictionaries and options of every kind."""
    made = session(model([node("Add", ["a", "b"], ["y"])], [("a", FLOAT, ["n"]), ("b", FLOAT, ["n"])], [("y", FLOAT, None)]))
    x = array(2)
    feed = {"a": x, "b": x}
    values = {name: ort.OrtValue.ortvalue_from_numpy(x) for name in feed}
    for label, given in {"different n": {"a": x, "b": array(3)}, "n and 1": {"a": x, "b": array(1)}, "one input": {"a": x}, "nothing": {},
                         "one more": {**feed, "c": x}, "one more that is None": {**feed, "c": None}, "an output": {**feed, "y": x}, "None": None,
                         "a list": [x, x], "a list of pairs": list(feed.items()), "a number for a name": {1: x, "b": x}, "bytes for a name": {b"a": x, "b": x},
                         "numpy's str for a name": {np.str_("a"): x, "b": x}, "a None": {"a": None, "b": x}, "values": values, "a value": {**feed, "a": values["a"]},
                         "an ordered dictionary": collections.OrderedDict(feed), "a user's dictionary": collections.UserDict(feed),
                         "a view of a dictionary": types.MappingProxyType(feed), "a default dictionary": collections.defaultdict(int, feed)}.items():
        yield f"a feed of {label}", lambda given=given: made.run(None, given)
    for label, names in {"an empty list": [], "an empty tuple": (), "0": 0, "False": False, "one twice": ["y", "y"], "an unknown one": ["z"], "a tuple": ("y",),
                         "a str": "y", "None": [None], "a number": [1], "an empty str": [""], "a generator": (name for name in ["y"]), "a set": {"y"},
                         "a dictionary": {"y": 1}, "numpy's str": [np.str_("y")], "an array": np.array(["y"]), "an input": ["a"], "bytes": [b"y"]}.items():
        yield f"names in {label}", lambda names=names: made.run(names, feed)
    for label, options in {"None": None, "RunOptions": ort.RunOptions(), "3": 3, "a dictionary": {}}.items():
        yield f"options {label}", lambda options=options: made.run(None, feed, options)
    yield "named arguments", lambda: made.run(output_names=["y"], input_feed=feed, run_options=None)
    yield "no arguments", lambda: made.run()
    yield "the feed alone", lambda: made.run(feed)
    for label, given in {"one more": {**values, "c": values["a"]}, "one": {"a": values["a"]}, "arrays": feed}.items():
        yield f"values: {label}", lambda given=given: made.run_with_ort_values(["y"], given)
    yield "values: an unknown output", lambda: made.run_with_ort_values(["z"], values)


def object_cases():
    """Sequences, maps and optionals."""
    tensor = helper.make_tensor_type_proto

    def built(op, feed, result, domain="", **attributes):
        graph = helper.make_graph([node(op, ["x"], ["y"], domain=domain, **attributes)], "g", [helper.make_value_info("x", feed)],
                                  [helper.make_value_info("y", result)])
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
        return session(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())

    strings, values = TensorProto.STRING, [ort.OrtValue.ortvalue_from_numpy(array(2))]
    lists = {"arrays": [array(2), array(3)], "nothing": [], "an array": array(2, 3), "scalars": [np.array(1, np.float32)], "integers": [np.array([1, 2])],
             "words": [np.array(["a", "b"], object)], "Fortran's": [np.asfortranarray(array(2, 3))], "reversed": [array(4)[::-1]], "values": values,
             "an array of arrays": np.array([array(2), array(2)], object), "an empty array": [array(0)], "str": "ab", "numbers": [1.0, 2.0], "None": [None]}
    for kind in (FLOAT, INT64, strings):
        sequence = helper.make_sequence_type_proto(tensor(kind, None))
        for op, result in (("Identity", sequence), ("SequenceLength", tensor(INT64, []))):
            made = built(op, sequence, result)
            for label, x in lists.items():
                yield f"a sequence of {kind} for {op}: {label}", lambda s=made, x=x: s.run(None, {"x": x})
    maps = {"floats": {"a": 1.5, "b": 2.5}, "integers": {"a": 1, "b": 2}, "bools": {"a": True}, "words": {"a": "x"}, "numbered": {1: 1.5, 2: 2.5},
            "numpy's keys": {np.str_("a"): 1.5}, "numpy's numbers": {np.int64(1): 1.5}, "numpy's values": {"a": np.float32(1.5)}, "scalars": {"a": np.array(1.5, np.float32)},
            "an array": array(2), "a list": [{"a": 1.5}], "NaN": {"a": float("nan")}, "an unknown key": {"z": 1.0}, "a large value": {"a": 1e300}}
    for key, vocabulary in ((strings, {"string_vocabulary": ["a", "b"]}), (INT64, {"int64_vocabulary": [1, 2]})):
        made = built("DictVectorizer", helper.make_map_type_proto(key, tensor(FLOAT, [])), tensor(FLOAT, None), "ai.onnx.ml", **vocabulary)
        for label, x in maps.items():
            yield f"a map of {key}: {label}", lambda s=made, x=x: s.run(None, {"x": x})
    made = built("OptionalHasElement", helper.make_optional_type_proto(tensor(FLOAT, None)), tensor(BOOL, None))
    for label, x in {"an array": array(2), "None": None, "a scalar": np.array(1, np.float32)}.items():
        yield f"an optional of {label}", lambda s=made, x=x: s.run(None, {"x": x})
    yield "an optional that is left out", lambda: made.run(None, {})


def binding_cases():
    """What is bound, and to what."""
    made, x, y = session(unary("Relu", FLOAT, ["n", 2])), array(3, 2), np.zeros((3, 2), np.float32)

    def ran(bind):
        binding = made.io_binding()
        bind(binding)
        made.run_with_iobinding(binding)
        return [binding.copy_outputs_to_cpu(), y]

    def address(shape, kind=np.float32):
        return "cpu", 0, kind, shape, y.ctypes.data

    value = ort.OrtValue.ortvalue_from_numpy
    yield "bound: an input", lambda: ran(lambda b: (b.bind_cpu_input("x", x), b.bind_output("y")))
    yield "bound: no input", lambda: ran(lambda b: b.bind_output("y"))
    yield "bound: no output", lambda: ran(lambda b: b.bind_cpu_input("x", x))
    yield "bound: an unknown input", lambda: ran(lambda b: b.bind_cpu_input("q", x))
    yield "bound: an unknown output", lambda: ran(lambda b: (b.bind_cpu_input("x", x), b.bind_output("q")))
    for label, given in {"float64": x.astype(np.float64), "another shape": array(2, 3), "another rank": array(2), "a list": [[1.0, 2.0]],
                         "Fortran's": np.asfortranarray(x)}.items():
        yield f"bound: {label}", lambda given=given: ran(lambda b: (b.bind_cpu_input("x", given), b.bind_output("y")))
    for label, place in {"an address": address([3, 2]), "a small place": address([2, 2]), "a place of integers": address([3, 2], np.int32)}.items():
        yield f"bound: {label}", lambda place=place: ran(lambda b: (b.bind_cpu_input("x", x), b.bind_output("y", *place)))
    yield "bound: values", lambda: ran(lambda b: (b.bind_ortvalue_input("x", value(x)), b.bind_ortvalue_output("y", value(y))))
    yield "bound: twice", lambda: ran(lambda b: (b.bind_cpu_input("x", array(1, 2)), b.bind_cpu_input("x", x), b.bind_output("y"), b.bind_output("y")))
    yield "bound: and cleared", lambda: ran(lambda b: (b.bind_cpu_input("x", x), b.bind_output("y"), b.clear_binding_inputs()))
    yield "bound: to a device that is not there", lambda: ran(lambda b: (b.bind_cpu_input("x", x), b.bind_output("y", "cuda")))


def branch(op, name):
    return helper.make_graph([node(op, ["x"], [name])], name, [], [helper.make_tensor_value_info(name, FLOAT, None)])


def scalar_models():
    """Operators with inputs that the model declares as scalars: name, model, feed."""
    x, rows = array(3, 4), ("x", FLOAT, ["a", "b"])
    result, zero, one, rest = [("y", FLOAT, None)], {"zero": [0]}, {"one": [1]}, {"rest": [-1]}
    body = helper.make_graph([node("Add", ["c", "one"], ["c2"]), node("Identity", ["go"], ["go2"])], "body",
                             [helper.make_tensor_value_info(*value) for value in (("i", INT64, []), ("go", BOOL, []), ("c", FLOAT, []))],
                             [helper.make_tensor_value_info(*value) for value in (("go2", BOOL, []), ("c2", FLOAT, []))],
                             [numpy_helper.from_array(np.float32(1), "one")])
    size = node("Reshape", ["i", "one"], ["size"])
    yield "Range", model([node("Range", ["s", "l", "d"], ["y"])], [(n, INT64, []) for n in "sld"], [("y", INT64, None)]), {"s": 0, "l": 5, "d": 1}
    yield ("If", model([node("If", ["c"], ["y"], then_branch=branch("Identity", "t"), else_branch=branch("Neg", "e"))], [rows, ("c", BOOL, [])], result),
           {"x": x, "c": True})
    yield "Loop", model([node("Loop", ["m", "c", "s"], ["y"], body=body)], [("m", INT64, []), ("c", BOOL, []), ("s", FLOAT, [])], result), {"m": 3, "c": True, "s": 1}
    yield "Clip", model([node("Clip", ["x", "lo", "hi"], ["y"])], [rows, ("lo", FLOAT, []), ("hi", FLOAT, [])], result), {"x": x, "lo": 2, "hi": 5}
    yield "Pad", model([node("Pad", ["x", "p", "v"], ["y"])], [rows, ("v", FLOAT, [])], result, {"p": [1, 0, 0, 1]}), {"x": x, "v": 7}
    for op, more in {"Gather": {"i": 1}, "CumSum": {"i": 1}, "Trilu": {"i": 1}}.items():
        yield op, model([node(op, ["x", "i"], ["y"])], [rows, ("i", INT64, [])], result), {"x": x, **more}
    for op in ("Mul", "Pow", "Max"):
        yield op, model([node(op, ["x", "v"], ["y"])], [rows, ("v", FLOAT, [])], result), {"x": x, "v": 3}
    yield "Where", model([node("Where", ["c", "x", "v"], ["y"])], [rows, ("c", BOOL, []), ("v", FLOAT, [])], result), {"x": x, "c": False, "v": 3}
    yield ("QuantizeLinear", model([node("QuantizeLinear", ["x", "s", "z"], ["y"])], [rows, ("s", FLOAT, []), ("z", UINT8, [])], [("y", UINT8, None)]),
           {"x": x, "s": 0.5, "z": 3})
    yield "Unsqueeze, Reshape", model([node("Unsqueeze", ["i", "zero"], ["u"]), node("Concat", ["u", "rest"], ["s"], axis=0), node("Reshape", ["x", "s"], ["y"])],
                                      [rows, ("i", INT64, [])], result, {**zero, **rest}), {"x": x, "i": 6}
    yield "Reshape", model([size, node("Concat", ["size", "rest"], ["s"], axis=0), node("Reshape", ["x", "s"], ["y"])], [rows, ("i", INT64, [])], result,
                           {**one, **rest}), {"x": x, "i": 6}
    yield "Expand", model([node("Shape", ["x"], ["s"]), node("Expand", ["v", "s"], ["y"])], [rows, ("v", FLOAT, [])], result), {"x": x, "v": 3}
    yield "TopK", model([size, node("TopK", ["x", "size"], ["y", "n"])], [rows, ("i", INT64, [])], result, one), {"x": x, "i": 2}
    yield "Slice", model([size, node("Slice", ["x", "zero", "size"], ["y"])], [rows, ("i", INT64, [])], result, {**zero, **one}), {"x": x, "i": 2}
    yield "MatMul", model([node("MatMul", ["x", "w"], ["m"]), node("Mul", ["m", "v"], ["n"]), node("Add", ["n", "b"], ["y"])], [rows, ("v", FLOAT, [])], result,
                          {"w": np.ones((4, 4), np.float32), "b": array(4)}), {"x": x, "v": 3}
    for op, kind in {"ReduceSum": FLOAT, "Size": INT64, "Transpose": FLOAT, "Sigmoid": FLOAT}.items():
        yield op, model([node(op, ["v"], ["y"])], [("v", FLOAT, [])], [("y", kind, None)]), {"v": 3}
    yield "Mul to a scalar", model([node("Mul", ["v", "v"], ["y"])], [("v", FLOAT, [])], [("y", FLOAT, [])]), {"v": 7}
    yield "a default", model([node("Mul", ["x", "v"], ["y"])], [rows, ("v", FLOAT, [])], result, {"v": np.float32(2)}), {"x": x, "v": 7}


def scalar_cases():
    """Their scalars, with dimensions."""
    types_ = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8}
    for name, made, feed in scalar_models():
        built = session(made)
        declared = {arg.name: arg for arg in [*built.get_inputs(), *built.get_overridable_initializers()]}
        for shape in ((), (1,), (1, 1), (2,), (2, 1), (0,)):
            given = {key: value if isinstance(value, np.ndarray) else np.full(shape, value, types_[declared[key].type]) for key, value in feed.items()}
            yield f"{name} with scalars of {list(shape)}", lambda s=built, given=given: s.run(None, given)


def main():
    cases = [*value_cases(), *call_forms(), *object_cases(), *binding_cases(), *scalar_cases()]
    print(json.dumps({name: answer(call) for name, call in cases}))


if __name__ == "__main__":
    main()

"""The error classes of models that are wrong, and of runs whose shapes do not fit: those of onnxruntime."""
import numpy as np
import pytest
import tenon
from models import FLOAT, INT64, TensorProto, helper, model, numpy_helper, value

ort = pytest.importorskip("onnxruntime")
ort.set_default_logger_severity(4)
X = np.zeros((2, 3), np.float32)
LOOSE = [value("x", FLOAT, None), value("w", FLOAT, None)]
NODE = helper.make_node
Y = value("y", FLOAT, None)


def constant(array):
    return numpy_helper.from_array(np.array(array), "w")


def relu(**changes):
    made = model([NODE("Relu", ["x"], ["y"])], [value("x", FLOAT, [2])], [Y])
    for name, number in changes.items():
        setattr(made if name == "ir_version" else made.opset_import[0], name, number)
    return made


def of_nodes(*nodes):
    return model(list(nodes), [value("x", FLOAT, [2])], [Y])


BODY = helper.make_graph([NODE("Cast", ["x"], ["i"], to=INT64), NODE("Mul", ["x", "i"], ["o"])], "body", [],
                         [value("o", FLOAT, [2])])
WRONG_MODELS = {
    "an opset too new": relu(version=99),
    "an IR version too new": relu(ir_version=99),
    "an operator that is not known": of_nodes(NODE("Nope", ["x"], ["y"])),
    "a domain that is not known": of_nodes(NODE("Nope", ["x"], ["y"], domain="a.b")),
    "an attribute that is not known": of_nodes(NODE("Relu", ["x"], ["y"], foo=1)),
    "too few inputs": of_nodes(NODE("Add", ["x"], ["y"])),
    "an input that is not made": of_nodes(NODE("Add", ["x", "q"], ["y"])),
    "a name twice": of_nodes(NODE("Relu", ["x"], ["y"]), NODE("Neg", ["x"], ["y"])),
    "an output that is not made": of_nodes(NODE("Relu", ["x"], ["z"])),
    "a cycle": of_nodes(NODE("Add", ["x", "z"], ["y"]), NODE("Neg", ["y"], ["z"])),
    "a product of wrong shapes": model([NODE("MatMul", ["x", "w"], ["y"])], [value("x", FLOAT, [2, 3])], [Y],
                                       [constant(np.zeros((4, 2), np.float32))]),
    "a sum of wrong shapes": model([NODE("Add", ["x", "w"], ["y"])], [value("x", FLOAT, [2, 3])], [Y],
                                   [constant(np.zeros(4, np.float32))]),
    "a sum of two types": model([NODE("Add", ["x", "i"], ["y"])], [value("x", FLOAT, [2]), value("i", INT64, [2])], [Y]),
    "a list of two types": of_nodes(NODE("Cast", ["x"], ["i"], to=INT64), NODE("Concat", ["x", "i"], ["y"], axis=0)),
    "a type that is not allowed": model([NODE("Gather", ["x", "f"], ["y"])],
                                        [value("x", FLOAT, [2]), value("f", FLOAT, [2])], [Y]),
    "a type inside that is not allowed": of_nodes(NODE("Sin", ["x"], ["f"]), NODE("Gather", ["x", "f"], ["y"])),
    "an output of another type": model([NODE("Relu", ["x"], ["y"])], [value("x", FLOAT, [2])], [value("y", INT64, [2])]),
    "two types in a body": model([NODE("If", ["c"], ["y"], then_branch=BODY, else_branch=BODY)],
                                 [value("x", FLOAT, [2]), value("c", TensorProto.BOOL, [])], [Y]),
}
WRONG_SHAPES = {"MatMul": (4, 2), "Add": (4,), "Concat": (4, 2), "Conv": (2, 2, 3, 3), "batches of MatMul": (3, 3, 2)}
WRONG_RESHAPES = {"more elements": [4, 2], "a -1 that does not divide": [4, -1], "two -1": [-1, -1], "a -2": [-2, 3],
                  "a 0 behind the input's": [2, 3, 0]}


def error_of(package, made, feed=None):
    """The class of the error and its code; of a load without `feed`"""
    try:
        session = package.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  (any, to be compared)
        return "load", type(error).__name__, str(error).split(" : ")[:3]
    try:
        session.run(None, feed)
    except Exception as error:  # noqa: BLE001
        return "run", type(error).__name__, str(error).split(" : ")[:3]
    return ("none",)


@pytest.mark.parametrize("what", WRONG_MODELS)
def test_a_wrong_model_is_the_same_error(what):
    ours = error_of(tenon, WRONG_MODELS[what])
    assert ours == error_of(ort, WRONG_MODELS[what]) and ours[0] == "load"


@pytest.mark.parametrize("what", WRONG_SHAPES)
def test_shapes_that_do_not_fit_are_the_same_error(what):
    operator = what.split()[-1]
    node = NODE(operator, ["x", "w"], ["y"], **({"axis": 0} if operator == "Concat" else {}))
    x = {"Conv": np.zeros((1, 3, 4, 4), np.float32), "batches of MatMul": np.zeros((2, 2, 3), np.float32)}.get(what, X)
    made, feed = model([node], LOOSE, [Y]), {"x": x, "w": np.zeros(WRONG_SHAPES[what], np.float32)}
    ours = error_of(tenon, made, feed)
    assert ours == error_of(ort, made, feed) and ours[1] == "Fail"
    with_options = tenon.InferenceSession(made.SerializeToString())
    with pytest.raises(tenon.Fail):  # the way through the C ABI
        with_options.run(None, feed, tenon.RunOptions())


@pytest.mark.parametrize("what", WRONG_RESHAPES)
def test_a_reshape_that_does_not_fit_is_the_same_error(what):
    made = model([NODE("Reshape", ["x", "s"], ["y"])], [value("x", FLOAT, None), value("s", INT64, None)], [Y])
    feed = {"x": X, "s": np.array(WRONG_RESHAPES[what])}
    ours = error_of(tenon, made, feed)
    assert ours == error_of(ort, made, feed) and ours[1] == "Fail"


def test_what_the_caller_gives_stays_an_argument():
    made = model([NODE("MatMul", ["x", "w"], ["y"])], [value("x", FLOAT, ["n", 3])], [Y], [constant(np.zeros((3, 2), np.float32))])
    for feed in ({"x": np.zeros((2, 4), np.float32)}, {"x": np.zeros((2, 3), np.float64)}):
        ours = error_of(tenon, made, feed)
        assert ours == error_of(ort, made, feed) and ours[1] == "InvalidArgument"


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

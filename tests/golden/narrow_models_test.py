"""Models in float16 and bfloat16: versions of real models, and small graphs that mix the types with float32, int8 and
bodies. Beside ONNX Runtime where it has the operators, else beside the float32 model with the same weights.
"""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import driver
import narrow_models
from models_test import MODELS, make_inputs, path_of

F16, F32 = TensorProto.FLOAT16, TensorProto.FLOAT
REAL = {"minilm_l3": {}, "nudenet_yolov8n": {"images": [1, 3, 160, 192]}, "ppocr_v6_det": {"x": [1, 3, 192, 160]}}
# Of the largest element: weights, inputs and outputs are rounded alike in both, and values between them only in one.
TOLERANCE = {"float16": 3e-3, "bfloat16": 1e-2}


def run_stock(model, inputs):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def largest_error(want, got):
    want, got = np.asarray(want, np.float64), np.asarray(got).astype(np.float64)
    assert want.shape == got.shape
    return np.max(np.abs(want - got), initial=0) / max(np.max(np.abs(want), initial=0), 1e-30)


@pytest.mark.parametrize("kind", narrow_models.TYPES)
@pytest.mark.parametrize("name", REAL)
def test_a_real_model_in_16_bits_gives_what_its_float32_version_gives(name, kind, tmp_path):
    model = onnx.load(path_of(name))
    # The convolution has known bfloat16 since this version.
    model = onnx.version_converter.convert_version(model, 22)
    inputs = {}
    for one, array in make_inputs({**MODELS[name], "inputs": [
            {**spec, "shape": REAL[name].get(spec["name"], spec.get("shape"))} for spec in MODELS[name]["inputs"]]}).items():
        inputs[one] = narrow_models.bits16(array, kind)[1] if array.dtype == np.float32 else array
    want = run_stock(narrow_models.rounded(model, kind), inputs)
    dtype = helper.tensor_dtype_to_np_dtype(narrow_models.TYPES[kind])
    narrow = narrow_models.narrow(model, kind)
    fed = {one: array.astype(dtype) if array.dtype == np.float32 else array for one, array in inputs.items()}
    case = driver.Case(name, narrow.SerializeToString(), fed, [None] * len(want))
    for threads in (1, 2):
        (outcome,) = driver.run([case], tmp_path, [f"--threads={threads}"]).values()
        assert outcome.ok, outcome.status
        for one, expected, got in zip(narrow.graph.output, want, outcome.outputs, strict=True):
            if expected.dtype == np.float32:
                assert got.dtype == dtype
                assert largest_error(expected, got) <= TOLERANCE[kind], one.name
            else:
                assert np.array_equal(expected, got), one.name


def tensor(name, shape, kind=F16):
    return helper.make_tensor_value_info(name, kind, shape)


def numbers(name, shape, dtype=np.float16, seed=0):
    return numpy_helper.from_array(np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype), name)


def node(*arguments, **attributes):
    return helper.make_node(*arguments, **attributes)


def body(name, nodes, outputs, inputs=()):
    return helper.make_graph(nodes, name, list(inputs), outputs)


def graphs():
    """Name, opset, nodes, inputs, outputs, constants."""
    x = [tensor("x", ["N", 8])]
    y = [tensor("y", ["N", 8])]
    weights = [numbers("w", [8, 8]), numbers("b", [8], seed=1)]
    yield "if", 17, [
        node("MatMul", ["x", "w"], ["m"]),
        node("ReduceSum", ["m"], ["s"], keepdims=0),
        node("Cast", ["s"], ["positive"], to=TensorProto.BOOL),
        node("If", ["positive"], ["y"],
             then_branch=body("then", [node("MatMul", ["m", "w"], ["t"]), node("Relu", ["t"], ["t1"])], [tensor("t1", ["N", 8])]),
             else_branch=body("else", [node("Identity", ["x"], ["e"])], [tensor("e", ["N", 8])])),
    ], x, y, weights
    yield "loop", 17, [
        node("Loop", ["trips", "", "x"], ["y", "all"], body=body(
            "body", [node("Gemm", ["before", "w", "b"], ["g"]), node("Tanh", ["g"], ["after"]),
                     node("Identity", ["go_in"], ["go"]), node("ReduceMean", ["after"], ["mean"], keepdims=0)],
            [tensor("go", [], TensorProto.BOOL), tensor("after", ["N", 8]), tensor("mean", [])],
            [tensor("i", [], TensorProto.INT64), tensor("go_in", [], TensorProto.BOOL), tensor("before", ["N", 8])])),
    ], x, [*y, tensor("all", ["T"])], [*weights, numpy_helper.from_array(np.array(3, np.int64), "trips")]
    yield "island", 17, [
        node("Gemm", ["x", "w", "b"], ["g"]),
        node("Cast", ["g"], ["wide"], to=F32),
        node("LayerNormalization", ["wide", "scale"], ["n"], axis=-1),
        node("Cast", ["n"], ["narrow"], to=F16),
        node("MatMul", ["narrow", "w"], ["p"]),
        node("Softmax", ["p"], ["y"]),
    ], x, [*y, tensor("n", ["N", 8], F32), tensor("narrow", ["N", 8])], [*weights, numbers("scale", [8], np.float32, 2)]
    yield "int8 beside", 21, [
        node("DequantizeLinear", ["q", "q_scale", "q_zero"], ["wq"]),
        node("MatMul", ["x", "wq"], ["m"]),
        node("Add", ["m", "b"], ["a"]),
        node("QuantizeLinear", ["a", "a_scale", "a_zero"], ["r"]),
        node("DequantizeLinear", ["r", "a_scale", "a_zero"], ["y"]),
    ], x, [*y, tensor("r", ["N", 8], TensorProto.UINT8)], [
        numbers("b", [8], seed=1), numpy_helper.from_array(np.arange(-32, 32, dtype=np.int8).reshape(8, 8), "q"),
        numpy_helper.from_array(np.array(0.03, np.float16), "q_scale"), numpy_helper.from_array(np.array(1, np.int8), "q_zero"),
        numpy_helper.from_array(np.array(0.07, np.float16), "a_scale"), numpy_helper.from_array(np.array(128, np.uint8), "a_zero")]
    for opset in (7, 13, 21):
        yield f"convolution, opset {opset}", opset, [
            node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
            node("BatchNormalization", ["c", "s", "s", "s", "v"], ["n"]),
            node("Relu", ["n"], ["r"]),
            node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            node("GlobalAveragePool", ["p"], ["y"]),
        ], [tensor("x", ["N", 3, 12, 12])], [tensor("y", ["N", 16, 1, 1]), tensor("r", ["N", 16, 12, 12])], [
            numbers("k", [16, 3, 3, 3]), numbers("s", [16], seed=3), numpy_helper.from_array(np.full(16, 0.5, np.float16), "v")]
    yield "resize", 13, [
        node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
        node("Resize", ["c", "", "sizes_scale"], ["y"], mode="linear"),
    ], [tensor("x", ["N", 3, 6, 6])], [tensor("y", ["N", 16, 12, 12])], [
        numbers("k", [16, 3, 3, 3]), numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "sizes_scale")]
    yield "a shape of a wide value", 17, [
        node("MatMul", ["x", "w"], ["m"]), node("Shape", ["m"], ["s"]),
        node("Reshape", ["b", "one"], ["row"]), node("Expand", ["row", "s"], ["e"]), node("Mul", ["m", "e"], ["y"]),
    ], x, y, [*weights, numpy_helper.from_array(np.array([1, 8], np.int64), "one")]
    # What comes after NonZero is planned when its size is known, and its types are inferred anew.
    yield "a size that depends on data", 17, [
        node("Exp", ["x"], ["e"]), node("Tanh", ["e"], ["y"]), node("NonZero", ["x"], ["n"]),
        node("Transpose", ["n"], ["at"]), node("GatherND", ["e", "at"], ["g"]), node("Sqrt", ["g"], ["z"]),
        node("ReduceMax", ["z"], ["z0"], keepdims=0), node("Neg", ["e"], ["minus"]), node("Sigmoid", ["minus"], ["s"]),
        node("Add", ["s", "z0"], ["a"]),
    ], x, [*y, tensor("z", ["K"]), tensor("a", ["N", 8])], []
    yield "an input and a constant handed through", 17, [
        node("Identity", ["x"], ["y"]), node("Identity", ["b"], ["z"]),
    ], x, [*y, tensor("z", [8])], weights


def test_graphs_that_mix_types_give_what_onnx_runtime_gives(tmp_path):
    cases, wanted, left_out = [], {}, []
    for name, opset, nodes, inputs, outputs, constants in graphs():
        model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, constants),
                                  opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        shape = [3 if dim.dim_param else dim.dim_value for dim in inputs[0].type.tensor_type.shape.dim]
        feeds = {"x": np.random.default_rng(5).uniform(-2, 2, shape).astype(np.float16)}
        wanted[name] = run_stock(model, feeds)
        cases.append(driver.Case(name, model.SerializeToString(), feeds, [None] * len(outputs)))
    for options in (["--threads=1"], ["--threads=2"]):
        for name, outcome in driver.run(cases, tmp_path, options).items():
            if outcome.unsupported:
                left_out.append(name)
                continue
            assert outcome.ok, f"{name}: {outcome.status}"
            for want, got in zip(wanted[name], outcome.outputs, strict=True):
                assert want.dtype == got.dtype, name
                step = 1.01 if want.dtype == np.uint8 else 4e-3 * max(1.0, float(np.max(np.abs(want), initial=0)))
                assert np.max(np.abs(want.astype(np.float64) - got), initial=0) <= step, name
    # Nothing but what has no kernel at all is left out.
    assert set(left_out) <= {"int8 beside"}, left_out


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

"""One call of a package from PyPI that makes, converts or wraps models: drive_tools.py PACKAGE [SECONDS], as drive_packages.py."""
import tempfile

import drive_packages
import numpy as np
import onnx
from drive_more_packages import rounded, voice
from onnx import TensorProto, helper, numpy_helper

X = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)


def model():
    """A product and a Relu."""
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], name="product"), helper.make_node("Relu", ["m"], ["y"], name="relu")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def saved():
    path = tempfile.mkdtemp() + "/model.onnx"
    onnx.save(model(), path)
    return path


def operators(made):
    return [node.op_type for node in made.graph.node]


def onnxruntime_easy():
    import onnxruntime_easy as package
    plain = package.load(saved(), device="cpu")
    other = package.load(saved(), device="cpu", execution_order="priority_based", graph_optimization_level="basic")

    def call():
        value = package.ort_value(X)
        return rounded([[one.numpy() for one in plain(value)], [one.numpy() for one in other(x=value)], value.shape()])
    return call


def onnx_array_api():
    from onnx_array_api.array_api import onnx_ort
    from onnx_array_api.ort.ort_optimizers import ort_optimized_model
    from onnx_array_api.ort.ort_profile import ort_profile
    from onnx_array_api.ort.ort_tensors import EagerOrtTensor

    def call():
        tensor, array = EagerOrtTensor(X), onnx_ort.asarray(X)
        operators(ort_optimized_model(model(), output=None))
        profile = ort_profile(model(), {"x": X})
        return rounded([(tensor + tensor).numpy(), onnx_ort.absolute(array).numpy(), str(tensor.dtype), list(tensor.shape),
                        "dur" in profile.columns])
    return call


def skonnxrt():
    from skonnxrt.sklapi import OnnxTransformer
    transformer = OnnxTransformer(model().SerializeToString())
    transformer.fit()
    return lambda: rounded(transformer.transform(X))


def spox():
    import spox._future
    import spox.opset.ai.onnx.v17 as op
    spox._future.set_value_prop_backend(spox._future.ValuePropBackend.ONNXRUNTIME)

    def call():
        array = op.constant(value=X)
        texts = op.concat([op.constant(value_strings=["a", "b"]), op.constant(value_strings=["c"])], axis=0)
        return rounded([op.add(array, op.constant(value=np.float32(2)))._get_value(), texts._get_value(),
                        [np.asarray(one) for one in op.split_to_sequence(array, axis=0)._get_value()]])
    return call


def ndonnx():
    import ndonnx as package

    def call():
        array, texts = package.asarray(X), package.asarray(np.array(["a", "b"]))
        return rounded([(array * 2 + 1).unwrap_numpy(), package.sum(array, axis=0).unwrap_numpy(), (texts + "x").unwrap_numpy()])
    return call


def onnxslim():
    import onnxslim as package
    return lambda: operators(package.slim(model(), model_check=True))


def onnxsim():
    import onnxsim as package
    return lambda: operators(package.simplify(model())[0])


def onnxconverter_common():
    from onnxconverter_common.auto_mixed_precision import auto_convert_mixed_precision
    return lambda: operators(auto_convert_mixed_precision(model(), {"x": X}, rtol=0.1, atol=0.1, keep_io_types=True))


def onnxmltools():
    import lightgbm
    import onnxmltools as package
    import onnxruntime
    import xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType
    x = np.random.default_rng(2).standard_normal((60, 4)).astype(np.float32)
    labels, types = np.arange(60) % 3, [("x", FloatTensorType([None, 4]))]
    made = [package.convert_lightgbm(lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(x, labels), initial_types=types,
                                     target_opset=15),
            package.convert_xgboost(xgboost.XGBRegressor(n_estimators=5).fit(x, labels), initial_types=types, target_opset=15)]
    sessions = [onnxruntime.InferenceSession(one.SerializeToString()) for one in made]
    return lambda: rounded([session.run(None, {"x": x}) for session in sessions])


def audonnx():
    import audonnx as package
    engine = package.Model(saved(), transform=lambda samples, rate: samples.reshape(1, -1)[:, :8].astype(np.float32), device="cpu")
    return lambda: rounded([engine(voice(1), 16000), str(engine)])


def sit4onnx():
    from sit4onnx import inference
    path = saved()
    return lambda: [list(np.asarray(one).shape) for one in inference(
        input_onnx_file_path=path, batch_size=2, test_loop_count=3, onnx_execution_provider="cpu", non_verbose=True)]


PACKAGES = {f.__name__: f for f in (onnxruntime_easy, onnx_array_api, skonnxrt, spox, ndonnx, onnxslim, onnxsim,
                                   onnxconverter_common, onnxmltools, audonnx, sit4onnx)}

if __name__ == "__main__":
    drive_packages.main(PACKAGES)

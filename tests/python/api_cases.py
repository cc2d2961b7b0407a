"""Calls that programs make, right and wrong ones, over one engine: api_cases.py [tenon]

Prints for each the result, or the class and the text of the error, as one JSON object (api_test.py compares two engines).
"""
import io
import json
import os
import pathlib
import sys
import tempfile
import threading
import warnings

if "tenon" in sys.argv:
    import tenon

    tenon.install_as_onnxruntime()
import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

import models

X = np.arange(6, dtype=np.float32).reshape(3, 2)
FLOAT, INT32, INT64, STRING, BOOL, HALF = (models.FLOAT, onnx.TensorProto.INT32, models.INT64, models.STRING,
                                           onnx.TensorProto.BOOL, onnx.TensorProto.FLOAT16)
NEG = models.one_node("Neg")
TWO = models.model([helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Sub", ["a", "b"], ["d"])],
                   [models.value("a", FLOAT, ["n", 2]), models.value("b", FLOAT, ["n", 2])],
                   [models.value("c", FLOAT, ["n", 2]), models.value("d", FLOAT, ["n", 2])]).SerializeToString()


def neg(x, names=None, model=NEG, **options):
    return ort.InferenceSession(model, **options).run(names, {"x": x})


def two(names, feed=("a", "b")):
    return ort.InferenceSession(TWO).run(names, {name: X for name in feed})


def identity(kind, x, shape=("n",)):
    return neg(x, model=models.one_node("Identity", kind, shape))


def binary(op, kinds, a, b, shapes=(["n"], ["m"], ["k"])):
    left, right, result = kinds
    model = models.model([helper.make_node(op, ["a", "b"], ["c"])], [models.value("a", left, shapes[0]), models.value("b", right, shapes[1])],
                         [models.value("c", result, shapes[2])])
    return ort.InferenceSession(model.SerializeToString()).run(None, {"a": a, "b": b})


def from_file(name, content=NEG, path=pathlib.Path):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, name)
        file.write_bytes(content)
        return neg(X, model=path(file))


def bound(inputs=(("x", X),), outputs=("y",)):
    session = ort.InferenceSession(NEG)
    binding = session.io_binding()
    for name, array in inputs:
        binding.bind_cpu_input(name, array)
    for name in outputs:
        binding.bind_output(name)
    session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


def with_options(**attributes):
    options = ort.SessionOptions()
    for name, value in attributes.items():
        setattr(options, name, value)
    return neg(X, sess_options=options)


def terminated():
    options = ort.RunOptions()
    options.terminate = True
    return ort.InferenceSession(NEG).run(None, {"x": X}, options)


def changed_afterwards(op, **attributes):
    """What a result holds when the program then writes to the input."""
    session, x = ort.InferenceSession(models.one_node(op, **attributes)), X.copy()
    result = session.run(None, {"x": x})[0]
    x[:] = 9
    return result


def writes_to_an_output_that_is_an_initializer():
    held = numpy_helper.from_array(X, "w")
    model = models.model([helper.make_node("Neg", ["x"], ["y"])], [models.value("x", FLOAT, ["n", 2])],
                         [models.value("y", FLOAT, ["n", 2]), models.value("w", FLOAT, [3, 2])], [held])
    session = ort.InferenceSession(model.SerializeToString())
    session.run(None, {"x": X})[1][:] = 7
    return session.run(None, {"x": X})[1]


def called_back(x):
    done, said = threading.Event(), []

    def callback(results, user_data, error):
        said.extend([results, user_data, error.split(" Got")[0]])
        done.set()

    ort.InferenceSession(NEG).run_async(None, {"x": x}, callback, 5)
    done.wait(60)
    return said


def on_eight_threads():
    session, results = ort.InferenceSession(NEG), []
    threads = [threading.Thread(target=lambda: results.append(session.run(None, {"x": X})[0].sum())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def meta():
    session = ort.InferenceSession(NEG)
    found, argument = session.get_modelmeta(), session.get_inputs()[0]
    return [found.producer_name, found.graph_name, found.domain, found.description, found.version, found.custom_metadata_map,
            argument.name, argument.shape, argument.type, str(argument), session.get_providers(), ort.get_device(),
            session._model_path, len(session._inputs_meta), len(session._sess.outputs_meta)]


def profile():
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, tempfile.mkdtemp() + "/p"
    session = ort.InferenceSession(NEG, options)
    session.run(None, {"x": X})
    with open(session.end_profiling()) as file:
        return sorted({event["cat"] for event in json.load(file)})


def written_model():
    path = tempfile.mkdtemp() + "/optimized.onnx"
    with_options(optimized_model_filepath=path)
    return [node.op_type for node in onnx.load(path).graph.node]


def value_facts(value):
    return [value.shape(), value.data_type(), value.device_name(), value.is_tensor(), value.has_value(), value.element_type(),
            value.tensor_size_in_bytes(), value.is_sparse_tensor(), value.is_tensor_sequence(), value.numpy()]


CASES = {
    "too few inputs": lambda: two(None, ["a"]),
    "too many inputs": lambda: ort.InferenceSession(NEG).run(None, {"x": X, "z": X}),
    "an output twice": lambda: two(["c", "c"]),
    "outputs in another order": lambda: two(["d", "c"]),
    "no names": lambda: two([]),
    "a tuple of names": lambda: two(("c",)),
    "keywords": lambda: ort.InferenceSession(NEG).run(output_names=None, input_feed={"x": X}, run_options=None),
    "a wrong output": lambda: two(["zzz"]),
    "a wrong rank": lambda: neg(X[0]),
    "a wrong dimension": lambda: neg(np.ones((2, 3), np.float32)),
    "a wrong type": lambda: neg(X.astype(np.float64)),
    "None": lambda: neg(None),
    "a list": lambda: neg([[1.0, 2.0]]),
    "a list of integers": lambda: neg([[1, 2]]),
    "a number": lambda: neg(1.0),
    "numpy's scalar": lambda: neg(np.float32(2), model=models.one_node("Neg", shape=())),
    "nothing": lambda: neg(np.zeros((0, 2), np.float32)),
    "columns first": lambda: neg(np.asfortranarray(X)),
    "every other": lambda: neg(np.arange(24, dtype=np.float32).reshape(6, 4)[::2, ::2]),
    "backwards": lambda: neg(X[::-1]),
    "a matrix": lambda: neg(np.matrix([[1.0, 2.0]], dtype=np.float32)),
    "a masked array": lambda: neg(np.ma.array(X, mask=X > 3)),
    "dates": lambda: neg(np.array([["2020-01-01", "2020-01-02"]], "datetime64[D]")),
    "halves": lambda: identity(HALF, np.array([1, 2], np.float16)),
    "truths": lambda: neg(np.array([True, False]), model=models.one_node("Not", BOOL, ["n"])),
    "a list of truths": lambda: neg([True, False], model=models.one_node("Not", BOOL, ["n"])),
    "a number that is too large": lambda: identity(INT32, [2**40]),
    "strings": lambda: identity(STRING, np.array(["ab", "ç"])),
    "a list of strings": lambda: identity(STRING, ["ab", "ç"]),
    "objects for strings": lambda: identity(STRING, np.array([1, None, "z"], object)),
    "numbers for strings": lambda: identity(STRING, np.array([1.0])),
    "an OrtValue": lambda: neg(ort.OrtValue.ortvalue_from_numpy(X)),
    "a path": lambda: from_file("mödel 模型.onnx"),
    "a path as text": lambda: from_file("a b.onnx", path=str),
    "a path as bytes": lambda: from_file("a.onnx", path=os.fsencode),
    "BytesIO": lambda: neg(X, model=io.BytesIO(NEG)),
    "bytes of BytesIO": lambda: neg(X, model=io.BytesIO(NEG).getvalue()),
    "a ModelProto": lambda: neg(X, model=onnx.load_from_string(NEG)),
    "no bytes": lambda: neg(X, model=b""),
    "other bytes": lambda: neg(X, model=b"abc" * 100),
    "no such file": lambda: neg(X, model="/nowhere/x.onnx"),
    "no model": lambda: neg(X, model=None),
    "an unknown operator": lambda: neg(X, model=models.one_node("NoSuchOp")),
    "a huge name": lambda: len(ort.InferenceSession(models.model(
        [helper.make_node("Neg", ["n" * 100000], ["y"])], [models.value("n" * 100000, FLOAT, [1])],
        [models.value("y", FLOAT, [1])]).SerializeToString()).get_inputs()[0].name),
    "names of other scripts": lambda: ort.InferenceSession(models.model(
        [helper.make_node("Neg", ["入力"], ["выход"])], [models.value("入力", FLOAT, [1])],
        [models.value("выход", FLOAT, [1])]).SerializeToString()).run(["выход"], {"入力": X[0, :1]}),
    "metadata": meta,
    "a provider that is not there": lambda: neg(X, providers=["CUDAExecutionProvider", "CPUExecutionProvider"]),
    "a provider with options": lambda: neg(X, providers=[("CPUExecutionProvider", {"use_arena": "1"})]),
    "no providers": lambda: ort.InferenceSession(NEG, providers=[]).get_providers(),
    "options": lambda: with_options(intra_op_num_threads=-1, execution_mode=ort.ExecutionMode.ORT_PARALLEL,
                                    graph_optimization_level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL, logid="a"),
    "an option that is not there": lambda: with_options(no_such_option=1),
    "an entry that is not there": lambda: ort.SessionOptions().get_session_config_entry("a"),
    "a severity that is not there": lambda: ort.set_default_logger_severity(9),
    "levels": lambda: [(name, int(level)) for name, level in sorted(ort.GraphOptimizationLevel.__members__.items())],
    "a bound run": bound,
    "a binding without outputs": lambda: bound(outputs=()),
    "a binding without inputs": lambda: bound(inputs=()),
    "a binding to a wrong input": lambda: bound(inputs=[("zz", X)]),
    "a binding of a list": lambda: bound(inputs=[("x", [[1.0, 2.0]])]),
    "a binding of a wrong type": lambda: bound(inputs=[("x", X.astype(np.int64))]),
    "a value": lambda: value_facts(ort.OrtValue.ortvalue_from_numpy(X)),
    "a value of a list": lambda: ort.OrtValue.ortvalue_from_numpy([1, 2]),
    "a value of a shape": lambda: value_facts(ort.OrtValue.ortvalue_from_shape_and_type([2, 0], np.int64)),
    "a value on a device that is not there": lambda: ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0),
    "a run that is terminated": terminated,
    "a run that calls back": lambda: called_back(X),
    "a wrong run that calls back": lambda: called_back(X[0]),
    "threads": on_eight_threads,
    "a profile": profile,
    "no profile": lambda: ort.InferenceSession(NEG).end_profiling(),
    "a model that is written": written_model,
    "a result of Identity": lambda: changed_afterwards("Identity"),
    "a result of Flatten": lambda: changed_afterwards("Flatten", axis=1),
    "an initializer as an output": writes_to_an_output_that_is_an_initializer,
    "a result that is written to": lambda: neg(X)[0].__iadd__(1),
    "an index out of bounds": lambda: binary("Gather", (FLOAT, INT64, FLOAT), X[0], np.array([5])),
    "a product that does not fit": lambda: binary("MatMul", (FLOAT, FLOAT, FLOAT), X, X, (["n", "k"], ["l", "m"], ["n", "m"])),
    "versions": lambda: ort.__version__ == ort.get_version_string(),
}


def plain(value):
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), plain(value.tolist())]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def main():
    warnings.simplefilter("ignore")
    ort.set_default_logger_severity(4)
    said = {}
    for name, call in CASES.items():
        try:
            said[name] = ["ok", plain(call())]
        except Exception as error:
            said[name] = [type(error).__name__, str(error)]
    print("\n" + json.dumps(said, default=repr))


if __name__ == "__main__":
    main()

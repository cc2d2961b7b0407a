"""ModelCompiler beside onnxruntime's: the same models, calls and errors."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
import tenon
from onnx import TensorProto, helper, numpy_helper

import models

ort = pytest.importorskip("onnxruntime")
ort.set_default_logger_severity(4)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
PACKAGES = {"tenon": tenon, "onnxruntime": ort}


@pytest.fixture
def model(tmp_path, monkeypatch):
    """y = (relu(x) + w) * c @ big, in the working directory."""
    monkeypatch.chdir(tmp_path)
    initializers = [numpy_helper.from_array(np.arange(3, dtype=np.float32), "w"),
                    numpy_helper.from_array(np.ones((3, 64), np.float32), "big")]
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Add", ["a", "w"], ["s"]),
             helper.make_node("MatMul", ["s", "big"], ["y"])]
    made = models.model(nodes, [models.value("x", TensorProto.FLOAT, ["n", 3])],
                        [models.value("y", TensorProto.FLOAT, ["n", 64])], initializers, producer_name="somebody")
    onnx.save(made, "in.onnx")
    return made.SerializeToString()


def outcome(call):
    """What a call gives, or its error: of one of the package's own classes the name and the code, else the class."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001  (any, to be compared)
        text = str(error)
        return f"{type(error).__name__}: {text.split(' : ')[1] if text.startswith('[ONNX') else ''}"


def both(call):
    """The outcome of call(package), which is the same for both packages."""
    ours, theirs = (outcome(lambda package=package: call(package)) for package in PACKAGES.values())
    assert ours == theirs
    return ours


def run(package, model):
    return package.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": X})[0].tolist()


def placed(path):
    """Where a model's initializers lie."""
    graph = onnx.load(path, load_external_data=False).graph
    return {one.name: {entry.key: entry.value for entry in one.external_data} for one in graph.initializer}


def test_a_compiled_model_is_the_model_where_no_provider_compiles(model):
    def compiled(package):
        result = package.ModelCompiler(package.SessionOptions(), model).compile_to_bytes()
        made = onnx.load_from_string(result)
        nodes = [(node.op_type, list(node.input), list(node.output)) for node in made.graph.node]
        return nodes, made.producer_name, made.ir_version, run(package, result)
    nodes, *_ = both(compiled)
    assert [node[0] for node in nodes] == ["Relu", "Add", "MatMul"]
    ours = tenon.ModelCompiler(tenon.SessionOptions(), model).compile_to_bytes()
    assert run(ort, ours) == run(ort, model)


def test_a_path_may_be_left_out(model):
    """onnxruntime 1.31 documents that, and raises TypeError."""
    tenon.ModelCompiler(tenon.SessionOptions(), "in.onnx").compile_to_file()
    assert run(tenon, "in_ctx.onnx") == run(ort, model)
    with pytest.raises(tenon.Fail, match="without a valid location"):
        tenon.ModelCompiler(tenon.SessionOptions(), model).compile_to_file()


def test_files(model, tmp_path):
    def with_external(package):
        name = package.__name__
        compiler = package.ModelCompiler(package.SessionOptions(), tmp_path / "in.onnx",
                                         external_initializers_file_path=f"{name}.bin", external_initializers_size_threshold=100)
        compiler.compile_to_file(tmp_path / f"{name}.onnx")
        where = placed(f"{name}.onnx")
        assert where.pop("big").pop("location") == f"{name}.bin"
        return where, (tmp_path / f"{name}.bin").stat().st_size, run(package, f"{name}.onnx")
    assert both(with_external)[1] == 3 * 64 * 4
    assert run(ort, "tenon.onnx") == run(ort, model)


def test_streams(model):
    def to_stream(package):
        parts = []
        package.ModelCompiler(package.SessionOptions(), model).compile_to_stream(parts.append)
        return run(package, b"".join(parts))
    assert both(to_stream) == run(ort, model)


def test_initializers_lie_where_the_function_says(model, tmp_path):
    def with_function(package):
        seen = []

        def place(name, value, before):
            seen.append((name, value.shape(), before is None, value.numpy().sum().item()))
            if name != "big":
                return None
            (tmp_path / f"{package.__name__}.bin").write_bytes(b"12345678" + value.numpy().tobytes())
            return package.OrtExternalInitializerInfo(f"{package.__name__}.bin", 8, value.tensor_size_in_bytes())
        compiler = package.ModelCompiler(package.SessionOptions(), "in.onnx", get_initializer_location_func=place)
        compiler.compile_to_file(f"{package.__name__}_placed.onnx")
        return seen, run(package, f"{package.__name__}_placed.onnx")
    seen, result = both(with_function)
    assert [one[0] for one in seen] == ["big", "w"] and result == run(ort, model)
    assert placed("tenon_placed.onnx")["big"] == {"location": "tenon.bin", "offset": "8", "length": "768"}

    def of_external(package):
        places = []
        compiler = package.ModelCompiler(package.SessionOptions(), f"{package.__name__}_placed.onnx",
                                         get_initializer_location_func=lambda name, value, before: places.append(
                                             (name, before and (before.file_offset, before.byte_size))))
        compiler.compile_to_bytes()
        return places
    assert both(of_external) == [("big", (8, 768)), ("w", None)]


def fail(*arguments):
    raise ValueError("of the test")


@pytest.mark.parametrize("call", [
    lambda p: p.ModelCompiler(p.SessionOptions(), ""),
    lambda p: p.ModelCompiler(p.SessionOptions(), b""),
    lambda p: p.ModelCompiler(p.SessionOptions(), 5),
    lambda p: p.ModelCompiler(None, "in.onnx"),
    lambda p: p.ModelCompiler(p.SessionOptions(), "in.onnx", external_initializers_file_path=5),
    lambda p: p.ModelCompiler(p.SessionOptions(), "in.onnx", external_initializers_file_path="e",
                              get_initializer_location_func=fail),
    lambda p: p.ModelCompiler(p.SessionOptions(), "nothing.onnx").compile_to_bytes(),
    lambda p: p.ModelCompiler(p.SessionOptions(), b"junk").compile_to_bytes(),
    lambda p: p.ModelCompiler(p.SessionOptions(), "in.onnx").compile_to_file(5),
    lambda p: p.ModelCompiler(p.SessionOptions(), "in.onnx").compile_to_file("nowhere/out.onnx"),
    lambda p: p.ModelCompiler(p.SessionOptions(), "in.onnx").compile_to_file("."),
    lambda p: p.ModelCompiler(p.SessionOptions(), "in.onnx",
                              flags=p.OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS).compile_to_file("in.onnx"),
    lambda p: p.ModelCompiler(p.SessionOptions(), "in.onnx",
                              flags=p.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED).compile_to_bytes(),
    lambda p: p.ModelCompiler(p.SessionOptions(), "in.onnx").compile_to_stream(5),
    lambda p: p.ModelCompiler(p.SessionOptions(), "in.onnx").compile_to_stream(fail),
    lambda p: p.ModelCompiler(p.SessionOptions(), "in.onnx", get_initializer_location_func=fail).compile_to_bytes(),
    lambda p: p.ModelCompiler(p.SessionOptions(), "in.onnx",
                              get_initializer_location_func=lambda *arguments: 7).compile_to_bytes(),
    lambda p: p.ModelCompiler(p.SessionOptions(), "in.onnx").set_ep_context_data_write_func(5),
])
def test_errors(model, call):
    assert isinstance(both(call), str)


def test_what_a_function_raises_is_in_the_error(model):
    with pytest.raises(tenon.Fail, match="ValueError: of the test"):
        tenon.ModelCompiler(tenon.SessionOptions(), model).compile_to_stream(fail)
    with pytest.raises(tenon.Fail, match="7|int"):
        tenon.ModelCompiler(tenon.SessionOptions(), model,
                            get_initializer_location_func=lambda *arguments: 7).compile_to_bytes()


def test_functions_for_the_data_of_providers_are_set_and_cleared(model):
    for package in PACKAGES.values():
        compiler = package.ModelCompiler(package.SessionOptions(), model)
        compiler.set_ep_context_data_write_func(fail)  # no provider has data
        assert compiler.compile_to_bytes()
        compiler.clear_ep_context_data_write_func()
        options = package.SessionOptions()
        options.set_ep_context_data_read_func(fail, 1024)
        assert run(package, model)
        options.clear_ep_context_data_read_func()


OWN_PLUGIN = os.environ.get("TENON_OWN_PLUGIN", "")
PROGRAM = """
import sys
import numpy as np
import {package} as package
package.register_execution_provider_library("own", {plugin!r})
device = next(one for one in package.get_ep_devices() if one.ep_name == "OwnEp")

def options():
    made = package.SessionOptions()
    made.add_provider_for_devices([device], {{}})
    return made

data, views = {{}}, []

def write(name, view):
    views.append(view)
    data[name] = view.read(0, 1) + view.read(1)
    assert view.size == len(data[name]) and view.read(length=2) == data[name][:2]
    try:
        view.read(view.size, 1)
    except Exception as error:
        print("past the end", type(error).__name__)

compiler = package.ModelCompiler(options(), "in.onnx")
compiler.set_ep_context_data_write_func(write)
model = compiler.compile_to_bytes()
print(sorted(data.items()))
try:
    views[0].read()
except RuntimeError as error:
    print("after the callback", type(error).__name__)

def read(name, buffer):
    assert not buffer.is_allocated and buffer.max_size == 100
    buffer.allocate(len(data[name]))
    buffer.write(memoryview(data[name])[2:], 2)
    buffer.write(data[name][:2])
    assert buffer.size == len(data[name])

loading = options()
loading.set_ep_context_data_read_func(read, 100)
session = package.InferenceSession(model, loading)
print(session.run(None, {{"x": np.array([[-1, 2, 3]], np.float32)}})[0].sum())

def refused(function):
    loading = options()
    loading.set_ep_context_data_read_func(function, 2)
    try:
        package.InferenceSession(model, loading)
    except Exception as error:
        print(type(error).__name__)

refused(lambda name, buffer: None)
refused(lambda name, buffer: buffer.allocate(3))
refused(lambda name, buffer: buffer.write(b"x"))
refused(lambda name, buffer: 1 / 0)
del session, compiler
"""


@pytest.mark.skipif(not OWN_PLUGIN, reason="TENON_OWN_PLUGIN names no plugin")
def test_functions_write_and_read_the_data_of_a_provider(model, tmp_path):
    """In processes of their own: the plugin's library is registered once, and wants an API that older releases lack."""
    answers = []
    interpreters = {"tenon": sys.executable, "onnxruntime": pathlib.Path(os.environ.get("TENON_ORT", ""), "1.32.0/bin/python")}
    for package, interpreter in interpreters.items():
        if package == "onnxruntime" and not interpreter.exists():
            answers.append(answers[0])
            continue
        program = PROGRAM.format(package=package, plugin=OWN_PLUGIN)
        done = subprocess.run([interpreter, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "OWN_CONTEXT": "1"})
        assert done.returncode == 0, done.stderr
        answers.append([line for line in done.stdout.splitlines() if not line.startswith("OwnEp sees")])
    assert answers[0] == answers[1]
    assert answers[0][1] == "[('Relu.bin', b'Relu')]"


def test_where_binaries_go_is_checked_at_once(tmp_path):
    compiler = tenon.ModelCompiler(tenon.SessionOptions(), models.one_node("Neg"))
    compiler.set_ep_context_binary_information(f"{tmp_path}/", "a.onnx")
    for directory, name in (("", "a.onnx"), (f"{tmp_path}/", "")):
        with pytest.raises(tenon.InvalidArgument):
            compiler.set_ep_context_binary_information(directory, name)
    assert compiler.compile_to_bytes()


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

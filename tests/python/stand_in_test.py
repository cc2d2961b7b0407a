"""What programs do with the package onnxruntime, over Tenon: its own tools in Python, its metadata, its private corners."""
import importlib.metadata
import importlib.util
import subprocess
import sys
import textwrap

import numpy as np
import onnx
import pytest
import tenon
from onnx import helper, numpy_helper
from tenon import _native_functions, _stand_in

import models

WITHOUT_STOCK = """
import importlib.machinery
import tenon._stand_in
tenon._stand_in._stock_folder = lambda: None
"""


def run(program, *arguments, before=""):
    text = before + "import tenon\ntenon.install_as_onnxruntime()\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", text, *map(str, arguments)], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.fixture
def model(tmp_path):
    """Two products and a Relu between them, with weights."""
    random = np.random.default_rng(0)
    held = [numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
            for name, shape in (("a", (64, 32)), ("b", (32, 16)))]
    nodes = [helper.make_node("MatMul", ["x", "a"], ["p"], name="first"), helper.make_node("Relu", ["p"], ["q"]),
             helper.make_node("MatMul", ["q", "b"], ["y"], name="second")]
    path = tmp_path / "model.onnx"
    path.write_bytes(models.model(nodes, [models.value("x", models.FLOAT, ["n", 64])], [models.value("y", models.FLOAT, ["n", 16])],
                                  held).SerializeToString())
    return path


def test_metadata_name_a_version(tmp_path):
    out = run("""
        import importlib.metadata, importlib.util, onnxruntime
        print(importlib.metadata.version("onnxruntime"), importlib.util.find_spec("onnxruntime") is not None)
        print(importlib.metadata.distribution("onnxruntime").metadata["Name"], onnxruntime.__file__)
        print(importlib.metadata.version("numpy"))
    """)
    version, name, numpy = out.splitlines()
    assert version == f"{tenon.get_version_string()} True" and name == f"onnxruntime {tenon.__file__}"
    assert numpy == np.__version__


def test_without_onnxruntime_its_tools_are_not_there():
    out = run("""
        import onnxruntime, importlib.util
        print(importlib.util.find_spec("onnxruntime.quantization"), onnxruntime.InferenceSession.__module__)
    """, before=WITHOUT_STOCK)
    assert out == "None tenon._session\n"


def test_quantize_static_and_dynamic_run_over_tenon(model, tmp_path):
    needs("onnxruntime")
    program = """
        import sys
        import numpy as np, onnx, onnxruntime
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process
        source, folder = sys.argv[1:]
        random = np.random.default_rng(1)
        rows = [random.standard_normal((4, 64)).astype(np.float32) for _ in range(4)]

        class Reader(CalibrationDataReader):
            def __init__(self):
                self.rows = iter(rows)
            def get_next(self):
                row = next(self.rows, None)
                return None if row is None else {"x": row}

        quant_pre_process(source, folder + "/prepared.onnx", skip_symbolic_shape=True)
        quantize_static(folder + "/prepared.onnx", folder + "/static.onnx", Reader(), quant_format=QuantFormat.QDQ)
        quantize_dynamic(source, folder + "/dynamic.onnx")
        whole = onnxruntime.InferenceSession(source).run(None, {"x": rows[0]})[0]
        for name in ("static", "dynamic"):
            kinds = {node.op_type for node in onnx.load(f"{folder}/{name}.onnx").graph.node}
            small = onnxruntime.InferenceSession(f"{folder}/{name}.onnx").run(None, {"x": rows[0]})[0]
            print(name, "QuantizeLinear" in kinds or "DynamicQuantizeLinear" in kinds, np.abs(small - whole).max() < 2.0)
        print(onnxruntime.InferenceSession.__module__)
    """
    assert run(program, model, tmp_path).splitlines()[-3:] == ["static True True", "dynamic True True", "tenon._session"]


def test_quantized_models_are_those_of_onnxruntime(model, tmp_path):
    needs("onnxruntime")
    program = """
        import sys
        if sys.argv[3] == "tenon":
            import tenon
            tenon.install_as_onnxruntime()
        import numpy as np
        from onnxruntime.quantization import CalibrationDataReader, quantize_static

        class Reader(CalibrationDataReader):
            left = 3
            def get_next(self):
                self.left -= 1
                return {"x": np.random.default_rng(self.left).standard_normal((4, 64)).astype(np.float32)} if self.left >= 0 else None

        quantize_static(sys.argv[1], sys.argv[2], Reader())
    """
    made = []
    for engine in ("tenon", "onnxruntime"):
        path = tmp_path / f"{engine}.onnx"
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), model, path, engine], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        made.append(onnx.load(path))
    held = [{one.name: numpy_helper.to_array(one) for one in model.graph.initializer} for model in made]
    assert [node.op_type for node in made[0].graph.node] == [node.op_type for node in made[1].graph.node]
    assert held[0].keys() == held[1].keys()
    for name, array in held[0].items():
        assert np.allclose(array.astype(np.float64), held[1][name].astype(np.float64), rtol=1e-5), name


@pytest.mark.parametrize("bits, symmetric", [(2, True), (4, True), (4, False), (8, True), (8, False), (2, False)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_weights_are_quantized_in_blocks_as_by_onnxruntime(bits, symmetric, dtype):
    stock = pytest.importorskip("onnxruntime.capi._pybind_state")
    random = np.random.default_rng(bits)
    for rows, columns, block in ((64, 5, 32), (96, 6, 32), (16, 3, 16), (256, 4, 64)):
        weight = random.standard_normal((rows, columns)).astype(dtype)
        weight[:, 0], weight[:, 1] = 0, np.abs(weight[:, 1])
        blocks, per_byte = rows // block, 8 // bits
        found = []
        for functions in (_native_functions, stock):
            packed = np.zeros((columns, blocks, block // per_byte), np.uint8)
            scales = np.zeros(columns * blocks, dtype)
            zeros = np.zeros(columns * -(-blocks // per_byte), np.uint8)
            getattr(functions, f"quantize_matmul_{bits}bits")(packed, weight, scales, zeros, block, columns, rows, symmetric)
            found.append((packed, scales, zeros))
            if bits == 4 and columns % 2 == 0:
                flat, grid, points = np.zeros(rows * columns // 2, np.uint8), np.zeros((blocks, columns), dtype), np.zeros(
                    blocks * columns // 2, np.uint8)
                signed = functions.quantize_qdq_matmul_4bits(flat, weight, grid, points, block, columns, rows, symmetric)
                found[-1] += (flat, grid, points, signed)
        for ours, theirs in zip(*found):
            assert np.array_equal(ours, theirs), (rows, columns, block)
    with pytest.raises(ValueError, match="shape \\(256, 4\\), and 4 rows and 256 columns"):
        getattr(_native_functions, f"quantize_matmul_{bits}bits")(packed, weight, scales, zeros, block, rows, columns, symmetric)


def test_the_nbits_quantizer_runs_over_tenon(model, tmp_path):
    needs("onnxruntime", "onnx_ir", "ml_dtypes")
    out = run("""
        import sys
        import numpy as np, onnx, onnxruntime
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
        quantizer = MatMulNBitsQuantizer(onnx.load(sys.argv[1]), 4, 32, is_symmetric=True)
        quantizer.process()
        quantizer.model.save_model_to_file(sys.argv[2])
        x = np.ones((2, 64), np.float32)
        whole, small = (onnxruntime.InferenceSession(path).run(None, {"x": x})[0] for path in sys.argv[1:])
        print({node.op_type for node in onnx.load(sys.argv[2]).graph.node} >= {"MatMulNBits"}, np.abs(whole - small).max() < 20)
    """, model, tmp_path / "small.onnx")
    assert out.splitlines()[-1] == "True True"


def test_datasets_and_tools_run_over_tenon(model):
    needs("onnxruntime")
    out = run("""
        import sys
        import numpy as np, onnx, onnxruntime
        from onnxruntime.datasets import get_example
        session = onnxruntime.InferenceSession(get_example("sigmoid.onnx"))
        print(session.run(None, {session.get_inputs()[0].name: np.zeros((3, 4, 5), np.float32)})[0].mean())
        session = onnxruntime.InferenceSession(get_example("logreg_iris.onnx"))
        print(len(session.run(None, {session.get_inputs()[0].name: np.zeros((3, 2), np.float32)})))
        from onnxruntime.tools.make_dynamic_shape_fixed import make_dim_param_fixed
        fixed = onnx.load(sys.argv[1])
        make_dim_param_fixed(fixed.graph, "n", 3)
        print(onnxruntime.InferenceSession(fixed.SerializeToString()).get_inputs()[0].shape)
    """, model)
    assert out.splitlines()[-3:] == ["0.5", "2", "[3, 64]"]


def test_the_optimizer_of_transformers_runs_over_tenon(model, tmp_path):
    needs("onnxruntime", "torch")
    out = run("""
        import sys
        import onnx
        from onnxruntime.transformers.optimizer import optimize_by_onnxruntime, optimize_model
        print(onnx.load(optimize_by_onnxruntime(sys.argv[1], optimized_model_path=sys.argv[2], opt_level=1)).graph.node[0].op_type)
        print(optimize_model(sys.argv[1], opt_level=1).model.graph.node[-1].op_type)
    """, model, tmp_path / "optimized.onnx")
    assert out.splitlines()[-2:] == ["MatMul", "MatMul"]


def test_private_corners_that_programs_look_into_are_there(model):
    session = tenon.InferenceSession(model)
    assert session._model_path == str(model) and session._model_bytes is None
    assert session._sess.inputs_meta[0].name == "x" and session._sess.get_providers() == session.get_providers()
    assert [one.name for one in session.inputs_meta] == ["x"] and [one.name for one in session.outputs_meta] == ["y"]
    assert session._sess_options is session.get_session_options() and session._provider_options == session.get_provider_options()
    assert session._model_meta == session.get_modelmeta() == session.model_meta
    assert tenon.InferenceSession(model.read_bytes())._model_bytes == model.read_bytes()


def test_libraries_of_others_are_loaded_before_theirs():
    tenon.preload_dlls()
    tenon.preload_dlls(cuda=True, cudnn=False, msvc=True, directory="")


def test_debug_information_is_printed(capsys):
    tenon.print_debug_info()
    said = capsys.readouterr().out
    assert f"tenon {tenon.__version__}" in said and tenon.get_version_string() in said and "CPUExecutionProvider" in said


def test_the_stand_in_finds_the_real_package():
    needs("onnxruntime")
    folder = _stand_in._stock_folder()
    assert folder is not None and (folder / "quantization").is_dir()
    assert importlib.metadata.version("onnxruntime")


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

"""LoRA adapters beside onnxruntime's: files of one package in the other, and runs."""
import gc

import numpy as np
import pytest
import tenon

import models

ort = pytest.importorskip("onnxruntime")
A = np.arange(8, dtype=np.float32).reshape(4, 2)
B = np.ones((2, 4), np.float32)
X = np.ones((1, 4), np.float32)
PACKAGES = [ort, tenon]


def write(package, path, parameters, adapter_version=3, model_version=7):
    file = package.AdapterFormat()
    file.set_adapter_version(adapter_version)
    file.set_model_version(model_version)
    file.set_parameters({name: package.OrtValue.ortvalue_from_numpy(array) for name, array in parameters.items()})
    file.export_adapter(path)
    return path


def options(package, *paths):
    made = package.RunOptions()
    adapters = []
    for path in paths:
        adapters.append(package.LoraAdapter())
        adapters[-1].Load(path)
        made.add_active_adapter(adapters[-1])
    return made, adapters


@pytest.fixture(scope="module")
def sessions():
    return {package: package.InferenceSession(models.low_rank(), providers=["CPUExecutionProvider"]) for package in PACKAGES}


TYPES = [np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


@pytest.mark.parametrize("reader", PACKAGES, ids=["onnxruntime reads", "tenon reads"])
@pytest.mark.parametrize("writer", PACKAGES, ids=["onnxruntime writes", "tenon writes"])
def test_either_package_reads_the_others_file(writer, reader, tmp_path):
    rng = np.random.default_rng(5)
    arrays = {f"layer.{i}.{np.dtype(t).name}": (rng.random((i + 1, 3)) * 5).astype(t) for i, t in enumerate(TYPES)}
    arrays |= {"empty": np.zeros((0, 3), np.float32), "odd": np.arange(5, dtype=np.uint8)}
    path = str(write(writer, str(tmp_path / "all.onnx_adapter"), arrays, adapter_version=-2, model_version=2**31 - 1))
    file = reader.AdapterFormat.read_adapter(path)
    assert (file.get_format_version(), file.get_adapter_version(), file.get_model_version()) == (1, -2, 2**31 - 1)
    read = {name: value.numpy() for name, value in file.get_parameters().items()}
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype and read[name].shape == array.shape, name
        assert np.array_equal(read[name], array), name
    reader.LoraAdapter().Load(path)


def test_more_than_the_reference_reads(tmp_path):
    arrays = {"scalar": np.array(2.5, np.float32), "flags": np.array([True, False])}
    read = tenon.AdapterFormat.read_adapter(write(tenon, tmp_path / "more", arrays)).get_parameters()
    assert {name: value.numpy().tolist() for name, value in read.items()} == {"scalar": 2.5, "flags": [True, False]}


def test_parameters_are_views_that_keep_the_file(tmp_path):
    path = write(tenon, tmp_path / "ab.onnx_adapter", {"a": A, "b": B})
    file = tenon.AdapterFormat.read_adapter(path)
    first, second = (file.get_parameters()["a"] for _ in range(2))
    assert first.data_ptr() == second.data_ptr()
    view = first.numpy()
    del file, first, second
    gc.collect()
    path.unlink()
    assert np.array_equal(view, A) and not view.flags.writeable


@pytest.mark.parametrize("names", [[], ["ab"], ["a"], ["ab", "ab"], ["a", "b"], ["empty"]], ids=str)
def test_runs_are_the_references(names, sessions, tmp_path):
    files = {"ab": {"a": A, "b": B}, "a": {"a": A}, "b": {"b": B}, "empty": {}}
    results = []
    for package in PACKAGES:
        paths = [write(package, str(tmp_path / name), files[name]) for name in names]
        run_options, kept = options(package, *paths)
        session = sessions[package]
        results.append(session.run(None, {"x": X}, run_options)[0])
        by_value = session.run_with_ort_values(["y"], {"x": package.OrtValue.ortvalue_from_numpy(X)}, run_options)
        assert np.array_equal(by_value[0].numpy(), results[-1])
        # The adapter counts, and not what the program feeds; without options it is gone.
        fed = session.run(None, {"x": X, "a": A * 0}, run_options)[0]
        results[-1] = np.concatenate([results[-1], fed, session.run(None, {"x": X})[0]])
        del kept
    assert np.array_equal(*results)


def test_of_two_adapters_the_last_counts(sessions, tmp_path):
    """As in the reference's C API; its Python package takes the first."""
    whole, zero = write(tenon, tmp_path / "ab", {"a": A, "b": B}), write(tenon, tmp_path / "zero", {"a": A * 0})
    for paths, expected in (((whole, zero), X), ((zero, whole), X + X @ A @ B)):
        assert np.array_equal(sessions[tenon].run(None, {"x": X}, options(tenon, *paths)[0])[0], expected)


@pytest.mark.parametrize("parameters", [{"nope": A}, {"a": np.ones((3, 2), np.float32)}, {"a": A.astype(np.float64)}],
                         ids=["name", "shape", "type"])
def test_parameters_that_do_not_fit_are_the_references_errors(parameters, sessions, tmp_path):
    texts = []
    for package in PACKAGES:
        run_options, kept = options(package, write(package, str(tmp_path / "wrong"), parameters))
        with pytest.raises(Exception) as raised:
            sessions[package].run(None, {"x": X}, run_options)
        assert type(raised.value).__name__ == "InvalidArgument"
        texts.append(str(raised.value))
        del kept
    assert texts[0] == texts[1]


def test_the_options_keep_the_adapter(sessions, tmp_path):
    run_options, kept = options(tenon, write(tenon, tmp_path / "ab", {"a": A, "b": B}))
    del kept
    gc.collect()
    assert np.array_equal(sessions[tenon].run(None, {"x": X}, run_options)[0], X + X @ A @ B)


def test_an_io_binding_warns(sessions, tmp_path):
    run_options, kept = options(tenon, write(tenon, tmp_path / "ab", {"a": A, "b": B}))
    binding = sessions[tenon].io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    with pytest.warns(UserWarning, match="won't have an effect"):
        sessions[tenon].run_with_iobinding(binding, run_options)
    assert np.array_equal(binding.copy_outputs_to_cpu()[0], X)
    del kept


@pytest.mark.parametrize("content", [None, b"", b"0123", b"0123456789abcdef", "half"], ids=["missing", "empty", "short", "other", "half"])
def test_files_that_are_no_adapters_are_refused(content, tmp_path):
    path = tmp_path / "bad.onnx_adapter"
    if content == "half":
        whole = write(tenon, tmp_path / "whole", {"a": A}).read_bytes()
        content = whole[:len(whole) // 2]
    if content is not None:
        path.write_bytes(content)
    for package in PACKAGES:
        with pytest.raises(RuntimeError):
            package.LoraAdapter().Load(str(path))
        with pytest.raises(RuntimeError):
            package.AdapterFormat.read_adapter(str(path))


def test_misuse_is_named(tmp_path):
    with pytest.raises(RuntimeError, match="Load first"):
        tenon.RunOptions().add_active_adapter(tenon.LoraAdapter())
    with pytest.raises(TypeError):
        tenon.RunOptions().add_active_adapter(None)
    file = tenon.AdapterFormat()
    with pytest.raises(TypeError, match="'a'"):
        file.set_parameters({"a": A})
    assert file.get_parameters() == {}
    file.set_parameters({"a": tenon.OrtValue.ortvalue_from_numpy(np.array(["text"]))})
    with pytest.raises(RuntimeError, match="\"a\""):
        file.export_adapter(tmp_path / "text")
    file.set_parameters({"a": tenon.OrtValue.ortvalue_from_numpy(A)})
    with pytest.raises(RuntimeError, match="Failed to open"):
        file.export_adapter(tmp_path / "no" / "such" / "folder")


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

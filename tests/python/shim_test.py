"""The wheels beside tenon's: a package called onnxruntime that is Tenon, and the CUDA provider's Python side."""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile

import pytest
import tenon

import models

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(program, *paths, **variables):
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    """The shim's wheel, unpacked; without its build tool the files that it consists of."""
    folder = tmp_path_factory.mktemp("shim")
    if importlib.util.find_spec("scikit_build_core") is None:
        shutil.copytree(ROOT / "python/shim/onnxruntime", folder / "onnxruntime")
        return folder
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir",
                    folder, ROOT / "python/shim"], check=True)
    wheel, = folder.glob("onnxruntime-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_the_shim_is_onnxruntime(shim):
    out = run("""
        import importlib.metadata, onnxruntime, onnxruntime as ort, sys, tenon
        from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
        from onnxruntime.capi import _pybind_state
        import onnxruntime.capi.onnxruntime_inference_collection
        tenon.install_as_onnxruntime()  # is in place already
        assert ort.InferenceSession is tenon.InferenceSession and InvalidArgument is tenon.InvalidArgument
        print(ort.__version__, importlib.metadata.version("onnxruntime"), ort.get_available_providers()[-1])
    """, shim)
    assert out.split() == [tenon.get_version_string()] * 2 + ["CPUExecutionProvider"]


def test_a_program_runs_over_the_shim_as_it_is(shim, tmp_path):
    (tmp_path / "model.onnx").write_bytes(models.one_node("Neg"))
    out = run(f"""
        import numpy as np
        from onnxruntime import InferenceSession
        print(InferenceSession({str(tmp_path / "model.onnx")!r}).run(None, {{"x": np.ones((1, 2), np.float32)}})[0].tolist())
    """, shim)
    assert out == "[[-1.0, -1.0]]\n"


def test_the_shims_version_is_the_librarys():
    stated = re.search(r'^version = "(.*)"', (ROOT / "python/shim/pyproject.toml").read_text(), re.M)[1]
    assert stated == tenon.get_version_string()


# --- tenon-cuda, without a GPU: a plugin that is not there, another that has no device, folders of nvidia's packages.


@pytest.fixture
def cuda(tmp_path):
    shutil.copytree(ROOT / "python/cuda/tenon_cuda", tmp_path / "tenon_cuda")
    return tmp_path


NO_DRIVER = "import ctypes\nopen_library = ctypes.CDLL\ndef CDLL(name, *rest, **more):\n    if 'libcuda' in str(name):\n" \
    "        raise OSError('libcuda.so.1: cannot open shared object file')\n    return open_library(name, *rest, **more)\nctypes.CDLL = CDLL\n"


def test_without_a_driver_the_cuda_package_says_so(cuda):
    (cuda / "tenon_cuda/libtenon_ep_cuda.so").touch()
    out = run(NO_DRIVER + textwrap.dedent("""
        import tenon
        print(tenon.get_available_providers())
        import tenon_cuda
        print(tenon_cuda.problem(), tenon_cuda.register())
    """), cuda)
    assert out.splitlines() == ["['CPUExecutionProvider']",
                                "There is no CUDA driver on this machine: libcuda.so.1: cannot open shared object file. False"]


def test_a_cuda_package_without_its_plugin_says_so(cuda):
    out = run("import tenon, tenon_cuda; print(tenon_cuda.problem(), len(tenon.get_available_providers()))", cuda)
    assert out.startswith("The plugin is not beside the package: ") and out.endswith(" 1\n")


def test_a_plugin_that_does_not_load_is_a_warning_and_the_cpu_stays(cuda):
    """A driver that shows a device, and a plugin that is no library."""
    (cuda / "tenon_cuda/libtenon_ep_cuda.so").write_text("no library")
    (cuda / "tenon_cuda/__init__.py").write_text((cuda / "tenon_cuda/__init__.py").read_text().replace(
        "    _problem = _driver_problem()\n", "    _problem = None\n"))
    out = run("""
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import tenon
            print(tenon.get_available_providers())
        print(*[str(warning.message) for warning in caught])
    """, cuda)
    assert out.startswith("['CPUExecutionProvider']\nThe package tenon-cuda cannot be used: ") and "libtenon_ep_cuda.so" in out


def test_with_a_driver_the_provider_is_there(cuda, tmp_path):
    """The plugin of this build over the driver without a GPU that the tests of the CUDA EP have."""
    plugin, driver = os.environ.get("TENON_CUDA_PLUGIN", ""), os.environ.get("TENON_FAKE_CUDA", "")
    if not plugin or not driver:
        pytest.skip("this build has no CUDA plugin")
    shutil.copy(plugin, cuda / "tenon_cuda/libtenon_ep_cuda.so")
    out = run("""
        import tenon
        print(tenon.get_available_providers())
        import tenon_cuda
        import tenon.backend
        print(tenon_cuda.problem(), tenon_cuda.register(), tenon.backend.supports_device("CUDA"), tenon.get_device())
    """, cuda, LD_LIBRARY_PATH=driver)
    assert out.splitlines() == ["['TenonCudaExecutionProvider', 'CPUExecutionProvider']", "None True True GPU"]


def test_libraries_are_found_in_the_folders_of_nvidias_packages(cuda, tmp_path):
    for name in ("nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cudnn/lib/libcudnn.so.9"):
        (tmp_path / "packages" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "packages" / name).touch()
    out = run("import tenon_cuda; print({name: path and str(path) for name, path in tenon_cuda.find_libraries().items()})",
              cuda, tmp_path / "packages")
    found = eval(out)  # noqa: S307
    assert found["libnvrtc.so.13"].endswith("packages/nvidia/cu13/lib/libnvrtc.so.13")
    assert found["libcudnn.so.9"].endswith("packages/nvidia/cudnn/lib/libcudnn.so.9")
    if importlib.util.find_spec("nvidia") is None:
        assert found["libcublasLt.so.13"] is None


def test_the_cuda_packages_dependencies_are_what_the_plugin_loads():
    needed = (ROOT / "python/cuda/pyproject.toml").read_text()
    fetched = dict(line.split("==") for line in (ROOT / "src/ep/cuda/toolkit.txt").read_text().splitlines() if "==" in line)
    for package in ("nvidia-cublas", "nvidia-cuda-nvrtc", "nvidia-cudnn-cu13"):
        low, high = re.search(rf'"{package}>=([\d.]+),<(\d+)"', needed).groups()
        version = [int(part) for part in fetched[package].split(".")]
        assert [int(part) for part in low.split(".")] <= version < [int(high)]
    loaded = (ROOT / "src/ep/cuda/driver/shared_library_posix.cc").read_text()
    for library in re.findall(r'"(lib\w+\.so\.\d+)": "', (ROOT / "python/cuda/tenon_cuda/__init__.py").read_text()):
        assert f'"{library}"' in loaded


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

"""examples/smallest_plugin: built as its README says, against an installed tree, and run in Tenon and in stock onnxruntime.

TENON_SOURCE, TENON_BUILD, TENON_CMAKE, TENON_CLI, TENON_LIBRARY and TENON_EPS_PROGRAM are set by CMake; TENON_ORT has the stock
environments. The code in docs/tutorial/first-plugin.md is the example's.
"""
import json
import os
import pathlib
import re
import subprocess

import numpy
import onnx
import pytest
import stock
from onnx import TensorProto, helper

SOURCE, BUILD = (pathlib.Path(os.environ[name]) for name in ("TENON_SOURCE", "TENON_BUILD"))
EP = "SmallestExecutionProvider"
STOCK = sorted(pathlib.Path(os.environ.get("TENON_ORT") or "/nonexistent").glob("*/bin/python"))
X = numpy.array([[-1.5, 0, 2.25, -0.0], [3, -7, numpy.nan, numpy.inf]], numpy.float32)
Y = numpy.array([[0, 0, 2.25, 0], [3, 0, numpy.nan, numpy.inf]], numpy.float32)
IN_STOCK = """
import sys, numpy, onnxruntime
library, ep, model, x, y = sys.argv[1:]
onnxruntime.register_execution_provider_library("smallest", library)
(device,) = [one for one in onnxruntime.get_ep_devices() if one.ep_name == ep]
options = onnxruntime.SessionOptions()
options.add_provider_for_devices([device], {})
options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
session = onnxruntime.InferenceSession(model, options, enable_fallback=0)
numpy.save(y, session.run(None, {"x": numpy.load(x)})[0])
del session, device
onnxruntime.unregister_execution_provider_library("smallest")
"""


def output(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smallest")
    output(os.environ["TENON_CMAKE"], "--install", BUILD, "--prefix", folder / "prefix", "--component", "tenon")
    output(os.environ["TENON_CMAKE"], "-S", SOURCE / "examples/smallest_plugin", "-B", folder / "build",
           f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}", "-DCMAKE_C_FLAGS=-Wall -Wextra -Wpedantic -Werror")
    output(os.environ["TENON_CMAKE"], "--build", folder / "build")
    return folder / "build/libsmallest_plugin.so"


@pytest.fixture(params=[7, 13, 17])
def model(request, tmp_path):
    """Versions 6, 13 and 14 of Relu."""
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "relu")], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])])
    path = tmp_path / "relu.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", request.param)], ir_version=8), str(path))
    numpy.save(tmp_path / "x.npy", X)
    return path


def test_it_links_the_c_library_alone(plugin):
    needed = [line.split("[")[1].rstrip("]") for line in output("readelf", "-d", plugin).splitlines() if "NEEDED" in line]
    assert needed == ["libc.so.6"]
    exported = [line.split()[-1] for line in output("nm", "-D", "--defined-only", plugin).splitlines()]
    assert sorted(exported) == ["CreateEpFactories", "ReleaseEpFactory"]


def test_it_runs_in_tenon(plugin, model, tmp_path):
    on_it = ["--plugin", f"smallest={plugin}", "--ep", EP]
    output(os.environ["TENON_CLI"], "run", model, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out", *on_it)
    numpy.testing.assert_array_equal(numpy.load(tmp_path / "out/0.npy"), Y)
    report = json.loads(output(os.environ["TENON_CLI"], "explain", model, "--dim", "n=2", "--json", *on_it))
    assert [part["ep_name"] for part in report["assignments"]] == [EP] and report["bytes_copied"] == 0


@pytest.mark.skipif(not STOCK, reason="TENON_ORT has no stock onnxruntime")
@pytest.mark.parametrize("python", STOCK, ids=lambda python: python.parent.parent.name)
def test_it_runs_in_stock_onnxruntime(python, plugin, model, tmp_path):
    y = tmp_path / "y.npy"
    output(python, "-c", IN_STOCK, plugin, EP, model, tmp_path / "x.npy", y)
    numpy.testing.assert_array_equal(numpy.load(y), Y)


def test_both_hosts_give_the_same(plugin, model, tmp_path):
    program = os.environ["TENON_EPS_PROGRAM"]
    words = ["plugin", f"smallest={plugin}", "ep", EP, "session", model, "nodes", "-", "run", "", "run", ""]
    answers = {host: output(program, host, *words, cwd=tmp_path) for host in (os.environ["TENON_LIBRARY"], stock.library())}
    assert len(set(answers.values())) == 1, answers
    assert f"Relu relu: {EP}" in answers.popitem()[1].splitlines()


def conformance(library, host):
    """The checks by name, of a plugin in Tenon or in a stock host."""
    other = [] if host == "tenon" else ["--host", stock.library()]
    done = subprocess.run([os.environ["TENON_CLI"], "conformance", "--json", "--plugin", f"smallest={library}", *other],
                          capture_output=True, text=True, timeout=300)
    report = json.loads(done.stdout)
    assert report["has_importer"] and report["memory_kinds"] == ["mappable_fd"]
    return report["passed"], {check["name"]: check for check in report["checks"]}


@pytest.mark.parametrize("host", ["tenon", "stock"])
def test_it_conforms(host, plugin):
    passed, checks = conformance(plugin, host)
    assert passed
    for name in ("KernelsKeepToTheirTensors", "SmallModelAgreesWithTheCpu", "SmallModelOfAnyBatchAgrees",
                 "ImportRefusesBadDescriptors", "ImportSharedResource", "CreateTensorFromImportedMemory",
                 "TensorKeepsTheImportAlive", "ImportsLeaveNothingBehind", "ManyThreadsShareAnImporter", "HostObjectsAreReleased"):
        assert checks[name]["verdict"] == "passed", checks[name]


# A line of the example left out: the objects that it released are counted, in either host.
@pytest.mark.parametrize("host", ["tenon", "stock"])
def test_an_object_that_it_does_not_release_is_counted(host, tmp_path):
    source = (SOURCE / "examples/smallest_plugin/importer.c").read_text()
    release = "  if (mapping->info != NULL) mapping->api->ReleaseMemoryInfo(mapping->info);\n"
    assert source.count(release) == 1
    (tmp_path / "importer.c").write_text(source.replace(release, ""))
    folder = SOURCE / "examples/smallest_plugin"
    output(os.environ.get("TENON_C_COMPILER", "cc"), "-shared", "-fPIC", "-std=c11", "-fvisibility=hidden", f"-I{folder}",
           f"-I{SOURCE / 'include'}", folder / "ep.c", tmp_path / "importer.c", "-o", tmp_path / "libleaky.so")
    _, checks = conformance(tmp_path / "libleaky.so", host)
    failures = checks["HostObjectsAreReleased"]["failures"]
    assert "550 OrtMemoryInfo not released (made by CreateCpuMemoryInfo), after ImportsLeaveNothingBehind." in failures


def code_of_the_tutorial():
    page = (SOURCE / "docs/tutorial/first-plugin.md").read_text()
    return re.findall(r"^```c (examples/\S+)\n(.*?)^```", page, flags=re.S | re.M)


# The tutorial shows the whole EP, and nothing that the example does not have.
def test_the_tutorials_code_is_the_examples():
    shown = set()
    for file, code in code_of_the_tutorial():
        assert code in (SOURCE / file).read_text(), code
        shown.update((file, line) for line in code.splitlines())
    ep = "examples/smallest_plugin/ep.c"
    left_out = [line for line in (SOURCE / ep).read_text().splitlines() if line and not line.startswith(("/*", "#")) and (ep, line) not in shown]
    assert left_out == []

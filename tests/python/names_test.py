"""The package has onnxruntime's names and signatures, and stands in for it."""
import inspect
import multiprocessing
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
import tenon

ort = pytest.importorskip("onnxruntime")

# What onnxruntime's package has at its top that is no part of its API.
OTHERS = {"capi", "contextlib", "cuda_version", "import_capi_exception", "onnxruntime_validation", "package_name", "version"}


def test_all_public_names_are_there():
    theirs = {name for name in dir(ort) if not name.startswith("_")} - OTHERS
    assert sorted(theirs - set(dir(tenon))) == []
    assert all(hasattr(tenon, name) for name in tenon.__all__)


def test_names_of_other_versions_are_there():
    pythons = list(pathlib.Path(os.environ.get("TENON_ORT", "/nowhere")).glob("*/bin/python"))
    if not pythons:
        pytest.skip("TENON_ORT has no environments")
    for python in pythons:
        listed = subprocess.run([python, "-c", "import onnxruntime; print(*dir(onnxruntime))"], capture_output=True, text=True, check=True,
                                env={"ORT_DISABLE_TELEMETRY": "1"}).stdout.split()
        theirs = {name for name in listed if not name.startswith("_")} - OTHERS
        assert sorted(theirs - set(dir(tenon))) == [], python


@pytest.mark.parametrize("name", ["InferenceSession", "IOBinding", "OrtValue", "OrtDevice", "SessionOptions", "RunOptions",
                                  "NodeArg", "ModelMetadata", "OrtMemoryInfo", "OrtEpDevice", "OrtHardwareDevice",
                                  "SessionIOBinding", "SparseTensor", "AdapterFormat", "LoraAdapter", "OrtEpAssignedNode", "OrtEpAssignedSubgraph",
                                  "ModelCompiler",
                                  "OrtEpContextData", "OrtEpContextDataBuffer", "OrtSyncStream"])
def test_classes_have_onnxruntimes_members(name):
    theirs = {m for m in dir(getattr(ort, name)) if not m.startswith("_")}
    if name == "ModelMetadata":  # fields of a dataclass
        ours = set(tenon.ModelMetadata.__dataclass_fields__)
    elif name.startswith("OrtEpAssigned"):
        ours = set(getattr(tenon, name).__dataclass_fields__) | set(dir(getattr(tenon, name)))
    else:
        ours = set(dir(getattr(tenon, name)))
    assert sorted(theirs - ours) == []


@pytest.mark.parametrize("name", ["InferenceSession", "IOBinding", "ModelCompiler"])
def test_functions_take_onnxruntimes_arguments(name):
    for member, function in inspect.getmembers(getattr(ort, name), inspect.isfunction):
        if member.startswith("_") and member != "__init__":
            continue
        ours = getattr(getattr(tenon, name), member)
        try:
            signature = inspect.signature(ours)
        except ValueError:  # native: its names are those of the first line of its documentation
            signature = inspect.signature(eval(f"lambda {names_of(ours.__doc__)}: 0"))  # noqa: S307
        theirs = [p.name for p in inspect.signature(function).parameters.values()]
        assert [p.name for p in signature.parameters.values()][:len(theirs)] == theirs, member


def names_of(documentation):
    import re
    first = documentation.splitlines()[0]
    return ", ".join(re.findall(r"(?:^|[(,] ?)(\w+)(?=[:,)=])", re.sub(r"\[[^\]]*\]", "", first[first.index("("):].split(" ->")[0])))


def test_error_classes_have_onnxruntimes_names():
    state = sys.modules["onnxruntime.capi.onnxruntime_pybind11_state"]
    theirs = {n for n in dir(state) if inspect.isclass(getattr(state, n)) and issubclass(getattr(state, n), Exception)}
    assert sorted(n for n in theirs if not (hasattr(tenon, n) and issubclass(getattr(tenon, n), tenon.Error))) == []


def run(program, *arguments):
    done = subprocess.run([sys.executable, *arguments], input=program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tenon_stands_in_for_onnxruntime():
    out = run(textwrap.dedent("""
        import tenon
        tenon.install_as_onnxruntime()
        tenon.install_as_onnxruntime()
        import onnxruntime as ort
        from onnxruntime import InferenceSession, SessionOptions
        from onnxruntime.capi import _pybind_state as C
        from onnxruntime.capi.onnxruntime_inference_collection import OrtValue
        from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, RuntimeException
        import onnxruntime.capi.onnxruntime_pybind11_state
        assert InferenceSession is tenon.InferenceSession and InvalidArgument is tenon.InvalidArgument
        assert C.OrtValue is OrtValue is tenon.OrtValue and ort.__version__ == tenon.get_version_string()
        print(ort.get_available_providers())
    """), "-")
    assert "CPUExecutionProvider" in out


def test_a_program_runs_over_tenon_from_the_command_line(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys, onnxruntime\nprint(onnxruntime.InferenceSession.__module__, sys.argv[1:], __name__)\n")
    out = run("", "-m", "tenon.as_onnxruntime", str(program), "--flag", "1")
    assert out.split("\n")[0] == "tenon._session ['--flag', '1'] __main__"
    out = run("", "-m", "tenon.as_onnxruntime", "-m", "timeit", "-n", "1", "-r", "1", "import onnxruntime")
    assert "loop" in out


CHILDREN = """
import multiprocessing, subprocess, sys

def answer(queue):
    import onnxruntime
    from onnxruntime.capi import _pybind_state
    queue.put((onnxruntime.InferenceSession.__module__, onnxruntime.capi._pybind_state is _pybind_state))

if __name__ == "__main__":
    for method in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=answer, args=(queue,))
        process.start()
        print(method, *queue.get(timeout=100))
        process.join()
    ask = "import sys; print('tenon' in sys.modules); import onnxruntime; print(onnxruntime.InferenceSession.__module__)"
    print(subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout.split())
    ask = "import sitecustomize; print(sitecustomize.there)"
    print(subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout.split())
    ask = "import sys; sys.modules['tenon'] = None; import onnxruntime; print(onnxruntime.InferenceSession.__module__)"
    print(subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout.split())
"""


def test_processes_that_the_program_starts_run_over_tenon(tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text(CHILDREN)
    others = tmp_path / "others"
    others.mkdir()
    (others / "sitecustomize.py").write_text("there = 'kept'\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(others), os.environ.get("PYTHONPATH", "")]))
    lines = run("", "-m", "tenon.as_onnxruntime", str(program)).splitlines()
    methods = multiprocessing.get_all_start_methods()
    assert lines[:len(methods)] == [f"{method} tenon._session True" for method in methods]
    assert lines[len(methods):] == ["['False', 'tenon._session']", "['kept']", "['onnxruntime.capi.onnxruntime_inference_collection']"]


def test_it_is_too_late_once_onnxruntime_is_imported():
    with pytest.raises(RuntimeError, match="already"):
        tenon.install_as_onnxruntime()


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

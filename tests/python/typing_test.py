"""Types and documentation: the stub is the extension's, type checkers find nothing, each public name says what it is."""
import enum
import importlib.metadata
import importlib.util
import inspect
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import tenon

import models

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(__file__).with_name("typed_program.py")
# The checkers read the sources, whose stub stands for the extension.
SOURCES = {**os.environ, "PYTHONPATH": "", "MYPYPATH": str(ROOT / "python")}


def test_the_stub_is_the_extensions():
    stated = (ROOT / "python/tenon/_core.pyi").read_text().splitlines()[0]
    installed = importlib.metadata.version("nanobind")
    if not stated.endswith(f" {installed}."):
        pytest.skip(f"the stub is of another version than the nanobind {installed} here: {stated}")
    done = subprocess.run([sys.executable, ROOT / "tools/generate_stubs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", ["package", "program"])
def test_mypy_finds_nothing(what, tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("not installed: mypy")
    files = [] if what == "package" else [PROGRAM]
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, *files], cwd=ROOT, env=SOURCES,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("what", ["package", "program"])
def test_pyright_finds_nothing(what):
    pyright = shutil.which("pyright", path=os.path.dirname(sys.executable))
    if pyright is None:
        pytest.skip("not installed: pyright")
    files = [] if what == "package" else [PROGRAM]
    done = subprocess.run([pyright, "--pythonpath", sys.executable, *files], cwd=ROOT, env=SOURCES, capture_output=True,
                          text=True)
    if "fetch" in done.stderr or "nodeenv" in done.stderr:
        pytest.skip("pyright cannot get its own parts here")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_checker_would_find_something(tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("not installed: mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import tenon\n\nx: int = tenon.InferenceSession('m').run(None, {})\n"
                     "tenon.RunOptions().waits = [3]\ntenon.nothing()\n")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, wrong], cwd=ROOT, env=SOURCES,
                          capture_output=True, text=True)
    assert "Found 3 errors" in done.stdout, done.stdout


def test_the_typed_program_runs(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(models.one_node("Neg"))
    done = subprocess.run([sys.executable, PROGRAM, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("-12.0\n")


def members(kind):
    """Public names of a class that Python itself does not give it."""
    for base in kind.__mro__:
        if base.__module__.split(".")[0] == "tenon":
            yield from ((name, member) for name, member in vars(base).items() if not name.startswith("_"))


def undocumented(name, thing):
    own = inspect.isclass(thing) or inspect.isroutine(thing)
    if own and not (thing.__doc__ or "").strip():
        yield name
    # What Python writes for a class without documentation of its own.
    if inspect.isclass(thing) and not issubclass(thing, Exception) and thing.__doc__ in (enum.IntEnum.__doc__, list.__doc__):
        yield name
    if not inspect.isclass(thing) or issubclass(thing, (enum.Enum, Exception)):
        return
    fields = getattr(thing, "__dataclass_fields__", {})
    for member_name, member in members(thing):
        if member_name in fields:
            continue
        documentation = (inspect.getdoc(member) or "").strip()
        # A function of nanobind has its signature in the first line.
        lines = [line for line in documentation.splitlines() if not line.startswith(f"{member_name}(")]
        if not "".join(lines).strip() or documentation == inspect.getdoc(type(member)):
            yield f"{name}.{member_name}"


def test_each_public_name_says_what_it_is():
    import tenon.backend

    things = {name: getattr(tenon, name) for name in tenon.__all__ if name != "__version__"}
    things |= {f"backend.{name}": getattr(tenon.backend, name) for name in ("TenonBackend", "TenonBackendRep", "prepare",
                                                                            "run_model", "run_node", "supports_device")}
    assert sorted(set(silent for name, thing in things.items() for silent in undocumented(name, thing))) == []
    assert inspect.getdoc(tenon) and inspect.getdoc(tenon.backend)


def test_a_name_without_documentation_is_found():
    class Silent:
        def call(self):
            pass
    Silent.__module__ = "tenon"
    assert list(undocumented("Silent", Silent)) == ["Silent", "Silent.call"]


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

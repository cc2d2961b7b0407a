"""The job: a C++ program of one's own that runs a model. docs/tutorial/first-model.md, then the example run_model."""
import json
import os

import pytest
from conftest import commands_of, page, source_of


def test_the_tutorial_ends_with_a_program_that_runs(desk, fetched):
    if not (fetched / "magika.onnx").exists():
        pytest.skip("TENON_MODELS has no magika.onnx")
    text = page("tutorial/first-model.md")
    (desk.folder / "first.cc").write_text(source_of(text, "first.cc"))
    commands = commands_of(text)
    assert [line.split()[0] for line in commands] == ["tenon", "tenon", "tenon", "export", "g++", "./first"]
    said = desk.follow(commands)
    for expected in ("bytes int32[unk__214,2048]", "target_label float32[unk__215,214]", "@524288", "14 steps"):
        assert expected in said and expected.removesuffix(" steps") in text, expected
    assert said.splitlines()[-1].startswith("label ") and said.endswith(", 0 bytes copied\n")
    desk.built(desk.folder / "first")
    assert (desk.folder / "out/outputs.json").exists()


@pytest.fixture(params=["CMake", "pkg-config"])
def run_model(request, desk):
    if request.param == "pkg-config":
        return desk.compile(desk.examples() / "run_model.cc")
    desk.output(os.environ["TENON_CMAKE"], "-S", desk.examples(), "-B", desk.folder / "build",
                f"-DCMAKE_PREFIX_PATH={desk.tree}", f"-DCMAKE_CXX_COMPILER={os.environ['TENON_CXX_COMPILER']}",
                "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
    desk.output(os.environ["TENON_CMAKE"], "--build", desk.folder / "build", "--target", "run_model")
    return desk.built(desk.folder / "build/run_model")


def test_the_example_runs_a_model(desk, run_model, model):
    assert "y: float32[2,2,8,8]" in desk.output(run_model, model, "batch=2")


def test_the_environment_turns_traces_and_dumps_on(desk, model):
    program = desk.compile(desk.examples() / "run_model.cc")
    (desk.folder / "dump").mkdir()
    done = desk.call(program, model, "batch=2", TENON_TRACE="dispatch,plan", TENON_TRACE_FILE="trace.json",
                     TENON_DUMP="dump", TENON_THREADS="2")
    assert done.returncode == 0 and " runs on " in done.stderr and "tenon: trace: plan: " in done.stderr
    assert any(span.get("cat") == "kernel" for span in json.loads((desk.folder / "trace.json").read_text()))
    assert any("plan.txt" in path.name for path in (desk.folder / "dump").iterdir())


def test_bad_input_is_a_message_and_an_exit_code(desk, model):
    program = desk.compile(desk.examples() / "run_model.cc")
    for size in ("2x", "many", "-1", "", "99999999999999999999"):
        done = desk.call(program, model, f"batch={size}")
        assert done.returncode == 1 and f'"batch={size}" gives no whole number' in done.stderr
    done = desk.call(program, "none.onnx")
    assert done.returncode == 1 and "none.onnx" in done.stderr
    done = desk.call(program, model, "batch=2", TENON_THREADS="many")
    assert done.returncode == 1 and 'TENON_THREADS is "many"' in done.stderr

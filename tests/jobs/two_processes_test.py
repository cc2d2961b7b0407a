"""The job: two processes and one model without a copy. docs/tutorial/first-frame.md, then the example shared_frame."""
import os

import pytest
from conftest import commands_of, page, source_of


def test_the_tutorials_program_copies_nothing(desk, fetched):
    if not (fetched / "magika.onnx").exists():
        pytest.skip("TENON_MODELS has no magika.onnx")
    text = page("tutorial/first-frame.md")
    (desk.folder / "frame.cc").write_text(source_of(text, "frame.cc"))
    commands = commands_of(text)
    assert [line.split()[0] for line in commands] == ["g++", "./frame", "cmake", "cmake", "build/examples/shared_frame"]
    assert desk.follow(commands[:2]).startswith("0 bytes copied, waited ")
    desk.built(desk.folder / "frame")


def test_the_pages_commands_build_and_run_the_example(desk, fetched):
    if not (fetched / "nudenet_yolov8n.onnx").exists():
        pytest.skip("TENON_MODELS has no nudenet_yolov8n.onnx")
    desk.examples()
    said = desk.follow(commands_of(page("tutorial/first-frame.md"))[2:])
    assert "consumer: 20 frames of 1228800 bytes in and " in said and said.endswith(", 0 bytes copied\n")


def test_the_example_shares_each_frame(desk, model):
    program = desk.compile(desk.examples() / "shared_frame.cc")
    said = desk.output(program, model, "batch=2")
    assert "consumer: 20 frames of 512 bytes in and 1024 bytes out, 0 bytes copied" in said
    assert [f"producer: frame {frame}: " in said for frame in (0, 5, 10, 15)] == [True] * 4


def test_bad_input_is_a_message_and_an_exit_code(desk, model):
    program = desk.compile(desk.examples() / "shared_frame.cc")
    for size in ("2x", "-1", ""):
        done = desk.call(program, model, f"batch={size}")
        assert done.returncode == 1 and f'"batch={size}" gives no whole number' in done.stderr
    done = desk.call(program, os.devnull)
    assert done.returncode == 1 and os.devnull in done.stderr

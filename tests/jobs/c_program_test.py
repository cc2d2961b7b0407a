"""The job: two processes and one model without a copy, in C, from the headers and examples/shared_frame.c."""
import os
import time

import pytest

STRICT = ("-std=c11", "-pedantic", "-Wshadow", "-Wconversion")


@pytest.fixture
def program(desk):
    return desk.compile(desk.examples() / "shared_frame.c", *STRICT)


def test_the_example_shares_each_frame(desk, program, model):
    said = desk.output(program, model, "batch=2")
    assert "consumer: 20 frames of 512 bytes in and 1024 bytes out, 0 bytes copied" in said
    assert [f"producer: frame {frame}: " in said for frame in (0, 5, 10, 15)] == [True] * 4


def test_it_computes_what_the_example_in_cpp_does(desk, program, model):
    mine = desk.output(program, model, "batch=2")
    program.rename(program.with_suffix(".c.out"))
    assert mine == desk.output(desk.compile(desk.examples() / "shared_frame.cc"), model, "batch=2")


@pytest.mark.parametrize("frame", [0, 7, 19])
def test_a_producer_that_dies_is_named_at_once(desk, program, model, frame):
    start = time.monotonic()
    done = desk.call(program, model, "batch=2", "--die-at", frame)
    assert time.monotonic() - start < 10  # the waits' own limit is 30 s
    assert done.returncode == 1
    assert f"consumer: the producer is gone at frame {frame}: The process (pid " in done.stderr
    assert 'on the other side of timeline "frames" is gone' in done.stderr


def test_bad_input_is_a_message_and_an_exit_code(desk, program, model):
    for size in ("2x", "-1", ""):
        done = desk.call(program, model, f"batch={size}")
        assert done.returncode == 1 and f"batch={size}: gives no whole number" in done.stderr
    done = desk.call(program, os.devnull)
    assert done.returncode == 1 and os.devnull in done.stderr
    assert desk.call(program, model, "batch=2", "--die-at").returncode == 1
    assert desk.call(program).returncode == 2


def test_the_c_headers_stand_alone_in_c99(desk):
    for header in ("timeline_api.h", "copy_ledger_api.h", "external_handles.h", "onnxruntime_c_api.h"):
        source = desk.folder / f"{header[:-2]}.c"
        source.write_text(f"#include <tenon/{header}>\n#include <tenon/{header}>\nint main(void) {{ return 0; }}\n")
        desk.output(desk.compile(source, "-std=c99", "-pedantic"))

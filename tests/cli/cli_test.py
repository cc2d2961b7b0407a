"""The command-line tool, driven as a person drives it."""
import json
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

TENON = os.environ["TENON_CLI"]
OPSET = [helper.make_opsetid("", 17)]
INVALID, UNSUPPORTED, NOT_FOUND = 2, 3, 4


def tenon(*arguments, timeout=120):
    return subprocess.run([TENON, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)


def ok(*arguments):
    done = tenon(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def refused(code, text, *arguments):
    """One sentence on stderr, nothing on stdout, this exit code."""
    done = tenon(*arguments)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert text in done.stderr, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("tenon: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def tensor(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def save(path, graph, ir_version=8):
    onnx.save(helper.make_model(graph, opset_imports=OPSET, ir_version=ir_version), path)
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    f32, i64 = TensorProto.FLOAT, TensorProto.INT64
    weights = helper.make_tensor("w", f32, [4, 3], (np.arange(12) / 7).astype(np.float32))
    save(folder / "dense.onnx", helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"]),
         helper.make_node("Shape", ["m"], ["s"])],
        "dense", [tensor("x", f32, ["batch", 4])], [tensor("y", f32, ["batch", 3]), tensor("s", i64, [2])], [weights]))
    save(folder / "deep.onnx", helper.make_graph(
        [helper.make_node("MatMul", ["x", "v"], ["m"]), helper.make_node("MatMul", ["m", "v"], ["y"])],
        "deep", [tensor("x", f32, [2, 4])], [tensor("y", f32, [2, 4])],
        [helper.make_tensor("v", f32, [4, 4], np.ones(16, np.float32))]))
    save(folder / "two.onnx", helper.make_graph(
        [helper.make_node("Add", ["a=1", "b"], ["y"])], "two",
        [tensor("a=1", f32, [2]), tensor("b", f32, [2])], [tensor("y", f32, [2])]))
    save(folder / "unknown.onnx", helper.make_graph(
        [helper.make_node("Frobnicate", ["x"], ["y"], name="odd")], "unknown",
        [tensor("x", f32, [2])], [tensor("y", f32, [2])]))
    (folder / "garbage.onnx").write_bytes(bytes(range(256)) * 8)
    (folder / "empty.onnx").write_bytes(b"")
    return folder


def npy(folder, name, values):
    path = folder / f"{name}.npy"
    np.save(path, values)
    return path


def test_run_writes_outputs_in_the_models_order(models, tmp_path):
    x = np.linspace(-2, 2, 20, dtype=np.float32).reshape(5, 4)
    out = tmp_path / "deep" / "out"
    ok("run", models / "dense.onnx", "--input", f"x={npy(tmp_path, 'x', x)}", "--output-dir", out)
    listed = json.loads((out / "outputs.json").read_text())
    assert listed == [{"name": "y", "dtype": "float32", "shape": [5, 3], "file": "0.npy"},
                      {"name": "s", "dtype": "int64", "shape": [2], "file": "1.npy"}]
    w = (np.arange(12) / 7).astype(np.float32).reshape(4, 3)
    np.testing.assert_allclose(np.load(out / "0.npy"), np.maximum(x @ w, 0), rtol=1e-5)
    assert np.load(out / "1.npy").tolist() == [5, 3]


def test_run_prints_json(models, tmp_path):
    x = npy(tmp_path, "x", np.ones((2, 4), np.float32))
    told = json.loads(ok("run", models / "dense.onnx", "--input", f"x={x}", "--json"))
    assert [output["name"] for output in told["outputs"]] == ["y", "s"]
    assert told["outputs"][0]["shape"] == [2, 3]


def test_run_agrees_with_onnx_runtime(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    models = os.environ.get("TENON_MODELS", "")
    listed = os.path.join(models, "magika.onnx")
    if not os.path.exists(listed):
        pytest.skip("TENON_MODELS has no magika.onnx")
    session = ort.InferenceSession(listed, providers=["CPUExecutionProvider"])
    info = session.get_inputs()[0]
    shape = [dim if isinstance(dim, int) else 1 for dim in info.shape]
    kind = {"tensor(int32)": np.int32, "tensor(int64)": np.int64, "tensor(float)": np.float32}[info.type]
    values = np.random.default_rng(0).integers(0, 256, shape).astype(kind)
    theirs = session.run(None, {info.name: values})
    ok("run", listed, "--input", f"{info.name}={npy(tmp_path, 'x', values)}", "--output-dir", tmp_path, "--threads", 1)
    for i, expected in enumerate(theirs):
        ours = np.load(tmp_path / f"{i}.npy")
        assert ours.dtype == expected.dtype and ours.shape == expected.shape
        assert np.abs(ours - expected).max() <= 1e-4 * np.abs(expected).max()


def test_random_inputs_are_the_same_each_time(models, tmp_path):
    for folder in ("a", "b"):
        ok("run", models / "dense.onnx", "--random", "--dim", "batch=3", "--output-dir", tmp_path / folder)
    a, b = (np.load(tmp_path / folder / "0.npy") for folder in "ab")
    np.testing.assert_array_equal(a, b)
    ok("run", models / "dense.onnx", "--random", "--dim", "batch=3", "--seed", 7, "--output-dir", tmp_path / "c")
    assert not np.array_equal(a, np.load(tmp_path / "c" / "0.npy"))


def test_an_inputs_name_may_hold_an_equals_sign(models, tmp_path):
    a = npy(tmp_path, "a", np.array([1, 2], np.float32))
    b = npy(tmp_path, "b", np.array([10, 20], np.float32))
    ok("run", models / "two.onnx", "--input", f"a=1={a}", "--input", f"b={b}", "--output-dir", tmp_path)
    assert np.load(tmp_path / "0.npy").tolist() == [11, 22]


def test_missing_and_unknown_inputs_are_named(models, tmp_path):
    b = npy(tmp_path, "b", np.zeros(2, np.float32))
    refused(INVALID, "no values: a=1 float32[2]. Give them with --input a=1=FILE.npy", "run", models / "two.onnx",
            "--input", f"b={b}")
    refused(NOT_FOUND, 'no input "c"', "run", models / "two.onnx", "--input", f"c={b}")
    refused(INVALID, "twice", "run", models / "two.onnx", "--input", f"b={b}", "--input", f"b={b}")
    refused(INVALID, "NAME=FILE.npy", "run", models / "two.onnx", "--input", "b")
    refused(NOT_FOUND, "none.npy", "run", models / "two.onnx", "--input", f"b={tmp_path}/none.npy")


def test_wrong_types_ranks_and_shapes_are_refused(models, tmp_path):
    for name, values in (("type", np.ones((2, 4), np.float64)), ("rank", np.ones((2, 4, 1), np.float32)),
                         ("shape", np.ones((2, 5), np.float32))):
        refused(INVALID, '"x"', "run", models / "dense.onnx", "--input", f"x={npy(tmp_path, name, values)}")


def test_open_dimensions_are_named(models):
    for command in (["run", "--random"], ["bench"], ["explain"]):
        refused(INVALID, '"x" float32[batch,4] is open: fix it with --dim batch=N', command[0], models / "dense.onnx", *command[1:])
    refused(INVALID, "x float32[batch,4]. Give them with --input x=FILE.npy, or random ones with --random --dim batch=N.",
            "run", models / "dense.onnx")
    refused(INVALID, "no whole number", "run", models / "dense.onnx", "--random", "--dim", "batch=many")
    refused(INVALID, "twice", "run", models / "dense.onnx", "--random", "--dim", "batch=1", "--dim", "batch=2")


def test_arrays_that_are_none_are_refused(models, tmp_path):
    garbage = tmp_path / "garbage.npy"
    garbage.write_bytes(b"\x93NUMPY\x01\x00\xff\xff{'descr'")
    refused(INVALID, "garbage.npy", "run", models / "two.onnx", "--input", f"b={garbage}")
    cut = npy(tmp_path, "cut", np.zeros(2, np.float32))
    cut.write_bytes(cut.read_bytes()[:-1])
    refused(INVALID, "cut.npy", "run", models / "two.onnx", "--input", f"b={cut}")
    fortran = npy(tmp_path, "fortran", np.asfortranarray(np.zeros((2, 3), np.float32)))
    refused(UNSUPPORTED, "Fortran", "run", models / "two.onnx", "--input", f"b={fortran}")
    text = npy(tmp_path, "text", np.array(["a", "b"]))
    refused(UNSUPPORTED, "<U1", "run", models / "two.onnx", "--input", f"b={text}")


@pytest.mark.parametrize("command", ["run", "bench", "explain", "inspect"])
def test_files_that_are_no_models_are_refused(models, command):
    for name in ("garbage.onnx", "empty.onnx"):
        done = tenon(command, models / name)
        assert done.returncode in (INVALID, UNSUPPORTED), done.stderr
        assert done.stderr.startswith("tenon: ") and done.stdout == ""
    refused(NOT_FOUND, "nothing.onnx", command, models / "nothing.onnx")


def test_an_unknown_operator_is_named_with_its_node(models):
    said = refused(UNSUPPORTED, "Frobnicate", "run", models / "unknown.onnx", "--random")
    assert "odd" in said


def test_a_folder_that_cannot_be_made_is_an_error(models, tmp_path):
    (tmp_path / "file").write_text("")
    refused(NOT_FOUND, "cannot be made", "run", models / "dense.onnx", "--random", "--dim", "batch=1", "--output-dir",
            tmp_path / "file" / "out")


def test_bench_tells_its_times(models):
    told = json.loads(ok("bench", models / "dense.onnx", "--dim", "batch=2", "--runs", 5, "--json"))
    assert told["runs"] == 5
    assert told["create_ms"] > 0 and told["first_ms"] > 0 and told["peak_mb"] > 1
    assert 0 < told["median_ms"] <= told["p90_ms"]
    assert "median" in ok("bench", models / "dense.onnx", "--dim", "batch=2", "--runs", 2)


def test_bench_shows_where_the_time_goes(models, tmp_path):
    told = json.loads(ok("bench", models / "dense.onnx", "--dim", "batch=64", "--runs", 30, "--threads", 1, "--json",
                         "--profile", tmp_path / "p.json"))
    profile = told["profile"]
    assert profile["runs"] == 20 and profile["peak_flops"] > 1e8 and profile["peak_bytes"] > 1e8
    for table in ("nodes", "operators", "kernels"):
        assert profile[table], table
        times = [row["time_ns"] for row in profile[table]]
        assert times == sorted(times, reverse=True) and times[0] > 0
        for row in profile[table]:
            assert row["calls"] > 0 and row["flops"] >= 0 and row["bytes"] > 0
            assert 0 <= row["part_of_peak_flops"] < 2
    # [64,4] times [4,3], and what follows it: the product alone makes 1,536 operations.
    assert sum(row["flops"] for row in profile["operators"]) >= 2 * 64 * 4 * 3
    events = json.loads((tmp_path / "p.json").read_text())
    assert len(events) == sum(row["calls"] for row in profile["nodes"])
    for event in events:
        assert event["ph"] == "X" and event["ts"] >= 0 and event["dur"] >= 0 and event["args"]["kernel"]
    text = ok("bench", models / "dense.onnx", "--dim", "batch=64", "--runs", 2, "--profile", tmp_path / "q.json")
    assert "GFLOP/s in registers" in text and "MatMul" in text


def test_inspect_tells_what_a_model_holds(models):
    told = json.loads(ok("inspect", models / "dense.onnx", "--json"))
    assert told["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]
    assert told["operators"] == {"MatMul": 1, "Relu": 1, "Shape": 1}
    assert told["opsets"] == {"ai.onnx": 17} and told["ir_version"] == 8 and told["nodes"] == 3
    text = ok("inspect", models / "dense.onnx")
    assert "opset 17" in text and "float32[batch,4]" in text


def test_devices_names_this_machines_cpu():
    told = json.loads(ok("devices", "--json"))
    assert len(told) >= 1
    cpu = next(device for device in told if device["type"] == "CPU")
    assert {"ep_name", "vendor", "type", "device_id", "memory"} <= cpu.keys()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    assert cpu["memory"] == pages
    known = re.search(r"vendor_id\s*:\s*(\S+)", open("/proc/cpuinfo").read())
    if known:
        assert cpu["vendor"] == {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}.get(known[1], known[1])


def test_env_lists_every_variable_with_what_counts(monkeypatch):
    monkeypatch.setenv("TENON_LOG", "error")
    told = {entry["name"]: entry for entry in json.loads(ok("env", "--json"))}
    assert told["TENON_LOG"]["value"] == "error" and told["TENON_LOG"]["default"] == "warning"
    assert all(entry["help"] for entry in told.values())
    assert "TENON_LOG=error (set)" in ok("env")


def refused_line(text, *arguments):
    return refused(INVALID, text, *arguments)


def test_strict_mode_refuses_a_copy_in_each_command(tmp_path):
    f32 = TensorProto.FLOAT
    model = save(tmp_path / "same.onnx", helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "same", [tensor("x", f32, [4])], [tensor("y", f32, [4])]))
    for command in (["run", model, "--random"], ["bench", model, "--runs", 1], ["explain", model]):
        ok(*command)
        assert '"y" would have to be copied' in refused_line("tenon.disallow_copies", *command, "--strict")
    fresh = save(tmp_path / "fresh.onnx", helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])], "fresh", [tensor("x", f32, [4])], [tensor("y", f32, [4])]))
    for command in (["run", fresh, "--random"], ["bench", fresh, "--runs", 1], ["explain", fresh]):
        ok(*command, "--strict")


def test_a_dimension_that_the_model_lacks_is_refused_with_what_is_close(models):
    for command in ("run", "bench", "explain"):
        fill = ["--random"] if command == "run" else []
        refused_line('did you mean "batch"?', command, models / "dense.onnx", *fill, "--dim", "batch=2", "--dim", "bath=2")


def test_a_scalar_input_takes_an_array_of_one_element(tmp_path):
    f32 = TensorProto.FLOAT
    model = save(tmp_path / "scalar.onnx", helper.make_graph(
        [helper.make_node("Mul", ["x", "s"], ["y"])], "scalar", [tensor("x", f32, ["n"]), tensor("s", f32, [])],
        [tensor("y", f32, ["n"])]))
    x = npy(tmp_path, "x", np.array([1, 2], np.float32))
    for shape in ((), (1,), (1, 1)):
        s = npy(tmp_path, "s", np.full(shape, 3, np.float32))
        ok("run", model, "--input", f"x={x}", "--input", f"s={s}", "--output-dir", tmp_path)
        assert np.load(tmp_path / "0.npy").tolist() == [3, 6]


def test_an_option_is_no_value_of_another(models, tmp_path):
    for arguments in (["explain", models / "deep.onnx", "--html", "--json"],
                      ["explain", models / "deep.onnx", "--html=", "--json"],
                      ["run", models / "deep.onnx", "--random", "--output-dir", "--json"],
                      ["run", models / "deep.onnx", "--input", "--random"],
                      ["run", models / "deep.onnx", "--ep", "--random"],
                      ["conformance", "--filter", "--json"], ["demo", "--png", "--json"]):
        done = subprocess.run([TENON, *map(str, arguments)], capture_output=True, text=True, timeout=120, cwd=tmp_path)
        assert done.returncode == INVALID and "is an option, and no value" in done.stderr, done.stderr
        assert done.stdout == "" and os.listdir(tmp_path) == []


def test_numbers_are_decimal_and_where_they_must_be_not_negative(models):
    model = models / "deep.onnx"
    for text in ("-1", "0x10", "1e3", "99999999999999999999", "", "seven"):
        refused_line("whole number", "run", model, "--random", "--seed", text)
    refused_line("not in range", "bench", model, "--runs", "5x")
    refused_line("whole number", "bench", model, "--runs", "010")  # it was taken for eight


def test_a_seed_without_random_values_is_refused(models, tmp_path):
    x = npy(tmp_path, "x", np.ones((2, 4), np.float32))
    refused_line("--random", "run", models / "deep.onnx", "--input", f"x={x}", "--seed", 3)
    refused_line("--break-even", "explain", models / "deep.onnx", "--measure")


def test_an_unknown_command_or_option_is_named_with_what_is_close(models):
    refused_line('There is no command "rnu"; did you mean "run"?', "rnu", models / "deep.onnx")
    refused_line('There is no command "dance"; the commands are run, bench', "dance")
    refused_line("No command is given; the commands are run, bench")
    refused_line('"tenon run" has no option --randm; did you mean "--random"?', "run", models / "deep.onnx", "--randm")
    refused_line('"tenon run" has no option --sead; did you mean "--seed"?', "run", models / "deep.onnx", "--sead=3")
    refused_line('no option --frobnicate; "tenon run --help"', "run", models / "deep.onnx", "--frobnicate")
    refused_line('does not expect "again"', "inspect", models / "deep.onnx", "again")


def test_options_of_eps_that_nobody_uses_are_refused(models):
    run = ["run", models / "deep.onnx", "--random"]
    cpu = ["--ep", "CPUExecutionProvider"]
    refused_line("needs an --ep", *run, "--ep-option", "fast=1")
    refused_line("has no options", *run, *cpu, "--ep-option", "fast=1")
    refused_line("which no --ep names", *run, *cpu, "--ep-option", "OtherExecutionProvider.fast=1")
    refused_line('did you mean "CPUExecutionProvider"?', *run, *cpu, "--ep-option", "CPUExecutionProvidr.fast=1")
    refused_line("--plugin is the CUDA EP's library", "demo", "--plugin", "libsome.so")


@pytest.mark.parametrize("name, value", [("TENON_CPU_ISA", "sse9"), ("TENON_LOG", "loud"), ("TENON_TRACE", "copies"),
                                         ("TENON_THREADS", "-1")])
def test_a_bad_environment_variable_is_refused(models, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    for command in (["run", models / "deep.onnx", "--random"], ["inspect", models / "deep.onnx"], ["devices"]):
        assert f'{name} is "{value}"' in refused_line("it takes" if name != "TENON_THREADS" else "whole number", *command)
    assert f"{name}={value} (set)" in tenon("env").stdout


def test_a_slip_in_the_name_of_a_variable_is_logged(models, monkeypatch):
    monkeypatch.setenv("TENON_THREDS", "2")
    monkeypatch.setenv("TENON_SOMETHING_ELSE", "2")
    done = tenon("inspect", models / "deep.onnx")
    assert done.returncode == 0 and done.stderr.count("\n") == 1
    assert "There is no environment variable TENON_THREDS; did you mean TENON_THREADS?" in done.stderr


def test_bad_command_lines_are_usage_errors():
    for arguments in ([], ["dance"], ["run"], ["bench", "x.onnx", "--runs", "0"], ["run", "x.onnx", "--threads", "-1"],
                      ["demo", "--frames", "0"], ["demo", "--buffers", "9"]):
        done = tenon(*arguments)
        assert done.returncode == INVALID, arguments
        assert done.stderr and done.stdout == ""
    assert "Exit codes" in ok("--help")
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", ok("--version"))


def test_the_help_and_the_reference_have_the_same_exit_codes():
    page = (pathlib.Path(__file__).parents[2] / "docs/reference/options.md").read_text()
    table = re.findall(r"^\| (\d+) \| (\w+) \| ([^:|]*\w)", page, re.M)
    assert table.pop(1) == ("1", "ok", "a value differs")  # of tenon compare, no status
    listed = re.findall(r"(\d+) ([^,.]+(?:, model or data)?)[,.]", re.sub(r"\s+", " ", ok("--help").split("Exit codes:")[1]))
    assert [(number, text) for number, _, text in table] == [(number, text.strip()) for number, text in listed if number != "1"]
    header = (pathlib.Path(__file__).parents[2] / "include/tenon/status.h").read_text()
    codes = re.findall(r"^  k(\w+)(?: = 0)?,", header, re.M)
    names = [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code).lower() for code in codes]
    assert [name for _, name, _ in table] == names
    assert [int(number) for number, _, _ in table] == [0, *range(2, 1 + len(codes))]


def test_output_that_cannot_be_written_is_an_error(models):
    for command in (["explain", models / "deep.onnx"], ["inspect", models / "deep.onnx", "--json"], ["--help"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([TENON, *map(str, command)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (6, "tenon: The output cannot be written to stdout: No space left on device.\n")


def test_times_below_a_millisecond_are_in_microseconds(models):
    assert re.search(r"^\d+\.\d (us), 0 bytes copied$", ok("run", models / "deep.onnx", "--random"), re.M)
    assert re.search(r"^median +\d+\.\d us  \(9 runs\)$", ok("bench", models / "deep.onnx", "--runs", 9), re.M)
    assert re.search(r"; \d+\.\d us$", ok("explain", models / "deep.onnx", "--runs", 9), re.M)

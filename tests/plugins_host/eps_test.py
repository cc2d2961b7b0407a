"""EP plugins through the C ABI: the same program with the same plugins, in ONNX Runtime and in Tenon.

TENON_LIBRARY, TENON_CLI, TENON_EPS_PROGRAM, TENON_OWN_PLUGIN and TENON_SIM_PLUGIN are set by CMake. The stock library is
the one of stock.py.
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

OURS = os.environ["TENON_LIBRARY"]
STOCK = str(stock.library())
HOSTS = {"stock": STOCK, "tenon": OURS}
OWN = ["plugin", "own=" + os.environ["TENON_OWN_PLUGIN"]]
SIM = ["plugin", "sim=" + os.environ["TENON_SIM_PLUGIN"]]
SIM_EP = "TenonSimExecutionProvider"


def drive(host, folder, *words, **variables):
    """What the program prints, line by line, with environment variables for OwnEp."""
    done = subprocess.run([os.environ["TENON_EPS_PROGRAM"], HOSTS[host], *map(str, words)], cwd=folder, text=True,
                          capture_output=True, timeout=120, env={**os.environ, **variables})
    assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
    drive.messages = done.stderr
    return done.stdout.splitlines()


def same_in_both(folder, *words, **variables):
    answers = {host: drive(host, folder, *words, **variables) for host in HOSTS}
    assert answers["tenon"] == answers["stock"]
    return answers["tenon"]


def floats(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save(folder, name, nodes, inputs, outputs, between=()):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("tenon.test", 1), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, value_info=between)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(folder / name))
    return name


node = helper.make_node


@pytest.fixture
def custom(tmp_path):
    """Relu, Twice, Sigmoid, Total; and Total of int64, an operator of the same name."""
    return save(tmp_path, "custom.onnx", [
        node("Relu", ["x"], ["a"], "relu"), node("Twice", ["a"], ["b"], "twice", domain="tenon.test", plus=0.25),
        node("Sigmoid", ["b"], ["c"], "sigmoid"), node("Total", ["c"], ["y"], "total", domain="tenon.test"),
        node("Total", ["i"], ["z"], "total64", domain="tenon.test")],
        [floats("x", ["n", 4]), floats("i", [5], TensorProto.INT64)],
        [floats("y", [1]), floats("z", [1], TensorProto.INT64)])


@pytest.fixture
def chain(tmp_path):
    """Relu, Sigmoid, Neg, Tanh, Neg: OwnEp can run Relu and Neg, the simulated device all of it."""
    types = ["Relu", "Sigmoid", "Neg", "Tanh", "Neg"]
    names = ["x", "a", "b", "c", "d", "y"]
    nodes = [node(kind, [names[i]], [names[i + 1]], f"{kind.lower()}{i}") for i, kind in enumerate(types)]
    return save(tmp_path, "chain.onnx", nodes, [floats("x", ["n", 4])], [floats("y", ["n", 4])])


# Issue 4: custom-op domains of a plugin. The EP compiles one operator; those that it leaves run by their own kernels.
@pytest.mark.parametrize("claim, owner", [("", "OwnEp"), ("Twice", "OwnEp"), ("Relu", "CPUExecutionProvider")])
def test_a_plugins_own_operators_run(tmp_path, custom, claim, owner):
    ep = "OwnEp" + (f",claim={claim}" if claim else "")
    lines = same_in_both(tmp_path, *OWN, "ep", ep, "session", custom, "nodes", "-", "run", "")
    assert f"Twice twice: {owner}" in lines and "Total total64: CPUExecutionProvider" in lines
    assert lines[-2:] == ["y [ 1 ] 8.5606", "z [ 1 ] 1"]


# Bodies run on the host, and so do the plugin's operators in them.
def test_a_plugins_own_operators_run_in_bodies(tmp_path):
    graph = helper.make_graph
    branch = [node("Twice", ["x"], ["t"], domain="tenon.test", plus=0.5)]
    other = [node("Neg", ["x"], ["n"]), node("Twice", ["n"], ["e"], domain="tenon.test", plus=1.0)]
    model = save(tmp_path, "branches.onnx", [
        node("ReduceSum", ["x"], ["s"], keepdims=0), node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
        node("If", ["c"], ["y"], then_branch=graph(branch, "then", [], [floats("t", ["n", 4])]),
             else_branch=graph(other, "else", [], [floats("e", ["n", 4])]))], [floats("x", ["n", 4])], [floats("y", ["n", 4])])
    lines = same_in_both(tmp_path, *OWN, "ep", "OwnEp,claim=Relu", "session", model, "run", "")
    assert lines[0] == "session made" and lines[1].startswith("y [ 3 4 ] ")


def test_without_the_ep_its_operators_are_not_known(tmp_path, custom):
    for host in HOSTS:
        assert drive(host, tmp_path, *OWN, "session", custom)[0].startswith("session: code")


# The operator says the shape: the model's output has it, though the file does not.
def test_an_operator_infers_its_shapes(tmp_path):
    model = save(tmp_path, "shape.onnx", [node("Twice", ["x"], ["y"], "twice", domain="tenon.test", plus=1.0)],
                 [floats("x", [2, 4])], [onnx.ValueInfoProto(name="y", type=onnx.TypeProto(
                     tensor_type=onnx.TypeProto.Tensor(elem_type=TensorProto.FLOAT)))])
    lines = same_in_both(tmp_path, *OWN, "ep", "OwnEp", "session", model, "run", "")
    assert lines[-1].startswith("y [ 2 4 ] ")


# A program that forbids the CPU EP as a fallback gets no session that needs it. Nodes that fold away need no EP.
def test_a_session_that_would_fall_back_is_refused(tmp_path, custom, chain):
    two = helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0])
    folded = save(tmp_path, "folded.onnx", [
        node("Constant", [], ["c"], "c", value=two), node("Sqrt", ["c"], ["s"], "s"), node("Sqrt", ["s"], ["unused"], "u"),
        node("Relu", ["x"], ["y"], "r")], [floats("x", ["n", 4])], [floats("y", ["n", 4])])
    forbid = ["config", "session.disable_cpu_ep_fallback=1"]
    for eps, model, answer in [(["OwnEp"], chain, "code 1"), ([SIM_EP], chain, "made"), (["OwnEp", SIM_EP], chain, "made"),
                               (["OwnEp"], custom, "code 1"), (["OwnEp,claim=Relu"], folded, "made"), ([], chain, "code 1"),
                               (["CPUExecutionProvider"], chain, "code 2"),
                               ([SIM_EP, "CPUExecutionProvider"], chain, "code 2")]:
        words = [word for ep in eps for word in ("ep", ep)]
        for allowed in (False, True):
            lines = same_in_both(tmp_path, *OWN, *SIM, *([] if allowed else forbid), *words, "session", model)
            said = "session made" if allowed or answer == "made" else f"session: {answer}"
            assert lines == [said], (eps, model, allowed)


# SetEpDynamicOptions reaches OrtEp::SetDynamicOptions; run options reach OnRunStart.
def test_options_reach_the_ep_while_the_session_lives(tmp_path, custom):
    lines = same_in_both(tmp_path, *OWN, "ep", "OwnEp", "session", custom, "run", "", "dynamic", "own.factor=2", "run", "",
                         "run", "own.shift=1", "run", "", "dynamic", "nope=1", "run", "")
    results = [line for line in lines if line.startswith("y ")]
    assert results[1] == results[3] == results[4] != results[0] and results[2] not in (results[0], results[1])
    assert "dynamic: code 11" in lines  # the plugin's own code, ORT_EP_FAIL


@pytest.mark.parametrize("host", HOSTS)
def test_a_profile_has_the_eps_events(tmp_path, custom, host):
    lines = drive(host, tmp_path, *OWN, "profile", "profile", "ep", "OwnEp", "session", custom, "run", "", "end", "-")
    events = json.loads((tmp_path / lines[-1].removeprefix("profile ")).read_text())
    own = [event for event in events if event["name"] == "OwnEp.compute"]
    nodes = [event for event in events if event["args"].get("provider") == "OwnEp"]
    assert len(own) == len(nodes) == 2
    for event, of in zip(own, nodes):
        assert event["cat"] == "Kernel" and event["args"]["text"] == 'a "quoted" \\ text' and event["pid"] == 1
        assert of["cat"] == "Node" and of["name"].endswith("_kernel_time")
        assert of["ts"] - 1000 <= event["ts"] <= of["ts"] + of["dur"] + 1000  # microseconds of one clock


def node_events(folder, lines):
    events = json.loads((folder / lines[-1].removeprefix("profile ")).read_text())
    assert [event["name"] for event in events if event["cat"] == "Session"].count("model_run") == 2
    told = ("op_name", "provider", "input_type_shape", "output_type_shape", "parameter_size", "activation_size", "output_size")
    found = []
    for event in events:
        if event["cat"] != "Node":
            continue
        assert event["ph"] == "X" and event["dur"] >= 0 and int(event["args"]["node_index"]) >= 0
        found.append((event["name"], *[event["args"][key] for key in told]))
    return found


# A profile has an event for each run of each node: names, operators, providers, types, shapes and sizes as stock's.
def test_a_profile_has_an_event_for_each_node_run(tmp_path):
    body = helper.make_graph([node("Identity", ["k"], ["ko"], "keep"), node("Cos", ["v"], ["vo"], "cos_in_loop")], "body",
                             [floats("i", [], TensorProto.INT64), floats("k", [], TensorProto.BOOL), floats("v", ["n", 4])],
                             [floats("ko", [], TensorProto.BOOL), floats("vo", ["n", 4])])
    graph = helper.make_graph(
        [node("Exp", ["x"], ["a"], "exp"), node("Max", ["a", "w"], ["b"], "max"), node("Sin", ["b"], ["c"], "sin"),
         node("Loop", ["three", "", "c"], ["y"], "loop", body=body), node("NonZero", ["y"], ["where"], "nonzero"),
         node("Twice", ["y"], ["twice"], "twice", domain="tenon.test", plus=1.0)], "graph", [floats("x", ["n", 4])],
        [floats("y", ["n", 4]), floats("where", [2, None], TensorProto.INT64), floats("twice", ["n", 4])],
        [onnx.numpy_helper.from_array(numpy.full(4, 0.5, numpy.float32), "w"),
         onnx.numpy_helper.from_array(numpy.array(3, numpy.int64), "three")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("tenon.test", 1)],
                                ir_version=9), str(tmp_path / "profiled.onnx"))
    words = [*OWN, "profile", "profile", "ep", "OwnEp,claim=Relu", "session", "profiled.onnx", "run", "", "run", "", "end", "-"]
    told = {host: node_events(tmp_path, drive(host, tmp_path, *words)) for host in HOSTS}
    names = [event[0] for event in told["tenon"]]
    assert set(names) == {f"{name}_kernel_time"
                          for name in ("exp", "max", "sin", "loop", "cos_in_loop", "nonzero", "twice")}
    assert names.count("cos_in_loop_kernel_time") == 6 and names.count("twice_kernel_time") == 2

    # Our plans have no step for what only hands a value through.
    def compared(events):
        return sorted(event for event in map(json.dumps, events) if "keep_kernel_time" not in event)

    assert compared(told["tenon"]) == compared(told["stock"])


def test_a_fused_nodes_event_lists_the_models_nodes(tmp_path):
    """Somebody who knows the model looks for its names, not for Tenon's."""
    weights = {"w": numpy.ones((4, 4, 3, 3)), "s": numpy.ones(4), "b": numpy.zeros(4), "m": numpy.zeros(4), "v": numpy.ones(4),
               "k": numpy.ones((4, 8))}
    graph = helper.make_graph(
        [node("Conv", ["x", "w"], ["a"], "conv", pads=[1, 1, 1, 1]),
         node("BatchNormalization", ["a", "s", "b", "m", "v"], ["c"], "norm"), node("Add", ["c", "x"], ["d"], "skip"),
         node("Relu", ["d"], ["e"], "relu"), node("GlobalAveragePool", ["e"], ["f"], "pool"),
         node("Flatten", ["f"], ["g"], "flat"), helper.make_node("MatMul", ["g", "k"], ["h"]), node("Tanh", ["h"], ["y"], "tanh")],
        "graph", [floats("x", [1, 4, 6, 6])], [floats("y", [1, 8])],
        [onnx.numpy_helper.from_array(value.astype(numpy.float32), name) for name, value in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(tmp_path / "fused.onnx"))
    lines = drive("tenon", tmp_path, "profile", "profile", "session", "fused.onnx", "run", "", "end", "-")
    events = json.loads((tmp_path / lines[-1].removeprefix("profile ")).read_text())
    nodes = [event for event in events if event["cat"] == "Node"]
    listed = [event["args"].get("model_nodes", [event["name"].removesuffix("_kernel_time")]) for event in nodes]
    assert ["conv", "norm", "skip", "relu"] in listed, listed
    assert ['MatMul (output "h")', "tanh"] in listed, listed
    assert ["pool"] in listed, listed
    # Each names kernel, step and stream too, and the session's other work has spans.
    assert [event["args"]["step"] for event in nodes] == list(range(len(nodes)))
    assert all(event["args"]["kernel"] and event["args"]["stream"] == 0 for event in nodes)
    assert len({event["args"]["session"] for event in nodes}) == 1
    spans = {event["name"]: event for event in events if event["cat"] == "Session"}
    assert {"load: read", "pass: convolutions", "plan: plan", "plan: memory", "run: run"} <= set(spans)
    assert spans["pass: convolutions"]["args"]["changed"] is True
    whole, plan, run = spans["session_initialization"], spans["plan: plan"], spans["run: run"]
    assert whole["ts"] <= spans["load: prepare"]["ts"] and run["ts"] <= plan["ts"] <= nodes[0]["ts"] + 1
    assert any(name.startswith("pack: ") and event["args"]["node"] for name, event in spans.items())


@pytest.mark.parametrize("host", HOSTS)
def test_an_ep_may_have_no_profiler(tmp_path, custom, host):
    lines = drive(host, tmp_path, *OWN, "profile", "profile", "ep", "OwnEp,profiler=0", "session", custom, "run", "", "end",
                  "-")
    events = json.loads((tmp_path / lines[-1].removeprefix("profile ")).read_text())
    assert not [event for event in events if event["name"] == "OwnEp.compute"]
    assert "model_run" in [event["name"] for event in events]


# API 32: a failing CreateEp's own code reaches CreateSession; up to 1.31 it was always 1.
@pytest.mark.parametrize("code", range(1, 17))
def test_the_code_of_a_failing_create_ep_reaches_the_program(tmp_path, custom, code):
    lines = same_in_both(tmp_path, *OWN, "ep", "OwnEp", "session", custom, OWN_FAIL=str(code))
    assert lines == [f"session: code {code}"]
    assert "OwnEp fails on demand" in drive.messages


# API 32: EpDevice_GetMemoryCapacity. The factory's answer or code as it is; nothing below version 32, and for the CPU EP.
@pytest.mark.parametrize("ep", ["OwnEp", "CPUExecutionProvider"])
@pytest.mark.parametrize("version", ["31", "32", "33"])
def test_the_capacity_of_a_devices_memory(tmp_path, ep, version):
    lines = same_in_both(tmp_path, *OWN, "capacity", ep, OWN_CAPACITY=version)
    if ep == "OwnEp" and version != "31":
        assert lines[4:] == ["default: 1000 2000", "first: 1000 6", "second: 5 2005", "unknown: code 8", "unknown: 5 6",
                             "negative: 999 1999"]
    else:
        assert lines[4:6] == ["default: code 9", "default: 5 6"]


# API 32: config entries that are checked in every session.
@pytest.mark.parametrize("key, good, bad", [
    ("ep.enable_weightless_mode", ["0"], ["3", "", "01", "true"]),
    ("session.external_data_loader.threads", ["0", "01", "64"], ["65", "-1", "", " 1", "1 ", "+1"]),
    ("session.external_data_loader.chunk_bytes", ["4096", "67108864"], ["0", "4097", "67112960"]),
    ("session.external_data_loader.pinned_memory_bytes", ["1048576", "1073741824"], ["1048575", "1052672", "1073750016"]),
    ("session.external_data_loader.min_size_bytes", ["0", "4294967296"], ["-1", "4294967297", "18446744073709551616"]),
    ("session.external_data_loader.other", ["anything"], [])])
def test_bad_values_of_config_entries_are_refused(tmp_path, chain, key, good, bad):
    words = [word for value in good + bad for word in ("config", f"{key}={value}", "session", chain)]
    assert same_in_both(tmp_path, *words) == ["session made"] * len(good) + ["session: code 2"] * len(bad)


def test_the_weightless_mode_of_a_compilation(tmp_path):
    words = [word for mode in (0, 1, 2, 3, -1) for word in ("weightless", mode)]
    lines = same_in_both(tmp_path, *words)
    assert lines == ["mode set"] * 3 + ["mode: code 2"] * 2


# API 32: the device's metadata decides before CreateEp, the EP's own word after it; failures are EP_FAIL.
@pytest.mark.parametrize("support", [None, "0", "1", "2", "3", "fail"])
@pytest.mark.parametrize("metadata", ["", "weightless_support=all", "weightless_support=external_only",
                                      "weightless_supported_modes=all_or_external_only", "weightless_support=none",
                                      "weightless_support=ALL"])
def test_weightless_modes_are_served_or_refused(tmp_path, custom, metadata, support):
    variables = {"OWN_METADATA": metadata, **({"OWN_WEIGHTLESS": support} if support else {})}
    words = [word for mode in "012" for word in
             ("config", f"ep.enable_weightless_mode={mode}", "ep", "OwnEp", "session", custom)]
    lines = same_in_both(tmp_path, *OWN, *words, "ep", "OwnEp", "session", custom, **variables)
    assert lines[0] == 'OwnEp sees mode "0", switch "0"' and lines[-1] == "session made"


# OrtEp's graph capture: the second run is captured (the host makes it at once), later ones are replays.
def negations(folder):
    return save(folder, "negations.onnx", [node("Relu", ["x"], ["a"], "relu"), node("Neg", ["a"], ["y"], "neg")],
                [floats("x", [3, 4])], [floats("y", [3, 4])])


def test_a_captured_graph_is_replayed(tmp_path):
    plain = same_in_both(tmp_path, *OWN, "ep", "OwnEp", "session", negations(tmp_path), "again", "")
    lines = same_in_both(tmp_path, *OWN, "ep", "OwnEp,capture=1", "session", negations(tmp_path), "again", "")
    assert lines[1:-1] == plain[1:] and len(set(lines[1:5])) == 4
    assert lines[-1] == "OwnEp replayed 3"


def test_a_run_may_say_that_it_captures_nothing(tmp_path):
    lines = same_in_both(tmp_path, *OWN, "ep", "OwnEp,capture=1", "session", negations(tmp_path), "again", "gpu_graph_id=-1")
    assert lines[-1] == "OwnEp replayed 0" and len(set(lines[1:5])) == 4


def test_a_graph_can_be_given_up(tmp_path):
    lines = same_in_both(tmp_path, *OWN, "ep", "OwnEp,capture=1", "session", negations(tmp_path), "again", "", "release", 0,
                         "again", "")
    assert lines[1:5] == lines[5:9] and lines[-1] == "OwnEp replayed 6"
    assert same_in_both(tmp_path, *OWN, "ep", "OwnEp", "session", negations(tmp_path), "release", 5) == ["session made"]


def test_each_graph_number_has_its_own_graph(tmp_path):
    words = [word for graph in (7, 8, 7) for word in ("again", f"gpu_graph_id={graph}")]
    lines = drive("tenon", tmp_path, *OWN, "ep", "OwnEp,capture=1", "session", negations(tmp_path), *words)
    assert lines[1:5] == lines[5:9] == lines[9:13]


# ONNX Runtime replays what it has, whatever memory the run gives it; Tenon gives the graph up and captures another.
def test_a_run_with_other_memory_is_right_too(tmp_path):
    plain = drive("tenon", tmp_path, *OWN, "ep", "OwnEp", "session", negations(tmp_path), "again", "new")
    lines = drive("tenon", tmp_path, *OWN, "ep", "OwnEp,capture=1", "session", negations(tmp_path), "again", "new")
    assert lines[1:-1] == plain[1:]
    assert lines[-1] == "OwnEp replayed 2"


def test_capturing_needs_the_whole_model(tmp_path, chain):
    for host in HOSTS:
        lines = drive(host, tmp_path, *OWN, "ep", "OwnEp,capture=1", "session", chain)
        assert [line for line in lines if line.startswith("session")] == [lines[-1]] and "code" in lines[-1]


# Issue 4: several EPs in order of preference.
ORDERS = {
    "own": (["OwnEp"], {"relu0": "OwnEp", "sigmoid1": "CPU", "neg2": "OwnEp", "tanh3": "CPU", "neg4": "OwnEp"}),
    "sim": ([SIM_EP + ",exclude=Neg"],
            {"relu0": SIM_EP, "sigmoid1": SIM_EP, "neg2": "CPU", "tanh3": SIM_EP, "neg4": "CPU"}),
    "own_sim": (["OwnEp", SIM_EP],
                {"relu0": "OwnEp", "sigmoid1": SIM_EP, "neg2": "OwnEp", "tanh3": SIM_EP, "neg4": "OwnEp"}),
    "sim_own": ([SIM_EP, "OwnEp"], dict.fromkeys(["relu0", "sigmoid1", "neg2", "tanh3", "neg4"], SIM_EP)),
    "sim_own_exclude": ([SIM_EP + ",exclude=Neg", "OwnEp"],
                        {"relu0": SIM_EP, "sigmoid1": SIM_EP, "neg2": "OwnEp", "tanh3": SIM_EP, "neg4": "OwnEp"}),
    "own_sim_mixed": (["OwnEp,claim=Neg", SIM_EP + ",exclude=Tanh"],
                      {"relu0": SIM_EP, "sigmoid1": SIM_EP, "neg2": "OwnEp", "tanh3": "CPU", "neg4": "OwnEp"}),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mode", ["compile", "kernels"])
def test_the_order_of_eps_decides_who_runs_a_node(tmp_path, chain, order, mode):
    eps, owners = ORDERS[order]
    words = [word for ep in eps for word in ("ep", ep + f",mode={mode}" * ep.startswith(SIM_EP))]
    lines = same_in_both(tmp_path, *OWN, *SIM, *words, "session", chain, "nodes", "-", "run", "")
    found = dict(re.fullmatch(r"\S+ (\S+): (\S+)", line).groups() for line in lines[1:6])
    assert found == {name: "CPUExecutionProvider" if ep == "CPU" else ep for name, ep in owners.items()}
    assert lines[-1] == same_in_both(tmp_path, "session", chain, "run", "")[-1], "the CPU EP alone gives the same"


def test_the_command_line_refuses_a_plugin_of_which_no_ep_is_named(chain):
    run = [os.environ["TENON_CLI"], "run", chain, "--random", "--dim", "n=3"]
    both = ["--plugin", OWN[1], "--plugin", SIM[1]]
    for arguments, unused in ((["--plugin", OWN[1]], OWN[1]), ([*both, "--ep", "OwnEp"], SIM[1]),
                              ([*both, "--ep", "CPUExecutionProvider"], OWN[1])):
        done = subprocess.run([*run, *arguments], text=True, capture_output=True, timeout=120)
        assert done.returncode == 2, done
        assert f'--plugin "{unused}" loads EPs, and no --ep names one of them' in done.stderr, done.stderr
        assert "--ep takes " in done.stderr


# The same through the command line, which is our C++ API.
@pytest.mark.parametrize("order", ["own_sim", "sim_own_exclude", "own_sim_mixed"])
def test_the_command_line_takes_eps_in_order(tmp_path, chain, order):
    eps, owners = ORDERS[order]
    words = ["--ep", ",".join(ep.split(",")[0] for ep in eps)]
    for ep in eps:
        name, *pairs = ep.split(",")
        words += [word for pair in pairs for word in ("--ep-option", f"{name}.{pair}")]
    plugins = ["--plugin", OWN[1], "--plugin", SIM[1]]
    done = subprocess.run([os.environ["TENON_CLI"], "run", chain, "--random", "--seed", "3", "--dim", "n=3", *plugins,
                           *words, "--output-dir", "out"], cwd=tmp_path, text=True, capture_output=True, timeout=120,
                          env={**os.environ, "TENON_TRACE": "dispatch"})
    assert done.returncode == 0, done.stderr
    for name in {"OwnEp", SIM_EP}:
        count = int(re.search(f'The EP "{name}" runs (\\d+) regions', done.stderr).group(1))
        mine = [owner for owner in owners.values() if owner == name]
        assert 1 <= count <= len(mine)  # neighbours may be one region
    subprocess.run([os.environ["TENON_CLI"], "run", chain, "--random", "--seed", "3", "--dim", "n=3", "--output-dir",
                    "cpu"], cwd=tmp_path, check=True, timeout=120)
    numpy.testing.assert_allclose(numpy.load(tmp_path / "out/0.npy"), numpy.load(tmp_path / "cpu/0.npy"), rtol=1e-6)


# Issue 4, EPContext. OwnEp reads the data of its nodes through the program's function (API 31).
def own_context(folder, **changes):
    attributes = {"source": "OwnEp", "embed_mode": 0, "main_context": 1, "ep_cache_context": "program.bin",
                  "partition_name": "p", **changes}
    return save(folder, "context.onnx", [node("EPContext", ["x"], ["y"], "context", domain="com.microsoft", **attributes)],
                [floats("x", ["n", 4])], [floats("y", ["n", 4])])


def test_context_data_comes_from_the_programs_function(tmp_path):
    model = own_context(tmp_path)
    neg = same_in_both(tmp_path, *OWN, "read", "program.bin=Neg", "ep", "OwnEp", "session", model, "run", "")
    relu = same_in_both(tmp_path, *OWN, "read", "program.bin=Relu", "ep", "OwnEp", "session", model, "run", "")
    assert neg[-1].startswith("y [ 3 4 ] 2.5000 -1.0000") and relu[-1].startswith("y [ 3 4 ] 0.0000 1.0000")


@pytest.mark.parametrize("read", [[], ["read", "other.bin=Neg"], ["read", "program.bin=garbage"]])
def test_context_data_that_is_not_there_or_is_no_program_is_a_status(tmp_path, read):
    model = own_context(tmp_path)
    for host in HOSTS:
        lines = drive(host, tmp_path, *OWN, *read, "ep", "OwnEp", "session", model)
        assert lines[0].startswith("session: code")


def test_a_context_of_another_ep_is_not_taken(tmp_path):
    model = own_context(tmp_path, source="SomebodyElse")
    for host in HOSTS:
        lines = drive(host, tmp_path, *OWN, "read", "program.bin=Neg", "ep", "OwnEp", "session", model)
        assert lines[0].startswith("session: code")


def sim_context(embed, folder, name="made.onnx"):
    return ["config", "ep.context_enable=1", "config", f"ep.context_embed_mode={embed}", "config",
            f"ep.context_file_path={folder / name}"]


def contexts_in(path):
    return [one for one in onnx.load(str(path)).graph.node if one.op_type == "EPContext"]


@pytest.mark.parametrize("embed", [0, 1])
@pytest.mark.parametrize("host", HOSTS)
def test_a_compiled_model_is_written_and_loads_again(tmp_path, chain, host, embed):
    eps = ["ep", f"{SIM_EP},exclude=Tanh"]
    wanted = drive(host, tmp_path, *SIM, *eps, *sim_context(embed, tmp_path), "session", chain, "run", "")[-1]
    made = contexts_in(tmp_path / "made.onnx")
    sources = [a.s.decode() for one in made for a in one.attribute if a.name == "source"]
    assert sources == [SIM_EP, SIM_EP], "one before Tanh, which the EP leaves, and one after it"
    assert len(list(tmp_path.glob("*.bin"))) == (0 if embed else 2)
    # What one host has written, both load.
    for other in HOSTS:
        lines = drive(other, tmp_path, *SIM, *eps, "session", "made.onnx", "nodes", "-", "run", "")
        assert lines[-1] == wanted and any(line.startswith("EPContext") and SIM_EP in line for line in lines)


@pytest.mark.parametrize("host", HOSTS)
def test_weights_of_a_compiled_model_go_into_the_file_that_is_named(tmp_path, host):
    """The EP leaves Add, so that its weight stays an initializer."""
    weight = numpy.arange(4096, dtype=numpy.float32).reshape(1024, 4)
    nodes = [node("Neg", ["x"], ["a"], "neg"), node("Add", ["a", "w"], ["b"], "add"), node("Relu", ["b"], ["y"], "relu")]
    graph = helper.make_graph(nodes, "graph", [floats("x", [1, 4])], [floats("y", [1024, 4])],
                              [onnx.numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(tmp_path / "weighed.onnx"))
    eps = ["ep", f"{SIM_EP},exclude=Add"]
    wanted = drive(host, tmp_path, *SIM, *eps, *sim_context(1, tmp_path), "config",
                   "ep.context_model_external_initializers_file_name=weights.bin", "session", "weighed.onnx", "run", "")[-1]
    made = onnx.load(str(tmp_path / "made.onnx"), load_external_data=False)
    initializer, = made.graph.initializer
    assert {entry.key: entry.value for entry in initializer.external_data}["location"] == "weights.bin"
    assert weight.tobytes() in (tmp_path / "weights.bin").read_bytes() and len(contexts_in(tmp_path / "made.onnx")) == 2
    for other in HOSTS:
        assert drive(other, tmp_path, *SIM, *eps, "session", "made.onnx", "run", "")[-1] == wanted


def test_a_context_model_that_is_there_is_not_overwritten(tmp_path, chain):
    (tmp_path / "made.onnx").write_text("something")
    for host in HOSTS:
        lines = drive(host, tmp_path, *SIM, "ep", SIM_EP, *sim_context(1, tmp_path), "session", chain)
        assert lines[0].startswith("session: code") and (tmp_path / "made.onnx").read_text() == "something"


def test_a_context_needs_its_own_ep(tmp_path, chain):
    """No EP, or another one, cannot run the node."""
    drive("tenon", tmp_path, *SIM, "ep", SIM_EP, *sim_context(1, tmp_path), "session", chain)
    for words in ([], [*OWN, "ep", "OwnEp"]):
        for host in HOSTS:
            assert drive(host, tmp_path, *words, "session", "made.onnx")[0].startswith("session: code")


def test_a_missing_or_broken_program_is_a_status(tmp_path, chain):
    drive("tenon", tmp_path, *SIM, "ep", SIM_EP, *sim_context(0, tmp_path), "session", chain)
    programs = list(tmp_path.glob("*.bin"))
    assert programs
    again = [*SIM, "ep", SIM_EP, "session", "made.onnx", "run", ""]
    assert drive("tenon", tmp_path, *again)[0] == "session made"
    content = programs[0].read_bytes()
    for broken in (b"", content[:-1], content[: len(content) // 2], b"\xff" * len(content), content + b"x"):
        programs[0].write_bytes(broken)
        for host in HOSTS:
            assert drive(host, tmp_path, *again)[0].startswith("session: code"), broken[:20]
    programs[0].unlink()
    for host in HOSTS:
        assert drive(host, tmp_path, *again)[0].startswith("session: code")
        if host == "tenon":
            assert programs[0].name in drive.messages


def test_a_compiled_program_may_not_leave_the_models_folder(tmp_path, chain):
    drive("tenon", tmp_path, *SIM, "ep", SIM_EP, *sim_context(0, tmp_path), "session", chain)
    inner = tmp_path / "inner"
    inner.mkdir()
    model = onnx.load(str(tmp_path / "made.onnx"))
    for one in model.graph.node:
        for attribute in one.attribute:
            if attribute.name == "ep_cache_context":
                attribute.s = b"../" + attribute.s
    onnx.save(model, str(inner / "made.onnx"))
    assert drive("tenon", inner, *SIM, "ep", SIM_EP, "session", "made.onnx")[0].startswith("session: code")


def test_several_eps_each_have_their_contexts(tmp_path):
    """A node of OwnEp and one of the simulated device in one model."""
    first = save(tmp_path, "plain.onnx", [node("Sigmoid", ["a"], ["y"], "sigmoid")], [floats("a", ["n", 4])],
                 [floats("y", ["n", 4])])
    drive("tenon", tmp_path, *SIM, "ep", SIM_EP, *sim_context(1, tmp_path), "session", first)
    theirs = contexts_in(tmp_path / "made.onnx")[0]
    own = node("EPContext", ["x"], ["a"], "own", domain="com.microsoft", source="OwnEp", embed_mode=0,
               main_context=1, ep_cache_context="program.bin", partition_name="p")
    both = save(tmp_path, "both.onnx", [own, theirs], [floats("x", ["n", 4])], [floats("y", ["n", 4])],
                [floats("a", ["n", 4])])
    plain = save(tmp_path, "wanted.onnx", [node("Neg", ["x"], ["a"]), node("Sigmoid", ["a"], ["y"])],
                 [floats("x", ["n", 4])], [floats("y", ["n", 4])])
    wanted = drive("tenon", tmp_path, "session", plain, "run", "")[-1]
    for order in (["ep", "OwnEp", "ep", SIM_EP], ["ep", SIM_EP, "ep", "OwnEp"]):
        lines = same_in_both(tmp_path, *OWN, *SIM, "read", "program.bin=Neg", *order, "session", both, "nodes", "-", "run", "")
        assert lines[-1] == wanted
        assert sorted(line.split(": ")[1] for line in lines[1:3]) == ["OwnEp", SIM_EP]


# One model with the contexts of both.
@pytest.mark.parametrize("host", HOSTS)
def test_several_eps_write_their_contexts_into_one_model(tmp_path, chain, host):
    eps = ["ep", f"{SIM_EP},exclude=Neg", "ep", "OwnEp"]
    wanted = drive(host, tmp_path, *OWN, *SIM, *eps, *sim_context(1, tmp_path), "session", chain, "run", "")[-1]
    sources = [a.s.decode() for one in contexts_in(tmp_path / "made.onnx") for a in one.attribute if a.name == "source"]
    assert sorted(sources) == ["OwnEp", "OwnEp", SIM_EP, SIM_EP]
    for other in HOSTS:
        lines = drive(other, tmp_path, *OWN, *SIM, *eps, "session", "made.onnx", "nodes", "-", "run", "")
        assert lines[-1] == wanted
        assert sorted(line.split(": ")[1] for line in lines[1:5]) == sorted(sources)


# What the EP says of its compiled parts travels with the model, and it is asked about it when the model is loaded.
@pytest.mark.parametrize("host", HOSTS)
def test_a_compiled_model_of_another_version_is_refused(tmp_path, chain, host):
    drive(host, tmp_path, *SIM, "ep", SIM_EP, *sim_context(1, tmp_path), "session", chain)
    model = onnx.load(str(tmp_path / "made.onnx"))
    said = {entry.key: entry for entry in model.metadata_props}[f"ep_compatibility_info.{SIM_EP}"]
    assert said.value
    said.value = "tenon-sim;program=999"
    onnx.save(model, str(tmp_path / "other.onnx"))
    for other in HOSTS:
        assert drive(other, tmp_path, *SIM, "ep", SIM_EP, "session", "made.onnx")[0] == "session made"
        assert drive(other, tmp_path, *SIM, "ep", SIM_EP, "session", "other.onnx")[0].startswith("session: code")


# Of a package's variants: the EP that is selected, by name, device, the EP's own answer, and the order.
VARIANTS = {
    "cpu": {"ep": "CPUExecutionProvider"},
    "sim_cpu": {"ep": SIM_EP, "device": "cpu"},
    "sim_other": {"ep": SIM_EP, "compatibility_string": "of another library"},
    "sim_gpu": {"ep": SIM_EP, "device": "gpu"},
    "sim_any": {"ep": SIM_EP},
    "sim_npu": {"ep": SIM_EP, "device": "npu"},
    "own": {"ep": "OwnEp"},
}


def package(folder, model, variants, provider_options=None):
    (folder / "pack").mkdir()
    (folder / model).rename(folder / "pack" / model)
    ort = {"model_file": model, "session_options": {"session.record_ep_graph_assignment_info": "1"}}
    if provider_options is not None:
        ort["provider_options"] = provider_options
    bodies = {name: {**VARIANTS[name], "variant_directory": ".", "executor_info": {"ort": ort}} for name in variants}
    (folder / "pack" / "manifest.json").write_text(json.dumps({"schema_version": "1.0", "components": {"c": {"variants": bodies}}}))
    return "pack,c"


@pytest.mark.parametrize("ep, variants, selected", [
    ([], ["sim_any", "cpu"], "cpu"), ([SIM_EP], ["cpu", "sim_any"], "sim_any"), ([SIM_EP], ["cpu", "own"], None),
    ([SIM_EP], ["sim_cpu", "sim_gpu", "sim_npu"], ...), ([SIM_EP], ["sim_other", "sim_any"], ...),
    ([SIM_EP, "CPUExecutionProvider"], ["cpu", "sim_any"], "sim_any"), (["OwnEp"], ["own", "cpu"], "own"),
], ids=str)
def test_a_variant_is_selected_for_the_first_ep(tmp_path, chain, ep, variants, selected):
    words = [word for name in ep for word in ("ep", name)]
    lines = same_in_both(tmp_path, *OWN, *SIM, *words, "package", package(tmp_path, chain, variants), "end")
    if selected is not ...:
        assert lines[0] == (f"variant {selected}" if selected else "select: code 1")


@pytest.mark.parametrize("command", ["package", "own_package"])
def test_a_packages_session_runs_on_the_selected_ep(tmp_path, chain, command):
    where = package(tmp_path, chain, ["cpu", "sim_any"], {"exclude": "Neg"})
    lines = same_in_both(tmp_path, *SIM, "ep", SIM_EP, command, where, "nodes", "run")
    assert lines[:2] == ["variant sim_any", "session made"]
    # The package's options for the EP count where the program has none.
    neg = [line for line in lines if "neg2" in line]
    assert len(neg) == 1 and ("CPUExecutionProvider" in neg[0]) == (command == "package")


# Issue 18, the compile API, with EPs that compile.
def compiled(folder, host, *words, out="out.onnx", options="", **variables):
    lines = drive(host, folder, *words, "compile", f"chain.onnx={out}{options}", **variables)
    assert lines[-1] == "compiled", drive.messages
    return lines


def properties(path):
    return {entry.key: entry.value for entry in onnx.load(str(path), load_external_data=False).metadata_props}


@pytest.mark.parametrize("host", HOSTS)
def test_the_compile_api_makes_models_that_both_hosts_run(tmp_path, chain, host):
    wanted = drive(host, tmp_path, "session", chain, "run", "")[-1]
    for name, eps in (("own", [*OWN, "ep", "OwnEp"]), ("sim", [*SIM, "ep", f"{SIM_EP},exclude=Tanh"])):
        compiled(tmp_path, host, *eps, out=f"{name}.onnx", options=",embed=1")
        assert contexts_in(tmp_path / f"{name}.onnx")
        for other in HOSTS:
            lines = drive(other, tmp_path, *eps, "session", f"{name}.onnx", "run", "")
            assert lines[-1] == wanted, (name, other)


def test_compiled_models_say_the_same_of_themselves(tmp_path, chain):
    """Nodes, compatibility and what has to be shipped beside the model."""
    for options in (",embed=1", ",data=0", ",embed=1,external=w.bin"):
        found = []
        for host in HOSTS:
            compiled(tmp_path, host, *OWN, "ep", "OwnEp", options=options, OWN_CONTEXT="1")
            model = onnx.load(str(tmp_path / "out.onnx"), load_external_data=False)
            found.append(([(node.op_type, list(node.input), list(node.output)) for node in model.graph.node],
                          properties(tmp_path / "out.onnx")))
        assert found[0] == found[1]
        assert found[1][1]["ep_compatibility_info.OwnEp"] == "OwnEp 1.0"


@pytest.mark.parametrize("options", ["", ",embed=1", ",embed=1,weightless=1", ",binary=bin/,name=m.onnx", ",binary=a.b,name=m",
                                     ",data=0", ",data=0,embed=1", ",data=1", ",flags=1"])
def test_an_ep_sees_the_options_of_a_compilation(tmp_path, chain, options):
    (tmp_path / "bin").mkdir()
    lines = same_in_both(tmp_path, *OWN, "ep", "OwnEp", "compile", f"chain.onnx=out.onnx{options}", OWN_CONTEXT="1")
    assert lines[0] == 'OwnEp sees ep.context_enable="1"'


def test_a_file_stays_where_a_flag_says_so(tmp_path, chain):
    (tmp_path / "out.onnx").write_text("something")
    assert same_in_both(tmp_path, *OWN, "ep", "OwnEp", "compile", "chain.onnx=out.onnx,flags=2") == ["compile: code 1"]
    assert (tmp_path / "out.onnx").read_text() == "something"


def test_the_programs_functions_write_and_read_the_data(tmp_path):
    model = save(tmp_path, "chain.onnx", [node("Neg", ["x"], ["y"], "neg")], [floats("x", ["n", 4])], [floats("y", ["n", 4])])
    lines = same_in_both(tmp_path, *OWN, "ep", "OwnEp", "compile", f"{model}=out.onnx,data=0", "read", "Neg.bin=Neg",
                         "ep", "OwnEp", "session", "out.onnx", "run", "", OWN_CONTEXT="1")
    assert "data Neg.bin: Neg" in lines and lines[-1].startswith("y [ 3 4 ] 2.5000 -1.0000")
    assert properties(tmp_path / "out.onnx")["external_dependencies"] == "ep_context_binary"


def test_a_failing_function_and_a_refusing_ep_leave_no_model(tmp_path, chain):
    same_in_both(tmp_path, *OWN, "ep", "OwnEp", "compile", "chain.onnx=out.onnx,data=1", OWN_CONTEXT="1")
    same_in_both(tmp_path, *OWN, "ep", "OwnEp", "compile", "chain.onnx=out.onnx,data=0")  # reads alone
    same_in_both(tmp_path, *OWN, "ep", "OwnEp,claim=none", "compile", "chain.onnx=out.onnx,flags=1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chain.onnx"]


def test_what_is_compiled_can_be_compiled_again(tmp_path, chain):
    wanted = drive("tenon", tmp_path, "session", chain, "run", "")[-1]
    lines = same_in_both(tmp_path, *OWN, "ep", "OwnEp", "compile", "chain.onnx=out.onnx,embed=1", "ep", "OwnEp",
                         "compile", "out.onnx=again.onnx,embed=1,flags=1", "ep", "OwnEp", "session", "again.onnx", "run", "")
    assert lines[-1] == wanted
    assert list(properties(tmp_path / "again.onnx")).count("external_dependencies") == 1


@pytest.mark.parametrize("path", ["folder", "there.onnx", ""])
def test_the_place_of_a_context_model_is_checked_without_an_ep(tmp_path, chain, path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "there.onnx").touch()
    same_in_both(tmp_path, "config", "ep.context_enable=1", "config", f"ep.context_file_path={path}", "session", chain)


@pytest.mark.parametrize("support", ["0", "1", "2", "3", "fail"])
def test_the_switch_of_weightless_models_asks_the_ep(tmp_path, chain, support):
    lines = same_in_both(tmp_path, *OWN, "config", "ep.enable_weightless=1", "ep", "OwnEp", "session", chain,
                         OWN_WEIGHTLESS=support)
    assert lines[0] == "OwnEp is asked for its weightless support"


def test_an_ep_judges_a_compiled_model_before_it_is_loaded(tmp_path, chain):
    for plugin, ep in ((SIM, SIM_EP), (OWN, "OwnEp")):
        compiled(tmp_path, "tenon", *plugin, "ep", ep, options=",embed=1")
        lines = same_in_both(tmp_path, *plugin, "compatible", f"{ep}=out.onnx", "compatible", f"{ep}={chain}")
        assert lines[0] == "info " + properties(tmp_path / "out.onnx")[f"ep_compatibility_info.{ep}"]
        assert "info (null)" in lines


def test_compiling_can_be_disabled(tmp_path, chain):
    never = ["config", "session.disable_model_compile=1"]
    assert same_in_both(tmp_path, *OWN, *never, "ep", "OwnEp", "session", chain) == ["session: code 13"]
    lines = same_in_both(tmp_path, *OWN, *never, "session", chain, *never, "ep", "OwnEp,claim=none", "session", chain, *never,
                         "ep", "OwnEp", "compile", "chain.onnx=out.onnx,embed=1", *never, "ep", "OwnEp", "session", "out.onnx")
    assert lines == ["session made", "session made", "compiled", "session made"]


def test_an_ep_is_named_once(tmp_path, chain):
    lines = same_in_both(tmp_path, *OWN, "ep", "OwnEp", "ep", "OwnEp", "session", chain)
    assert lines[-1] == "session: code 1"


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-rs"]))

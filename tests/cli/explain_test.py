"""`tenon explain`: the plan as text, as JSON and as a page, which a browser draws where one is installed."""
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess

import numpy
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

TENON = os.environ["TENON_CLI"]
EVIL = "</script><img src=x onerror=document.title='taken'>\"'&"
BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


def tenon(*arguments, code=0):
    done = subprocess.run([TENON, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def value(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Two products with a node of a hostile name between them, and an output that is an input: a copy."""
    path = tmp_path_factory.mktemp("explain") / "deep.onnx"
    weights = helper.make_tensor("v", TensorProto.FLOAT, [4, 4], numpy.ones(16, numpy.float32))
    nodes = [helper.make_node("MatMul", ["x", "v"], ["m"], name="first"),
             helper.make_node("Sin", ["m"], ["s"], name=EVIL),
             helper.make_node("MatMul", ["s", "v"], ["y"], name="second"),
             helper.make_node("Identity", ["x"], ["same"], name="same")]
    graph = helper.make_graph(nodes, "deep", [value("x", ["n", 4])], [value("y", ["n", 4]), value("same", ["n", 4])], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_the_values_of_an_input_give_its_shape(tmp_path):
    """A dimension without a name is no --dim's."""
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", [None, 4])], [value("y", [None, 4])])
    path = tmp_path / "unnamed.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    said = tenon("explain", path, code=2)
    assert 'Dimension 0 of "x" float32[?,4] is open and has no name for --dim; give its values with --input x=FILE.npy' in said
    numpy.save(tmp_path / "x.npy", numpy.ones((5, 4), numpy.float32))
    assert "output y: float32[5,4]" in tenon("explain", path, "--input", f"x={tmp_path}/x.npy", "--runs", 2)



def test_json_has_what_the_text_prints(model):
    text = tenon("explain", model, "--dim", "n=2")
    told = json.loads(tenon("explain", model, "--dim", "n=2", "--json"))
    assert told["inputs"] == {"x": [2, 4]}
    plan = told["plan"]
    lines = [line for line in text.splitlines() if line.startswith("step ")]
    assert len(lines) == len(plan["steps"]) == 3
    for line, step in zip(lines, plan["steps"]):
        assert step["label"] in line and f"[{step['kernel']}]" in line
        assert all(tensor["location"]["text"] in line for tensor in step["inputs"] + step["outputs"])
    assert f"arena {plan['spaces'][0]['arena_bytes']} bytes" in text
    assert told["copies"] == plan["copies"] and told["bytes_copied"] == 32
    assert [copy["what"] for copy in told["copies"]] == ["same"] and told["copies"][0]["reason"] == "output_is_input"
    assert plan["output_copies"][0]["copy"] == 0 and plan["output_copies"][0]["source"]["kind"] == "input"
    ran = json.loads(tenon("run", model, "--dim", "n=2", "--random", "--json"))
    assert ran["copies"] == told["copies"]


def test_runs_give_each_step_a_time(model):
    steps = json.loads(tenon("explain", model, "--dim", "n=2", "--runs", 5, "--json"))["plan"]["steps"]
    assert [step["runs"] for step in steps] == [5, 5, 5] and all(step["time_ns"] > 0 for step in steps)
    assert all(re.search(r"; (\d+\.\d us|\d+\.\d{3} ms)$", line)
               for line in tenon("explain", model, "--dim", "n=2", "--runs", 1).splitlines() if line.startswith("step "))


@pytest.fixture(scope="module")
def travelled(tmp_path_factory):
    """A node for each fate: fused, folded, bypassed, unused, viewed, in a step of its own, and after a cut."""
    path = tmp_path_factory.mktemp("fates") / "fates.onnx"
    constants = {"w": numpy.ones((4, 4, 3, 3)), "b": numpy.ones(4), "one": numpy.ones(1), "two": numpy.full(1, 2)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
             helper.make_node("Add", ["one", "two"], ["three"], name="folded"),
             helper.make_node("Identity", ["c"], ["i"], name="identity"),
             helper.make_node("Relu", ["i"], ["r"], name="relu"),
             helper.make_node("Sin", ["x"], ["nobody"], name="unused"),
             helper.make_node("Mul", ["r", "three"], ["m"], name="mul"),
             helper.make_node("Cos", ["m"], ["p"]),
             helper.make_node("Cos", ["m"], ["q"], name="twin"),
             helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
             helper.make_node("Sin", ["f"], ["s"], name="sin"),
             helper.make_node("Sub", ["q", "r"], ["d"], name="difference"),
             helper.make_node("NonZero", ["d"], ["z"], name="nonzero"),
             helper.make_node("Neg", ["z"], ["n"], name="later")]
    graph = helper.make_graph(nodes, "fates", [value("x", [1, 4, 8, 8])],
                              [value("s", [1, 256]), helper.make_tensor_value_info("n", TensorProto.INT64, [4, None])],
                              [onnx.numpy_helper.from_array(of.astype(numpy.float32), name) for name, of in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_each_node_of_the_model_says_where_it_went(travelled):
    plan = json.loads(tenon("explain", travelled, "--json"))["plan"]
    nodes = {node["label"]: node for node in plan["nodes"]}
    assert [node["name"] for node in plan["nodes"]] == [
        "conv", "folded", "identity", "relu", "unused", "mul", "", "twin", "flatten", "sin", "difference", "nonzero", "later"]

    def went(label):
        node = nodes[label]
        return node["fate"], node["passes"]

    assert went('Add "folded"') == ("folded", ["fold"])
    assert went('Identity "identity"') == ("bypassed", ["fold"])
    assert went('Sin "unused"') == ("unused", [])
    assert went('Neg "later"') == ("later", [])
    assert went('Sin "sin"') == ("step", [])
    assert nodes['Flatten "flatten"']["fate"] == "view" and nodes['Flatten "flatten"']["step"] is None
    # Fused nodes are those that their step lists.
    conv, relu = nodes['Conv "conv"'], nodes['Relu "relu"']
    assert conv["fate"] == relu["fate"] == "fused" and conv["step"] == relu["step"] and relu["passes"] == ["fuse_activations"]
    assert plan["steps"][relu["step"]]["model_nodes"] == ["conv", "relu"]
    # Of two equal nodes one computes for both.
    cos, twin = nodes['Cos (output "p")'], nodes['Cos "twin"']
    assert cos["step"] == twin["step"] and twin["passes"] == ["common_subexpressions"]
    for node in plan["nodes"]:
        assert (node["step"] is not None) == (node["fate"] in ("step", "fused", "region"))
        assert node["step"] is None or plan["steps"][node["step"]]["ep"] == node["ep"]
    (view,) = [view for view in plan["without_step"] if view["label"] == 'Reshape "flatten"']
    assert view["kind"] == "view" and view["offsets_bytes"] == [0] and view["value"] == "p"
    assert plan["cut"]["reasons"][0]["node"] == 'NonZero "nonzero"' and plan["cut"]["reasons"][0]["value"] is None

    text = tenon("explain", travelled)
    assert text.startswith("plan for x float32[1,4,8,8] on cpu: ")
    lines = [line.removeprefix("node ") for line in text.splitlines() if line.startswith("node ")]
    assert lines == [f"{node['label']}: {node['text']}" for node in plan["nodes"]]
    assert f'Relu "relu": step {relu["step"]}, fused by the pass fuse_activations' in lines
    assert 'Add "folded": folded into a constant by the pass fold' in lines


def schema():
    """The tables of docs/reference/plan-json.md: the kinds of the keys of each object."""
    text = (pathlib.Path(__file__).parents[2] / "docs" / "reference" / "plan-json.md").read_text()
    objects = {}
    for part in text.split("\n## ")[1:]:
        name, table = part.split("\n", 1)
        rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table.split("\n| fate |")[0], re.MULTILINE)
        objects[name.strip()] = dict(rows)
    return objects


def check_kind(found, kind, objects, where):
    if found is None:
        assert kind.endswith("or null") or "or null," in kind, where
        return
    kind = kind.removesuffix(", optional").removesuffix(", or null")
    if kind.startswith("list of "):
        assert isinstance(found, list), where
        for at, element in enumerate(found):
            check_kind(element, kind.removeprefix("list of "), objects, f"{where}[{at}]")
        return
    kind = kind.removesuffix(" or null")
    if kind in objects:
        keys = objects[kind]
        needed = {key for key, of in keys.items() if not of.endswith("optional")}
        assert needed <= set(found) <= set(keys), f"{where}: {set(found) ^ set(keys)}"
        for key, value in found.items():
            check_kind(value, keys[key], objects, f"{where}.{key}")
        return
    assert type(found) in {"string": (str,), "number": (int,), "bool": (bool,)}[kind], f"{where}: {found!r} is no {kind}"


def test_the_json_is_as_its_page_says(model, travelled):
    objects = schema()
    assert len(objects) > 15
    for path, runs in ((model, []), (travelled, []), (travelled, ["--runs", 1])):
        told = json.loads(tenon("explain", path, *(["--dim", "n=2"] if path == model else []), *runs, "--json"))
        check_kind(told["plan"], "plan", objects, "plan")


@pytest.fixture(scope="module")
def profile(model, tmp_path_factory):
    """As the stock runtime writes it, without its fusions: its nodes have the model's names."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.profile_file_prefix = str(tmp_path_factory.mktemp("profile") / "p")
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    for _ in range(3):
        session.run(None, {"x": numpy.ones((2, 4), numpy.float32)})
    return pathlib.Path(session.end_profiling())


def test_a_profile_gives_times_and_one_of_another_model_is_refused(model, profile, tmp_path):
    steps = json.loads(tenon("explain", model, "--dim", "n=2", "--profile", profile, "--json"))["plan"]["steps"]
    assert [step["runs"] for step in steps] == [3, 3, 3]
    other = tmp_path / "other.json"
    other.write_text(profile.read_text().replace("first_kernel_time", "one_kernel_time")
                     .replace("second_kernel_time", "two_kernel_time").replace("onerror", "none"))
    assert "another model" in tenon("explain", model, "--dim", "n=2", "--profile", other, code=2)
    for text in ("{", "{}", "[]", '[{"cat":"Node","name":3,"args":[]}]', '[{"cat":"Node"}, 7]'):
        other.write_text(text)
        assert str(other) in tenon("explain", model, "--dim", "n=2", "--profile", other, code=2)
    tenon("explain", model, "--dim", "n=2", "--profile", tmp_path / "none.json", code=4)
    tenon("explain", model, "--dim", "n=2", "--profile", profile, "--runs", 1, code=2)


class Page(html.parser.HTMLParser):
    """The elements of a page with their attributes and text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append([tag, dict(attributes), ""])
        self.open.append(self.elements[-1])

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for element in self.open:
            element[2] += data

    def all(self, tag, **attributes):
        return [element for element in self.elements
                if element[0] == tag and all(element[1].get(key) == wanted for key, wanted in attributes.items())]


@pytest.fixture
def page(model, tmp_path):
    path = tmp_path / "plan.html"
    tenon("explain", model, "--dim", "n=2", "--runs", 3, "--html", path)
    return path


def test_a_page_is_one_file_whose_data_cannot_become_markup(model, page):
    text = page.read_text()
    assert text.startswith("<!doctype html>") and text.rstrip().endswith("</html>")
    parsed = Page(text)
    assert len(parsed.all("script")) == 2 and not parsed.all("img") and not parsed.all("link")
    data = json.loads(parsed.all("script", id="plan")[0][2])
    assert data["model"] == str(model) and [step["name"] for step in data["plan"]["steps"]] == ["first", EVIL, "second"]
    # The only address is the name of SVG's elements, and the browser is told to fetch nothing.
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert parsed.all("meta", **{"http-equiv": "Content-Security-Policy"})[0][1]["content"].startswith("default-src 'none'")
    assert "cannot be written" in tenon("explain", model, "--dim", "n=2", "--html", "/nonexistent/plan.html", code=4)


def drawn(path, script=""):
    """The page as the browser shows it after `script`."""
    if BROWSER is None:
        pytest.skip("no Chromium is installed")
    shown = path.with_name("shown.html")
    shown.write_text(path.read_text().replace("</body>", f"<script>{script}</script></body>"))
    profile = path.with_name("browser")
    done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                           f"--user-data-dir={profile}", "--dump-dom", shown.as_uri()],
                          capture_output=True, text=True, timeout=280)
    assert done.returncode == 0 and "<html" in done.stdout, done.stderr
    return Page(done.stdout)


def labels(parsed):
    """The nodes of the rows of the steps' table, from top to bottom."""
    cells = [element[2] for element in parsed.all("td")]
    return [label for label in cells if re.search(r' "(first|second|<.*)"', label)]


def test_a_browser_draws_the_graph_the_copies_and_the_times(page, model):
    parsed = drawn(page)
    assert parsed.all("title")[0][2].endswith("deep.onnx - Tenon plan")  # and the hostile name did not set it
    assert not parsed.all("img")
    assert len(parsed.all("g", **{"class": "step"})) == 3
    assert len(parsed.all("g", **{"class": "copy"})) == 1  # x into the output "same"
    assert len(parsed.all("g", **{"class": "bound"})) == 3
    # x to both products' chain and into the copy; what touches the copy stands out.
    assert len(parsed.all("path", **{"class": "edge moved"})) == 2
    assert len(parsed.all("path", **{"class": "edge"})) == 4
    assert len(parsed.all("rect", **{"class": "block"})) == 2  # two values between the steps
    heads = [element[2] for element in parsed.all("th")]
    assert "time" in heads and "%" in heads
    assert "3 of 3 steps" in parsed.all("span", id="shown")[0][2]
    assert any(EVIL in element[2] for element in parsed.all("td"))
    assert any("output_is_input" in element[2] for element in parsed.all("td"))
    assert [element[2] for element in parsed.all("li")] == [
        'MatMul "first": step 0, cpu', f'Sin "{EVIL}": step 1, cpu', 'MatMul "second": step 2, cpu',
        'Identity "same": no step, a view']


def test_a_browser_sorts_and_filters_the_steps(page):
    click = "document.querySelector('[data-sort=node]').click(); document.querySelector('[data-sort=node]').click();"
    parsed = drawn(page, click)
    assert labels(parsed) == sorted(labels(parsed), reverse=True) and len(labels(parsed)) == 3
    assert [element[2] for element in parsed.all("th", **{"aria-sort": "descending"})] == ["node"]
    typed = ("const filter = document.getElementById('filter'); filter.value = 'matmul first';"
             "filter.dispatchEvent(new Event('input'));")
    parsed = drawn(page, typed)
    assert "1 of 3 steps" in parsed.all("span", id="shown")[0][2]
    assert [label.split()[-1] for label in labels(parsed)] == ['"first"']


# tools/check_includes.py keeps the library's sources out of the program; this, its static libraries.
def test_the_program_links_the_library_as_any_other_does():
    libraries = subprocess.run(["ldd", TENON], capture_output=True, text=True, check=True).stdout
    assert "libtenon.so" in libraries
    symbols = subprocess.run(["nm", "-C", TENON], capture_output=True, text=True, check=True).stdout
    assert " U tenon::Session::load(" in symbols
    assert not re.search(r" [TtW] tenon::(Session::load|read_model_file|Status::Status)\(", symbols)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

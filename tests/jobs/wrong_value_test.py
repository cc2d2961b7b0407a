"""The job: a model gives a wrong result; find the node and the pass. docs/how-to/debugging.md, "Find a wrong value"."""
import json
import re

import numpy
import onnx
import pytest
from conftest import commands_of, page
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture
def section():
    return page("how-to/debugging.md").split("## Find a wrong value")[1].split("## The plan")[0]


@pytest.fixture
def wrong(desk):
    """A model whose result a pass changes: (relu(x) + 1e8) - 1e8 becomes relu(x)."""
    def constant(name, value):
        return numpy_helper.from_array(numpy.array(value, numpy.float32), name)

    nodes = [helper.make_node("Relu", ["x"], ["r"], "conv1"), helper.make_node("Add", ["r", "big"], ["s"], "plus"),
             helper.make_node("Add", ["s", "less"], ["t"], "minus"), helper.make_node("Exp", ["t"], ["y"], "exp")]
    graph = helper.make_graph(nodes, "wrong", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
                              [constant("big", 1e8), constant("less", -1e8)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              desk.folder / "model.onnx")
    numpy.save(desk.folder / "x.npy", numpy.array([[1, 2, -1], [0.5, 0, 3]], numpy.float32))


def test_the_page_leads_to_the_node_and_the_pass(desk, section, wrong):
    compare, bisect = commands_of(section.split("### Keep values")[0])
    found = desk.call("bash", "-c", compare)
    assert found.returncode == 1 and 'The first value that differs is "y", of Exp "exp".' in found.stdout
    assert "--bisect" in found.stdout
    named = desk.call("bash", "-c", bisect)
    assert named.returncode == 1
    option = re.search(r"mended: (--without \w+)$", named.stdout, re.M)[1]
    assert option in section  # as the page shows it
    assert "agree" in desk.output("bash", "-c", f"{compare} {option}")


def test_the_values_that_the_page_keeps_are_there(desk, section, wrong):
    one, all_of_them = commands_of(section.split("### Keep values")[1])
    for command, names in ((one, ["r"]), (all_of_them, ["r", "s", "t", "y"])):
        desk.output("bash", "-c", command)
        index = json.loads((desk.folder / "out/values.json").read_text())
        assert [value["name"] for value in index["values"]] == names
        assert all((desk.folder / "out" / value["file"]).exists() for value in index["values"])

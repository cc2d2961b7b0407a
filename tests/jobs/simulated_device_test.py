"""The job: see a plugin's copies before a run, without a GPU. The command of docs/explanation/zero-copy.md."""
import json

import onnx
import onnx.parser
from conftest import commands_of, page


def test_the_pages_command_lists_the_copies(desk):
    onnx.save(onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y)
                                         { a = Abs(x) y = Neg(a) }"""), str(desk.folder / "model.onnx"))
    (command,) = [line for line in commands_of(page("explanation/zero-copy.md")) if "libtenon_ep_sim.so" in line]
    copies = json.loads(desk.follow([command]))["copies"]
    assert copies and {copy["reason"] for copy in copies} == {"not_compatible"}

"""Writes what onnx.shape_inference finds for the test models: one line a value, its name and its dimensions.

    generate_shapes.py FOLDER_OF_MODELS

Declared shapes of intermediate values are dropped first: only what follows from inputs and weights counts. Unknown
dimensions are `?`, symbols of inputs too, because their names are each tool's own.
"""

import pathlib
import sys

import onnx

MODELS = ["ppocr_v6_det", "nudenet_yolov8n", "magika", "minilm_l3"]


def dims_text(value: onnx.ValueInfoProto) -> str | None:
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    dims = value.type.tensor_type.shape.dim
    return ",".join(str(dim.dim_value) if dim.HasField("dim_value") else "?" for dim in dims)


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for name in MODELS:
        model = onnx.load(folder / f"{name}.onnx")
        del model.graph.value_info[:]
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        values = list(inferred.graph.value_info) + list(inferred.graph.output)
        lines = [f"{value.name}\t{dims_text(value)}" for value in values if dims_text(value) is not None]
        target = pathlib.Path(__file__).parent / f"{name}.shapes.txt"
        target.write_text("\n".join(sorted(lines)) + "\n")


main()

"""A program over the parts of onnxruntime's package that are Python: drive_own_tools.py NAME [SECONDS], as drive_packages.py.

The names are quantization, tools and decoding.
"""

import pathlib

import drive_packages
import numpy as np
import onnx
from drive_more_packages import rounded
from drive_users import FOLDER, weights, written
from onnx import TensorProto, helper, numpy_helper


def quantization():
    """onnxruntime's own tools: calibrations by four methods, both formats, four bits, float16, mixed loss reports."""
    import onnxruntime
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_dynamic,
        quantize_static,
    )
    from onnxruntime.quantization.qdq_loss_debug import (
        collect_activations,
        compute_activation_error,
        create_activation_matching,
        modify_model_output_intermediate_tensors,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    nodes = [
        ("Conv", ["x", "a"], ["c"], {"pads": [1] * 4}),
        ("Relu", ["c"], ["r"], {}),
        ("MaxPool", ["r"], ["p"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Flatten", ["p"], ["f"], {}),
        ("Gemm", ["f", "b"], ["y"], {}),
    ]
    path = written(
        "quantized",
        nodes,
        [("x", ["n", 3, 8, 8])],
        [("y", ["n", 5])],
        [("a", weights(4, 3, 3, 3)), ("b", weights(64, 5, seed=1))],
    )
    data = [weights(2, 3, 8, 8, seed=i) * 5 for i in range(4)]

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(data)

        def get_next(self):
            one = next(self.left, None)
            return None if one is None else {"x": one}

        def rewind(self):
            self.left = iter(data)

    def answer(file):
        return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, {"x": data[0]})[0]

    def call():
        prepared = f"{FOLDER}/prepared.onnx"
        quant_pre_process(path, prepared)
        answers = []
        for method in (
            CalibrationMethod.MinMax,
            CalibrationMethod.Entropy,
            CalibrationMethod.Percentile,
            CalibrationMethod.Distribution,
        ):
            for form in (QuantFormat.QDQ, QuantFormat.QOperator):
                if method is CalibrationMethod.Distribution and form is QuantFormat.QOperator:
                    continue
                file, eight = f"{FOLDER}/{method.name}{form.name}.onnx", method is CalibrationMethod.Distribution
                quantize_static(
                    prepared,
                    file,
                    Reader(),
                    quant_format=form,
                    calibrate_method=method,
                    per_channel=True,
                    weight_type=QuantType.QFLOAT8E4M3FN if eight else QuantType.QInt8,
                    activation_type=QuantType.QFLOAT8E4M3FN if eight else QuantType.QUInt8,
                )
                scales = sum(
                    float(np.sum(numpy_helper.to_array(one)))
                    for one in onnx.load(file).graph.initializer
                    if "scale" in one.name
                )
                # onnxruntime itself makes an operator of bytes of the one with float8, and refuses that.
                answers.append(
                    [method.name, form.name, round(scales, 4), eight or np.abs(answer(file) - answer(path)).max() < 1]
                )
        quantize_dynamic(path, f"{FOLDER}/dynamic.onnx", weight_type=QuantType.QUInt8)
        answers.append(answer(f"{FOLDER}/dynamic.onnx"))
        for file in (prepared, f"{FOLDER}/MinMaxQDQ.onnx"):
            modify_model_output_intermediate_tensors(file, file + "_all.onnx")
        pairs = create_activation_matching(
            collect_activations(f"{FOLDER}/MinMaxQDQ.onnx_all.onnx", Reader()),
            collect_activations(prepared + "_all.onnx", Reader()),
        )
        answers.append({name: round(float(one["qdq_err"]), 1) for name, one in compute_activation_error(pairs).items()})
        return rounded(
            [[bool(x) if isinstance(x, np.bool_) else x for x in one] if isinstance(one, list) else one for one in answers]
        )

    return call


def tools():
    """onnxruntime.tools and .transformers: symbolic shapes, profiles, optimised BERT, float16."""
    import json

    import onnxruntime
    import torch
    from onnxruntime.tools.onnx_model_utils import get_producer_consumer_maps, is_fixed_size_tensor, make_dim_param_fixed
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference
    from onnxruntime.transformers.float16 import convert_float_to_float16
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        attn_implementation="eager",
    )
    path = f"{FOLDER}/bert.onnx"
    ids, mask = torch.randint(0, 100, (2, 12)), torch.ones(2, 12, dtype=torch.int64)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = BertModel(config).eval()

        def forward(self, input_ids, attention_mask):
            return self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    torch.onnx.export(
        Net(),
        (ids, mask),
        path,
        input_names=["input_ids", "attention_mask"],
        output_names=["y"],
        dynamo=False,
        opset_version=17,
        dynamic_axes={"input_ids": {0: "batch", 1: "length"}, "attention_mask": {0: "batch", 1: "length"}},
    )
    feed = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}

    def answer(model, options=None):
        return (
            onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            .run(None, feed)[0][0, :2, :4]
            .astype(np.float32)
        )

    def call():
        options = onnxruntime.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, f"{FOLDER}/profile"
        session = onnxruntime.InferenceSession(path, options)
        session.run(None, feed)
        events = json.loads(pathlib.Path(session.end_profiling()).read_text())
        made = optimize_model(
            path, model_type="bert", num_heads=4, hidden_size=32, optimization_options=FusionOptions("bert"), opt_level=0
        )
        made.save_model_to_file(f"{FOLDER}/fused.onnx")
        half = convert_float_to_float16(onnx.load(f"{FOLDER}/fused.onnx"), keep_io_types=True)
        inferred = SymbolicShapeInference.infer_shapes(onnx.load(path), auto_merge=True)
        fixed = onnx.load(path)
        make_dim_param_fixed(fixed.graph, "batch", 2)
        return rounded(
            [
                answer(path),
                answer(f"{FOLDER}/fused.onnx"),
                np.round(answer(half.SerializeToString()).astype(np.float64), 1),
                sorted(made.get_fused_operator_statistics().items()),
                len(inferred.graph.value_info) > 20,
                any(one.get("cat") == "Node" for one in events),
                answer(fixed.SerializeToString()),
                is_fixed_size_tensor(fixed.graph.input[0]),
                len(get_producer_consumer_maps(fixed.graph)),
            ]
        )

    return call


def decoding():
    """A decoder's steps as programs write them: past keys and values bound as OrtValues, results kept, sizes that grow."""
    import onnxruntime

    heads, size, vocabulary = 2, 8, 50
    infos = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"]),
        helper.make_tensor_value_info("past_key", TensorProto.FLOAT, ["batch", heads, "past", size]),
        helper.make_tensor_value_info("past_value", TensorProto.FLOAT, ["batch", heads, "past", size]),
    ]
    outs = [
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", vocabulary]),
        helper.make_tensor_value_info("present_key", TensorProto.FLOAT, ["batch", heads, "total", size]),
        helper.make_tensor_value_info("present_value", TensorProto.FLOAT, ["batch", heads, "total", size]),
    ]
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "input_ids"], ["e"]),
        *(
            piece
            for p in "qkv"
            for piece in (
                node("MatMul", ["e", f"w{p}"], [f"m{p}"]),
                node("Reshape", [f"m{p}", "heads"], [f"r{p}"]),
                node("Transpose", [f"r{p}"], [p], perm=[0, 2, 1, 3]),
            )
        ),
        node("Concat", ["past_key", "k"], ["present_key"], axis=2),
        node("Concat", ["past_value", "v"], ["present_value"], axis=2),
        node("Transpose", ["present_key"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Softmax", ["s"], ["p"]),
        node("MatMul", ["p", "present_value"], ["c"]),
        node("Transpose", ["c"], ["ct"], perm=[0, 2, 1, 3]),
        node("Reshape", ["ct", "flat"], ["cf"]),
        node("Add", ["cf", "e"], ["h"]),
        node("MatMul", ["h", "out"], ["logits"]),
    ]
    held = [
        ("table", weights(vocabulary, 16) * 4),
        ("out", weights(16, vocabulary, seed=9)),
        ("heads", np.int64([0, 0, heads, size])),
        ("flat", np.int64([0, 0, 16])),
        *((f"w{p}", weights(16, 16, seed=i)) for i, p in enumerate("qkv")),
    ]
    graph = helper.make_graph(nodes, "g", infos, outs, [numpy_helper.from_array(array, name) for name, array in held])
    session = onnxruntime.InferenceSession(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString(),
        providers=[("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})],
    )

    def plain(tokens, steps):
        past = [np.zeros((1, heads, 0, size), np.float32)] * 2
        ids, said = np.int64([tokens]), []
        for _ in range(steps):
            logits, *past = session.run(None, {"input_ids": ids, "past_key": past[0], "past_value": past[1]})
            ids = logits[:, -1].argmax(-1, keepdims=True)
            said.append(int(ids[0, 0]))
        return said

    def bound(tokens, steps):
        value = onnxruntime.OrtValue.ortvalue_from_numpy
        past = [value(np.zeros((1, heads, 0, size), np.float32), "cpu", 0) for _ in range(2)]
        ids, said, binding = np.int64([tokens]), [], session.io_binding()
        for _ in range(steps):
            binding.clear_binding_inputs()
            binding.clear_binding_outputs()
            binding.bind_cpu_input("input_ids", ids)
            binding.bind_ortvalue_input("past_key", past[0])
            binding.bind_ortvalue_input("past_value", past[1])
            logits = np.empty((1, ids.shape[1], vocabulary), np.float32)
            binding.bind_output("logits", "cpu", 0, np.float32, logits.shape, logits.ctypes.data)
            for name in ("present_key", "present_value"):
                binding.bind_output(name, "cpu")
            binding.synchronize_inputs()
            session.run_with_iobinding(binding)
            binding.synchronize_outputs()
            past = binding.get_outputs()[1:]
            ids = logits[:, -1].argmax(-1, keepdims=True)
            said.append(int(ids[0, 0]))
        return said, past[0].shape(), past[0].device_name(), binding.copy_outputs_to_cpu()[1].shape

    def shared(tokens, steps):
        """Present written where past lies: one buffer a side, as programs with a fixed cache have it."""
        import onnxruntime as ort

        cache = np.zeros((2, 1, heads, len(tokens) + steps, size), np.float32)
        ids, said, length = np.int64([tokens]), [], 0
        for _ in range(steps):
            binding, end = session.io_binding(), length + ids.shape[1]
            binding.bind_cpu_input("input_ids", ids)
            views = [np.ascontiguousarray(one[:, :, :length]) for one in cache]
            for name, view in zip(("past_key", "past_value"), views):
                binding.bind_input(name, "cpu", 0, np.float32, view.shape, view.ctypes.data)
            presents = [
                ort.OrtValue.ortvalue_from_shape_and_type((1, heads, end, size), np.float32, "cpu", 0) for _ in range(2)
            ]
            for name, present in zip(("present_key", "present_value"), presents):
                binding.bind_ortvalue_output(name, present)
            binding.bind_output("logits")
            session.run_with_iobinding(binding)
            for one, present in zip(cache, presents):
                one[:, :, :end] = present.numpy()
            ids = binding.copy_outputs_to_cpu()[-1][:, -1].argmax(-1, keepdims=True)
            said.append(int(ids[0, 0]))
            length = end
        return said

    return lambda: [rounded(way([3, 1, 4, 1, 5], 12)) for way in (plain, bound, shared)]


PACKAGES = {f.__name__: f for f in (quantization, tools, decoding)}

if __name__ == "__main__":
    drive_packages.main(PACKAGES)

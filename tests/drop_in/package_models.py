"""Small models with the inputs, outputs and metadata that sherpa-onnx and onnxruntime-genai expect of theirs, and models
of text with the operators of onnxruntime-extensions."""
import json

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, HEADS, HEAD_SIZE = 32, 2, 8


def tensor(name, array):
    return numpy_helper.from_array(array, name)


def save(path, name, nodes, inputs, outputs, initializers, metadata=None):
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, metadata or {})
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def write_embedding(path):
    random = np.random.default_rng(0)
    node = helper.make_node
    nodes = [node("Transpose", ["feats"], ["t"], perm=[0, 2, 1]), node("Conv", ["t", "w1", "b1"], ["c"], pads=[2, 2]),
             node("Relu", ["c"], ["r"]), node("ReduceMean", ["r"], ["m"], axes=[2], keepdims=0),
             node("MatMul", ["m", "w2"], ["embs"])]
    weights = [tensor("w1", random.standard_normal((32, 80, 5)).astype(np.float32) * 0.05),
               tensor("b1", random.standard_normal(32).astype(np.float32) * 0.1),
               tensor("w2", random.standard_normal((32, 16)).astype(np.float32))]
    save(path, "embedding", nodes, [info("feats", ["B", "T", 80])], [info("embs", ["B", 16])], weights,
         {"framework": "wespeaker", "language": "English", "url": "", "comment": "made for a test",
          "sample_rate": "16000", "output_dim": "16", "normalize_samples": "1", "feature_normalize_type": ""})


def write_ctc(folder):
    random = np.random.default_rng(1)
    node = helper.make_node
    tokens = ["<blk>", "<unk>"] + ["\u2581" + c if i % 5 == 0 else c for i, c in enumerate("abcdefghijklmn")]
    (folder / "tokens.txt").write_text("".join(f"{token} {i}\n" for i, token in enumerate(tokens)))
    nodes = [node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
             node("Conv", ["t", "w1", "b1"], ["c"], pads=[1, 1], strides=[4]), node("Tanh", ["c"], ["h"]),
             node("Transpose", ["h"], ["u"], perm=[0, 2, 1]), node("MatMul", ["u", "w2"], ["scores"]),
             node("LogSoftmax", ["scores"], ["log_probs"], axis=2),
             node("Sub", ["x_lens", "one"], ["less"]), node("Div", ["less", "four"], ["quarter"]),
             node("Add", ["quarter", "one"], ["log_probs_len"])]
    weights = [tensor("w1", random.standard_normal((24, 80, 3)).astype(np.float32) * 0.1),
               tensor("b1", random.standard_normal(24).astype(np.float32)),
               tensor("w2", random.standard_normal((24, len(tokens))).astype(np.float32)),
               tensor("one", np.array(1, np.int64)), tensor("four", np.array(4, np.int64))]
    save(folder / "ctc.onnx", "ctc", nodes, [info("x", ["N", "T", 80]), info("x_lens", ["N"], TensorProto.INT64)],
         [info("log_probs", ["N", "S", len(tokens)]), info("log_probs_len", ["N"], TensorProto.INT64)], weights,
         {"model_type": "zipformer2_ctc", "subsampling_factor": "4", "model_author": "test", "version": "1",
          "comment": "made for a test"})


def write_speech(folder):
    """A voice for sherpa-onnx's text to speech (a wave for each token), and a denoiser whose state goes from run to run."""
    random = np.random.default_rng(2)
    node, int64 = helper.make_node, TensorProto.INT64
    letters = ["_", " ", *"abcdefghijklmnopqrstuvwxyz"]
    (folder / "voice_tokens.txt").write_text("".join(f"{letter} {i}\n" for i, letter in enumerate(letters) if letter != " ") + "  1\n")
    (folder / "voice_lexicon.txt").write_text("".join(f"{word} {' '.join(word)}\n" for word in ("hello", "world", "again")))
    waves = (np.sin(np.arange(1, len(letters) + 1)[:, None] * np.arange(400)[None, :] / 30) / 2).astype(np.float32)
    nodes = [node("Gather", ["waves", "x"], ["g"]), node("Mul", ["g", "length_scale"], ["s"]), node("Tanh", ["s"], ["h"]),
             node("Reshape", ["h", "flat"], ["y"])]
    save(folder / "voice.onnx", "voice", nodes,
         [info("x", ["N", "L"], int64), info("x_length", ["N"], int64), info("noise_scale", [1]), info("length_scale", [1]), info("noise_scale_w", [1])],
         [info("y", ["N", 1, "T"])], [tensor("waves", waves), tensor("flat", np.array([1, 1, -1], np.int64))],
         {"model_type": "vits", "comment": "made for a test", "language": "English", "sample_rate": "16000", "n_speakers": "1", "add_blank": "0",
          "punctuation": ", . ! ?"})
    shapes = {"conv_cache": [2, 1, 4, 3, 5], "tra_cache": [2, 3, 1, 1, 4], "inter_cache": [2, 1, 5, 4]}
    nodes = [node("ReduceMean", ["mix"], ["loud"], keepdims=0)]
    for name in shapes:
        nodes += [node("Mul", [name, "keep"], [name + "_k"]), node("Add", [name + "_k", "loud"], [name + "_out"])]
    nodes += [node("ReduceMean", ["conv_cache_out"], ["level"], keepdims=0), node("Mul", ["w", "level"], ["v"]), node("Sigmoid", ["v"], ["mask"]),
              node("Mul", ["mix", "mask"], ["enh"])]
    save(folder / "denoiser.onnx", "denoiser", nodes, [info("mix", [1, 257, 1, 2]), *(info(name, shape) for name, shape in shapes.items())],
         [info("enh", [1, 257, 1, 2]), *(info(name + "_out", shape) for name, shape in shapes.items())],
         [tensor("keep", np.array(0.9, np.float32)), tensor("w", random.standard_normal((1, 257, 1, 2)).astype(np.float32) * 20)],
         {"model_type": "gtcrn", "comment": "made for a test", "version": "1", "sample_rate": "16000", "n_fft": "512", "hop_length": "256",
          "window_length": "512", "window_type": "hann_sqrt", **{f"{name}_shape": ",".join(map(str, shape)) for name, shape in shapes.items()}})


def write_decoder(folder):
    """Logits from the token's embedding and the mean of all keys so far; keys and values grow from run to run.

    A LoRA adapter (tuned.onnx_adapter) replaces two initializers, of zeroes, that change the logits.
    """
    random = np.random.default_rng(0)
    node = helper.make_node
    width = HEADS * HEAD_SIZE
    weights = [tensor("embed", random.standard_normal((VOCABULARY, width)).astype(np.float32)),
               tensor("head", random.standard_normal((width, VOCABULARY)).astype(np.float32)),
               tensor("split", np.array([0, 0, HEADS, HEAD_SIZE], np.int64)),
               tensor("flat", np.array([0, 1, width], np.int64))]
    past = ["batch", HEADS, "past", HEAD_SIZE]
    total = ["batch", HEADS, "total", HEAD_SIZE]
    nodes = [node("Gather", ["embed", "input_ids"], ["e"]), node("Reshape", ["e", "split"], ["split_e"]),
             node("Transpose", ["split_e"], ["kv"], perm=[0, 2, 1, 3]),
             node("Concat", ["past_key_values.0.key", "kv"], ["present.0.key"], axis=2),
             node("Concat", ["past_key_values.0.value", "kv"], ["present.0.value"], axis=2),
             node("ReduceMean", ["present.0.key"], ["mean"], axes=[2], keepdims=1),
             node("Transpose", ["mean"], ["mean_t"], perm=[0, 2, 1, 3]), node("Reshape", ["mean_t", "flat"], ["context"]),
             node("Add", ["e", "context"], ["plain"]), node("MatMul", ["plain", "lora.a"], ["low"]),
             node("MatMul", ["low", "lora.b"], ["change"]), node("Add", ["plain", "change"], ["h"]),
             node("MatMul", ["h", "head"], ["logits"])]
    low_rank = {"lora.a": (width, 2), "lora.b": (2, width)}
    weights += [tensor(name, np.zeros(shape, np.float32)) for name, shape in low_rank.items()]
    int64 = TensorProto.INT64
    save(folder / "decoder.onnx", "decoder", nodes,
         [info("input_ids", ["batch", "seq"], int64), info("attention_mask", ["batch", "total"], int64),
          info("past_key_values.0.key", past), info("past_key_values.0.value", past),
          *(info(name, shape) for name, shape in low_rank.items())],
         [info("logits", ["batch", "seq", VOCABULARY]), info("present.0.key", total), info("present.0.value", total)],
         weights)
    names = {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}
    decoder = {"session_options": {"log_id": "tiny", "provider_options": []}, "filename": "decoder.onnx",
               "head_size": HEAD_SIZE, "hidden_size": width, "num_attention_heads": HEADS, "num_hidden_layers": 1,
               "num_key_value_heads": HEADS,
               "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **names},
               "outputs": {"logits": "logits", "present_key_names": "present.%d.key",
                           "present_value_names": "present.%d.value"}}
    config = {"model": {"type": "llama", "bos_token_id": 1, "eos_token_id": 0, "pad_token_id": 0, "context_length": 64,
                        "vocab_size": VOCABULARY, "decoder": decoder},
              "search": {"do_sample": False, "max_length": 24, "num_beams": 1, "past_present_share_buffer": False}}
    (folder / "genai_config.json").write_text(json.dumps(config))
    adapter = onnxruntime.AdapterFormat()
    adapter.set_parameters({name: onnxruntime.OrtValue.ortvalue_from_numpy(random.standard_normal(shape).astype(np.float32))
                            for name, shape in low_rank.items()})
    adapter.export_adapter(str(folder / "tuned.onnx_adapter"))


def write_attention(folder):
    """A decoder of one layer with GroupQueryAttention, rotary embeddings and a head of four bits (MatMulNBits)."""
    random = np.random.default_rng(3)
    node, own, int64, int32 = helper.make_node, "com.microsoft", TensorProto.INT64, TensorProto.INT32
    vocabulary, heads, kv_heads, size, length = 128, 4, 2, 16, 64
    width = heads * size
    angles = np.arange(length)[:, None] / 10 ** np.linspace(0, 2, size // 2)[None, :]

    def weight(name, *shape):
        return tensor(name, (random.standard_normal(shape) * 0.4).astype(np.float32))

    weights = [weight("embed", vocabulary, width), weight("qkv", width, (heads + 2 * kv_heads) * size), weight("o", width, width),
               tensor("cos", np.cos(angles).astype(np.float32)), tensor("sin", np.sin(angles).astype(np.float32)),
               tensor("head", random.integers(0, 256, (vocabulary, width // 32, 16), np.uint8)),
               tensor("scales", (0.02 + 0.05 * random.random((vocabulary, width // 32))).astype(np.float32)),
               tensor("one", np.array(1, np.int64)), tensor("axis", np.array([1], np.int64))]
    nodes = [node("ReduceSum", ["attention_mask", "axis"], ["sums"], keepdims=0), node("Sub", ["sums", "one"], ["lasts"]),
             node("Cast", ["lasts"], ["seqlens"], to=int32), node("Shape", ["attention_mask"], ["shape"]), node("Gather", ["shape", "one"], ["whole"]),
             node("Cast", ["whole"], ["total_length"], to=int32), node("Gather", ["embed", "input_ids"], ["e"]), node("MatMul", ["e", "qkv"], ["packed"]),
             node("GroupQueryAttention", ["packed", "", "", "past_key_values.0.key", "past_key_values.0.value", "seqlens", "total_length", "cos", "sin"],
                  ["a", "present.0.key", "present.0.value"], domain=own, num_heads=heads, kv_num_heads=kv_heads, do_rotary=1),
             node("MatMul", ["a", "o"], ["p"]), node("Add", ["e", "p"], ["h"]),
             node("MatMulNBits", ["h", "head", "scales"], ["logits"], domain=own, K=width, N=vocabulary, bits=4, block_size=32)]
    past, total = ["batch", kv_heads, "past", size], ["batch", kv_heads, "total", size]
    graph = helper.make_graph(nodes, "attention", [info("input_ids", ["batch", "seq"], int64), info("attention_mask", ["batch", "total"], int64),
                                                   info("past_key_values.0.key", past), info("past_key_values.0.value", past)],
                              [info("logits", ["batch", "seq", vocabulary]), info("present.0.key", total), info("present.0.value", total)], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(own, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "decoder.onnx")
    config = json.loads((folder.parent / "decoder" / "genai_config.json").read_text())
    config["model"].update(vocab_size=vocabulary, context_length=length)
    config["model"]["decoder"].update(head_size=size, hidden_size=width, num_attention_heads=heads, num_key_value_heads=kv_heads)
    config["search"]["past_present_share_buffer"] = True
    (folder / "genai_config.json").write_text(json.dumps(config))


def write_classifier(folder):
    """A folder as mmdeploy's SDK reads it: a small network, and what comes before and after it."""
    rng = np.random.default_rng(4)

    def weight(name, *shape):
        return tensor(name, (rng.standard_normal(shape) / 4).astype(np.float32))

    nodes = [helper.make_node("Conv", ["input", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("GlobalAveragePool", ["r"], ["p"]), helper.make_node("Flatten", ["p"], ["f"]),
             helper.make_node("Gemm", ["f", "k", "b"], ["l"]), helper.make_node("Softmax", ["l"], ["output"])]
    save(folder / "end2end.onnx", "classifier", nodes, [info("input", ["batch", 3, "height", "width"])],
         [info("output", ["batch", 10])], [weight("w", 8, 3, 3, 3), weight("k", 8, 10), weight("b", 10)])
    net = {"name": "net", "net": "end2end.onnx", "weights": "", "backend": "onnxruntime", "precision": "FP32", "batch_size": 1,
           "dynamic_shape": True}
    transforms = [{"type": "LoadImageFromFile"}, {"type": "Resize", "size": [16, 16], "keep_ratio": False},
                  {"type": "Normalize", "mean": [123.7, 116.3, 103.5], "std": [58.4, 57.1, 57.4], "to_rgb": True},
                  {"type": "ImageToTensor", "keys": ["img"]},
                  {"type": "Collect", "keys": ["img"], "meta_keys": ["ori_shape", "img_shape"]}]
    tasks = [{"type": "Task", "module": "Transform", "name": "Preprocess", "input": ["img"], "output": ["prep_output"],
              "transforms": transforms},
             {"name": "net", "type": "Task", "module": "Net", "is_batched": True, "input": ["prep_output"],
              "output": ["infer_output"], "input_map": {"img": "input"}, "output_map": {}},
             {"type": "Task", "module": "mmcls", "name": "postprocess", "component": "LinearClsHead", "params": {"topk": 3},
              "input": ["infer_output"], "output": ["post_output"]}]
    files = {"deploy": {"version": "1.3.1", "task": "Classifier", "models": [net], "customs": []},
             "pipeline": {"pipeline": {"input": ["img"], "output": ["post_output"], "tasks": tasks}},
             "detail": {"version": "1.3.1", "backend_config": {"type": "onnxruntime"}}}
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def write_texts(folder):
    """Models of an input "text" of strings, by the operators of onnxruntime-extensions that take or give strings."""
    own = "ai.onnx.contrib"

    def node(kind, inputs, outputs, **attributes):
        return helper.make_node(kind, inputs, outputs, domain=own, **attributes)

    def texts(name, *values):
        return helper.make_tensor(name, TensorProto.STRING, [len(values)], [value.encode() for value in values])

    text, number, truth = TensorProto.STRING, TensorProto.INT64, TensorProto.BOOL
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "br", "##own", "fox", "jump", "##s", ",", "!", "na",
             "##ive", "caf", "##e", "."]
    letters = {c: i for i, c in enumerate([*"abcdefghijklmnopqrstuvwxyz", "\u0120", "th", "the", "\u0120b", "ro", "<|endoftext|>"])}
    models = {
        "case": ([node("StringUpper", ["text"], ["u"]), node("StringLower", ["u"], ["l"]), node("StringLength", ["text"], ["n"]),
                  node("StringConcat", ["u", "l"], ["y"])], {"y": text, "n": number}, []),
        "regex": ([node("StringRegexReplace", ["text", "p", "w"], ["a"]), node("StringECMARegexReplace", ["text", "e", "v"], ["b"]),
                   node("StringEqual", ["a", "b"], ["same"])], {"a": text, "b": text, "same": truth},
                  [texts("p", "([a-z]+) ([a-z]+)"), texts("w", "\\2 \\1"), texts("e", "[aeiou]"), texts("v", "_")]),
        "split": ([node("StringSplit", ["text", "blank", "skip"], ["i", "parts", "shape"]),
                   node("StringJoin", ["parts", "dash", "axis"], ["joined"])],
                  {"i": number, "parts": text, "shape": number, "joined": text},
                  [texts("blank", " "), texts("dash", "-"), tensor("skip", np.array([True])), tensor("axis", np.array([0]))]),
        "map": ([node("StringStrip", ["text"], ["s"]), node("StringMapping", ["s"], ["m"], map="the\tdie\nfox\tFuchs"),
                 # An operator of ONNX between two of the package.
                 helper.make_node("Concat", ["m", "s"], ["k"], axis=0),
                 node("StringToHashBucketFast", ["k", "buckets"], ["h"])], {"s": text, "m": text, "k": text, "h": number},
                [tensor("buckets", np.array([1000]))]),
        "bert": ([node("BertTokenizer", ["text"], ["ids", "types", "mask"], vocab_file="\n".join(words)),
                  node("BertTokenizerDecoder", ["ids", "range"], ["back"], vocab_file="\n".join(words), use_indices=0)],
                 {"ids": number, "types": number, "mask": number, "back": text}, [tensor("range", np.zeros((1, 2), np.int64))]),
        "gpt2": ([node("GPT2Tokenizer", ["text"], ["ids", "mask"], vocab=json.dumps(letters),
                       merges="#version: 0.2\nt h\nth e\n\u0120 b\nr o\n", padding_length=-1)], {"ids": number, "mask": number}, []),
        "words": ([node("WordpieceTokenizer", ["text", "rows"], ["tokens", "starts", "l", "o"], suffix_indicator="##",
                        vocab=json.dumps({word: i for i, word in enumerate(words)}), unknown_token="[UNK]",
                        max_input_chars_per_word=50)], {"tokens": text, "starts": number},
                  # Behind its last match the operator reads one row more: one that no text has.
                  [tensor("rows", np.array([0, 1 << 40]))]),
    }
    for name, (nodes, outputs, initializers) in models.items():
        graph = helper.make_graph(nodes, name, [info("text", ["n"], text)],
                                  [helper.make_tensor_value_info(output, kind, None) for output, kind in outputs.items()],
                                  initializers)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(own, 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / f"{name}.onnx")


def word_tokenizer(words):
    """tokenizer.json of the package tokenizers: ids of whole words, the first of them 4."""
    ids = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    ends = [{"SpecialToken": {"id": word, "type_id": 0}} for word in ("[CLS]", "[SEP]")]
    texts = [{"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB")]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "decoder": None,
            "pre_tokenizer": {"type": "Whitespace"}, "model": {"type": "WordLevel", "vocab": ids, "unk_token": "[UNK]"},
            "post_processor": {"type": "TemplateProcessing", "single": [ends[0], texts[0], ends[1]], "pair": texts,
                               "special_tokens": {word: {"id": word, "ids": [ids[word]], "tokens": [word]} for word in ("[CLS]", "[SEP]")}}}


def write_masker(folder):
    """What koredact looks for: a tagger of words, with a label for each of its thirteen types, and a tokenizer."""
    kinds = ["RRN", "BRN", "FRN", "PASSPORT", "DRIVER_LICENSE", "CARD", "PHONE", "ACCOUNT", "EMAIL", "URL", "CODE", "NAME", "ADDRESS"]
    labels = ["O", *[f"{at}-{kind}" for kind in kinds for at in "BI"]]
    words = ["문의", "010", "-", "1234", "5678", "홍길동", "서울", "안녕하세요"]
    tags = {"010": "B-PHONE", "-": "I-PHONE", "1234": "I-PHONE", "5678": "I-PHONE", "홍길동": "B-NAME", "서울": "B-ADDRESS"}
    random, node, int64 = np.random.default_rng(6), helper.make_node, TensorProto.INT64
    bias = np.zeros((len(words) + 4, len(labels)), np.float32)
    for i, word in enumerate(words):
        bias[i + 4, labels.index(tags.get(word, "O"))] = 6
    bias[:4, 0] = 6
    nodes = [node("Gather", ["words", "input_ids"], ["a"]), node("LayerNormalization", ["a", "scale"], ["l"]), node("MatMul", ["l", "w"], ["m"]),
             node("Gather", ["bias", "input_ids"], ["b"]), node("Cast", ["attention_mask"], ["c"], to=TensorProto.FLOAT),
             node("Unsqueeze", ["c", "last"], ["u"]), node("Mul", ["b", "u"], ["d"]), node("Add", ["m", "d"], ["logits"])]
    weights = [tensor("words", random.standard_normal((len(words) + 4, 64)).astype(np.float32)), tensor("scale", np.ones(64, np.float32)),
               tensor("w", random.standard_normal((64, len(labels))).astype(np.float32) * 0.05), tensor("bias", bias),
               tensor("last", np.array([-1]))]
    (folder / "onnx").mkdir(parents=True)
    save(folder / "onnx" / "model.onnx", "masker", nodes, [info(name, ["b", "s"], int64) for name in ("input_ids", "attention_mask")],
         [info("logits", ["b", "s", len(labels)])], weights)
    config = {"model_type": "bert", "max_position_embeddings": 512, "pad_token_id": 0, "id2label": {str(i): label for i, label in enumerate(labels)}}
    for name, content in (("tokenizer", word_tokenizer(words)), ("tokenizer_config", {"model_max_length": 512}), ("config", config)):
        (folder / f"{name}.json").write_text(json.dumps(content))


def write_jina(folder):
    """What embroider reads: hidden states of 1024 features, of which it takes those of the last word."""
    random, node, int64 = np.random.default_rng(7), helper.make_node, TensorProto.INT64
    words = ["Query", "Document", ":", "the", "quick", "brown", "fox", "hello", "world"]
    nodes = [node("Gather", ["words", "input_ids"], ["a"]), node("CumSum", ["a", "one"], ["s"]), node("LayerNormalization", ["s", "scale"], ["l"]),
             node("MatMul", ["l", "w"], ["h"]), node("Cast", ["attention_mask"], ["c"], to=TensorProto.FLOAT), node("Unsqueeze", ["c", "last"], ["u"]),
             node("Mul", ["h", "u"], ["last_hidden_state"])]
    weights = [tensor("words", random.standard_normal((len(words) + 4, 64)).astype(np.float32)), tensor("scale", np.ones(64, np.float32)),
               tensor("w", random.standard_normal((64, 1024)).astype(np.float32)), tensor("one", np.array(1)), tensor("last", np.array([-1]))]
    folder.mkdir()
    save(folder / "model.onnx", "jina", nodes, [info(name, ["b", "s"], int64) for name in ("input_ids", "attention_mask")],
         [info("last_hidden_state", ["b", "s", 1024])], weights)
    (folder / "tokenizer.json").write_text(json.dumps(word_tokenizer(words)))


def write_embedder(folder):
    """An embedder of sentences as a hub's cache has it: a tokenizer of ten words, and a small network."""
    commit = "a" * 40
    snapshot = folder / "models--test--mini" / "snapshots" / commit
    (snapshot / "onnx").mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text(commit)
    random = np.random.default_rng(5)
    node, int64 = helper.make_node, TensorProto.INT64
    nodes = [node("Gather", ["words", "input_ids"], ["a"]), node("Gather", ["types", "token_type_ids"], ["b"]), node("Add", ["a", "b"], ["c"]),
             node("LayerNormalization", ["c", "scale", "shift"], ["l"]), node("MatMul", ["l", "w"], ["last_hidden_state"])]
    weights = [tensor(name, random.standard_normal(shape).astype(np.float32))
               for name, shape in (("words", (10, 64)), ("types", (2, 64)), ("scale", (64,)), ("shift", (64,)), ("w", (64, 384)))]
    for path in (snapshot / "model.onnx", snapshot / "onnx" / "model.onnx"):
        save(path, "embedder", nodes, [info(name, ["b", "s"], int64) for name in ("input_ids", "attention_mask", "token_type_ids")],
             [info("last_hidden_state", ["b", "s", 384])], weights)
    tokenizer = word_tokenizer(["the", "quick", "brown", "fox", "hello", "world"])
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    for name, content in (("tokenizer", tokenizer), ("special_tokens_map", special), ("tokenizer_config", {"model_max_length": 512, "pad_token": "[PAD]"}),
                          ("config", {"pad_token_id": 0, "model_type": "bert", "max_position_embeddings": 512, "hidden_size": 384})):
        (snapshot / f"{name}.json").write_text(json.dumps(content))


def write_extended(folder):
    """Models with the custom operators of onnx-extended, whose kernels read attributes of every type and tensors."""
    double = TensorProto.DOUBLE
    first, second = "onnx_extended.ortops.tutorial.cpu", "onnx_extended.ortops.optim.cpu"

    def one(name, node, inputs, outputs, *opsets):
        graph = helper.make_graph([node] if not isinstance(node, list) else node, name, inputs, outputs)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), *opsets], ir_version=9), folder / f"{name}.onnx")

    rows = ["a", "b"]
    one("my_custom_op", helper.make_node("MyCustomOp", ["X", "Y"], ["Z"], domain=first), [info("X", rows), info("Y", rows)], [info("Z", rows)],
        helper.make_opsetid(first, 1))
    attributes = helper.make_node("MyCustomOpWithAttributes", ["X", "Y"], ["Z"], domain=first, att_string="string_att", att_int64=5, att_float=4.5,
                                  att_tensor=tensor("att", np.array([[5.1, 4.1]], np.float64)))
    one("my_custom_op_with_attributes", attributes, [info("X", rows, double), info("Y", rows, double)], [info("Z", rows, double)],
        helper.make_opsetid(first, 1))
    one("dense_to_sparse", [helper.make_node("DenseToSparse", ["X"], ["s"], domain=second), helper.make_node("SparseToDense", ["s"], ["Y"], domain=second)],
        [info("X", rows)], [info("Y", rows)], helper.make_opsetid(second, 1))
    tree = helper.make_node("TreeEnsembleRegressor", ["X"], ["Y"], domain=second, n_targets=1, nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2],
                            nodes_featureids=[1, 0, 0], nodes_values=[0.1, 0.0, 0.0], nodes_hitrates=[1.0, 1.0, 1.0], nodes_modes="BRANCH_LEQ,LEAF,LEAF",
                            nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], nodes_missing_value_tracks_true=[0, 0, 0],
                            target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[-1.5, 2.5])
    one("tree", tree, [info("X", rows)], [info("Y", ["a", 1])], helper.make_opsetid(second, 1))


def write(folder):
    write_embedding(folder / "embedding.onnx")
    write_ctc(folder)
    write_speech(folder)
    (folder / "classifier").mkdir()
    write_classifier(folder / "classifier")
    (folder / "decoder").mkdir()
    write_decoder(folder / "decoder")
    (folder / "attention").mkdir()
    write_attention(folder / "attention")
    (folder / "texts").mkdir()
    write_texts(folder / "texts")
    (folder / "extended").mkdir()
    write_extended(folder / "extended")
    write_embedder(folder / "hub")
    write_masker(folder / "masker")
    write_jina(folder / "jina")

"""Strings in and out, beside onnxruntime: of many lengths and alphabets, in runs whose results live on."""
import gc

import numpy as np
import onnxruntime
import pytest
import tenon
from onnx import TensorProto, helper

STRING, INT64, FLOAT = TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT
TEXTS = ["", "a", "ab", "yes", "four", "seven77", "eight888", "fifteen letters", "sixteen letters!", "seventeen letters",
         "the same ends, A, the same ends", "the same ends, B, the same ends", "x" * 63, "y" * 64, "z" * 65, "w" * 500,
         "é", "naïve façade", "第一百二十三号的类别", "emoji 🙂 and more 🙂", "  blanks  at both ends ", "UPPER lower", "12", "-7"]


def model(op, result=STRING, domain="", inputs="x", outputs="y", feed=STRING, **attributes):
    infos = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(outputs, [result, INT64])]
    if op == "SplitToSequence":
        infos = [helper.make_value_info("y", helper.make_sequence_type_proto(helper.make_tensor_type_proto(feed, None)))]
    graph = helper.make_graph([helper.make_node(op, list(inputs), list(outputs), domain=domain, **attributes)], "g",
                              [helper.make_tensor_value_info("x", feed, ["n"])], infos)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


TOKENS = {"domain": "com.microsoft", "mincharnum": 1, "pad_value": "#"}
MODELS = {
    "identity": model("Identity"),
    "concat": model("StringConcat", inputs="xx"),
    "split": model("StringSplit", outputs="yn"),
    "split at e": model("StringSplit", outputs="yn", delimiter="e", maxsplit=2),
    "lower": model("StringNormalizer", case_change_action="LOWER", locale="C"),
    "upper": model("StringNormalizer", case_change_action="UPPER", locale="C"),
    "stop words": model("StringNormalizer", case_change_action="LOWER", locale="C", stopwords=["YES", "four"], is_case_sensitive=0),
    "characters": model("Tokenizer", mark=1, tokenexp=".", **TOKENS),
    "words": model("Tokenizer", mark=0, separators=[" "], **TOKENS),
    "words at two separators": model("Tokenizer", mark=1, separators=[",", " "], **TOKENS),
    "words at an expression": model("Tokenizer", mark=0, separators=["[ ,]+"], **TOKENS),
    "labels": model("LabelEncoder", INT64, domain="ai.onnx.ml", keys_strings=TEXTS, values_int64s=list(range(len(TEXTS)))),
    "other labels": model("LabelEncoder", domain="ai.onnx.ml", keys_strings=TEXTS[::2], values_strings=TEXTS[1::2], default_string="none"),
    "categories": model("OneHotEncoder", FLOAT, domain="ai.onnx.ml", cats_strings=TEXTS[::2], zeros=1),
    "sequence": model("SplitToSequence", axis=0, keepdims=0),
    "sequence of vectors": model("SplitToSequence", axis=0, keepdims=1),
}


def sessions(made):
    return [package.InferenceSession(made, providers=["CPUExecutionProvider"]) for package in (tenon, onnxruntime)]


def same(ours, theirs):
    assert type(ours) is type(theirs)
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for x, y in zip(ours, theirs):
            same(x, y)
        return
    if not isinstance(theirs, np.ndarray):
        assert ours == theirs
        return
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("name", MODELS)
def test_runs_give_onnxruntimes_strings_whatever_runs_came_before(name):
    ours, theirs = sessions(MODELS[name])
    random = np.random.default_rng(0)
    kept = []
    for count in (1, 40, 7, 700, 3, 40, 1000, 40):
        texts = random.choice(np.array(TEXTS, object), count)
        if name == "upper":  # the C locale of onnxruntime has ASCII's letters alone
            texts = np.array([text if text.isascii() else text.upper() for text in texts], object)
        if name == "split at e":  # of an empty text ONNX has one part, as Python, and onnxruntime none
            texts = np.array([text or "e" for text in texts], object)
        for feed in (texts, texts.astype("U"), texts.tolist(), texts[::-1]):
            expected = theirs.run(None, {"x": np.array(feed, object)})
            kept.append((ours.run(None, {"x": feed}), expected))
            if len(kept) > 5:  # some results die between the runs, and others live
                del kept[int(random.integers(0, len(kept)))]
            gc.collect(0)
            for results in kept:
                for x, y in zip(*results):
                    same(x, y)


def test_values_that_keep_strings_are_not_written_by_later_runs():
    session, _ = sessions(MODELS["concat"])
    kept = {}
    for i in range(6):
        value = tenon.OrtValue.ortvalue_from_numpy(np.array([f"text {i} with memory of its own "] * 3, object))
        kept[i] = session.run_with_ort_values(["y"], {"x": value})[0]
        if i == 3:
            del kept[1]
        for j, result in kept.items():
            assert result.numpy().tolist() == [f"text {j} with memory of its own " * 2] * 3
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", kept[0])
    binding.bind_output("y")
    for _ in range(3):
        session.run_with_iobinding(binding)
        bound = binding.get_outputs()[0]
        session.run(None, {"x": np.array(["another text of many letters"] * 3, object)})
        assert bound.numpy().tolist() == ["text 0 with memory of its own " * 4] * 3
        assert kept[0].numpy().tolist() == ["text 0 with memory of its own " * 2] * 3


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, np.bool_])
def test_integers_become_strings_with_all_their_digits(dtype):
    limits = [0, 1] if dtype is np.bool_ else [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 9, 10, 99, 100, 109]
    x = np.array([*limits, *[i for i in (-1, -10, -128) if limits[0] < i]], dtype)
    made = model("Cast", feed=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), to=STRING)
    ours, theirs = sessions(made)
    same(ours.run(None, {"x": x})[0], theirs.run(None, {"x": x})[0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_become_the_shortest_strings_that_give_them_again(dtype):
    random = np.random.default_rng(1)
    numbers = np.concatenate([random.standard_normal(300) * 10.0 ** random.integers(-8, 12, 300), [0, -0.0, 1, -1, 0.5, 10, 123456, 9999999, 1e7, 1e8,
                              99999992, 33554432, 1e-5, 1e-4, 1.5e-4, np.nan, np.inf, -np.inf, 100.25, -1234.5]])
    with np.errstate(over="ignore"):
        x = numbers.astype(dtype)
    session = tenon.InferenceSession(model("Cast", feed=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), to=STRING))
    texts = session.run(None, {"x": x})[0]
    wide = np.float64 if dtype is np.float64 else np.float32
    for text, number in zip(texts, x):
        again = wide(text)
        assert again == number or (np.isnan(again) and np.isnan(number)), (text, number)
        shortest = np.format_float_scientific(wide(number), unique=True, trim="-").split("e")[0].lstrip("-").replace(".", "")
        digits = text.lstrip("-").split("e")[0].replace(".", "").strip("0")
        if np.isfinite(number) and number != 0 and float(number) != int(number):
            assert digits == shortest.strip("0"), (text, number)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

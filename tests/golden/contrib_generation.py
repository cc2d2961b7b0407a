"""Searches for the next tokens: a decoder runs until each sequence has ended. Decoders are small, of GPT's and of T5's kind."""
import numpy as np
import onnx
from onnx import TensorProto, helper

from contrib_problems import problem

WORDS, WIDTH, HEADS, PLACES = 23, 8, 2, 40
DEPTH = WIDTH // HEADS
I32, F32 = TensorProto.INT32, TensorProto.FLOAT
PAD, END = 0, 1
MICROSOFT = "com.microsoft"


def weights(seed, **shapes):
    rng = np.random.default_rng(seed)
    return [onnx.numpy_helper.from_array(rng.normal(0, 1, shape).astype(np.float32), name) for name, shape in shapes.items()]


def value(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


def gpt(seed=3, layers=2, name="decoder", sharpness=3.0, last_only=False):
    """Embeddings of tokens and positions, layers of attention with a cache, logits."""
    held = weights(seed, words=(WORDS, WIDTH), places=(PLACES, WIDTH), out=(WIDTH, WORDS))
    nodes = [helper.make_node("Gather", ["words", "input_ids"], ["e0"]), helper.make_node("Gather", ["places", "position_ids"], ["e1"]),
             helper.make_node("Add", ["e0", "e1"], ["h0"])]
    inputs = [value("input_ids", I32, "batch", "sequence"), value("position_ids", I32, "batch", "sequence"), value("attention_mask", I32, "batch", "total")]
    outputs = [value("logits", F32, "batch", 1 if last_only else "sequence", WORDS)]
    for layer in range(layers):
        held += weights(seed + 10 + layer, **{f"w{layer}": (WIDTH, 3 * WIDTH), f"b{layer}": (3 * WIDTH,)})
        nodes += [helper.make_node("Attention", [f"h{layer}", f"w{layer}", f"b{layer}", "attention_mask", f"past_{layer}"], [f"a{layer}", f"present_{layer}"],
                                   domain=MICROSOFT, num_heads=HEADS, unidirectional=1),
                  helper.make_node("Add", [f"h{layer}", f"a{layer}"], [f"h{layer + 1}"])]
        inputs.append(value(f"past_{layer}", F32, 2, "batch", HEADS, "past", DEPTH))
        outputs.append(value(f"present_{layer}", F32, 2, "batch", HEADS, "total", DEPTH))
    top = f"h{layers}"
    if last_only:
        held.append(onnx.numpy_helper.from_array(np.array([-1], np.int64), "last"))
        nodes.append(helper.make_node("Gather", [top, "last"], ["h_last"], axis=1))
        top = "h_last"
    held.append(onnx.numpy_helper.from_array(np.float32(sharpness), "sharpness"))
    nodes += [helper.make_node("MatMul", [top, "out"], ["raw"]), helper.make_node("Mul", ["raw", "sharpness"], ["logits"])]
    return helper.make_graph(nodes, name, inputs, outputs, held)


def encoder(begun, seed=5, layers=2, features=False):
    """Of T5's kind, or of Whisper's with `features`: caches of cross attention, and with `begun` also logits and caches of the
    first token."""
    held = weights(seed, words=(WORDS, WIDTH), out=(WIDTH, WORDS))
    inputs = [value("encoder_input_ids", F32, "batch", WIDTH, "length")] if features else [
        value("encoder_input_ids", I32, "batch", "length"), value("encoder_attention_mask", I32, "batch", "length")]
    nodes = [helper.make_node("Transpose", ["encoder_input_ids"], ["e"], perm=[0, 2, 1])] if features else [
        helper.make_node("Gather", ["words", "encoder_input_ids"], ["e"])]
    outputs = []
    held.append(onnx.numpy_helper.from_array(np.array([0, 0, HEADS, DEPTH], np.int64), "apart"))

    def cache(source, name, layer):
        held.extend(weights(seed + 31 * layer + len(name), **{f"w_{name}": (WIDTH, WIDTH)}))
        nodes.extend([helper.make_node("MatMul", [source, f"w_{name}"], [f"m_{name}"]), helper.make_node("Reshape", [f"m_{name}", "apart"], [f"r_{name}"]),
                      helper.make_node("Transpose", [f"r_{name}"], [name], perm=[0, 2, 1, 3])])
        return value(name, F32, "batch", HEADS, f"{name}_length", DEPTH)

    if begun:
        inputs.append(value("decoder_input_ids", I32, "batch", "first"))
        nodes += [helper.make_node("Gather", ["words", "decoder_input_ids"], ["d"]), helper.make_node("ReduceMean", ["e"], ["mean"], axes=[1], keepdims=1),
                  helper.make_node("Add", ["d", "mean"], ["sum"]), helper.make_node("MatMul", ["sum", "out"], ["logits"]),
                  helper.make_node("Identity", ["e"], ["encoder_hidden_states"])]
        outputs += [value("logits", F32, "batch", "first", WORDS), value("encoder_hidden_states", F32, "batch", "length", WIDTH)]
        for layer in range(layers):
            outputs += [cache("d", f"present_{kind}_self_{layer}", layer) for kind in ("key", "value")]
    for layer in range(layers):
        outputs += [cache("e", f"present_{kind}_cross_{layer}", layer) for kind in ("key", "value")]
    return helper.make_graph(nodes, "encoder", inputs, outputs, held)


def decoder(hidden, seed=5, layers=2, sharpness=2.0, features=False):
    """What follows `encoder`: attention to its own cache and to that of the encoder."""
    held = weights(seed, words=(WORDS, WIDTH), out=(WIDTH, WORDS))
    held += [onnx.numpy_helper.from_array(np.array([0, 0, HEADS, DEPTH], np.int64), "apart"), onnx.numpy_helper.from_array(np.array([0, 0, WIDTH], np.int64), "joined"),
             onnx.numpy_helper.from_array(np.float32(sharpness), "sharpness"), onnx.numpy_helper.from_array(np.array([1, 2], np.int64), "inside")]
    inputs = [value("input_ids", I32, "batch", 1)] + ([] if features else [value("encoder_attention_mask", I32, "batch", "length")])
    nodes = [helper.make_node("Gather", ["words", "input_ids"], ["h0"])]
    if not features:
        held += [onnx.numpy_helper.from_array(np.float32(1), "one"), onnx.numpy_helper.from_array(np.float32(-1e4), "far")]
        nodes += [helper.make_node("Cast", ["encoder_attention_mask"], ["mask_f"], to=F32), helper.make_node("Sub", ["one", "mask_f"], ["mask_n"]),
                  helper.make_node("Mul", ["mask_n", "far"], ["mask_b"]), helper.make_node("Unsqueeze", ["mask_b", "inside"], ["mask"])]
    if hidden:
        inputs.append(value("encoder_hidden_states", F32, "batch", "length", WIDTH))
    caches = [f"{kind}_self_{layer}" for layer in range(layers) for kind in ("key", "value")]
    inputs += [value(f"past_{name}", F32, "batch", HEADS, "past", DEPTH) for name in caches]
    inputs += [value(f"past_{name.replace('self', 'cross')}", F32, "batch", HEADS, "length", DEPTH) for name in caches]
    outputs = [value("logits", F32, "batch", 1, WORDS)] + [value(f"present_{name}", F32, "batch", HEADS, "total", DEPTH) for name in caches]

    def attend(query, key, values, name, mask=None):
        nodes.extend([helper.make_node("Transpose", [key], [f"{name}_t"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", [query, f"{name}_t"], [f"{name}_s"])])
        scores = f"{name}_s"
        if mask:
            nodes.append(helper.make_node("Add", [scores, mask], [f"{name}_m"]))
            scores = f"{name}_m"
        nodes.extend([helper.make_node("Softmax", [scores], [f"{name}_p"], axis=-1), helper.make_node("MatMul", [f"{name}_p", values], [f"{name}_o"]),
                      helper.make_node("Transpose", [f"{name}_o"], [f"{name}_b"], perm=[0, 2, 1, 3]), helper.make_node("Reshape", [f"{name}_b", "joined"], [name])])

    for layer in range(layers):
        for kind in ("query", "key", "value"):
            held += weights(seed + 31 * layer + len(kind) + 100, **{f"w_{kind}_{layer}": (WIDTH, WIDTH)})
            nodes += [helper.make_node("MatMul", [f"h{layer}", f"w_{kind}_{layer}"], [f"m_{kind}_{layer}"]),
                      helper.make_node("Reshape", [f"m_{kind}_{layer}", "apart"], [f"r_{kind}_{layer}"]),
                      helper.make_node("Transpose", [f"r_{kind}_{layer}"], [f"{kind}_{layer}"], perm=[0, 2, 1, 3])]
        for kind in ("key", "value"):
            nodes.append(helper.make_node("Concat", [f"past_{kind}_self_{layer}", f"{kind}_{layer}"], [f"present_{kind}_self_{layer}"], axis=2))
        attend(f"query_{layer}", f"present_key_self_{layer}", f"present_value_self_{layer}", f"own_{layer}")
        attend(f"query_{layer}", f"past_key_cross_{layer}", f"past_value_cross_{layer}", f"other_{layer}", None if features else "mask")
        nodes += [helper.make_node("Add", [f"h{layer}", f"own_{layer}"], [f"a{layer}"]), helper.make_node("Add", [f"a{layer}", f"other_{layer}"], [f"h{layer + 1}"])]
    top = f"h{layers}"
    if hidden:
        nodes += [helper.make_node("ReduceMean", ["encoder_hidden_states"], ["mean"], axes=[1], keepdims=1), helper.make_node("Add", [top, "mean"], ["h_sum"])]
        top = "h_sum"
    nodes += [helper.make_node("MatMul", [top, "out"], ["raw"]), helper.make_node("Mul", ["raw", "sharpness"], ["logits"])]
    return helper.make_graph(nodes, "decoder", inputs, outputs, held)


IDS = np.array([[0, 0, 5, 7], [3, 2, 9, 4], [6, 8, 2, 0]], np.int32)
TOKENS = dict(eos_token_id=END, pad_token_id=PAD)


def one(number, kind=np.int32):
    return np.array([number], kind)


def problems():
    rng = np.random.default_rng(8)
    allowed = (rng.uniform(0, 1, WORDS) < 0.6).astype(np.int32)
    first = (rng.uniform(0, 1, (3, WORDS)) < 0.5).astype(np.int32)
    all_problems = []

    def search(operator, inputs, title, **more):
        all_problems.append(problem(operator, inputs, title=title, opset=17, **TOKENS, **more))

    for seed in (3, 5, 6, 7):
        search("GreedySearch", [IDS, one(20)], f"seed {seed}", decoder=gpt(seed=seed), constants=[1])
    search("GreedySearch", [IDS, one(14)], "length known at run time", decoder=gpt(), dynamic=True)
    search("GreedySearch", [IDS, one(14)], "last logits", decoder=gpt(last_only=True), constants=[1])
    search("GreedySearch", [IDS, one(14)], "first decoder", decoder=gpt(), init_decoder=gpt(name="init", seed=4), constants=[1])
    search("GreedySearch", [IDS, one(5)], "one step", decoder=gpt(), constants=[1])
    mask = np.array([[0, 1, 1, 1], [1, 1, 1, 1], [1, 0, 1, 1]], np.int32)
    search("GreedySearch", [IDS, one(14), None, None, None, None, mask], "mask", decoder=gpt(), constants=[1])
    search("GreedySearch", [IDS, one(18), one(16), one(1.7, np.float32), allowed, first], "processors", decoder=gpt(seed=6), no_repeat_ngram_size=2, constants=[1, 2, 3])
    for custom in (0, 1):
        search("Sampling", [IDS, one(16)], f"the likeliest {custom}", decoder=gpt(), top_p=1e-6, min_tokens_to_keep=1, custom=custom, temperature=0.7, constants=[1])

    def beams(beams, returned, length=16, least=0, penalty=1.0, repetition=1.0, ids=IDS, **more):
        return [ids, one(length), one(least), one(beams), one(returned), one(penalty, np.float32), one(repetition, np.float32)]

    for seed, count, returned, penalty in ((3, 3, 2, 1.0), (3, 1, 1, 1.0), (6, 4, 4, 0.5), (6, 2, 1, 2.0), (5, 3, 3, 1.0), (7, 5, 2, -1.0)):
        for early in (0, 1):
            search("BeamSearch", beams(count, returned, penalty=penalty), f"seed {seed} beams {count} penalty {penalty}", decoder=gpt(seed=seed, sharpness=0.7), outputs=2, early_stopping=early,
                   constants=[1, 2, 3, 4, 5, 6])
    search("BeamSearch", beams(3, 2), "run time", decoder=gpt(sharpness=0.7), outputs=2, dynamic=True)
    search("BeamSearch", beams(3, 2, least=15), "scores", decoder=gpt(sharpness=0.7), outputs=3, constants=[1, 2, 3, 4, 5, 6])
    search("BeamSearch", beams(3, 2, least=15), "scores after a first decoder", decoder=gpt(sharpness=0.7), init_decoder=gpt(name="init", sharpness=0.7), outputs=3,
           constants=[1, 2, 3, 4, 5, 6])
    search("BeamSearch", [*beams(3, 2, least=9, repetition=1.3), allowed, first, mask], "processors", decoder=gpt(sharpness=0.7), outputs=2, no_repeat_ngram_size=3,
           constants=[1, 2, 3, 4, 5, 6])
    for hidden in (0, 1):
        for count in (1, 3):
            search("BeamSearch", beams(count, 1), f"encoder {hidden} beams {count}", encoder=encoder(True), decoder=decoder(hidden), outputs=2, model_type=1, decoder_start_token_id=2,
                   constants=[1, 2, 3, 4, 5, 6])
    search("BeamSearch", beams(2, 2), "encoder alone", encoder=encoder(False), decoder=decoder(0), outputs=2, model_type=1, decoder_start_token_id=2, constants=[1, 2, 3, 4, 5, 6])
    search("BeamSearch", [*beams(2, 2, least=15), None, None, mask], "encoder with a mask", encoder=encoder(True), decoder=decoder(1), outputs=3, model_type=1, decoder_start_token_id=2,
           constants=[1, 2, 3, 4, 5, 6])
    search("BeamSearch", beams(1, 1), "scores behind an end", encoder=encoder(True), decoder=decoder(1), outputs=3, model_type=1, decoder_start_token_id=2, constants=[1, 2, 3, 4, 5, 6])
    sound = rng.normal(0, 1, (2, WIDTH, 5)).astype(np.float32)
    forced = np.array([[2, 4, 3], [2, 5, 3]], np.int32)
    for operator in ("BeamSearch", "WhisperBeamSearch"):
        search(operator, [*beams(3, 2, ids=sound), None, None, None, forced], "sound", encoder=encoder(True, features=True), decoder=decoder(0, features=True), outputs=2, model_type=2,
               decoder_start_token_id=2, constants=[1, 2, 3, 4, 5, 6])
    return all_problems

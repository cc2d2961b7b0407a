"""Whole models of tests/golden/models.json with changing sizes of their dynamic dimensions, run after run on one session,
and with fewer outputs than they have, against ONNX Runtime.

TENON_MODELS is the folder that tools/fetch_models.py fills; a model that is not there is skipped.
"""
import copy
import functools
import itertools

import numpy as np
import onnx
import pytest

import driver
from models_test import MODELS, difference, make_inputs, path_of

RUNS = 10
THREADS = (1, 2, 4)
# The tolerances of models.json are those of its inputs. Of 53 phonemes piper_vits makes a signal in which ONNX Runtime with
# and without its fusions is 6e-5 apart, and Tenon by instruction set 0.9e-4 to 1.8e-4 from it.
AT_OTHER_SIZES = {name: {**model, "tolerance": 2 * model["tolerance"]} for name, model in MODELS.items()}


def shaped(name, **shapes):
    """The model's seeded inputs, some with another shape."""
    model = copy.deepcopy(MODELS[name])
    for spec in model["inputs"]:
        spec["shape"] = shapes.get(spec["name"], spec["shape"])
    return make_inputs(model)


def tokens(name, batch, length):
    return shaped(name, **{spec["name"]: [batch, length] for spec in MODELS[name]["inputs"]})


def molecules(graphs, nodes):
    """Rings of `nodes` atoms, whose bonds go both ways."""
    model = copy.deepcopy(MODELS["minimol_gnn"])
    for spec in model["inputs"]:
        old = {200: graphs * nodes, 400: 2 * graphs * nodes, 8: graphs}
        rows = 1 if spec["name"] == "edge_index" else 0
        spec["shape"][rows] = old[spec["shape"][rows]]
        if spec["gen"] == "rings":
            spec.update(graphs=graphs, nodes=nodes)
        elif spec["gen"] == "repeat_arange":
            spec.update(n=graphs, each=nodes)
    return make_inputs(model)


def phonemes(count):
    feeds = shaped("piper_vits")
    feeds["input"] = np.ascontiguousarray(feeds["input"][:, :count])
    feeds["input_lengths"] = np.array([count], feeds["input_lengths"].dtype)
    return feeds


def images(name, *shapes):
    (spec,) = MODELS[name]["inputs"]
    return [functools.partial(shaped, name, **{spec["name"]: list(shape)}) for shape in shapes]


def voice(batch):
    return shaped("silero_vad", input=[batch, 576], state=[2, batch, 128])


# Functions that make the inputs of one size each.
SIZES = {
    "ppocr_v6_det": images("ppocr_v6_det", (1, 3, 320, 320), (2, 3, 32, 64), (1, 3, 160, 128), (1, 3, 736, 960)),
    "silero_vad": [functools.partial(voice, batch) for batch in (1, 3, 2)],
    "magika": images("magika", (1, 2048), (3, 2048), (2, 2048), (7, 2048)),
    "nudenet_yolov8n": images("nudenet_yolov8n", (1, 3, 320, 320), (1, 3, 160, 224), (2, 3, 96, 64)),
    "smart_turn_v3": images("smart_turn_v3", (1, 80, 800), (3, 80, 800), (2, 80, 800)),
    "minilm_l3": [functools.partial(tokens, "minilm_l3", *size) for size in ((1, 128), (1, 7), (3, 16), (2, 64), (1, 1))],
    "ddddocr_old": images("ddddocr_old", (1, 1, 64, 160), (1, 1, 64, 96), (1, 1, 64, 200), (1, 1, 64, 64)),
    "slanet_plus": images("slanet_plus", (1, 3, 488, 488), (1, 3, 256, 320)),
    "nsnet2": images("nsnet2", (1, 50, 161), (1, 1, 161), (2, 20, 161), (1, 333, 161)),
    "piper_vits": [functools.partial(phonemes, count) for count in (85, 20, 53)],
    "minimol_gnn": [functools.partial(molecules, *size) for size in ((8, 25), (3, 10), (1, 25), (12, 7))],
    "slovorez_fp16": images("slovorez_fp16", (32, 20), (1, 20), (5, 9), (7, 33)),
}


def stock(model):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@functools.cache
def references(name):
    """[(inputs, outputs of ONNX Runtime)] for each size."""
    session = stock(str(path_of(name)))
    made = [make() for make in SIZES[name]]
    return [(feeds, session.run(None, feeds)) for feeds in made]


def test_every_model_has_sizes():
    assert SIZES.keys() == MODELS.keys()


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("name", MODELS)
def test_sizes_change_from_run_to_run(name, threads, tmp_path):
    rounds = list(itertools.islice(itertools.cycle(references(name)), RUNS))
    (feeds, want), *again = rounds
    case = driver.Case(name, path_of(name), feeds, want, again)
    (outcome,) = driver.run([case], tmp_path, [f"--threads={threads}"]).values()
    assert outcome.ok, outcome.status
    assert len(outcome.feeds) == RUNS
    for number, ((feeds, want), (status, got)) in enumerate(zip(rounds, outcome.feeds, strict=True)):
        shapes = {key: value.shape for key, value in feeds.items()}
        assert status == "ok", f"run {number}, {shapes}: {status}"
        problem = difference(AT_OTHER_SIZES[name], want, got)
        assert problem is None, f"run {number}, {shapes}: {problem}"


@pytest.mark.parametrize("name", MODELS)
def test_models_with_fewer_outputs(name, tmp_path):
    """Each part of the outputs that is not empty and not whole, as a model that has those outputs."""
    model = onnx.load(path_of(name))
    outputs = list(model.graph.output)
    parts = [part for count in range(1, len(outputs)) for part in itertools.combinations(range(len(outputs)), count)]
    if not parts:
        pytest.skip("it has one output")
    feeds, want = references(name)[0]
    cases = []
    for part in parts:
        del model.graph.output[:]
        model.graph.output.extend(outputs[index] for index in part)
        file = tmp_path / f"{'_'.join(map(str, part))}.onnx"
        onnx.save(model, file)
        cases.append(driver.Case(str(part), file, feeds, [want[index] for index in part]))
    found = driver.run(cases, tmp_path)
    for part, case in zip(parts, cases):
        outcome = found[case.name]
        assert outcome.ok, f"outputs {part}: {outcome.status}"
        problem = difference(MODELS[name], case.outputs, outcome.outputs)
        assert problem is None, f"outputs {part}: {problem}"


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

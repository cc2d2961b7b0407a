"""Seeded inputs for the models of tests/golden/models.json; the kinds are the "gen" of an input."""
import numpy as np


def _tone(spec, rng, shape):
    time = np.arange(int(np.prod(shape))) / spec["sample_rate"]
    wave = 0.3 * np.sin(2 * np.pi * 220 * time) + 0.2 * np.sin(2 * np.pi * 440 * time)
    return wave + 0.02 * rng.standard_normal(time.size)


def _rings(spec, rng, shape):
    del rng, shape
    nodes = np.arange(spec["nodes"])
    after = (nodes + 1) % spec["nodes"]
    one = np.stack([np.concatenate([nodes, after]), np.concatenate([after, nodes])])
    return np.concatenate([one + graph * spec["nodes"] for graph in range(spec["graphs"])], axis=1)


def _grid(spec, rng, shape):
    del rng
    image = np.ones(shape[2:])
    for start in range(0, shape[2], spec["step"]):
        image[start:start + spec["thick"], :] = 0
    for start in range(0, shape[3], spec["step"]):
        image[:, start:start + spec["thick"]] = 0
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    return (image[None] - mean[:, None, None]) / deviation[:, None, None]


GENERATORS = {
    "uniform": lambda spec, rng, shape: rng.uniform(spec["low"], spec["high"], shape),
    "normal": lambda spec, rng, shape: rng.standard_normal(shape) * spec["std"],
    "randint": lambda spec, rng, shape: rng.integers(spec["low"], spec["high"], shape),
    "const": lambda spec, rng, shape: np.full(shape, spec["value"]),
    "values": lambda spec, rng, shape: np.array(spec["values"]),
    "bernoulli": lambda spec, rng, shape: rng.random(shape) < spec["p"],
    "repeat_arange": lambda spec, rng, shape: np.repeat(np.arange(spec["n"]), spec["each"]),
    "tone": _tone,
    "rings": _rings,
    "grid": _grid,
}


def make_inputs(model):
    """{name: array} in the model's input order."""
    feeds = {}
    for spec in model["inputs"]:
        shape = tuple(spec["shape"])
        values = GENERATORS[spec["gen"]](spec, np.random.default_rng(spec["seed"]), shape)
        feeds[spec["name"]] = np.array(values, dtype=spec["dtype"], order="C").reshape(shape)
    return feeds

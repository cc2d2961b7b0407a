"""DynamicQuantizeLSTM."""
import numpy as np

from quantized_contrib_test import Problem


def lstm(name, t, b, i, h, direction="forward", kind=np.int8, columns=False, zero=False, bias=True, lengths=None, states=True, peepholes=False, seed=1, **attributes):
    rng = np.random.default_rng(seed)
    d = 2 if direction == "bidirectional" else 1

    def floats(*shape):
        return rng.uniform(-1, 1, shape).astype(np.float32)

    low, high = (-127, 128) if kind == np.int8 else (0, 256)
    size = (d, 4 * h) if columns else (d,)
    inputs = [floats(t, b, i), rng.integers(low, high, (d, i, 4 * h)).astype(kind), rng.integers(low, high, (d, h, 4 * h)).astype(kind),
              floats(d, 8 * h) if bias else None, None if lengths is None else np.array(lengths, np.int32),
              floats(d, b, h) if states else None, floats(d, b, h) if states else None, floats(d, 3 * h) if peepholes else None]
    middle = 128 if kind == np.uint8 else 0
    for _ in range(2):
        inputs.append(rng.uniform(0.002, 0.004, size).astype(np.float32))
        inputs.append((rng.integers(-9, 9, size) * zero + middle).astype(kind))
    # The state goes through 8 bits at each step: a rounding that goes the other way is a step of 1/255.
    return Problem(name, "DynamicQuantizeLSTM", inputs, {"hidden_size": h, "direction": direction, **attributes}, 3, (1, 2, 3, 8, 9, 10, 11), tolerance=1e-2)


def problems():
    for direction in ("forward", "reverse", "bidirectional"):
        for kind in (np.int8, np.uint8):
            yield lstm(f"{direction} {kind.__name__}", 5, 1, 7, 9, direction, kind)
            yield lstm(f"{direction} {kind.__name__} batch", 3, 3, 20, 17, direction, kind, zero=kind == np.uint8)
        yield lstm(f"{direction} columns", 4, 1, 33, 16, direction, columns=True)
    yield lstm("uint8 columns", 4, 1, 33, 16, kind=np.uint8, columns=True)
    yield lstm("no bias, no states", 4, 2, 8, 32, bias=False, states=False)
    yield lstm("lengths", 5, 1, 8, 6, lengths=[3])
    yield lstm("peepholes", 4, 1, 8, 6, peepholes=True)
    yield lstm("coupled", 4, 1, 8, 6, input_forget=1)
    yield lstm("clip", 4, 1, 8, 6, clip=0.25)
    yield lstm("activations", 4, 1, 8, 6, activations=["HardSigmoid", "Relu", "Softsign"], activation_alpha=[0.3], activation_beta=[0.4])
    yield lstm("one step", 1, 1, 64, 48)
    yield lstm("large", 20, 1, 128, 96)

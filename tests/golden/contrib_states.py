"""LinearAttention and CausalConvWithState of com.microsoft, which have more than those of ai.onnx."""
import numpy as np

from contrib_problems import problem


def problems():
    rng = np.random.default_rng(12)

    def floats(*shape, low=-1.0, high=1.0):
        return rng.uniform(low, high, shape).astype(np.float32)

    found = []
    for rule in (None, "linear", "gated", "delta", "gated_delta"):
        name = rule or "gated_delta"
        for heads, kv_heads, depth, width in ((2, 2, 4, 4), (4, 2, 4, 6), (2, 4, 4, 3), (1, 1, 3, 5)):
            for length in (1, 7):
                for has_past in (False, True):
                    query, key = floats(2, length, heads * depth), floats(2, length, kv_heads * depth)
                    value = floats(2, length, kv_heads * width)
                    past = floats(2, kv_heads, depth, width) if has_past else None
                    decay = floats(2, length, kv_heads * (1 if length == 7 else depth), low=-1, high=0) if "gated" in name else None
                    beta = floats(2, length, kv_heads if depth == 4 else 1, low=0, high=1) if "delta" in name else None
                    found.append(problem("LinearAttention", [query, key, value, past, decay, beta], outputs=2, q_num_heads=heads, kv_num_heads=kv_heads,
                                         update_rule=rule, scale=0.5 if has_past else None, dynamic=length == 7, title=name))
    for dilation in (None, 2):
        for last in (None, 1):
            for length in (1, 2, 9):
                for activation in (None, "silu"):
                    found.append(convolution(floats, length, dilation, last, activation))
    for dilation in (None, 3):
        room = 3 * (dilation or 1)
        found.append(problem("CausalConvWithState", [floats(2, 6, 2, 3), floats(6, 1, 4), floats(6), floats(2, room, 2, 3)], outputs=2, channels_last=1,
                             dilation=dilation, activation="swish", dynamic=True, constants=(1,), title="two axes of channels"))
    found.append(problem("CausalConvWithState", [floats(2, 3, 5), floats(3, 1, 1), floats(3)], outputs=2, title="one tap"))
    return found


def convolution(floats, length, dilation, last, activation):
    channels, taps = 5, 4
    room = (taps - 1) * (dilation or 1)
    state = (2, room, channels) if last else (2, channels, room)
    past = floats(*state) if length < 9 else None
    bias = floats(channels) if activation else None
    x = floats(2, length, channels) if last else floats(2, channels, length)
    return problem("CausalConvWithState", [x, floats(channels, 1, taps), bias, past], outputs=2, dilation=dilation, channels_last=last,
                   activation=activation, dynamic=length == 2, constants=(1, 2) if activation or dilation else ())

"""Gates, norms and mixes of recent language models: gated norms, hyper-connections, Engram, M-RoPE."""
import numpy as np

from contrib_problems import problem


def problems():
    rng = np.random.default_rng(11)

    def floats(*shape, kind=np.float32, low=-1.0, high=1.0):
        return rng.uniform(low, high, shape).astype(kind)

    found = []
    for kind in (np.float32, np.float16):
        for shape in ((2, 3, 8), (5, 4), (1, 1, 2, 6), (0, 4)):
            inputs = [floats(*shape, kind=kind), floats(*shape, kind=kind), floats(*shape[:-1], 1, kind=kind)]
            found.append(problem("GatedAdd", inputs, dynamic=kind == np.float16))
        for activation in (None, "silu", "swish", "sigmoid"):
            for shape, width in (((2, 3, 8), 8), ((2, 3, 12), 4), ((6, 5), 5), ((1, 2, 3, 6), 3)):
                inputs = [floats(*shape, kind=kind), floats(width, kind=kind), floats(*shape, kind=kind, low=-3, high=3)]
                found.append(problem("GatedRMSNorm", inputs, activation=activation, epsilon=None if activation else 1e-3, dynamic=activation == "swish",
                                     constants=(1,) if activation == "sigmoid" else ()))
        for alpha in (None, 1.5):
            found.append(problem("ScaledSiLU", [floats(3, 7, kind=kind, low=-4, high=4)], alpha=alpha, title=np.dtype(kind).name))
        for given in (np.float32, np.float16):
            found.append(problem("ScaledSiLU", [floats(3, 7, kind=kind, low=-4, high=4), np.array(0.75, given)], alpha=2.0, dynamic=True,
                                 title=f"{np.dtype(kind).name} by {np.dtype(given).name}"))
        for heads in (1, 4):
            a, b = floats(2, 5, heads, kind=kind, low=-4, high=4), floats(2, 5, heads, kind=kind, low=-4, high=4)
            bias, scale = floats(heads), floats(heads, low=-2, high=-0.1)
            found.append(problem("LinearAttentionGate", [a, bias, scale, b], outputs=2, dynamic=heads == 1))
            found.append(problem("LinearAttentionGate", [a, bias, scale], constants=(1, 2), title=np.dtype(kind).name))
            found.append(problem("LinearAttentionGate", [a, bias.reshape(1, 1, 1, 1, -1), scale], title=f"{np.dtype(kind).name} with a bias of five dimensions"))
            found.append(problem("LinearAttentionGate", [a, bias.reshape(-1, 1), scale.reshape(1, -1, 1, 1)], dynamic=heads == 1, title=f"{np.dtype(kind).name} with columns"))
        found += branches(floats, kind)
        for norm in (False, True):
            for epsilon in (None, 1e-2):
                shape = (2, 3, 4, 6)
                inputs = [floats(*shape, kind=kind), floats(*shape, kind=kind), floats(2, 3, 6, kind=kind), floats(4, 6, kind=kind), floats(4, 6, kind=kind)]
                found.append(problem("EngramGate", inputs + ([floats(4, 6, kind=kind)] if norm else []), outputs=2 if norm else 1, epsilon=epsilon,
                                     dynamic=epsilon is None))
        found += multimodal(floats, rng, kind)
    return found


def branches(floats, kind):
    """Streams that lie grouped [.., C, H] or flat [.., C * H]."""
    found = []
    for flat in (False, True):
        streams, count = ((2, 3, 12), 4) if flat else ((2, 3, 4, 3), None)
        for more in (np.float32, np.float16):
            title = f"{np.dtype(kind).name} and {np.dtype(more).name}"
            for scale in (None, (12,), (4, 3), (3,)):
                scales = [] if scale is None else [floats(*scale, kind=more)]
                found.append(problem("BranchwiseRMSNorm", [floats(*streams, kind=kind)] + scales, num_branches=count, epsilon=1e-3 if scale else None, title=title))
            gates = [(2, 3, 4), (2, 3, 4, 1), (2, 3, 4, 3)]
            for pre in gates + ([(2, 3, 12)] if flat else []):
                found.append(problem("HyperConnectionPreMix", [floats(*streams, kind=kind), floats(*pre, kind=more)], num_branches=count,
                                     reduction_scale=0.5 if len(pre) == 3 else None, title=title))
            for post in gates:
                for mix in (False, True):
                    inputs = [floats(*streams, kind=kind), floats(2, 3, 3, kind=kind), floats(*post, kind=more)] + ([floats(2, 3, 4, 4, kind=more)] if mix else [])
                    found.append(problem("HyperConnectionPostMix", inputs, num_branches=count, title=title))
    return found


def multimodal(floats, rng, kind):
    found = []
    positions = rng.integers(0, 20, (3, 2, 5))
    for layout, section in ((0, (2, 3, 3)), (0, (8, 0, 0)), (1, (4, 2, 2)), (1, (3, 3, 2)), (None, (1, 5, 2))):
        for interleaved in (0, 1):
            caches = [floats(20, 8, kind=kind), floats(20, 8, kind=kind)]
            chosen = dict(mrope_section=list(section), mrope_layout=layout, interleaved=interleaved)
            found.append(problem("MRotaryEmbedding", [floats(2, 5, 48, kind=kind), positions] + caches, **chosen, num_heads=3, title="rows"))
            found.append(problem("MRotaryEmbedding", [floats(2, 3, 5, 16, kind=kind), positions] + caches, **chosen, title="heads", constants=(2, 3)))
            found.append(problem("MRotaryEmbedding", [floats(2, 5, 60, kind=kind), positions] + caches, **chosen, num_heads=3, rotary_embedding_dim=16,
                                 title="part"))
    return found

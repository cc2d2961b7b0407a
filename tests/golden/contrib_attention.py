"""Attention of com.microsoft: projections, biases, masks, caches, groups of heads, windows and rotary embeddings."""
import numpy as np

from contrib_problems import problem

RNG = np.random.default_rng(5)


def floats(*shape, kind=np.float32):
    return RNG.uniform(-1, 1, shape).astype(kind)


def masks(batch, queries, past):
    """[(title, mask of integers)]; every query has a key that is not masked."""
    keys = past + queries
    rows = (RNG.uniform(size=(batch, keys)) < 0.7).astype(np.int32)
    rows[:, :1] = 1
    squares = (RNG.uniform(size=(batch, queries, keys)) < 0.7).astype(np.int32)
    squares[:, :, :1] = 1
    return [("no mask", None), ("mask of keys", rows), ("mask of queries", squares)]


def projected():
    found = []
    for batch, tokens, hidden, heads in ((2, 6, 16, 2), (1, 35, 24, 3)):
        for past in (0, 4):
            for title, mask in masks(batch, tokens, past):
                for causal in (0, 1):
                    cache = floats(2, batch, heads, past, hidden // heads) if past else None
                    inputs = [floats(batch, tokens, 10), floats(10, 3 * hidden), floats(3 * hidden), mask, cache]
                    found.append(problem("Attention", inputs, outputs=2 if past else 1, num_heads=heads, unidirectional=causal, title=title, constants=(1, 2),
                                         dynamic=bool(causal)))
        bias = floats(batch, heads, tokens, tokens)
        inputs = [floats(batch, tokens, 10), floats(10, 3 * hidden), floats(3 * hidden)]
        found.append(problem("Attention", inputs + [None, None, bias], num_heads=heads, title="added"))
        found.append(problem("Attention", inputs + [None, None, bias[:1, :1]], num_heads=heads, title="added to all", scale=0.3))
        found.append(problem("Attention", inputs, outputs=2, num_heads=heads, title="present"))
        ends = np.array([tokens - 2] * batch, np.int32)
        found.append(problem("Attention", inputs + [ends], num_heads=heads, title="ends", mask_filter_value=-500.0))
        found.append(problem("Attention", inputs + [np.concatenate([ends, ends - 3])], num_heads=heads, title="ends and begins"))
        found.append(problem("Attention", inputs + [ends], num_heads=heads, title="ends", dynamic=True))
        # 3 * batch + 2 numbers: the ends, then where the packed rows of queries and of keys begin.
        packed = np.concatenate([ends, np.arange(batch + 1, dtype=np.int32) * tokens, np.arange(batch + 1, dtype=np.int32) * tokens])
        for dynamic in (False, True):
            found.append(problem("Attention", inputs + [packed], num_heads=heads, title="ends and packed rows", dynamic=dynamic))
        found.append(problem("Attention", inputs + [np.concatenate([ends, ends - 3])], num_heads=heads, title="ends and begins", dynamic=True, constants=(1, 2)))
    inputs = [floats(2, 5, 10), floats(10, 16 + 16 + 24), floats(16 + 16 + 24)]
    found.append(problem("Attention", inputs, num_heads=2, qkv_hidden_sizes=[16, 16, 24]))
    return found


def multi_head():
    found = []
    for batch, queries, keys, heads, depth, width in ((2, 5, 5, 2, 8, 8), (1, 3, 9, 3, 16, 8), (2, 40, 40, 2, 16, 16)):
        q, k, v = floats(batch, queries, heads * depth), floats(batch, keys, heads * depth), floats(batch, keys, heads * width)
        found.append(problem("MultiHeadAttention", [q, k, v], num_heads=heads))
        found.append(problem("MultiHeadAttention", [q, k, v, floats(heads * (2 * depth + width))], num_heads=heads, dynamic="unranked"))
        found.append(problem("MultiHeadAttention", [q, k, v, floats(heads * (2 * depth + width))], num_heads=heads, scale=0.4, constants=(3,), dynamic=True))
        rows = (RNG.uniform(size=(batch, keys)) < 0.7).astype(np.int32)
        rows[:, 0] = 1
        squares = (RNG.uniform(size=(batch, queries, keys)) < 0.7).astype(np.int32)
        squares[:, :, 0] = 1
        for title, mask in (("mask of keys", rows), ("mask of queries", squares), ("ends", np.array([keys - 1] * batch, np.int32))):
            found.append(problem("MultiHeadAttention", [q, k, v, None, mask], num_heads=heads, title=title, mask_filter_value=-1000.0))
        for lead in sorted({(batch, heads), (1, heads), (batch, 1), (1, 1)}):
            found.append(problem("MultiHeadAttention", [q, k, v, None, None, floats(*lead, queries, keys)], num_heads=heads, dynamic=lead[0] == 1, title=f"added {lead}"))
        if queries == keys:
            found.append(problem("MultiHeadAttention", [q, k, v], num_heads=heads, unidirectional=1, outputs=3))
        found.append(problem("MultiHeadAttention", [q[:, :1], k, v], num_heads=heads, unidirectional=1, dynamic=depth == width, title="the last query"))
        if depth == width:
            apart = [floats(batch, heads, keys, depth) for _ in range(2)]
            found.append(problem("MultiHeadAttention", [q, *apart], num_heads=heads, title="keys of heads"))
            past = [floats(batch, heads, 4, depth) for _ in range(2)]
            if queries == keys:
                for causal in (0, 1):
                    found.append(problem("MultiHeadAttention", [q, k, v, None, None, None, *past], num_heads=heads, outputs=3, unidirectional=causal, dynamic=bool(causal)))
                mask = np.ones((batch, 4 + keys), np.int32)
                mask[:, 1] = 0
                found.append(problem("MultiHeadAttention", [q, k, v, floats(3 * heads * depth), mask, floats(1, heads, queries, 4 + keys), *past], num_heads=heads, outputs=3))
    return found


def few_outputs():
    rows = [floats(2, 5, 16) for _ in range(3)]
    below = np.array([[1, -1, 1, 2, -7], [1, 1, 1, 0, -1]], np.int32)
    present = problem("MultiHeadAttention", rows, num_heads=2, outputs=3, title="present alone")
    del present.model.graph.output[0]
    return [present, problem("MultiHeadAttention", [*rows, None, below], num_heads=2, title="mask of numbers below 0")]


def decoding():
    found = []
    for batch, heads, depth, past in ((2, 3, 8, 5), (1, 2, 16, 33), (1, 2, 20, 200)):
        rows = [floats(batch, 1, heads * depth) for _ in range(3)]
        cache = [floats(batch, heads, past, depth) for _ in range(2)]
        found.append(problem("DecoderMaskedMultiHeadAttention", [rows[0], *cache], num_heads=heads, title="keys of heads"))
        # ONNX Runtime computes new keys only with a cache that has room for them.
        shared = dict(num_heads=heads, outputs=3, past_present_share_buffer=1)
        length = np.array([past - 2], np.int32)
        bias = floats(3 * heads * depth)
        for title, mask in masks(batch, 1, past - 2)[:2]:
            found.append(problem("DecoderMaskedMultiHeadAttention", [*rows, mask, None, *cache, length], title=title, **shared))
        added = floats(1, heads, 1, past - 1)
        found.append(problem("DecoderMaskedMultiHeadAttention", [*rows, None, added, *cache, length, None, None, bias], title="bias", scale=0.5, **shared))
    return found


def grouped():
    found = []
    for batch, heads, kv_heads, depth in ((2, 4, 2, 16), (1, 6, 1, 16), (2, 2, 2, 32), (1, 32, 2, 16)):
        half = depth // 2
        angles = RNG.uniform(0, 3, (300, half))
        turns = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
        for tokens, past in ((7, 0), (1, 9), (3, 9), (40, 0), (1, 200)):
            if tokens == 3 and batch > 1:
                continue  # ONNX Runtime takes one batch there
            q = floats(batch, tokens, heads * depth)
            k, v = (floats(batch, tokens, kv_heads * depth) for _ in range(2))
            total = np.array(past + tokens, np.int32)
            lengths = np.array([past + tokens - 1] * batch, np.int32)
            if batch > 1 and tokens == 1:
                lengths[1] -= 3
            for room in (past, past + tokens + 5):
                cache = [floats(batch, kv_heads, room, depth) for _ in range(2)]

                def ask(more, title="", rows=(q, k, v), outputs=3, **attributes):
                    constants = (6,) if len(found) % 3 == 0 else ()
                    found.append(problem("GroupQueryAttention", [*rows, *cache, lengths, total, *more], num_heads=heads, kv_num_heads=kv_heads, outputs=outputs,
                                         title=f"{title} past {past}", constants=constants, dynamic=len(found) % 2 == 1, **attributes))

                ask([])
                ask([], scale=0.3, softcap=2.0)
                ask([], local_window_size=4)
                ask(turns, do_rotary=1, title="rotary")
                ask(turns, do_rotary=1, rotary_interleaved=1, title="interleaved")
                ask([], smooth_softmax=1)
                ask([None, None, None, None, floats(heads)], title="sink")
                ask([None, None, None, floats(1, heads, tokens, past + tokens)], title="added")
                if batch == 1 or tokens > 1:
                    for kind in (1, 2):
                        ask([], qk_output=kind, outputs=4)
                        ask(turns, qk_output=kind, outputs=4, do_rotary=1, scale=0.3, softcap=2.0)
                        ask([None, None, None, floats(1, heads, tokens, past + tokens)], qk_output=kind, outputs=4, local_window_size=4, title="added")
                packed = np.concatenate([q, k, v], axis=2)
                ask([], rows=(packed, None, None), title="packed")
                ask(turns, rows=(packed, None, None), do_rotary=1, title="packed rotary", local_window_size=5)
    return found


def coded_caches():
    """Caches of int8, and of 4 bits with two codes a byte."""
    found = []
    for batch, tokens, heads, kv_heads, depth, past in ((1, 1, 4, 2, 8, 6), (1, 3, 2, 1, 16, 5), (2, 1, 2, 2, 8, 9), (1, 4, 2, 2, 8, 0)):
        for bits in (8, 4):
            for kind in ("PER_TENSOR", "PER_CHANNEL"):
                for room in (past, past + tokens + 3):
                    if room == 0:
                        continue
                    q = floats(batch, tokens, heads * depth)
                    k, v = (floats(batch, tokens, kv_heads * depth) for _ in range(2))
                    width = depth if bits == 8 else depth // 2
                    low, high, code = (-128, 128, np.int8) if bits == 8 else (0, 256, np.uint8)
                    cache = [RNG.integers(low, high, (batch, kv_heads, room, width)).astype(code) for _ in range(2)]
                    size = (1,) if kind == "PER_TENSOR" else (1, kv_heads, 1, depth)
                    scales = [RNG.uniform(0.5, 1, size).astype(np.float32) / (100 if bits == 8 else 6) for _ in range(2)]
                    lengths, total = np.array([past + tokens - 1] * batch, np.int32), np.array(past + tokens, np.int32)
                    found.append(problem("GroupQueryAttention", [q, k, v, *cache, lengths, total, *[None] * 5, *scales], num_heads=heads, kv_num_heads=kv_heads,
                                         outputs=3, k_quant_type=kind, v_quant_type=kind, kv_cache_bit_width=bits, title=f"{bits} bits {kind} past {past}",
                                         dynamic=room > past))
    return found


def rotary():
    found = []
    for batch, tokens, heads, depth in ((2, 5, 3, 8), (1, 7, 2, 16)):
        for interleaved in (0, 1):
            for turned in (0, depth // 2):
                angles = RNG.uniform(0, 3, (20, (turned or depth) // 2))
                turns = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
                ids = RNG.integers(0, 20, (batch, tokens))
                for rows in (floats(batch, tokens, heads * depth), floats(batch, heads, tokens, depth)):
                    for given in (ids, np.array([3]), np.array(3)):
                        stated = dict(num_heads=heads, rotary_embedding_dim=turned) if turned else {}
                        found.append(problem("RotaryEmbedding", [rows, given, *turns], interleaved=interleaved, dynamic=len(found) % 2 == 1, **stated))
    return found


def problems():
    return projected() + multi_head() + decoding() + few_outputs() + grouped() + coded_caches() + rotary()

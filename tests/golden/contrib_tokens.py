"""Hashes of n-grams, aggressive decoding, words of characters, pools with a mask."""
import numpy as np

from contrib_problems import problem


def problems():
    rng = np.random.default_rng(9)
    all_problems = []

    for kind in (np.int32, np.int64):
        for largest, heads in ((2, 3), (3, 2), (4, 1)):
            hashes = (largest - 1) * heads
            ids = rng.integers(0, 9, (2, 7)).astype(kind)
            factors = (rng.integers(0, 2**30, largest) * 2 + 1).astype(kind)
            sizes = rng.integers(5, 99, hashes).astype(kind)
            past = rng.integers(0, 9, (2, largest - 1)).astype(kind)
            offsets = np.arange(hashes).astype(kind) * 100
            segments = np.sort(rng.integers(0, 3, (2, 7)).astype(np.int32))
            kept = dict(max_ngram_size=largest, n_head_per_ngram=heads, pad_id=2, outputs=2, title=np.dtype(kind).name)
            all_problems += [problem("NGramHashMapping", [ids, factors, sizes], **kept),
                             problem("NGramHashMapping", [ids, factors, sizes, past, offsets], **kept | {"outputs": 1}),
                             problem("NGramHashMapping", [ids, factors, sizes, past, offsets, np.array(3, kind)], **kept),
                             problem("NGramHashMapping", [ids, factors, sizes, past, None, np.array(3, kind), segments], reset_on_eos=1, dynamic=True, **kept),
                             problem("NGramHashMapping", [ids[:, :1], factors, sizes, past, offsets, np.array(3, kind)], reset_on_eos=1, **kept)]
            packed = [ids.reshape(-1), factors, sizes, np.array([0, 5, 6, 14], np.int32)]
            past, kept["outputs"] = rng.integers(0, 9, (3, largest - 1)).astype(kind), 3
            segments, past_segments = segments.reshape(-1), rng.integers(0, 3, (3, largest - 1)).astype(np.int32)
            all_problems += [problem("VarlenNGramHashMapping", packed, **kept | {"outputs": 2}),
                             problem("VarlenNGramHashMapping", [*packed, past, None, None, segments], **kept | {"outputs": 1}),
                             problem("VarlenNGramHashMapping", [*packed, past, offsets, np.array(3, kind), segments, past_segments], reset_on_eos=1, **kept),
                             problem("VarlenNGramHashMapping", [*packed, past, offsets, np.array(3, kind), segments, past_segments, np.array([2, 1, 9], np.int32)],
                                     reset_on_eos=1, state_update_capacity=4, **kept | {"outputs": 4})]

    source = np.array([2, 5, 6, 7, 5, 6, 8, 9])
    for number, (current, index, predicted) in enumerate([([2, 5], 1, None), ([2], 1, [5, 6, 7, 5, 3, 8, 9, 4]), ([2], 0, [2, 5, 6, 7, 5, 6, 8, 9, 1]), ([2, 5], 8, [6]),
                                                          ([7], 6, [8, 4, 5]), ([], 5, [6, 8, 5, 6])]):
        for sizes in ((1, 3), (2, 2), (1, 1)):
            all_problems.append(problem("BifurcationDetector", [source, np.array(current, np.int64), np.array([index]), None if predicted is None else np.array(predicted)], outputs=2,
                                        min_ngram_size=sizes[0], max_ngram_size=sizes[1], title=str(number)))

    words = rng.integers(1, 12, (5, 8)).astype(np.int32)
    for row, length in enumerate((8, 3, 1, 5, 8)):
        words[row, length:] = 0
    for filters, width in ((4, 3), (1, 8), (6, 1)):
        weights, bias = rng.normal(0, 1, (filters, 1, width, 5)).astype(np.float32), rng.normal(0, 1, filters).astype(np.float32)
        table = rng.normal(0, 1, (12, 5)).astype(np.float32)
        all_problems += [problem("WordConvEmbedding", [words, weights, bias, table], constants=constants, dynamic=dynamic) for constants, dynamic in (((1, 2, 3), False), ((), True))]

    for shape, more in (((2, 3, 9), dict(kernel_shape=[3])), ((2, 3, 6, 7), dict(kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])),
                        ((1, 2, 4, 5, 6), dict(kernel_shape=[2, 2, 3], strides=[1, 2, 2])), ((1, 1, 5, 6), dict(kernel_shape=[2, 2], auto_pad="SAME_UPPER"))):
        mask = (rng.uniform(0, 1, (1, 1, *shape[2:])) < 0.8).astype(np.int32)
        all_problems.append(problem("MaxpoolWithMask", [rng.normal(0, 1, shape).astype(np.float32), mask], **more))
    return all_problems

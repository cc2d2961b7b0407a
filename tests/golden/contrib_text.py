"""Tokenizer, MurmurHash3, and the way through a matrix of costs."""
import numpy as np

from contrib_problems import problem


def problems():
    rng = np.random.default_rng(14)
    found = []
    texts = [["Hello World", "I love  computer science !"], ["", "a,b;c, d"], ["ünïcödé wörd 漢字 x", "one-two three_4 5.6"], ["  lead and trail  ", "AaBb...Cc"]]
    words = np.array(texts, dtype=object)
    for x in (words, words[:, 1], words[1:2, :1]):
        for mark in (0, 1):
            for least in (1, 2, 4):
                for separators in ([" "], ["[ ,;]+"], [" ", ","], ["\\W"], ["o", "[.-]"]):
                    found.append(tokenizer(x, mark=mark, mincharnum=least, separators=separators))
                for expression in ("[a-zA-Z0-9_]+", "\\w+", "[a-z]+|[A-Z]+", "\\b\\w\\w+\\b", "a|ab|abc", "[^ ]*", "[^ ]+", "\\w\\w+", "[a-zä-ü漢]{3,}",
                                   "(?i)[a-c]+", "[a-z][A-Z]+"):
                    found.append(tokenizer(x, mark=mark, mincharnum=least, tokenexp=expression))
            found.append(tokenizer(x, mark=mark, mincharnum=1, separators=[""]))
            found.append(tokenizer(x, mark=mark, mincharnum=1, tokenexp="."))
    for shape in ((0,), (2, 0), (0, 2)):
        found.append(tokenizer(np.empty(shape, dtype=object), mark=1, mincharnum=1, separators=[" "]))
    found.append(tokenizer(np.array(["    ", ""], dtype=object), mark=1, mincharnum=1, separators=[" "], title="nothing"))
    for positive in (None, 0, 1):
        for seed in (None, 1, 4294967295):
            hashed = [rng.integers(-2**31, 2**31, (3, 4)).astype(kind) for kind in (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64)]
            for x in hashed + [words]:
                found.append(problem("MurmurHash3", [x], positive=positive, seed=seed, title=x.dtype.name, dynamic=positive == 1))
    for shape in ((1, 1), (5, 9), (1, 7, 4), (30, 22), (1, 6), (6, 1)):
        found.append(problem("DynamicTimeWarping", [rng.uniform(-1, 1, shape).astype(np.float32)], title="random"))
        found.append(problem("DynamicTimeWarping", [rng.integers(0, 2, shape).astype(np.float32)], title="equal costs"))
    return found


def tokenizer(x, title="", **attributes):
    return problem("Tokenizer", [x], pad_value="#", dynamic=attributes["mark"] == 1, title=title, **attributes)

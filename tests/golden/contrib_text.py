"""Tokenizer, TfIdfVectorizer, StringSplit, MurmurHash3, and the way through a matrix of costs."""
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
    found.extend(tf_idf(rng))
    parts = np.array([["a,b,,c d", "x", ",", "one, two, three"], ["no", " a  b ", "x, y,z,", "é,漢 字"]], dtype=object)
    for delimiter in (None, "", ",", ", ", " "):
        for most in (None, 0, 1, 2, 9):
            for x in (parts, parts[0], parts[:, :1]):
                found.append(problem("StringSplit", [x], 2, domain="", delimiter=delimiter, maxsplit=most, dynamic=most == 1))
    return found


def tf_idf(rng):
    """N-grams of characters and of words: of one byte and of more, in the pool and not in it, more than a small table holds."""
    letters = list("abcdefghé漢")
    pool = {1: letters, 2: [a + " " + b for a in letters for b in letters if (ord(a) + ord(b)) % 3], 3: ["a b c", "é 漢 a", "h h h"]}
    for split, words in (("characters", letters + ["z", "ü", "#", ""]), ("words", ["alpha", "beta", "gamma", "a", "é", "not there"])):
        known = {n: [gram.split(" ") for gram in grams] for n, grams in pool.items()}
        if split == "words":
            known = {1: [[w] for w in words[:-1]], 2: [[a, b] for a in words[:-1] for b in words[:-1]], 3: [["alpha", "a", "é"]]}
        for numbers in (False, True):
            index = {word: 7 * number - 3 for number, word in enumerate(words)}
            flat = [index[word] if numbers else word for n in (1, 2, 3) for gram in known[n] for word in gram]
            starts = np.cumsum([0] + [len(known[n]) * n for n in (1, 2)]).tolist()
            grams = sum(len(known[n]) for n in (1, 2, 3))
            for least, most, skip in ((1, 1, 0), (1, 2, 0), (2, 2, 3), (1, 3, 1), (3, 3, 2)):
                for mode in ("TF", "IDF", "TFIDF"):
                    text = rng.choice(np.array(words, dtype=object), (3, 40))
                    x = np.vectorize(index.get, otypes=[np.int64])(text) if numbers else text
                    attributes = {"pool_int64s" if numbers else "pool_strings": flat}
                    found = problem("TfIdfVectorizer", [x], domain="", title=split, min_gram_length=least, max_gram_length=most, max_skip_count=skip, mode=mode,
                                    ngram_counts=starts, ngram_indexes=rng.permutation(grams).tolist(),
                                    weights=rng.uniform(0.5, 2, grams).astype(np.float32).tolist(), **attributes)
                    yield found
    for mode in ("TF", "IDF", "TFIDF"):  # two n-grams of one column
        for title, row in (("last of 6", [5, 5, 6, 7]), ("last of 5", [6, 5, 5, 7])):
            yield problem("TfIdfVectorizer", [np.array(row)], domain="", title=title, mode=mode, min_gram_length=1, max_gram_length=1, max_skip_count=0, ngram_counts=[0],
                          ngram_indexes=[1, 1, 0], pool_int64s=[5, 6, 7], weights=[2.0, 3.0, 4.0])


def tokenizer(x, title="", **attributes):
    return problem("Tokenizer", [x], pad_value="#", dynamic=attributes["mark"] == 1, title=title, **attributes)

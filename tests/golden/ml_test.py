"""ai.onnx.ml: generated problems of each operator, with its attributes, against ONNX Runtime."""
import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import driver

TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")


class Problems:
    """Models of one node, with what to feed them."""

    def __init__(self):
        self.random = np.random.default_rng(17)
        self.cases, self.as_floats = [], {}

    def features(self, rows, columns, dtype=np.float32, low=-3, high=3):
        return self.random.uniform(low, high, (rows, columns)).astype(dtype)

    def add(self, name, op, feeds, outputs, opset=1, types=None, **attributes):
        """`outputs`: TensorProto types, or TypeProtos. `feeds`: arrays, or dicts for maps (then with their TypeProto in `types`)."""
        name = f"{op} {name} #{len(self.cases)}"
        self.cases.append(self.case(name, op, feeds, outputs, opset, types, attributes))
        # ONNX Runtime lacks some types of features: there it is asked for the same in float32.
        if types is None and feeds[0].dtype in (np.float64, np.int32, np.int64) and not any(key.startswith("imputed_value_int") for key in attributes):
            kinds = [TensorProto.FLOAT if kind == driver.type_number(feeds[0]) and i == 0 and op in ("Binarizer", "Imputer") else kind for i, kind in enumerate(outputs)]
            self.as_floats[name] = self.case(name, op, [feeds[0].astype(np.float32), *feeds[1:]], kinds, opset, None, attributes)

    @staticmethod
    def case(name, op, feeds, outputs, opset, types, attributes):
        infos = []
        for i, feed in enumerate(feeds):
            if types is not None:
                infos.append(helper.make_value_info(f"x{i}", types[i]))
            else:
                infos.append(helper.make_tensor_value_info(f"x{i}", driver.type_number(feed), [f"d{i}{k}" for k in range(feed.ndim)]))
        made = [helper.make_value_info(f"y{i}", kind) if isinstance(kind, onnx.TypeProto) else helper.make_tensor_value_info(f"y{i}", kind, None)
                for i, kind in enumerate(outputs)]
        node = helper.make_node(op, [f"x{i}" for i in range(len(feeds))], [f"y{i}" for i in range(len(outputs))], domain="ai.onnx.ml", **attributes)
        graph = helper.make_graph([node], op, infos, made)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", opset)], ir_version=8)
        return driver.Case(name, model.SerializeToString(), {f"x{i}": feed for i, feed in enumerate(feeds)}, [None] * len(outputs))

    def words(self, shape, words=("red", "green", "blue", "", "grün", "none")):
        return self.random.choice(np.array(words, dtype=object), shape)


def add_features(to):
    for name, dtype in TYPES.items():
        x = to.features(5, 4, dtype)
        out = driver.type_number(x)
        to.add(name, "ArrayFeatureExtractor", [x, np.array([[2, 0, 2]])], [out])
        to.add(name, "Binarizer", [x], [out], threshold=0.5)
        for norm in ("MAX", "L1", "L2"):
            to.add(f"{name} {norm}", "Normalizer", [x], [TensorProto.FLOAT], norm=norm)
        to.add(name, "Scaler", [x], [TensorProto.FLOAT], offset=[0.5, 1, -1, 0], scale=[2.0, 0.5, 1, 3])
        to.add(f"{name} one", "Scaler", [x], [TensorProto.FLOAT], offset=[0.5], scale=[2.0])
        to.add(name, "FeatureVectorizer", [x, to.features(5, 2, dtype)], [TensorProto.FLOAT], inputdimensions=[4, 2])
        values = {"imputed_value_floats": [7.0], "replaced_value_float": 0.0} if dtype(0.5) == 0.5 else {"imputed_value_int64s": [7], "replaced_value_int64": 0}
        to.add(name, "Imputer", [np.where(x > 1, dtype(0), x).astype(dtype)], [out], **values)
        to.add(name, "OneHotEncoder", [np.abs(x)], [TensorProto.FLOAT], cats_int64s=[2, 0, 1])
    many = np.round(to.features(70, 37))
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 5
    to.add("three dimensions", "Imputer", [cube], [TensorProto.FLOAT], imputed_value_floats=[5.0, 6.0, 7.0], replaced_value_float=2.0)
    to.add("three dimensions", "Scaler", [cube], [TensorProto.FLOAT], offset=[0.5, 1, -1], scale=[2.0, 0.5, 3])
    to.add("many", "Imputer", [many], [TensorProto.FLOAT], imputed_value_floats=np.arange(37).astype(np.float32).tolist(), replaced_value_float=2.0)
    to.add("many", "Scaler", [many], [TensorProto.FLOAT], offset=np.arange(37).astype(np.float32).tolist(), scale=[0.5] * 37)
    for cats in (list(range(-3, 4)), [5_000_000_000, -1, 2, 0, 70_000, -3, 1, 3, -2]):
        to.add(f"many {len(cats)}", "OneHotEncoder", [many.astype(np.int64)], [TensorProto.FLOAT], cats_int64s=cats, zeros=1)
    to.add("nan", "Imputer", [np.array([[np.nan, 2, np.nan]], np.float32)], [TensorProto.FLOAT], imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"))
    to.add("vector", "ArrayFeatureExtractor", [np.arange(5, dtype=np.float32), np.array([4, 1])], [TensorProto.FLOAT])
    to.add("words", "ArrayFeatureExtractor", [to.words((3, 4)), np.array([3, 0])], [TensorProto.STRING])
    to.add("words", "OneHotEncoder", [to.words((3, 4))], [TensorProto.FLOAT], cats_strings=["blue", "grün"], zeros=1)


def add_labels(to):
    words, numbers = to.words((4, 3)), to.random.integers(0, 5, (4, 3))
    to.add("strings", "CategoryMapper", [words], [TensorProto.INT64], cats_strings=["red", "blue"], cats_int64s=[7, -2], default_int64=-5)
    to.add("integers", "CategoryMapper", [numbers], [TensorProto.STRING], cats_strings=["red", "blue"], cats_int64s=[3, 1], default_string="other")
    to.add("keys twice", "CategoryMapper", [numbers], [TensorProto.STRING], cats_strings=["red", "green", "blue", "red"], cats_int64s=[3, 1, 3, 1], default_string="other")
    to.add("strings", "LabelEncoder", [words], [TensorProto.INT64], classes_strings=["red", "blue"], default_int64=9)
    to.add("integers", "LabelEncoder", [numbers], [TensorProto.STRING], classes_strings=["red", "blue"], default_string="other")
    lists = {"strings": (["red", "green", "blue"], words), "int64s": ([0, 2, 4], numbers), "floats": ([0.0, 1.0, 3.0], numbers.astype(np.float32))}
    kinds = {"strings": TensorProto.STRING, "int64s": TensorProto.INT64, "floats": TensorProto.FLOAT}
    for opset, (key, (keys, x)), (value, (values, _)) in itertools.product((2, 4), lists.items(), lists.items()):
        default = {"strings": {"default_string": "other"}, "int64s": {"default_int64": -3}, "floats": {"default_float": 0.5}}[value]
        to.add(f"{opset} {key} {value}", "LabelEncoder", [x], [kinds[value]], opset=opset, **{f"keys_{key}": keys, f"values_{value}": values}, **default)
    # Keys that lie close to each other, and keys that do not; the first of equal ones counts.
    x = to.random.integers(-40, 700, (37, 29))
    for name, keys in (("close", np.arange(-20, 500)), ("apart", np.arange(-20, 500) * 1_000_003), ("few", np.array([5, -7, 5, 123_456_789_012]))):
        asked = np.concatenate([x.ravel(), to.random.choice(keys, 300)])
        to.add(name, "LabelEncoder", [asked], [TensorProto.FLOAT], opset=2, keys_int64s=keys.tolist(), values_floats=to.random.normal(size=len(keys)).astype(np.float32).tolist(), default_float=-1.0)
        to.add(f"{name} floats", "LabelEncoder", [asked.astype(np.float32)], [TensorProto.INT64], opset=4, keys_floats=keys.astype(np.float32).tolist(), values_int64s=list(range(len(keys))), default_int64=-1)
        texts = [f"key {key}" for key in keys]
        to.add(f"{name} texts", "LabelEncoder", [np.array([f"key {one}" for one in asked], dtype=object)], [TensorProto.INT64], opset=2, keys_strings=texts, values_int64s=list(range(len(keys))), default_int64=-1)
    tensor = helper.make_tensor
    to.add("tensors", "LabelEncoder", [numbers.astype(np.int16)], [TensorProto.DOUBLE], opset=4, keys_tensor=tensor("k", TensorProto.INT16, [2], [1, 3]),
           values_tensor=tensor("v", TensorProto.DOUBLE, [2], [0.5, 2.5]), default_tensor=tensor("d", TensorProto.DOUBLE, [1], [-1.0]))


def add_maps(to):
    def map_type(key, value):
        return helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, []))
    strings = {"b": 2.5, "a": 1.0, "z": -4.0}
    to.add("strings", "DictVectorizer", [strings], [TensorProto.FLOAT], types=[map_type(TensorProto.STRING, TensorProto.FLOAT)], string_vocabulary=["a", "c", "b"])
    to.add("integers", "DictVectorizer", [{1: 2.5, 9: 1.0}], [TensorProto.FLOAT], types=[map_type(TensorProto.INT64, TensorProto.FLOAT)], int64_vocabulary=[9, 2, 1])
    # A word that is there twice, keys that are not there, and enough of both to be looked up.
    many = {f"key {number}": float(number) for number in range(0, 300, 2)}
    to.add("many strings", "DictVectorizer", [many], [TensorProto.FLOAT], types=[map_type(TensorProto.STRING, TensorProto.FLOAT)],
           string_vocabulary=["key 4", *(f"key {number}" for number in range(0, 200)), "key 4"])
    to.add("integers twice", "DictVectorizer", [{1: 2.5, -9: 1.0, 10**12: 4.0}], [TensorProto.FLOAT],
           types=[map_type(TensorProto.INT64, TensorProto.FLOAT)], int64_vocabulary=[-9, 2, 1, 10**12, 1])
    for cast, kind in (("TO_FLOAT", TensorProto.FLOAT), ("TO_INT64", TensorProto.INT64)):
        for form in ("DENSE", "SPARSE"):
            to.add(f"{cast} {form}", "CastMap", [{3: 2.0, 1: 7.0}], [kind], types=[map_type(TensorProto.INT64, TensorProto.FLOAT)], cast_to=cast, map_form=form, max_map=5)
    for labels in ({"classlabels_strings": ["a", "b", "c"]}, {"classlabels_int64s": [5, -1, 3]}):
        key = TensorProto.STRING if "classlabels_strings" in labels else TensorProto.INT64
        to.add("rows", "ZipMap", [to.features(4, 3)], [helper.make_sequence_type_proto(map_type(key, TensorProto.FLOAT))], **labels)


def labels_of(count, words):
    return {"classlabels_strings": [f"class {i}" for i in range(count)]} if words else {"classlabels_ints": [10 * i - 5 for i in range(count)]}


def add_linear(to):
    for (name, dtype), transform, targets in itertools.product(TYPES.items(), TRANSFORMS, (1, 2, 3)):
        if name != "f32" and transform not in ("NONE", "SOFTMAX"):
            continue
        # Probabilities, where the inverse of a distribution is asked for.
        coefficients = to.random.uniform(*((0, 0.05) if transform == "PROBIT" else (-1, 1)), targets * 4).astype(np.float32).tolist()
        x = to.features(7, 4, dtype, low=1 if transform == "PROBIT" else -3, high=4)
        intercepts = to.random.uniform(0, 0.2, targets).astype(np.float32).tolist()
        to.add(f"{name} {transform} {targets}", "LinearRegressor", [x], [TensorProto.FLOAT], coefficients=coefficients, intercepts=intercepts, targets=targets, post_transform=transform)
        # ONNX Runtime leaves half of these scores unwritten.
        for words in (False, True) if (transform, targets) != ("PROBIT", 1) else ():
            kind = TensorProto.STRING if words else TensorProto.INT64
            to.add(f"{name} {transform} {targets} {words}", "LinearClassifier", [x], [kind, TensorProto.FLOAT], coefficients=coefficients, intercepts=intercepts,
                   post_transform=transform, **labels_of(max(targets, 2), words))

    # Only the first ones of a longer list count.
    for more in (2, 6):
        coefficients = to.random.uniform(-1, 1, 2 * 4 + more).astype(np.float32).tolist()
        to.add(f"{more} more", "LinearRegressor", [to.features(5, 4)], [TensorProto.FLOAT], coefficients=coefficients, targets=2)
        to.add(f"{more} more", "LinearClassifier", [to.features(5, 4)], [TensorProto.INT64, TensorProto.FLOAT], coefficients=coefficients, intercepts=[0.1, 0.2],
               **labels_of(2, False))
    for (rows, columns), targets in itertools.product(((1, 33), (100, 33), (100, 700)), (1, 2, 12, 40)):
        x, coefficients = to.features(rows, columns), to.random.uniform(-0.2, 0.2, targets * columns).astype(np.float32).tolist()
        intercepts = to.random.uniform(0, 0.2, targets).astype(np.float32).tolist()
        to.add(f"{rows} rows {targets}", "LinearRegressor", [x], [TensorProto.FLOAT], coefficients=coefficients, intercepts=intercepts, targets=targets)
        for transform in ("NONE", "LOGISTIC", "SOFTMAX"):
            to.add(f"{rows} rows {transform} {targets}", "LinearClassifier", [x], [TensorProto.INT64, TensorProto.FLOAT], coefficients=coefficients, intercepts=intercepts,
                   post_transform=transform, **labels_of(max(targets, 2), False))


def add_svm(to):
    for kernel, rows, degree in itertools.product(("LINEAR", "POLY", "RBF", "SIGMOID"), (1, 60), (2.0, 3.0, 4.0)):
        parameters = {"kernel_type": kernel, "kernel_params": [0.05, 0.5, degree], "support_vectors": to.features(150, 20).flatten().tolist()}
        weights = to.random.uniform(-0.1, 0.1, 300).astype(np.float32).tolist()
        to.add(f"{kernel} {rows} rows, {degree}", "SVMRegressor", [to.features(rows, 20)], [TensorProto.FLOAT], n_supports=150, rho=[0.3], coefficients=weights[:150], **parameters)
        to.add(f"{kernel} {rows} rows, {degree}", "SVMClassifier", [to.features(rows, 20)], [TensorProto.INT64, TensorProto.FLOAT], vectors_per_class=[40, 50, 60], rho=[0.1, 0.2, 0.3],
               coefficients=weights, **parameters, **labels_of(3, False))
    for kernel, one_class, supports in itertools.product(("LINEAR", "POLY", "RBF", "SIGMOID"), (0, 1), (0, 5)):
        if supports == 0 and kernel != "LINEAR":
            continue
        to.add(f"{kernel} {one_class} {supports}", "SVMRegressor", [to.features(6, 3)], [TensorProto.FLOAT], kernel_type=kernel, one_class=one_class, n_supports=supports,
               kernel_params=[0.25, 0.5, 3.0], rho=[0.3], coefficients=to.random.uniform(-1, 1, supports or 3).astype(np.float32).tolist(),
               **({"support_vectors": to.features(supports, 3).flatten().tolist()} if supports else {}))
    for kernel, classes, probable, transform, words in itertools.product(("LINEAR", "POLY", "RBF", "SIGMOID"), (2, 3, 4), (False, True), ("NONE", "LOGISTIC", "SOFTMAX"), (False, True)):
        if words and kernel != "RBF":
            continue
        per_class = to.random.integers(1, 4, classes)
        vectors, pairs = int(per_class.sum()), classes * (classes - 1) // 2
        more = {"prob_a": to.random.uniform(-2, -1, pairs).astype(np.float32).tolist(), "prob_b": [0.1] * pairs} if probable else {}
        to.add(f"{kernel} {classes} {probable} {transform} {words}", "SVMClassifier", [to.features(9, 3)], [TensorProto.STRING if words else TensorProto.INT64, TensorProto.FLOAT],
               kernel_type=kernel, kernel_params=[0.25, 0.5, 3.0], vectors_per_class=per_class.tolist(), post_transform=transform, rho=to.random.uniform(-1, 1, pairs).astype(np.float32).tolist(),
               support_vectors=to.features(vectors, 3).flatten().tolist(), coefficients=to.random.uniform(-1, 1, (classes - 1) * vectors).astype(np.float32).tolist(), **labels_of(classes, words), **more)
    for classes, transform in itertools.product((2, 3), ("NONE", "LOGISTIC", "SOFTMAX")):
        to.add(f"linear {classes} {transform}", "SVMClassifier", [to.features(9, 3)], [TensorProto.INT64, TensorProto.FLOAT], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], post_transform=transform, rho=[0.1],
               coefficients=to.random.uniform(-1, 1, classes * 3).astype(np.float32).tolist(), **labels_of(classes, False))


def grow(random, trees, depth, features, modes, missing=False):
    """Nodes of random trees, as the attributes that they are; and the numbers of the leaves, by tree."""
    lists = {key: [] for key in ("treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    leaves = []
    for tree in range(trees):
        count = 0

        def node(level):
            nonlocal count
            number, count = count, count + 1
            at = len(lists["modes"])
            leaf = level == depth or (level > 0 and random.random() < 0.2)
            for key, value in (("treeids", tree), ("nodeids", number), ("modes", "LEAF" if leaf else str(random.choice(modes))), ("featureids", 0 if leaf else int(random.integers(features))),
                               ("values", 0.0 if leaf else float(np.float32(random.integers(-4, 5) / 2))), ("truenodeids", 0), ("falsenodeids", 0),
                               ("missing_value_tracks_true", int(missing and not leaf and random.random() < 0.5))):
                lists[key].append(value)
            if leaf:
                leaves.append((tree, number))
            else:
                lists["truenodeids"][at] = node(level + 1)
                lists["falsenodeids"][at] = node(level + 1)
            return number

        node(0)
    if not missing:
        del lists["missing_value_tracks_true"]
    return {f"nodes_{key}": values for key, values in lists.items()}, leaves


LEQ = ["BRANCH_LEQ"]
ALL_MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def add_trees(to):
    random = to.random
    for (name, dtype), modes, missing in itertools.product(TYPES.items(), (LEQ, ["BRANCH_LT"], ["BRANCH_GT"], ["BRANCH_GTE"], ["BRANCH_EQ"], ["BRANCH_NEQ"], ALL_MODES), (False, True)):
        x = (np.round(to.features(37, 5, np.float64, -3, 3) * 2) / 2).astype(dtype)
        if missing and x.dtype.kind == "f":
            x[random.random(x.shape) < 0.3] = np.nan
        for aggregate, targets, base in (("SUM", 1, False), ("AVERAGE", 1, True), ("MIN", 2, False), ("MAX", 2, False), ("SUM", 3, True)):
            nodes, leaves = grow(random, 6, 4, 5, modes, missing)
            weights = [(tree, number, target, float(np.float32(random.normal()))) for tree, number in leaves for target in (range(targets) if base else [int(random.integers(targets))])]
            columns = {f"target_{key}": list(values) for key, values in zip(("treeids", "nodeids", "ids", "weights"), zip(*weights))}
            more = {"base_values": random.normal(size=targets).astype(np.float32).tolist()} if base else {}
            for transform in TRANSFORMS[:4] if name == "f32" and modes is LEQ else ("NONE",):
                to.add(f"{name} {modes[0]} {missing} {aggregate} {targets} {transform}", "TreeEnsembleRegressor", [x], [TensorProto.FLOAT], opset=3, n_targets=targets,
                       aggregate_function=aggregate, post_transform=transform, **nodes, **columns, **more)
    for classes, sign, transform, words, base in itertools.product((2, 3, 4), ("positive", "mixed", "one positive", "one mixed"), TRANSFORMS[:4], (False, True), (False, True)):
        if "one" in sign and classes > 2:
            continue
        nodes, leaves = grow(random, 5, 3, 4, LEQ)
        weights = []
        for tree, number in leaves:
            for target in ([0] if "one" in sign else range(classes)):
                weight = random.uniform(0.01, 0.19) if "positive" in sign else random.normal()
                weights.append((tree, number, target, float(np.float32(weight))))
        columns = {f"class_{key}": list(values) for key, values in zip(("treeids", "nodeids", "ids", "weights"), zip(*weights))}
        more = {"base_values": random.uniform(0, 0.1, classes).astype(np.float32).tolist()} if base and classes > 2 else {}
        labels = {"classlabels_strings": [f"class {i}" for i in range(classes)]} if words else {"classlabels_int64s": list(range(classes))}
        to.add(f"{classes} {sign} {transform} {words} {base}", "TreeEnsembleClassifier", [to.features(29, 4)], [TensorProto.STRING if words else TensorProto.INT64, TensorProto.FLOAT],
               opset=3, post_transform=transform, **nodes, **columns, **labels, **more)


    # A row or a few go down several trees at once.
    for rows, trees, missing in itertools.product((1, 3, 8, 9), (3, 8, 21, 150), (False, True)):
        x = to.features(rows, 5)
        x[random.random(x.shape) < 0.2] = np.nan
        nodes, leaves = grow(random, trees, 4, 5, ALL_MODES, missing)
        weights = [(tree, number, int(random.integers(3)), float(np.float32(random.normal()))) for tree, number in leaves]
        columns = [list(values) for values in zip(*weights)]
        to.add(f"{rows} rows {trees} {missing}", "TreeEnsembleRegressor", [x], [TensorProto.FLOAT], opset=3, n_targets=3, **nodes,
               **{f"target_{key}": values for key, values in zip(("treeids", "nodeids", "ids", "weights"), columns)})
        to.add(f"{rows} rows {trees} {missing}", "TreeEnsembleClassifier", [x], [TensorProto.INT64, TensorProto.FLOAT], opset=3, classlabels_int64s=[4, 5, 6], **nodes,
               **{f"class_{key}": values for key, values in zip(("treeids", "nodeids", "ids", "weights"), columns)})


def add_placed_trees(to):
    """TreeEnsemble (5), made of the numbered nodes."""
    random = to.random
    for dtype, aggregate, modes in itertools.product((np.float32, np.float64), (0, 1, 2, 3), (LEQ, ALL_MODES)):
        nodes, _ = grow(random, 4, 3, 4, modes)
        place, leaf, lists = {}, {}, {key: [] for key in ("modes", "featureids", "splits", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")}
        for tree, number, mode in zip(nodes["nodes_treeids"], nodes["nodes_nodeids"], nodes["nodes_modes"]):
            (leaf if mode == "LEAF" else place)[tree, number] = len(leaf if mode == "LEAF" else place)
        for i, mode in enumerate(nodes["nodes_modes"]):
            if mode == "LEAF":
                continue
            tree = nodes["nodes_treeids"][i]
            lists["modes"].append(ALL_MODES.index(mode))
            lists["featureids"].append(nodes["nodes_featureids"][i])
            lists["splits"].append(nodes["nodes_values"][i])
            for side in ("true", "false"):
                key = (tree, nodes[f"nodes_{side}nodeids"][i])
                lists[f"{side}nodeids"].append(leaf[key] if key in leaf else place[key])
                lists[f"{side}leafs"].append(int(key in leaf))
        kind = driver.type_number(np.zeros(1, dtype))
        to.add(f"{dtype.__name__} {aggregate} {modes[0]}", "TreeEnsemble", [to.features(21, 4, dtype)], [kind], opset=5, n_targets=2, aggregate_function=aggregate,
               tree_roots=[place[tree, 0] for tree in range(4)], leaf_targetids=[int(random.integers(2)) for _ in leaf],
               leaf_weights=helper.make_tensor("w", kind, [len(leaf)], random.normal(size=len(leaf)).astype(dtype)),
               nodes_modes=helper.make_tensor("m", TensorProto.UINT8, [len(place)], lists["modes"]), nodes_splits=helper.make_tensor("s", kind, [len(place)], np.array(lists["splits"], dtype)),
               **{f"nodes_{key}": lists[key] for key in ("featureids", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")})


FAMILIES = {"features": add_features, "labels": add_labels, "maps": add_maps, "linear": add_linear, "svm": add_svm, "trees": add_trees, "placed trees": add_placed_trees}


def differs(want, got):
    """None when both are the same, but for roundings."""
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"{got} is no sequence of {len(want)}"
        return next(filter(None, map(differs, want, got)), None)
    if isinstance(want, dict):
        if want.keys() != got.keys():
            return f"keys {list(got)}, not {list(want)}"
        return differs(np.array(list(want.values()), np.float32), np.array([got[key] for key in want], np.float32))
    if want.shape != got.shape or (want.dtype != got.dtype and want.dtype.kind not in "OU"):
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    close = np.isclose(got, want, rtol=2e-4, atol=2e-5, equal_nan=True) if want.dtype.kind == "f" else got == want
    if np.all(close):
        return None
    where = tuple(np.argwhere(~close)[0])
    return f"at {[int(i) for i in where]} {got[where]!r}, not {want[where]!r} ({np.sum(~close)} differ)"


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_those_of_onnx_runtime(family, threads, tmp_path, record_property):
    problems = Problems()
    FAMILIES[family](problems)
    outcomes = driver.run_all(problems.cases, tmp_path, (f"--threads={threads}",))
    failures, compared, refused = [], 0, []
    for case in problems.cases:
        wanted = None
        for asked in filter(None, (case, problems.as_floats.get(case.name))):
            try:
                wanted = driver.plain_session(asked.model).run(None, asked.inputs)
                break
            except Exception as error:  # what ONNX Runtime refuses has no result to compare with
                refusal = str(error)[:150]
        if wanted is None:
            refused.append(f"{case.name}: {refusal}")
            continue
        compared += 1
        outcome = outcomes[case.name]
        found = None if outcome.ok else outcome.status
        for index, want in enumerate(wanted):
            if not isinstance(want, (list, dict)):
                want = np.asarray(want)
                want = want.astype(outcome.outputs[index].dtype) if asked is not case and not found else want
            found = found or differs(want, outcome.outputs[index])
            if found:
                failures.append(f"{case.name}, output {index}: {found}")
                break
    record_property("compared", compared)
    print(f"{compared} of {len(problems.cases)} problems compared; ONNX Runtime refuses:", *refused[:20], sep="\n  ")
    assert not failures, f"{len(failures)} of {compared}:\n" + "\n".join(failures[:60])
    assert compared > 0.8 * len(problems.cases)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))

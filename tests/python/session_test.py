"""InferenceSession, its options and its errors, beside onnxruntime's package where both answer alike."""
import collections
import copy
import gc
import os
import pathlib
import pickle
import warnings
import weakref

import numpy as np
import pytest
import tenon
from onnx import helper

import models

ort = pytest.importorskip("onnxruntime")
ort.set_default_logger_severity(4)
X = np.arange(6, dtype=np.float32).reshape(3, 2)


def both(model, feed, names=None):
    """The results of the two packages, or their errors."""
    answers = []
    for package in (tenon, ort):
        try:
            answers.append(package.InferenceSession(model, providers=["CPUExecutionProvider"]).run(names, feed))
        except Exception as error:  # noqa: BLE001  (any, to be compared)
            answers.append(error)
    return answers


def same(ours, theirs):
    if isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(same(a, b) for a, b in zip(ours, theirs))
    if isinstance(theirs, np.ndarray):
        return type(ours) is np.ndarray and ours.dtype == theirs.dtype and np.array_equal(ours, theirs)
    return type(ours) is type(theirs) and ours == theirs


FEEDS = {
    "array": X, "float16": X.astype(np.float16), "int64": X.astype(np.int64), "rank": X[0], "dimension": np.ones((3, 3), np.float32),
    "transposed": np.ones((2, 3), np.float32).T, "fortran": np.asfortranarray(X), "list": [[1.0, 2.0]], "integers": [[1, 2]],
    "nested": [X], "strings": np.array([["a", "b"]]), "objects": np.array([["a", "b"]], object), "empty": X[:0],
    "read-only": np.frombuffer(b"\0" * 8, np.float32).reshape(1, 2), "strided": np.ones((6, 4), np.float32)[::2, ::2],
}


@pytest.mark.parametrize("name", FEEDS)
def test_a_run_answers_as_onnxruntime(name):
    ours, theirs = both(models.one_node("Identity"), {"x": FEEDS[name]})
    if isinstance(theirs, Exception):
        assert type(ours).__name__ == type(theirs).__name__
        assert str(ours) == str(theirs)
    else:
        assert same(ours, theirs)


def test_names_that_are_wrong_or_missing_are_onnxruntimes_errors():
    for feed, names in [({"z": X}, None), ({"x": X, "z": X}, None), ({"x": X}, ["q"]), ({}, None)]:
        ours, theirs = both(models.one_node("Identity"), feed, names)
        assert type(ours).__name__ == type(theirs).__name__
        assert str(ours).replace(": q", ":q") == str(theirs)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
                                   "float32", "float64"])
def test_types_of_numpy_pass(dtype):
    element_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ours, theirs = both(models.one_node("Identity", element_type), {"x": np.ones((2, 2), dtype)})
    assert same(ours, theirs)


def test_bfloat16_and_float8_pass_as_arrays_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name, element_type in [("bfloat16", 16), ("float8_e5m2", 19), ("float8_e4m3fnuz", 18)]:
        x = np.array([[1, 2]], getattr(ml_dtypes, name))
        y, = tenon.InferenceSession(models.one_node("Identity", element_type, opset=19)).run(None, {"x": x})
        assert y.dtype == x.dtype and y.tobytes() == x.tobytes()


def test_the_other_byte_order_is_converted():
    y, = tenon.InferenceSession(models.one_node("Identity")).run(None, {"x": X.astype(">f4")})
    assert np.array_equal(y, X)


@pytest.mark.parametrize("shape", [["n"], ["n", "m"]], ids=["a row", "a table"])
def test_texts_of_the_other_byte_order_are_converted(shape):
    x = np.array(TEXTS if len(shape) == 1 else [TEXTS, TEXTS[::-1]])
    session = tenon.InferenceSession(models.one_node("Identity", models.STRING, shape))
    assert session.run(None, {"x": x.astype(x.dtype.newbyteorder())})[0].tolist() == x.tolist()
    assert tenon.OrtValue.ortvalue_from_numpy(x.astype(x.dtype.newbyteorder())).numpy().tolist() == x.tolist()


TEXTS = ["a", "bé", "", "漢字", "\U0001F600 and more than fifteen bytes"]


@pytest.mark.parametrize("x", [np.array(TEXTS, object), np.array(TEXTS), np.array(TEXTS)[::2], np.array(TEXTS, object)[::2],
                               np.array(["a\0b", ""], object), ["a", "b"], np.array([1, None], object), np.array([1, "a"], object),
                               np.empty(0, object), np.empty(0, "U3"), np.empty(2, object)],
                         ids=["object", "U", "every other U", "every other object", "zero", "list", "mixed", "a text among others",
                              "none", "none of U", "never filled"])
def test_strings_pass(x):
    ours, theirs = both(models.one_node("Identity", models.STRING, ["n"]), {"x": x})
    assert same(ours, theirs)


@pytest.mark.parametrize("dtype", [object, "U"])
def test_text_that_is_no_utf8_is_an_error(dtype):
    session = tenon.InferenceSession(models.one_node("Identity", models.STRING, ["n"]))
    with pytest.raises(UnicodeEncodeError):
        session.run(None, {"x": np.array(["a", "\ud800"], dtype)})


def test_the_text_of_an_object_may_change_the_feed():
    """str() of an element runs the program's code, in the middle of the call."""
    class Text:
        def __str__(self):
            feed.clear()
            return "made"

    feed = {"x": np.array(["a", Text()], object)}
    session = tenon.InferenceSession(models.one_node("Identity", models.STRING, ["n"]))
    assert session.run(None, feed)[0].tolist() == ["a", "made"]


@pytest.mark.parametrize("x", [np.array([TEXTS, TEXTS[::-1]], order="F"), np.array([TEXTS, TEXTS[::-1]], object, order="F"),
                               np.array([TEXTS, TEXTS[::-1]], object).T, [TEXTS, TEXTS[::-1]], [["a"], ["b"]]],
                         ids=["U by columns", "objects by columns", "turned", "lists", "a column"])
def test_tables_of_strings_pass(x):
    ours, theirs = both(models.one_node("Identity", models.STRING, ["n", "m"]), {"x": x})
    assert same(ours, theirs)


def test_tuples_are_lists():
    y, = tenon.InferenceSession(models.one_node("Identity", models.STRING, ["n", "m"])).run(None, {"x": (tuple(TEXTS), TEXTS)})
    assert y.tolist() == [TEXTS, TEXTS]


@pytest.mark.parametrize("dtype, x", [
    ("float32", [[1.5, -2.0], [float("inf"), 1e-50]]), ("float32", ((1, 2.5), [3, 4])), ("float64", [[1.5, 2.5]]),
    ("int64", [[1, -2], [2**62, 4]]), ("float32", [[True, False]]), ("int64", [[True, 2]]), ("float32", [[np.float32(3), 2.0]]),
    ("float32", [[[1.0, 2.0]], np.ones((1, 2))])])
def test_lists_of_numbers_pass(dtype, x):
    shape = ["n", 2] if np.ndim(x) == 2 else ["n", 1, 2]
    model = models.one_node("Identity", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
    y, = tenon.InferenceSession(model).run(None, {"x": x})
    assert y.dtype == dtype and np.array_equal(y, np.array(x, dtype))


def test_lists_that_are_no_tensor_are_errors():
    session = tenon.InferenceSession(models.one_node("Identity", models.INT64, ["n", 2]))
    endless = []
    endless.append(endless)
    for x in ([[1, 2], [3]], [[1, 2], 3], [[1, 2**63]], [["a", 2]], [[1] * 1000] + [[1]] * 10**6, endless):
        with pytest.raises(RuntimeError, match="Could not create tensor from given input list"):
            session.run(None, {"x": x})
    assert session.run(None, {"x": [[1.5, 2]]})[0].tolist() == [[1, 2]]  # as onnxruntime


def test_reading_a_list_may_change_the_feed():
    """numpy runs the program's code for an element, which here drops the array that is bound already."""
    class Row:
        def __array__(self, dtype=None, copy=None):
            if "x" in feed:
                feed.clear()
                kept.extend(np.full((2048, 2), 7, np.float32) for _ in range(8))  # where the array was
            return np.array([1, 2], np.float32)

    kept = []
    session = tenon.InferenceSession(models.insert())
    feed = {"x": np.ones((2048, 2), np.float32), "s": [[Row()]]}
    result, = session.run(None, feed)
    assert result[0].tolist() == [[1, 2]] and np.array_equal(result[1], np.ones((2048, 2)))


def test_a_session_keeps_no_list_of_arrays_after_the_run():
    class Array(np.ndarray):
        pass

    x = X.copy().view(Array)
    alive = weakref.ref(x)
    session = tenon.InferenceSession(models.insert())
    del session.run(None, {"s": [x], "x": X})[:]
    with pytest.raises(tenon.InvalidArgument):
        session.run(None, {"s": [x], "x": X.astype(np.int32)})
    del x
    gc.collect()
    assert alive() is None


def test_an_interrupt_while_a_list_is_read_ends_the_call():
    class Row:
        def __array__(self, dtype=None, copy=None):
            calls.append(1)
            raise KeyboardInterrupt

    calls = []
    with pytest.raises(KeyboardInterrupt):
        tenon.InferenceSession(models.one_node("Neg")).run(None, {"x": [Row()]})
    assert len(calls) == 1


@pytest.mark.parametrize("words", [
    ["a", "", "bc", "def", "\u00e9", "\u4e2d\u6587", "twelve bytes", "twelve bytes too", "\U0001f600" * 20, "x" * 63, "x" * 64, "x" * 65],
    [f"word {i}" for i in range(40)], [f"{i:08d} and the same end" for i in range(700)], ["word"]])
def test_arrays_of_repeated_and_of_different_strings_are_what_the_model_gives(words):
    """Equal strings may be one object, whatever they share the table's place with."""
    session = tenon.InferenceSession(models.one_node("Identity", models.STRING, ["n"]))
    x = np.array([words[i] for i in np.random.default_rng(3).integers(0, len(words), 2000)], object)
    result, = session.run(None, {"x": x})
    assert result.tolist() == x.tolist()


def test_bytes_are_strings_of_utf8():
    for x in (np.array(["bé".encode()]), np.array(["bé".encode()], object)):
        y, = tenon.InferenceSession(models.one_node("Identity", models.STRING, ["n"])).run(None, {"x": x})
        assert y.tolist() == ["bé"]


def test_sequences_pass():
    for feed in ({"s": [X, X], "x": X}, {"s": [], "x": X}):
        ours, theirs = both(models.insert(), feed)
        assert same(ours, theirs)
    ours, theirs = both(models.insert(), {"s": X, "x": X})
    assert type(ours).__name__ == type(theirs).__name__ == "InvalidArgument"
    info = tenon.InferenceSession(models.insert()).get_inputs()[0]
    assert (info.type, info.shape) == ("seq(tensor(float))", [])


def test_sequences_and_maps_of_other_types_say_what_they_are():
    sequence = tenon.InferenceSession(models.insert())
    with pytest.raises(tenon.InvalidArgument, match=r"Actual: \(seq\(tensor\(double\)\)\) , expected: \(seq\(tensor\(float\)\)\) for input \"s\""):
        sequence.run(None, {"s": [X, X.astype(np.float64)], "x": X})
    mapping = tenon.InferenceSession(models.dictionary())
    with pytest.raises(tenon.InvalidArgument, match=r"Actual: \(map\(string,tensor\(string\)\)\) , expected: \(map\(string,.*int64.*\) for input \"x\""):
        mapping.run(None, {"x": {"a": "b"}})


def test_a_zip_map_is_a_list_of_dictionaries():
    ours, theirs = both(models.zip_map(), {"x": X})
    assert same(ours, theirs)
    session = tenon.InferenceSession(models.zip_map())
    assert session.get_outputs()[0].type == "seq(map(int64,tensor(float)))"
    assert same(session.run(None, {"x": X}, tenon.RunOptions()), theirs)
    ours, theirs = both(models.zip_map(), {"x": X[:0]})
    assert same(ours, theirs) and ours == [[]]


def test_a_dictionary_is_a_map_with_the_models_types():
    session = tenon.InferenceSession(models.dictionary())
    assert session.run(None, {"x": {"a": 2, "c": 5}})[0].tolist() == [[2, 0]]
    with pytest.raises(tenon.InvalidArgument, match="1 is a key"):
        session.run(None, {"x": {1: 2}})
    assert session.run(None, {"x": {}})[0].tolist() == [[0, 0]]
    with pytest.raises(tenon.InvalidArgument):
        session.run(None, {"x": {"a": 2.5}})  # no silent 2
    with pytest.raises(RuntimeError, match="Could not create tensor"):
        session.run(None, {"x": {"a": 2**63}})


def test_a_scalar_takes_any_shape_as_often_as_the_model_can_be_loaded_again(tmp_path):
    file = tmp_path / "scalar.onnx"
    file.write_bytes(models.one_node("Neg", shape=()))
    session = tenon.InferenceSession(file)
    one, two = np.array([3], np.float32), np.array([3, 4], np.float32)
    assert session.run(None, {"x": two})[0].tolist() == [-3, -4]
    file.unlink()
    assert session.run(None, {"x": one})[0].shape == (1,)  # it was loaded again already
    file.write_bytes(models.one_node("Neg", shape=()))
    session = tenon.InferenceSession(file)
    file.unlink()
    assert session.run(None, {"x": one})[0].shape == ()
    with pytest.raises(tenon.Error):
        session.run(None, {"x": two})
    assert session.run(None, {"x": np.float32(3)})[0] == -3


def test_an_optional_may_be_none_or_missing():
    for feed in ({"o": None}, {"o": X}, {}):
        ours, theirs = both(models.optional(), feed)
        assert same(ours, theirs)


def test_an_overridable_initializer_has_a_value_and_takes_another():
    session = tenon.InferenceSession(models.add_one())
    assert [a.name for a in session.get_overridable_initializers()] == ["one"]
    assert session.run(None, {"x": X})[0][0, 0] == 1
    assert session.run(None, {"x": X, "one": np.full(2, 5, np.float32)})[0][0, 0] == 5
    assert session.run(None, {"x": X})[0][0, 0] == 1


def test_feeds_may_be_any_mapping_and_names_any_sequence():
    class Feed(collections.abc.Mapping):
        def __getitem__(self, key):
            return X

        def __iter__(self):
            return iter(["x"])

        def __len__(self):
            return 1

    session = tenon.InferenceSession(models.one_node("Neg"))
    for feed in (Feed(), collections.OrderedDict(x=X), {"".join(["x"]): X}):
        for names in (None, [], ["y"], ("y",)):
            assert np.array_equal(session.run(names, feed)[0], -X)
    assert len(session.run(["y", "y"], {"x": X})) == 2
    with pytest.raises(AttributeError, match="keys"):
        session.run(None, [X])
    with pytest.raises(TypeError, match='one string: "y"'):
        session.run("y", {"x": X})
    with pytest.raises(TypeError, match="run_options"):
        session.run(None, {"x": X}, 5)


def test_a_list_of_names_that_fails_is_its_own_error():
    class Names(list):
        def __len__(self):
            raise KeyError("no length")

        def __iter__(self):
            return iter(("y",))

    with pytest.raises(KeyError, match="no length"):
        tenon.InferenceSession(models.one_node("Neg")).run(Names(["y"]), {"x": X})


def test_names_that_are_no_utf8_are_errors_of_the_text():
    session = tenon.InferenceSession(models.one_node("Neg"))
    for names, feed in ((["\ud800"], {"x": X}), (None, {"x": X, "\ud800": X})):
        with pytest.raises(UnicodeEncodeError):
            session.run(names, feed)


def test_a_file_may_have_a_name_that_is_no_utf8(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.onnx")
    with pytest.raises(tenon.NoSuchFile, match=r"\\xff[.]onnx"):
        tenon.InferenceSession(path)
    pathlib.Path(path).write_bytes(models.one_node("Neg"))
    assert np.array_equal(tenon.InferenceSession(path).run(None, {"x": X})[0], -X)
    with pytest.raises(ValueError, match="null byte"):
        tenon.InferenceSession("a\0b")


def test_node_args_and_metadata_are_the_models():
    proto = models.model([helper.make_node("Neg", ["x"], ["y"])], [models.value("x", models.FLOAT, ["n", None, 2])],
                         [models.value("y", models.FLOAT, ["n", None, 2])], producer_name="me", model_version=7, doc_string="d",
                         domain="here")
    helper.set_model_props(proto, {"a": "b"})
    sessions = [package.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
                for package in (tenon, ort)]
    ours, theirs = ([str(a) for a in s.get_inputs() + s.get_outputs()] for s in sessions)
    assert ours == theirs
    names = ["producer_name", "graph_name", "domain", "description", "graph_description", "version", "custom_metadata_map"]
    ours, theirs = ([getattr(s.get_modelmeta(), name) for name in names] for s in sessions)
    assert ours == theirs


def test_models_that_cannot_be_loaded_have_onnxruntimes_classes():
    bad = models.model([helper.make_node("Nope", ["x"], ["y"])], [models.value("x", models.FLOAT, [1])],
                       [models.value("y", models.FLOAT, [1])]).SerializeToString()
    for source in ("/no/such.onnx", pathlib.Path("/no/such.onnx"), b"abc", b"", bad, 5):
        errors = []
        for package in (tenon, ort):
            with pytest.raises(Exception) as caught:
                package.InferenceSession(source)
            errors.append(caught.value)
        assert type(errors[0]).__name__ == type(errors[1]).__name__


def test_errors_have_a_base_and_a_code():
    with pytest.raises(tenon.Error) as caught:
        tenon.InferenceSession(b"abc")
    assert isinstance(caught.value, tenon.InvalidProtobuf) and caught.value.code == 7
    assert str(caught.value).startswith("[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : ")


def test_providers_that_are_not_there_are_a_warning(monkeypatch):
    monkeypatch.setattr(tenon._core, "get_available_providers", lambda: ["CPUExecutionProvider"])  # as without tenon-cuda
    model = models.one_node("Neg")
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        session = tenon.InferenceSession(model, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="same length"):
        session = tenon.InferenceSession(model, providers=["CPUExecutionProvider"], provider_options=[{}, {}])
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}
    with pytest.raises(ValueError, match="same length"):
        tenon.InferenceSession(model, providers=["CPUExecutionProvider"], provider_options=[{}, {}], enable_fallback=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tenon.InferenceSession(model, providers=[("CPUExecutionProvider", {})])


def test_the_cuda_provider_is_tenons_where_that_is_there(monkeypatch):
    asked = [("CUDAExecutionProvider", {"device_id": 0, "use_tf32": False}), "CPUExecutionProvider"]
    monkeypatch.setattr(tenon._core, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        assert tenon._session._provider_list(asked, None) == [("CPUExecutionProvider", {})]
    monkeypatch.setattr(tenon._core, "get_available_providers", lambda: ["TenonCudaExecutionProvider", "CPUExecutionProvider"])
    wanted = [("TenonCudaExecutionProvider", {"device_id": "0", "use_tf32": "False"}), ("CPUExecutionProvider", {})]
    assert tenon._session._provider_list(asked, None) == wanted


def test_options_have_onnxruntimes_defaults_and_refuse_other_types():
    ours, theirs = tenon.SessionOptions(), ort.SessionOptions()
    for name in (n for n in dir(theirs) if not n.startswith("_") and not callable(getattr(theirs, n))):
        left, right = getattr(ours, name), getattr(theirs, name)
        assert (getattr(left, "value", left)) == (getattr(right, "value", right)), name
    with pytest.raises(TypeError):
        ours.graph_optimization_level = "all"
    with pytest.raises(AttributeError):
        ours.no_such_option = 1
    with pytest.raises(RuntimeError, match="key: foo"):
        ours.get_session_config_entry("foo")
    ours.add_session_config_entry("session.disable_prepacking", "1")
    assert ours.get_session_config_entry("session.disable_prepacking") == "1"
    with pytest.raises(tenon.InvalidArgument, match="tenon.winograd"):
        ours.add_session_config_entry("tenon.winograd", "maybe")


def test_an_initializer_of_the_program_is_used_where_it_lies():
    options = tenon.SessionOptions()
    one = np.full(2, 3, np.float32)
    options.add_initializer("one", tenon.OrtValue.ortvalue_from_numpy(one))
    assert tenon.InferenceSession(models.add_one(), options).run(None, {"x": X})[0][0, 0] == 3


def test_run_options_terminate_and_name_their_entries():
    session = tenon.InferenceSession(models.one_node("Neg"))
    options = tenon.RunOptions()
    assert (options.log_severity_level, options.logid, options.terminate) == (-1, "", False)
    options.logid = "mine"
    options.add_run_config_entry("tenon.timeout_ms", "1000")
    assert (options.logid, options.get_run_config_entry("tenon.timeout_ms")) == ("mine", "1000")
    assert np.array_equal(session.run(None, {"x": X}, options)[0], -X)
    options.terminate = True
    with pytest.raises(tenon.Fail, match="terminate flag"):
        session.run(None, {"x": X}, options)
    options.terminate = False
    assert np.array_equal(session.run(["y"], {"x": X}, run_options=options)[0], -X)


def test_profiles_are_written(tmp_path):
    options = tenon.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = tenon.InferenceSession(models.one_node("Neg"), options)
    assert session.get_profiling_start_time_ns() > 0
    session.run(None, {"x": X})
    file = pathlib.Path(session.end_profiling())
    assert file.parent == tmp_path and "Neg" in file.read_text()


def test_assignments_say_which_provider_has_which_node():
    options = tenon.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    part, = tenon.InferenceSession(models.one_node("Neg"), options).get_provider_graph_assignment_info()
    assert part.ep_name == "CPUExecutionProvider" and [n.op_type for n in part.get_nodes()] == ["Neg"]


def test_sessions_pickle_by_path_or_with_their_bytes(tmp_path):
    options = tenon.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = tenon.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("tenon.winograd", "0")
    path = tmp_path / "m.onnx"
    path.write_bytes(models.one_node("Neg"))
    for source in (path, path.read_bytes()):
        data = pickle.dumps(tenon.InferenceSession(source, options))
        assert (b"Neg" in data) == isinstance(source, bytes)
        session = pickle.loads(data)
        assert np.array_equal(session.run(None, {"x": X})[0], -X)
        kept = session.get_session_options()
        assert kept.intra_op_num_threads == 1 and kept.get_session_config_entry("tenon.winograd") == "0"
        assert kept.graph_optimization_level == tenon.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_initializer("x", tenon.OrtValue.ortvalue_from_numpy(X))
    with pytest.raises(TypeError, match="add_initializer"):
        pickle.dumps(options)


def test_a_session_may_be_subclassed_and_takes_providers_anew():
    class Mine(tenon.InferenceSession):
        def __init__(self, model):
            super().__init__(model)
            self.extra = 1

    session = Mine(models.one_node("Neg"))
    session.set_providers(["CPUExecutionProvider"])
    assert session.extra == 1 and np.array_equal(session.run(None, {"x": X})[0], -X)


def test_a_session_without_a_model_says_so():
    with pytest.raises(RuntimeError, match="no model"):
        tenon.Session().run(None, {})


class WithState(tenon.InferenceSession):
    """How programs make onnxruntime's sessions picklable."""

    def __init__(self, path, **keywords):
        super().__init__(path, **keywords)
        self.path, self.made = path, True

    def __getstate__(self):
        return {"path": self.path}

    def __setstate__(self, state):
        self.path = state["path"]
        self.__init__(self.path)


class WithAttributes(tenon.InferenceSession):
    def __init__(self, path):
        super().__init__(path)
        self.made = [1, 2]


@pytest.mark.parametrize("kind", [WithState, WithAttributes])
@pytest.mark.parametrize("copied", [lambda s: pickle.loads(pickle.dumps(s)), copy.deepcopy, copy.copy])
def test_sessions_of_a_programs_own_class_keep_what_it_added(tmp_path, kind, copied):
    path = tmp_path / "model.onnx"
    path.write_bytes(models.one_node("Neg"))
    session = copied(kind(str(path)))
    assert type(session) is kind and session.made == kind(str(path)).made
    assert np.array_equal(session.run(None, {"x": X})[0], -X)


def test_a_session_that_is_made_again_has_the_other_model():
    session = tenon.InferenceSession(models.one_node("Neg"))
    session.__init__(models.one_node("Exp"))
    assert np.allclose(session.run(None, {"x": X})[0], np.exp(X))
    with pytest.raises(tenon.Error):
        session.__init__(b"no model")
    assert session.get_providers() == ["CPUExecutionProvider"]


@pytest.mark.parametrize("name, entry", [("m.ort", None), ("m.ort", "ORT"), ("m.ort", "ONNX"), ("m.ort", ""), ("m.onnx", None), ("m.onnx", "ORT")])
@pytest.mark.parametrize("source", ["onnx", "ort"])
def test_the_optimized_model_has_the_format_that_is_asked_for(source, name, entry, tmp_path):
    """In onnxruntime's own format Tenon writes only a model that it was given so."""
    def made(package, model, target):
        options = package.SessionOptions()
        options.optimized_model_filepath = str(target)
        if entry is not None:
            options.add_session_config_entry("session.save_model_format", entry)
        return package.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    model, neg = tmp_path / f"source.{source}", models.one_node("Neg")
    if source == "onnx":
        model.write_bytes(neg)
    else:
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(model)
        ort.InferenceSession(neg, options, providers=["CPUExecutionProvider"])
    is_ort = entry == "ORT" or (not entry and name.endswith(".ort"))
    for given in (str(model), model.read_bytes()):
        if is_ort and source == "onnx":
            with pytest.raises(tenon.NotImplemented, match="ORT format and writes none.*Save it as ONNX"):
                made(tenon, given, tmp_path / name)
            assert not (tmp_path / name).exists()
            continue
        made(tenon, given, tmp_path / name)
        assert ((tmp_path / name).read_bytes()[4:8] == b"ORTM") == is_ort
        assert np.array_equal(tenon.InferenceSession(tmp_path / name).run(None, {"x": X})[0], -X)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

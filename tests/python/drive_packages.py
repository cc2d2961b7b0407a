"""One call of a package from PyPI that runs its models with onnxruntime: drive_packages.py PACKAGE [SECONDS].

Prints what it answers for a made-up input as one line of JSON; with SECONDS, also the median time of a call in ms.
`python -m tenon.as_onnxruntime drive_packages.py PACKAGE` is the same over Tenon.
"""
import io
import json
import statistics
import sys
import time

import numpy as np

# What is left of a number when the two engines may sum in another order.
DIGITS = 3


def picture(text="TENON 2048"):
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (480, 160), "white")
    ImageDraw.Draw(image).text((30, 40), text, fill="black", font=ImageFont.load_default(60))
    return image


def magika():
    from magika import Magika

    engine = Magika()
    texts = [b"#include <stdio.h>\nint main(void) { return printf(\"x\"); }\n" * 20, b"import os\n\ndef f(x):\n    return x\n" * 30,
             b"{\"a\": [1, 2, 3], \"b\": null}" * 10, bytes(range(256)) * 8]
    return lambda: [[r.output.label, round(float(r.score), DIGITS)] for r in map(engine.identify_bytes, texts)]


def silero_vad():
    import torch
    from silero_vad import get_speech_timestamps, load_silero_vad

    engine = load_silero_vad(onnx=True)
    t = np.arange(16000 * 4) / 16000
    voice = sum(np.sin(2 * np.pi * 130 * k * t) * np.exp(-((130 * k - 700) / 400) ** 2) for k in range(1, 20))
    samples = torch.from_numpy((0.2 * voice * ((t % 2) < 1.2)).astype(np.float32))

    def call():
        engine.reset_states()
        steps = [round(float(engine(samples[i:i + 512], 16000)), DIGITS) for i in range(0, 16000, 512)
                 if i + 512 <= len(samples)]
        return [steps, get_speech_timestamps(samples, engine)]
    return call


def rapidocr():
    from rapidocr import RapidOCR

    engine = RapidOCR()
    image = np.asarray(picture())[:, :, ::-1].copy()

    def call():
        found = engine(image)
        return [list(found.txts), np.round(np.asarray(found.boxes), 0).tolist(), [round(float(s), 2) for s in found.scores]]
    return call


def ddddocr():
    import ddddocr as package

    engine = package.DdddOcr(show_ad=False)
    data = io.BytesIO()
    picture("t8k2").crop((0, 20, 240, 130)).save(data, "PNG")
    return lambda: engine.classification(data.getvalue())


def nudenet():
    from nudenet import NudeDetector

    engine = NudeDetector()
    random = np.random.default_rng(5)
    coarse = random.integers(0, 256, (8, 8, 3), np.uint8)
    image = np.kron(coarse, np.ones((40, 40, 1), np.uint8))
    # The answer is mostly "nothing here": what the model says before that is compared as well.
    inputs = random.random((1, 3, 320, 320), np.float32)

    def call():
        raw = engine.onnx_session.run(None, {engine.input_name: inputs})[0]
        return [engine.detect(image), float(np.round(np.abs(raw).mean(), DIGITS)), list(raw.shape)]
    return call


PACKAGES = {f.__name__: f for f in (magika, silero_vad, rapidocr, ddddocr, nudenet)}


def main():
    call = PACKAGES[sys.argv[1]]()
    import onnxruntime

    report = {"answer": call(), "engine": onnxruntime.InferenceSession.__module__.split(".")[0]}
    if len(sys.argv) > 2:
        times, end = [], time.perf_counter() + float(sys.argv[2])
        while time.perf_counter() < end or len(times) < 3:
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        report["ms"] = statistics.median(times) * 1e3
    print(json.dumps(report))


if __name__ == "__main__":
    main()

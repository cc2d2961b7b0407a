"""sherpa-onnx's speaker embedding and its CTC recogniser on small models. Usage: drive_sherpa.py MODELS"""
import json
import pathlib
import sys

import numpy as np
import sherpa_onnx


def wave(seconds):
    t = np.arange(int(16000 * seconds)) / 16000
    return (0.3 * np.sin(2 * np.pi * 440 * t) + 0.1 * np.sin(2 * np.pi * 97 * t)).astype(np.float32)


def embeddings(folder):
    config = sherpa_onnx.SpeakerEmbeddingExtractorConfig(model=str(folder / "embedding.onnx"), num_threads=1)
    extractor = sherpa_onnx.SpeakerEmbeddingExtractor(config)
    results = []
    for seconds in (1.0, 2.5, 1.0):
        stream = extractor.create_stream()
        stream.accept_waveform(16000, wave(seconds))
        stream.input_finished()
        results.append(list(extractor.compute(stream)))
    return results


def transcript(folder):
    recognizer = sherpa_onnx.OfflineRecognizer.from_zipformer_ctc(
        model=str(folder / "ctc.onnx"), tokens=str(folder / "tokens.txt"), num_threads=1)
    stream = recognizer.create_stream()
    stream.accept_waveform(16000, wave(2.0))
    recognizer.decode_stream(stream)
    return {"text": stream.result.text, "tokens": list(stream.result.tokens),
            "timestamps": list(stream.result.timestamps)}


def loaded():
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split(maxsplit=5)[5] for line in lines if "onnxruntime" in line.rsplit("/", 1)[-1]})


models = pathlib.Path(sys.argv[1])
print(json.dumps({"embeddings": embeddings(models), "transcript": transcript(models), "libraries": loaded()}))

"""A voice detector of sherpa-onnx on silero's published model: where it finds speech in a made-up signal, as JSON."""
import json
import sys

import numpy as np
import sherpa_onnx


def signal(rate=16000, seconds=6):
    """Vowels by the second: harmonics of a gliding pitch under three formants; noise, and pauses between them."""
    t = np.arange(rate * seconds) / rate
    pitch = 120 + 25 * np.sin(2 * np.pi * 0.7 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    vowels = [(700, 1200, 2600), (300, 2300, 3000), (400, 800, 2400)]
    wave = np.zeros_like(t)
    for index, formants in enumerate(vowels):
        spoken = ((t % 2) < 1.2) & ((t * 5).astype(int) % 3 == index)
        for harmonic in range(1, 30):
            gain = sum(np.exp(-((harmonic * pitch - formant) / 120) ** 2) for formant in formants) + 0.02
            wave += spoken * gain * np.sin(harmonic * phase)
    noise = np.random.default_rng(0).standard_normal(len(t)) * 0.003
    return (0.2 * wave / np.abs(wave).max() + noise).astype(np.float32)


config = sherpa_onnx.VadModelConfig()
config.silero_vad.model = sys.argv[1]
config.silero_vad.threshold = 0.3
config.silero_vad.min_silence_duration = 0.1
config.silero_vad.min_speech_duration = 0.1
config.sample_rate = 16000
detector = sherpa_onnx.VoiceActivityDetector(config, buffer_size_in_seconds=30)
samples = signal()
heard = []
for start in range(0, len(samples) - 512, 512):
    detector.accept_waveform(samples[start:start + 512])
    heard.append(bool(detector.is_speech_detected()))
detector.flush()
segments = []
while not detector.empty():
    segments.append([detector.front.start, len(detector.front.samples)])
    detector.pop()
with open("/proc/self/maps") as maps:
    libraries = sorted({line.split()[-1] for line in maps if "libonnxruntime" in line})
print(json.dumps({"heard": heard, "segments": segments, "libraries": libraries}))

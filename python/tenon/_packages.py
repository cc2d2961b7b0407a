"""Model packages: folders with variants of models for different execution providers."""

from __future__ import annotations

from tenon import _core
from tenon._core import ModelPackageOptions, SessionOptions
from tenon._session import InferenceSession


class ModelPackageComponentContext:
    """A variant that was chosen of a package's component: ModelPackageContext.select_component gives it."""

    _component: _core._PackageComponent

    def __init__(self) -> None:
        raise TypeError("ModelPackageContext.select_component() gives these; there is no constructor.")

    def get_selected_variant_name(self) -> str:
        """The name of the variant."""
        return self._component.get_selected_variant_name()

    def get_selected_variant_folder_path(self) -> str:
        """The folder of the variant."""
        return self._component.get_selected_variant_folder_path()

    def create_session(self, sess_options: SessionOptions | None = None) -> InferenceSession:
        """A session with the variant's model.

        sess_options: None for those of the package; the package's paths are added to others.
        Errors: RuntimeError for a variant without a model, and those of InferenceSession.
        """
        return InferenceSession._of_package(self._component, sess_options)


class ModelPackageContext:
    """An opened package: a folder with a manifest.json.

    Errors: RuntimeError says what is wrong with which file.
    """

    def __init__(self, package_root: str) -> None:
        self._package = _core._Package(package_root)

    def get_schema_version(self) -> int:
        """The major version of the manifest's schema."""
        return self._package.get_schema_version()

    def get_component_count(self) -> int:
        """How many components there are."""
        return self._package.get_component_count()

    def get_component_names(self) -> list[str]:
        """The names of the components."""
        return self._package.get_component_names()

    def get_variant_count(self, component_name: str) -> int:
        """How many variants a component has."""
        return self._package.get_variant_count(component_name)

    def get_variant_names(self, component_name: str) -> list[str]:
        """The names of a component's variants."""
        return self._package.get_variant_names(component_name)

    def get_variant_ep_name(self, component_name: str, variant_name: str) -> str | None:
        """The execution provider that a variant is for."""
        return self._package.get_variant_ep_name(component_name, variant_name)

    def resolve_string_ref(self, string_ref: str, base_dir: str | None = None, must_exist: bool = False) -> str:
        """The absolute path that a string of the package names: a path from base_dir, or a shared asset."""
        return self._package.resolve_string_ref(string_ref, base_dir, must_exist)

    def select_component(self, component_name: str, options: ModelPackageOptions) -> ModelPackageComponentContext:
        """The variant of a component that fits the options' execution providers best."""
        selected = ModelPackageComponentContext.__new__(ModelPackageComponentContext)
        selected._component = self._package._select(component_name, options)
        return selected

// Model packages: folders with variants of models for different execution providers (the C ABI's model package API).
#include <array>

#include "session.h"

namespace tenon::python {
namespace {

const OrtModelPackageApi& packages() { return *api().GetModelPackageApi(); }

template <typename T, auto kRelease>
struct Release {
  void operator()(T* object) const { (packages().*kRelease)(object); }
};
template <typename T, auto kRelease>
using Held = std::unique_ptr<T, Release<T, kRelease>>;

struct PackageOptions {
  Held<OrtModelPackageOptions, &OrtModelPackageApi::ReleaseModelPackageOptions> handle;
};
struct Package {
  Held<OrtModelPackageContext, &OrtModelPackageApi::ReleaseModelPackageContext> handle;
};
struct Component {
  Held<OrtModelPackageComponentContext, &OrtModelPackageApi::ReleaseModelPackageComponentContext> handle;
  std::string ep;
};

std::vector<std::string> to_vector(const char* const* texts, size_t count) { return {texts, texts + count}; }

std::optional<std::string> variant_ep(const Package& package, const std::string& component,
                                      const std::string& variant) {
  const char* ep = nullptr;
  check_run(packages().ModelPackage_GetVariantEpName(package.handle.get(), component.c_str(), variant.c_str(), &ep));
  return ep == nullptr ? std::nullopt : std::optional<std::string>(ep);
}

std::string variant_name(const Component& component) {
  const char* name = "";
  check_run(packages().ModelPackageComponent_GetSelectedVariantName(component.handle.get(), &name));
  return name;
}

Component select_component(const Package& package, const std::string& component_name, const PackageOptions& options) {
  OrtModelPackageComponentContext* selected = nullptr;
  check_run(packages().SelectComponent(package.handle.get(), component_name.c_str(), options.handle.get(), &selected));
  Component component;
  component.handle.reset(selected);
  component.ep = variant_ep(package, component_name, variant_name(component)).value_or("CPUExecutionProvider");
  return component;
}

// Loads the variant's model into `session`; `options` null: with the package's.
void load(const Component& component, PySession& session, const Options* options, int default_threads) {
  OwnedSessionOptions prepared;
  if (options != nullptr) prepared = options->prepare({}, default_threads);
  OrtEnv* const environment = env();
  session.load_by(
      [&](OrtSession** made) {
        return packages().CreateSession(environment, component.handle.get(), prepared.get(), made);
      },
      options != nullptr && (options->enable_profiling || options->has_custom_operators));
}

}  // namespace

void bind_packages(nb::module_& m) {
  using nb::arg;
  nb::class_<PackageOptions>(m, "ModelPackageOptions",
                             "The execution providers for which a package's variants are chosen.")
      .def(
          "__init__",
          [](PackageOptions* self, const Options& options) {
            const OwnedSessionOptions prepared = options.prepare({}, 0);
            OrtModelPackageOptions* made = nullptr;
            check_run(packages().CreateModelPackageOptionsFromSessionOptions(env(), prepared.get(), &made));
            new (self) PackageOptions();
            self->handle.reset(made);
          },
          arg("sess_options"), "The providers of the options; the CPU where they have none.",
          nb::sig("def __init__(self, sess_options: SessionOptions) -> None"));
  nb::class_<Component>(m, "_PackageComponent", "The variant that was chosen of a component.")
      .def("get_selected_variant_name", &variant_name, "The name of the variant.")
      .def(
          "get_selected_variant_folder_path",
          [](const Component& component) {
            const ORTCHAR_T* folder = "";
            check_run(packages().ModelPackageComponent_GetSelectedVariantFolderPath(component.handle.get(), &folder));
            return std::string(folder);
          },
          "The folder of the variant.")
      .def_ro("_ep", &Component::ep)
      .def("_load", &load, arg("session"), arg("options").none(), arg("default_threads"),
           nb::sig("def _load(self, session: Session, options: SessionOptions | None, default_threads: int) -> None"));
  nb::class_<Package>(m, "_Package", "An opened package.")
      .def(
          "__init__",
          [](Package* self, const std::string& package_root) {
            OrtModelPackageContext* made = nullptr;
            check_run(packages().CreateModelPackageContext(package_root.c_str(), &made));
            new (self) Package();
            self->handle.reset(made);
          },
          arg("package_root"))
      .def(
          "get_schema_version",
          [](const Package& package) {
            int64_t version = 0;
            check_run(packages().ModelPackage_GetSchemaVersion(package.handle.get(), &version));
            return version;
          },
          "The major version of the manifest's schema.")
      .def(
          "get_component_count",
          [](const Package& package) {
            size_t count = 0;
            check_run(packages().ModelPackage_GetComponentCount(package.handle.get(), &count));
            return count;
          },
          "How many components there are.")
      .def(
          "get_component_names",
          [](const Package& package) {
            const char* const* names = nullptr;
            size_t count = 0;
            check_run(packages().ModelPackage_GetComponentNames(package.handle.get(), &names, &count));
            return to_vector(names, count);
          },
          "The names of the components.", nb::sig("def get_component_names(self) -> list[str]"))
      .def(
          "get_variant_count",
          [](const Package& package, const std::string& component) {
            size_t count = 0;
            check_run(packages().ModelPackage_GetVariantCount(package.handle.get(), component.c_str(), &count));
            return count;
          },
          arg("component_name"), "How many variants a component has.")
      .def(
          "get_variant_names",
          [](const Package& package, const std::string& component) {
            const char* const* names = nullptr;
            size_t count = 0;
            check_run(packages().ModelPackage_GetVariantNames(package.handle.get(), component.c_str(), &names, &count));
            return to_vector(names, count);
          },
          arg("component_name"), "The names of a component's variants.",
          nb::sig("def get_variant_names(self, component_name: str) -> list[str]"))
      .def("get_variant_ep_name", &variant_ep, arg("component_name"), arg("variant_name"),
           "The execution provider that a variant is for, or None.")
      .def(
          "resolve_string_ref",
          [](const Package& package, const std::string& reference, const std::optional<std::string>& base_dir,
             bool must_exist) {
            const char* path = "";
            check_run(packages().ModelPackage_ResolveStringRef(package.handle.get(),
                                                               base_dir ? base_dir->c_str() : nullptr,
                                                               reference.c_str(), must_exist ? 1 : 0, &path));
            return std::string(path);
          },
          arg("string_ref"), arg("base_dir") = nb::none(), arg("must_exist") = false,
          "The absolute path that a string of the package names: a path from base_dir (the package's folder where that "
          "is "
          "None), or a shared asset.")
      .def("_select", &select_component, arg("component_name"), arg("options"));
}

}  // namespace tenon::python

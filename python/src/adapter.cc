#include "adapter.h"

#include <tenon/lora_adapter.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "value.h"

namespace tenon::python {
namespace {

// AdapterFormat: a file's content, to read or to write.
struct AdapterFile {
  LoraAdapter content;
};

// str() of a path, bytes as the file system has them.
std::string path_of(nb::handle path) { return nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path)); }

// The plain RuntimeError that onnxruntime's package raises for adapters.
template <typename T>
T unwrap_run(Result<T> result) {
  if (!result.ok()) raise(PyExc_RuntimeError, std::string(result.status().message()));
  return *std::move(result);
}

void set_parameters(AdapterFile& file, nb::dict parameters) {
  std::vector<std::pair<std::string, Tensor>> read;
  for (auto [name, value] : parameters) {
    if (!nb::isinstance<Value>(value))
      raise(PyExc_TypeError, "Parameter " + nb::cast<std::string>(nb::repr(name)) + " is an OrtValue, and this is " +
                                 nb::cast<std::string>(nb::repr(value)) + ".");
    read.emplace_back(nb::cast<std::string>(name), nb::cast<const Value&>(value).tensor());
  }
  file.content.parameters = std::move(read);
}

nb::dict parameters(const AdapterFile& file) {
  nb::dict made;
  for (const auto& [name, tensor] : file.content.parameters) made[name.c_str()] = nb::cast(Value(tensor));
  return made;
}

void export_file(const AdapterFile& file, nb::handle path) {
  const std::string name = path_of(path);
  const std::vector<std::byte> bytes = unwrap_run(file.content.write());
  std::FILE* out = std::fopen(name.c_str(), "wb");
  if (out == nullptr) raise(PyExc_RuntimeError, "Failed to open file: " + name + " (" + std::strerror(errno) + ")");
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size();
  if (std::fclose(out) != 0 || !written)
    raise(PyExc_RuntimeError, "Failed to write file: " + name + " (" + std::strerror(errno) + ")");
}

}  // namespace

void bind_adapters(nb::module_& m) {
  using nb::arg;
  nb::class_<AdapterFile>(m, "AdapterFormat",
                          "The content of a LoRA adapter's file (.onnx_adapter): named tensors that a run puts in the "
                          "place of a model's inputs or initializers.")
      .def(
          "__init__",
          [](AdapterFile* self, nb::handle adapter) {
            new (self) AdapterFile();
            if (!is_none(adapter)) self->content = nb::cast<const AdapterFile&>(adapter).content;
          },
          arg("adapter") = nb::none(), nb::sig("def __init__(self, adapter: AdapterFormat | None = None) -> None"))
      .def_static(
          "read_adapter", [](nb::handle path) { return AdapterFile{unwrap_run(LoraAdapter::load(path_of(path)))}; },
          arg("file_path"), "Maps a file. Errors: RuntimeError for one that is no adapter.",
          nb::sig("def read_adapter(file_path: str | os.PathLike[str]) -> AdapterFormat"))
      .def("export_adapter", &export_file, arg("file_path"), "Writes a file that LoraAdapter.Load takes.",
           nb::sig("def export_adapter(self, file_path: str | os.PathLike[str]) -> None"))
      .def(
          "get_format_version", [](const AdapterFile& file) { return file.content.format_version; },
          "The version of the file's format.")
      .def(
          "set_adapter_version", [](AdapterFile& file, int32_t version) { file.content.adapter_version = version; },
          arg("adapter_version"), "What the adapter's author says of the adapter; nothing depends on it.")
      .def(
          "get_adapter_version", [](const AdapterFile& file) { return file.content.adapter_version; },
          "What set_adapter_version has set.")
      .def(
          "set_model_version", [](AdapterFile& file, int32_t version) { file.content.model_version = version; },
          arg("model_version"), "What the adapter's author says of the model; nothing depends on it.")
      .def(
          "get_model_version", [](const AdapterFile& file) { return file.content.model_version; },
          "What set_model_version has set.")
      .def("set_parameters", &set_parameters, arg("params"), "The tensors by the names of the model's values.",
           nb::sig("def set_parameters(self, params: dict[str, OrtValue]) -> None"))
      .def("get_parameters", &parameters, "The tensors by name: read-only views of a file's mapping, which they keep.",
           nb::sig("def get_parameters(self) -> dict[str, OrtValue]"));
  nb::class_<Adapter>(m, "LoraAdapter", "A LoRA adapter for runs: RunOptions.add_active_adapter.")
      .def(nb::init<>())
      .def(
          "Load",
          [](Adapter& adapter, nb::handle path) {
            OrtLoraAdapter* made = nullptr;
            check_run(api().CreateLoraAdapter(path_of(path).c_str(), nullptr, &made));
            adapter.handle = Owned<OrtLoraAdapter, &OrtApi::ReleaseLoraAdapter>(made);
          },
          arg("path"), "Maps a file. Errors: RuntimeError for one that is no adapter.",
          nb::sig("def Load(self, path: str | os.PathLike[str]) -> None"));
}

}  // namespace tenon::python

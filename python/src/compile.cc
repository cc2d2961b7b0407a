// ModelCompiler, and the data of EPContext nodes that a program keeps itself.
#include "compile.h"

#include <cstring>
#include <optional>
#include <span>

#include <tenon/ort_bridge.h>

#include "options.h"
#include "value.h"

namespace tenon::python {
namespace {

const OrtCompileApi& compile_api() { return *api().GetCompileApi(); }

// Data that the library lends to a function of Python's, for as long as that runs.
struct ContextData {
  std::span<const char> bytes;
  bool lent = true;

  size_t size() const {
    if (!lent) raise(PyExc_RuntimeError, "OrtEpContextData is valid only during its callback.");
    return bytes.size();
  }
  nb::bytes read(size_t offset, std::optional<size_t> length) const {
    const size_t all = size();
    if (offset > all || length.value_or(0) > all - offset)
      raise(PyExc_RuntimeError, "The range from " + std::to_string(offset) + " of " +
                                    std::to_string(length.value_or(0)) + " bytes is not in the data of " +
                                    std::to_string(all) + " bytes.");
    return nb::bytes(bytes.data() + offset, length.value_or(all - offset));
  }
};

// Memory that a function of Python's fills for the library.
struct ContextBuffer {
  OrtAllocator* allocator = nullptr;  // null when the callback is over
  size_t most = 0;
  char* data = nullptr;
  size_t size_bytes = 0;
  bool allocated = false;

  void check_lent() const {
    if (allocator == nullptr) raise(PyExc_RuntimeError, "OrtEpContextDataBuffer is valid only during its callback.");
  }
  void allocate(size_t size) {
    check_lent();
    if (allocated) raise(PyExc_RuntimeError, "OrtEpContextDataBuffer is allocated already.");
    if (size > most)
      raise(PyExc_ValueError,
            "The data takes " + std::to_string(size) + " bytes; the most is " + std::to_string(most) + ".");
    if (size > 0) {
      data = static_cast<char*>(allocator->Alloc(allocator, size));
      if (data == nullptr) raise(PyExc_MemoryError, "There is no memory for " + std::to_string(size) + " bytes.");
    }
    size_bytes = size;
    allocated = true;
  }
  void write(nb::handle data_from, size_t offset) {
    check_lent();
    PyObject* copy = PyBytes_FromObject(data_from.ptr());  // of any buffer
    if (copy == nullptr) throw nb::python_error();
    const auto from = nb::steal<nb::bytes>(copy);
    if (!allocated) raise(PyExc_RuntimeError, "OrtEpContextDataBuffer is not allocated yet.");
    if (offset > size_bytes || from.size() > size_bytes - offset)
      raise(PyExc_ValueError, std::to_string(from.size()) + " bytes from " + std::to_string(offset) +
                                  " are not in the buffer of " + std::to_string(size_bytes) + " bytes.");
    if (from.size() > 0) std::memcpy(data + offset, from.c_str(), from.size());
  }
};

OrtStatus* write_context(void* state, const char* name, const void* buffer, size_t size) {
  return in_python([&]() -> OrtStatus* {
    nb::object view = nb::cast(ContextData{{static_cast<const char*>(buffer), size}});
    const nb::callable& function = *static_cast<const nb::callable*>(state);
    const auto end = [&] { nb::cast<ContextData&>(view).lent = false; };
    try {
      function(name, view);
    } catch (...) {
      end();
      throw;
    }
    end();
    return nullptr;
  });
}

OrtStatus* read_context(void* state, const char* name, OrtAllocator* allocator, void** buffer, size_t* size) {
  return in_python([&]() -> OrtStatus* {
    const auto& function = *static_cast<const ContextReader*>(state);
    nb::object object = nb::cast(ContextBuffer{.allocator = allocator, .most = function.most_bytes});
    ContextBuffer& filled = nb::cast<ContextBuffer&>(object);
    const auto drop = [&] {
      if (filled.data != nullptr) allocator->Free(allocator, filled.data);
      filled = {};
    };
    try {
      function.read(name, object);
    } catch (...) {
      drop();
      throw;
    }
    if (!filled.allocated)
      return api().CreateStatus(ORT_INVALID_ARGUMENT, "The function for EPContext data has allocated no buffer.");
    *buffer = std::exchange(filled.data, nullptr);
    *size = filled.size_bytes;
    filled = {};
    return nullptr;
  });
}

OrtStatus* write_model(void* state, const void* buffer, size_t size) {
  return in_python([&]() -> OrtStatus* {
    (*static_cast<const nb::callable*>(state))(nb::bytes(static_cast<const char*>(buffer), size));
    return nullptr;
  });
}

// The function gets (name, value, None or a place) and gives None or a place: a path, an offset and a size.
OrtStatus* locate_initializer(void* state, const char* name, const OrtValue* value,
                              const OrtExternalInitializerInfo* info, OrtExternalInitializerInfo** out) {
  return in_python([&]() -> OrtStatus* {
    nb::object before = nb::none();
    if (info != nullptr)
      before = nb::make_tuple(api().ExternalInitializerInfo_GetFilePath(info),
                              api().ExternalInitializerInfo_GetFileOffset(info),
                              api().ExternalInitializerInfo_GetByteSize(info));
    const nb::object tensor = nb::cast(Value(unwrap(tensor_of(value))));
    const nb::object place = (*static_cast<const nb::callable*>(state))(name, tensor, before);
    if (is_none(place)) return nullptr;
    const auto [path, offset, size] = nb::cast<std::tuple<std::string, int64_t, size_t>>(place);
    return api().CreateExternalInitializerInfo(path.c_str(), offset, size, out);
  });
}

// The arguments of a ModelCompiler; each compilation makes its own options of the C ABI from them.
class Compiler {
 public:
  Compiler(const Options& options, nb::object model, bool embed, std::string external_path, size_t threshold,
           uint32_t flags, GraphOptimizationLevel level, nb::object locate)
      : options_(options.prepare({}, 0)),
        reader_(options.context_reader),
        delegate_(options.policy_delegate),
        model_(std::move(model)),
        embed_(embed),
        external_path_(std::move(external_path)),
        threshold_(threshold),
        flags_(flags),
        level_(level) {
    if (!is_none(locate)) locate_ = nb::cast<nb::callable>(locate);
  }

  void compile_to_file(const std::optional<std::string>& path) {
    compile([&](OrtModelCompilationOptions* made) {
      if (path && !path->empty()) check(compile_api().ModelCompilationOptions_SetOutputModelPath(made, path->c_str()));
    });
  }
  nb::bytes compile_to_bytes() {
    void* data = nullptr;
    size_t size = 0;
    compile([&](OrtModelCompilationOptions* made) {
      check(compile_api().ModelCompilationOptions_SetOutputModelBuffer(made, default_allocator(), &data, &size));
    });
    nb::bytes result(static_cast<const char*>(data), size);
    check(api().AllocatorFree(default_allocator(), data));
    return result;
  }
  void compile_to_stream(nb::callable write) {
    compile([&](OrtModelCompilationOptions* made) {
      check(compile_api().ModelCompilationOptions_SetOutputModelWriteFunc(made, &write_model, &write));
    });
  }
  void set_write(nb::callable write) { write_ = std::move(write); }
  // Errors come at once.
  void set_binary_information(std::string directory, std::string model_name) {
    OrtModelCompilationOptions* raw = nullptr;
    check(compile_api().CreateModelCompilationOptionsFromSessionOptions(env(), options_.get(), &raw));
    const std::unique_ptr<OrtModelCompilationOptions, void (*)(OrtModelCompilationOptions*)> made(
        raw, compile_api().ReleaseModelCompilationOptions);
    auto before = std::exchange(binaries_, std::pair(std::move(directory), std::move(model_name)));
    try {
      set_binaries(raw);
    } catch (...) {
      binaries_ = std::move(before);
      throw;
    }
  }
  void clear_write() { write_.reset(); }

 private:
  template <typename SetOutput>
  void compile(const SetOutput& set_output) {
    OrtModelCompilationOptions* raw = nullptr;
    const OrtCompileApi& compiler = compile_api();
    check(compiler.CreateModelCompilationOptionsFromSessionOptions(env(), options_.get(), &raw));
    const std::unique_ptr<OrtModelCompilationOptions, void (*)(OrtModelCompilationOptions*)> made(
        raw, compiler.ReleaseModelCompilationOptions);
    if (nb::isinstance<nb::bytes>(model_)) {
      const auto bytes = nb::cast<nb::bytes>(model_);
      check(compiler.ModelCompilationOptions_SetInputModelFromBuffer(raw, bytes.c_str(), bytes.size()));
    } else {
      check(compiler.ModelCompilationOptions_SetInputModelPath(raw, nb::cast<std::string>(model_).c_str()));
    }
    check(compiler.ModelCompilationOptions_SetEpContextEmbedMode(raw, embed_));
    check(compiler.ModelCompilationOptions_SetFlags(raw, flags_));
    check(compiler.ModelCompilationOptions_SetGraphOptimizationLevel(raw, level_));
    if (!external_path_.empty())
      check(compiler.ModelCompilationOptions_SetOutputModelExternalInitializersFile(raw, external_path_.c_str(),
                                                                                    threshold_));
    if (locate_)
      check(compiler.ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc(raw, &locate_initializer,
                                                                                      &*locate_));
    if (binaries_) set_binaries(raw);
    if (write_) check(compiler.ModelCompilationOptions_SetEpContextDataWriteFunc(raw, &write_context, &*write_));
    set_output(raw);
    OrtStatus* status = nullptr;
    {
      const Unlocked unlocked;
      status = compiler.CompileModel(env(), raw);
    }
    check(status);
  }

  void set_binaries(OrtModelCompilationOptions* raw) const {
    check(compile_api().ModelCompilationOptions_SetEpContextBinaryInformation(raw, binaries_->first.c_str(),
                                                                              binaries_->second.c_str()));
  }

  OwnedSessionOptions options_;
  std::shared_ptr<const ContextReader> reader_;   // which they call
  std::shared_ptr<const nb::callable> delegate_;  // the same
  nb::object model_;                              // bytes, or the text of a path
  bool embed_;
  std::string external_path_;
  size_t threshold_;
  uint32_t flags_;
  GraphOptimizationLevel level_;
  std::optional<nb::callable> locate_, write_;
  std::optional<std::pair<std::string, std::string>> binaries_;  // directory, name of the model
};

}  // namespace

void set_context_reader(Options& options, nb::callable read, size_t most_bytes) {
  auto reader = std::make_shared<ContextReader>(ContextReader{std::move(read), most_bytes});
  check(api().SessionOptionsSetEpContextDataReadFunc(options.handle.get(), &read_context, reader.get()));
  options.context_reader = std::move(reader);
}

void clear_context_reader(Options& options) {
  check(api().SessionOptionsSetEpContextDataReadFunc(options.handle.get(), nullptr, nullptr));
  options.context_reader.reset();
}

void bind_compile(nb::module_& m) {
  using nb::arg;
  nb::class_<ContextData>(m, "OrtEpContextData",
                          "The data of an EPContext node, valid only in the function that is called with it.")
      .def_prop_ro("size", &ContextData::size, "In bytes.")
      .def("read", &ContextData::read, arg("offset") = 0, arg("length") = nb::none(),
           "The bytes from `offset` on, all of them or `length`.");
  nb::class_<ContextBuffer>(m, "OrtEpContextDataBuffer",
                            "Memory for the data of an EPContext node, valid only in the function that fills it.")
      .def_prop_ro(
          "size", [](const ContextBuffer& buffer) { return buffer.size_bytes; }, "In bytes.")
      .def_prop_ro(
          "max_size", [](const ContextBuffer& buffer) { return buffer.most; }, "The most bytes to allocate.")
      .def_prop_ro("is_allocated", [](const ContextBuffer& buffer) { return buffer.allocated; })
      .def("allocate", &ContextBuffer::allocate, arg("size"), "Once, before the first write().")
      .def("write", &ContextBuffer::write, arg("data"), arg("offset") = 0, "Copies bytes into the buffer.");
  nb::class_<Compiler>(m, "NativeModelCompiler", "What ModelCompiler calls.")
      .def(nb::init<const Options&, nb::object, bool, std::string, size_t, uint32_t, GraphOptimizationLevel,
                    nb::object>(),
           arg("options"), arg("model"), arg("embed"), arg("external_path"), arg("threshold"), arg("flags"),
           arg("level"), arg("locate").none())
      .def("compile_to_file", &Compiler::compile_to_file, arg("path").none())
      .def("compile_to_bytes", &Compiler::compile_to_bytes)
      .def("compile_to_stream", &Compiler::compile_to_stream, arg("write_function"),
           nb::sig("def compile_to_stream(self, write_function: collections.abc.Callable[[bytes], None]) -> None"))
      .def("set_ep_context_data_write_func", &Compiler::set_write, arg("write_func"),
           nb::sig("def set_ep_context_data_write_func(self, write_func: collections.abc.Callable[[str, "
                   "OrtEpContextData], None]) -> None"))
      .def("clear_ep_context_data_write_func", &Compiler::clear_write)
      .def("set_ep_context_binary_information", &Compiler::set_binary_information, arg("output_directory"),
           arg("model_name"));
}

}  // namespace tenon::python

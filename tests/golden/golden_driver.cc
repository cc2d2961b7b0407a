// Runs many cases in one process: golden_driver CASES BLOB RESULTS OUTPUT_BLOB [--threads=N] [--no-winograd]
// [--guarded] [--plugin=NAME=LIBRARY] [--ep=NAME] [--ep-option=KEY=VALUE].
//
// CASES is text, fields separated by tabs, one line each:
//   case NAME path PATH | case NAME blob OFFSET BYTES     the model
//   input NAME TYPE DIMS OFFSET                           DIMS: 2,3 or empty; the bytes lie in BLOB
//   input NAME object VALUE                               VALUE: see below
//   output TYPE DIMS                                      one an output, in order; `any` for what is not compared
//   again                                                 what follows is fed to the same session after the above
// A VALUE is a word with what belongs to it behind it, separated by blanks: "none"; "tensor TYPE DIMS OFFSET BYTES",
// where DIMS is "-" for a scalar; "sequence COUNT" and so many values; "map" with a tensor of keys and one of values.
// The bytes of strings are those of each, behind its length in eight bytes. An output that is a VALUE is `output object
// VALUE`. RESULTS has for each case a line `begin NAME`, with --ep one `claimed EP OPERATORS` for each part that an EP
// has, then for each feed `output TYPE DIMS OFFSET BYTES` for each output (bytes in OUTPUT_BLOB) and `fed STATUS`, then
// `done NAME STATUS`; STATUS is `ok` or `<status code> <message>`, and of several feeds the first that failed. With
// --ep the EP comes first, and outputs are copied to host memory.
// --guarded puts each input and output at the end of its own pages, imported as external memory, with an unreadable
// page behind; bytes before an output must stay what they were.
#include <sys/mman.h>
#include <tenon/ep.h>
#include <tenon/importer.h>
#include <tenon/object.h>
#include <tenon/session.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace {

using tenon::DataType;
using tenon::Result;
using tenon::Shape;
using tenon::Status;
using tenon::StatusCode;
using tenon::Tensor;

#define DRIVER_TRY(expr)                                        \
  do {                                                          \
    if (Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)

struct Options {
  int threads = 1;
  bool winograd = true;
  bool guarded = false;
  std::vector<tenon::EpChoice> eps = {};
};

struct Value {
  std::string name;
  DataType type = DataType::kUndefined;
  Shape shape;
  size_t offset = 0;
  std::string object;  // a VALUE; empty for tensors
};

struct Feed {
  std::vector<Value> inputs, outputs;
};

struct Case {
  std::string name;
  std::string path;
  size_t model_offset = 0, model_bytes = 0;
  std::vector<Feed> feeds = std::vector<Feed>(1);
  bool random = false;  // each run gives other numbers
};

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const size_t tab = line.find('\t');
    fields.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

int64_t number(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Shape shape_of(std::string_view text) {
  Shape shape;
  // Of more dimensions than a Shape holds, the first: the case fails, the others run.
  while (!text.empty() && shape.rank() < Shape::kMaxRank) {
    const size_t comma = text.find(',');
    shape.push_back(number(text.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return shape;
}

std::vector<Case> read_cases(const char* path) {
  std::vector<Case> cases;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto fields = fields_of(line);
    if (fields[0] == "case") {
      Case& added = cases.emplace_back();
      added.name = fields[1];
      if (fields[2] == "path") {
        added.path = fields[3];
      } else {
        added.model_offset = static_cast<size_t>(number(fields[3]));
        added.model_bytes = static_cast<size_t>(number(fields[4]));
      }
    } else if (fields[0] == "random") {
      cases.back().random = true;
    } else if (fields[0] == "again") {
      cases.back().feeds.emplace_back();
    } else if (fields[0] == "input" && fields[2] == "object") {
      cases.back().feeds.back().inputs.push_back({.name = std::string(fields[1]), .object = std::string(fields[3])});
    } else if (fields[0] == "input") {
      cases.back().feeds.back().inputs.push_back({std::string(fields[1]), static_cast<DataType>(number(fields[2])),
                                                  shape_of(fields[3]), static_cast<size_t>(number(fields[4]))});
    } else if (fields[0] == "output") {
      Value& output = cases.back().feeds.back().outputs.emplace_back();
      if (fields[1] == "any" || fields[1] == "object") continue;
      output.type = static_cast<DataType>(number(fields[1]));
      output.shape = shape_of(fields[2]);
    }
  }
  return cases;
}

// Pages of which the last are unreadable; the tensor ends where they begin.
class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes) : bytes_(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    usable_ = (bytes + page - 1) / page * page + page;
    void* address = mmap(nullptr, usable_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) return;
    base_ = static_cast<std::byte*>(address);
    mapped_ = usable_ + page;
    mprotect(base_ + usable_, page, PROT_NONE);
    std::memset(base_, 0xa5, usable_);
  }
  GuardedMemory(GuardedMemory&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)),
        mapped_(other.mapped_),
        usable_(other.usable_),
        bytes_(other.bytes_) {}
  ~GuardedMemory() {
    if (base_ != nullptr) munmap(base_, mapped_);
  }
  std::byte* data() const { return base_ + usable_ - bytes_; }
  bool untouched_before() const {
    for (const std::byte* at = base_; at < data(); ++at)
      if (*at != std::byte{0xa5}) return false;
    return true;
  }
  Result<Tensor> tensor(const std::string& name, DataType type, const Shape& shape) const {
    // A tensor without bytes cannot be imported.
    if (bytes_ == 0) return Tensor::view(type, shape, data() - 64, 64);
    tenon::OwnedHandle handle = tenon::OwnedHandle::borrow_pointer(data());
    auto memory = tenon::Importer::host().import_memory(
        handle, {.kind = tenon::ExternalMemoryKind::kHostAllocation, .size_bytes = bytes_, .name = name});
    if (!memory.ok()) return std::move(memory).status();
    return tenon::ExternalMemory::create_tensor(*memory, type, shape);
  }

 private:
  std::byte* base_ = nullptr;
  size_t mapped_ = 0, usable_ = 0, bytes_ = 0;
};

class Driver {
 public:
  Driver(Options options, std::vector<std::byte> blob, FILE* results, FILE* outputs)
      : options_(std::move(options)), blob_(std::move(blob)), results_(results), outputs_(outputs) {
    auto pool = tenon::ThreadPool::create({.threads = options_.threads});
    if (pool.ok()) pool_ = *pool;
  }

  void run(const Case& asked) {
    std::fprintf(results_, "begin\t%s\n", asked.name.c_str());
    std::fflush(results_);
    const Status status = run_case(asked);
    std::fflush(outputs_);
    std::fprintf(results_, "done\t%s\t%s\n", asked.name.c_str(), line_of(status).c_str());
    std::fflush(results_);
  }

 private:
  static std::string line_of(const Status& status) {
    std::string text = status.ok() ? "ok" : status.to_string();
    for (char& c : text)
      if (c == '\n' || c == '\t') c = ' ';
    return text;
  }

  Status run_case(const Case& asked) {
    tenon::SessionOptions options;
    options.pool = pool_;
    options.winograd = options_.winograd;
    options.eps = options_.eps;
    auto session = asked.path.empty() ? tenon::Session::load_from_bytes(
                                            {blob_.data() + asked.model_offset, asked.model_bytes}, options)
                                      : tenon::Session::load(asked.path, options);
    if (!session.ok()) return std::move(session).status();
    for (const tenon::EpAssignment& part : (*session)->assignments()) {
      if (options_.eps.empty()) break;
      std::fprintf(results_, "claimed\t%s\t", part.ep_name.c_str());
      for (const auto& node : part.nodes) std::fprintf(results_, "%s ", node.op_type.c_str());
      std::fprintf(results_, "\n");
    }
    Status first;
    for (const Feed& feed : asked.feeds) {
      Status status = run_feed(**session, feed, asked.random);
      std::fprintf(results_, "fed\t%s\n", line_of(status).c_str());
      if (first.ok()) first = std::move(status);
    }
    return first;
  }

  Status run_feed(tenon::Session& session, const Feed& asked, bool random) {
    auto binding = session.make_binding();
    if (!binding.ok()) return std::move(binding).status();

    std::vector<GuardedMemory> guards;
    for (const Value& input : asked.inputs) {
      if (!input.object.empty() || input.type == DataType::kString) {
        std::string_view words = input.object;
        auto tensor =
            input.object.empty() ? Result<Tensor>(read_strings(input.shape, input.offset)) : read_input(words);
        if (!tensor.ok()) return std::move(tensor).status();
        DRIVER_TRY(binding->bind_input(input.name, *tensor));
        continue;
      }
      auto bytes = tenon::tensor_size_bytes(input.type, input.shape);
      if (!bytes.ok()) return std::move(bytes).status();
      Tensor tensor;
      if (options_.guarded) {
        auto made = guards.emplace_back(*bytes).tensor(input.name, input.type, input.shape);
        if (!made.ok()) return std::move(made).status();
        tensor = *made;
      } else {
        auto made = Tensor::allocate(input.type, input.shape);
        if (!made.ok()) return std::move(made).status();
        tensor = *made;
      }
      if (*bytes > 0) std::memcpy(tensor.data(), blob_.data() + input.offset, *bytes);
      DRIVER_TRY(binding->bind_input(input.name, tensor));
    }
    const auto names = session.outputs();
    const size_t first_output = guards.size();
    if (options_.guarded) {
      for (size_t i = 0; i < asked.outputs.size() && i < names.size(); ++i) {
        const Value& output = asked.outputs[i];
        if (output.type == DataType::kUndefined || output.type == DataType::kString) continue;
        auto bytes = tenon::tensor_size_bytes(output.type, output.shape);
        if (!bytes.ok()) return std::move(bytes).status();
        auto tensor = guards.emplace_back(*bytes).tensor(names[i].name, output.type, output.shape);
        if (!tensor.ok()) return std::move(tensor).status();
        DRIVER_TRY(binding->bind_output(names[i].name, *tensor));
      }
    }
    for (size_t i = 0; i < names.size() && !options_.eps.empty(); ++i)
      DRIVER_TRY(binding->bind_output_auto(i, tenon::MemorySpace{}));
    DRIVER_TRY(session.run(*binding));
    std::vector<std::vector<std::byte>> first;
    std::vector<Tensor> first_objects;
    for (size_t i = 0; i < names.size(); ++i) {
      const Tensor tensor = binding->output(i);
      const auto* data = static_cast<const std::byte*>(tensor.data());
      first.emplace_back(data, data + tensor.size_bytes());
      first_objects.push_back(tenon::holds_addresses(tensor.type()) ? tensor : Tensor());
    }
    // The second run takes the cached plan.
    DRIVER_TRY(session.run(*binding));
    for (size_t i = 0; i < names.size(); ++i) {
      const Tensor tensor = binding->output(i);
      if (tenon::holds_addresses(tensor.type())) {
        if (!tenon::same_contents(tensor, first_objects[i]))
          return Status(StatusCode::kInternal, "A second run gives another output " + std::to_string(i) + ".");
        std::string words;
        if (tensor.type() == DataType::kString) {
          add_tensor(tensor, words);
        } else {
          add_object(tenon::object_of(tensor).get(), words);
        }
        std::fprintf(results_, "output\tobject\t%s\n", words.c_str());
        continue;
      }
      if (tensor.size_bytes() != first[i].size() ||
          (!random && !first[i].empty() && std::memcmp(tensor.data(), first[i].data(), first[i].size()) != 0)) {
        return Status(StatusCode::kInternal, "A second run gives another output " + std::to_string(i) + ".");
      }
      std::string dims = tensor.shape().to_string();
      dims = dims.substr(1, dims.size() - 2);
      std::fprintf(results_, "output\t%d\t%s\t%zu\t%zu\n", static_cast<int>(tensor.type()), dims.c_str(), written_,
                   first[i].size());
      if (!first[i].empty()) std::fwrite(first[i].data(), 1, first[i].size(), outputs_);
      written_ += first[i].size();
    }
    for (size_t i = first_output; i < guards.size(); ++i) {
      if (!guards[i].untouched_before()) {
        return Status(StatusCode::kInternal, "Bytes before output " + std::to_string(i - first_output) + " changed.");
      }
    }
    return {};
  }

  // --- strings, and what is no tensor ---

  static std::string_view next_word(std::string_view& words) {
    const size_t end = std::min(words.find(' '), words.size());
    const std::string_view word = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    return word;
  }

  Result<Tensor> read_strings(const Shape& shape, size_t offset) const {
    std::vector<std::string> texts;
    for (int64_t i = 0; i < shape.element_count(); ++i) {
      uint64_t length = 0;
      std::memcpy(&length, blob_.data() + offset, sizeof(length));
      offset += sizeof(length);
      texts.emplace_back(reinterpret_cast<const char*>(blob_.data() + offset), length);
      offset += length;
    }
    return tenon::string_tensor(std::move(texts), shape);
  }

  Result<Tensor> read_tensor(std::string_view& words) const {
    const auto type = static_cast<DataType>(number(next_word(words)));
    const std::string_view dims = next_word(words);
    const Shape shape = shape_of(dims == "-" ? std::string_view() : dims);
    const auto offset = static_cast<size_t>(number(next_word(words)));
    const auto bytes = static_cast<size_t>(number(next_word(words)));
    if (type == DataType::kString) return read_strings(shape, offset);
    auto tensor = Tensor::allocate(type, shape);
    if (tensor.ok() && bytes > 0) std::memcpy(tensor->data(), blob_.data() + offset, bytes);
    return tensor;
  }

  Result<tenon::ObjectRef> read_object(std::string_view& words) const {
    const std::string_view kind = next_word(words);
    if (kind == "none") return tenon::ObjectRef();
    if (kind == "tensor") {
      auto tensor = read_tensor(words);
      if (!tensor.ok()) return std::move(tensor).status();
      return tenon::Object::tensor(*tensor);
    }
    std::vector<tenon::ObjectRef> elements;
    const int64_t count = kind == "map" ? 2 : number(next_word(words));
    for (int64_t i = 0; i < count; ++i) {
      auto element = read_object(words);
      if (!element.ok()) return element;
      elements.push_back(*element);
    }
    if (kind == "map") return tenon::Object::map(elements[0]->as_tensor(), elements[1]->as_tensor());
    return tenon::Object::sequence(std::move(elements));
  }

  Result<Tensor> read_input(std::string_view words) const {
    auto object = read_object(words);
    if (!object.ok()) return std::move(object).status();
    return tenon::object_tensor(*object);
  }

  void add_tensor(const Tensor& tensor, std::string& words) {
    std::string dims = tensor.shape().to_string();
    dims = dims.size() == 2 ? "-" : dims.substr(1, dims.size() - 2);
    std::string bytes;
    if (tensor.type() == DataType::kString) {
      for (int64_t i = 0; i < tensor.shape().element_count(); ++i) {
        const std::string_view text = tenon::text_at(tensor, i);
        const uint64_t length = text.size();
        bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
        bytes.append(text);
      }
    } else if (tensor.size_bytes() > 0) {
      bytes.assign(tensor.data_as<char>(), tensor.size_bytes());
    }
    if (!bytes.empty()) std::fwrite(bytes.data(), 1, bytes.size(), outputs_);
    words += "tensor " + std::to_string(static_cast<int>(tensor.type())) + " " + dims + " " + std::to_string(written_) +
             " " + std::to_string(bytes.size());
    written_ += bytes.size();
  }

  void add_object(const tenon::Object* object, std::string& words) {
    if (object == nullptr) {
      words += "none";
      return;
    }
    if (object->kind() == tenon::ObjectKind::kTensor) return add_tensor(object->as_tensor(), words);
    words +=
        object->kind() == tenon::ObjectKind::kMap ? "map" : "sequence " + std::to_string(object->elements().size());
    for (const tenon::ObjectRef& element : object->elements()) {
      words += ' ';
      add_object(element.get(), words);
    }
  }

  Options options_;
  std::vector<std::byte> blob_;
  FILE* results_;
  FILE* outputs_;
  size_t written_ = 0;
  std::shared_ptr<tenon::ThreadPool> pool_;
};

std::vector<std::byte> read_file(const char* path) {
  std::vector<std::byte> bytes;
  if (FILE* file = std::fopen(path, "rb")) {
    std::fseek(file, 0, SEEK_END);
    bytes.resize(static_cast<size_t>(std::ftell(file)));
    std::fseek(file, 0, SEEK_SET);
    if (std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size()) bytes.clear();
    std::fclose(file);
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(
        stderr,
        "usage: %s CASES BLOB RESULTS OUTPUT_BLOB [--threads=N] [--no-winograd] [--guarded] [--plugin=NAME=LIBRARY] "
        "[--ep=NAME] [--ep-option=KEY=VALUE]\n",
        argv[0]);
    return 2;
  }
  Options options;
  for (int i = 5; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--threads=")) {
      options.threads = static_cast<int>(number(argument.substr(10)));
    } else if (argument == "--no-winograd") {
      options.winograd = false;
    } else if (argument == "--guarded") {
      options.guarded = true;
    } else if (argument.starts_with("--plugin=") && argument.find('=', 9) != std::string_view::npos) {
      const size_t equals = argument.find('=', 9);
      const Status loaded = tenon::register_ep_library(std::string(argument.substr(9, equals - 9)),
                                                       std::string(argument.substr(equals + 1)));
      if (!loaded.ok()) {
        std::fprintf(stderr, "%s\n", loaded.to_string().c_str());
        return 2;
      }
    } else if (argument.starts_with("--ep=")) {
      options.eps.push_back({.ep_name = std::string(argument.substr(5))});
    } else if (argument.starts_with("--ep-option=") && !options.eps.empty()) {
      const size_t equals = std::min(argument.find('=', 12), argument.size() - 1);
      options.eps.back().options[std::string(argument.substr(12, equals - 12))] = argument.substr(equals + 1);
    } else {
      std::fprintf(stderr, "unknown option %s\n", argv[i]);
      return 2;
    }
  }
  FILE* results = std::fopen(argv[3], "w");
  FILE* outputs = std::fopen(argv[4], "wb");
  if (results == nullptr || outputs == nullptr) {
    std::perror("golden_driver");
    return 2;
  }
  Driver driver(options, read_file(argv[2]), results, outputs);
  for (const Case& asked : read_cases(argv[1])) driver.run(asked);
  std::fclose(results);
  std::fclose(outputs);
  return 0;
}

// The strings and objects that the kernels of one run make: tensors hold their addresses, and this keeps them until the
// run has ended. Outputs take their strings with them, or copies of them. A binding has one for all its runs: strings
// that nobody looks at any more are memory of the next run's.
//
// Threads: one at a time, as the steps of a run; what add_texts() gives may be filled by several.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/object.h>

namespace tenon {

// An element of a tensor of strings; null: the empty one.
using TextAddress = const std::string*;
inline std::string_view text_of(TextAddress address) {
  return address == nullptr ? std::string_view() : std::string_view(*address);
}

class RunObjects {
 public:
  RunObjects() = default;
  RunObjects(const RunObjects&) = delete;
  RunObjects& operator=(const RunObjects&) = delete;

  // Empty strings, whose addresses stay.
  std::span<std::string> add_texts(size_t count);
  const std::string* add_text(std::string text);
  // Texts that are there already, and that `owner` keeps.
  void keep_texts(std::shared_ptr<const void> owner, std::span<const std::string> texts);
  const Object* keep(ObjectRef object);
  // Keeps what a tensor's addresses name.
  void keep(std::shared_ptr<const void> owner);
  // The owner that keeps the texts at these addresses without this object. Null, and a copy is needed, where one of
  // them is none of add_texts(), or where most of the memory that would be kept is others'.
  std::shared_ptr<const void> owner_of(std::span<const TextAddress> addresses) const;
  // Another number for each run of the process (Object::appended).
  uint64_t number();
  // Forgets what the run made. Strings that an owner of owner_of() keeps stay as they are until it is gone.
  void end_run();

 private:
  struct Array {
    std::shared_ptr<std::string[]> texts;
    size_t count = 0;
  };
  struct Block {
    std::shared_ptr<const void> owner;
    std::span<const std::string> texts;
    bool holds(TextAddress address) const;
  };

  std::vector<Block> texts_;
  std::vector<Array> made_;   // of this run
  std::vector<Array> spare_;  // of earlier ones
  std::vector<std::shared_ptr<const void>> owners_;
  uint64_t number_ = 0;
};

}  // namespace tenon

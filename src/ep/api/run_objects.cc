#include "ep/api/run_objects.h"

#include <atomic>
#include <utility>

namespace tenon {

std::span<std::string> RunObjects::add_texts(size_t count) {
  if (count == 0) return {};
  texts_.push_back(std::make_unique<std::string[]>(count));
  return {texts_.back().get(), count};
}

const std::string* RunObjects::add_text(std::string text) {
  std::string& added = add_texts(1)[0];
  added = std::move(text);
  return &added;
}

const Object* RunObjects::keep(ObjectRef object) {
  const Object* address = object.get();
  if (address != nullptr) owners_.push_back(std::move(object));
  return address;
}

void RunObjects::keep(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }

uint64_t RunObjects::number() {
  static std::atomic<uint64_t> last{0};
  if (number_ == 0) number_ = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number_;
}

}  // namespace tenon

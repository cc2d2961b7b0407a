#include "ep/api/run_objects.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

namespace tenon {

namespace {

// Blocks that outputs are looked for in: one search is linear, and most models make their strings in one or two nodes.
constexpr size_t kMostSearched = 16;

}  // namespace

bool RunObjects::Block::holds(TextAddress address) const {
  const std::less<> before;  // of addresses in different arrays, too
  return !before(address, texts.data()) && before(address, texts.data() + texts.size());
}

std::span<std::string> RunObjects::add_texts(size_t count) {
  if (count == 0) return {};
  auto made = std::make_shared<std::string[]>(count);
  const std::span<std::string> texts(made.get(), count);
  texts_.push_back({std::move(made), texts});
  return texts;
}

void RunObjects::keep_texts(std::shared_ptr<const void> owner, std::span<const std::string> texts) {
  texts_.push_back({std::move(owner), texts});
}

std::shared_ptr<const void> RunObjects::owner_of(std::span<const TextAddress> addresses) const {
  if (texts_.empty() || texts_.size() > kMostSearched) return nullptr;
  std::vector<Block> used;
  size_t kept = 0, wanted = 0;
  const Block* last = nullptr;
  for (TextAddress address : addresses) {
    if (address == nullptr) continue;
    ++wanted;
    if (last != nullptr && last->holds(address)) continue;
    const auto holds = [&](const Block& block) { return block.holds(address); };
    const auto block = std::find_if(texts_.begin(), texts_.end(), holds);
    if (block == texts_.end()) return nullptr;
    last = &*block;
    if (std::any_of(used.begin(), used.end(), holds)) continue;
    used.push_back(*block);
    kept += block->texts.size();
  }
  if (used.empty() || wanted < kept / 2) return nullptr;
  if (used.size() == 1) return used[0].owner;
  return std::make_shared<const std::vector<Block>>(std::move(used));
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

#include "ep/api/run_objects.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

namespace tenon {

namespace {

// Blocks that outputs are looked for in: one search is linear, and most models make their strings in one or two nodes.
constexpr size_t kMostSearched = 16;

// Kept between runs: a steady run then makes its strings in memory that they have already. A model that makes more, or
// longer ones, gives their memory back.
constexpr size_t kMostSpare = 8, kMostSpareTexts = size_t{1} << 16, kLongestSpare = 1024;

}  // namespace

bool RunObjects::Block::holds(TextAddress address) const {
  const std::less<> before;  // of addresses in different arrays, too
  return !before(address, texts.data()) && before(address, texts.data() + texts.size());
}

std::span<std::string> RunObjects::add_texts(size_t count) {
  if (count == 0) return {};
  // Whoever looks at the last run's strings has them until then.
  const auto spare = std::find_if(spare_.begin(), spare_.end(), [&](const Array& array) {
    return array.count >= count && array.count / 4 <= count && array.texts.use_count() == 1;
  });
  if (spare == spare_.end()) {
    made_.push_back({std::make_shared<std::string[]>(count), count});
  } else {
    made_.push_back(std::move(*spare));
    spare_.erase(spare);
    std::for_each_n(made_.back().texts.get(), count, [](std::string& text) { text.clear(); });
  }
  const std::span<std::string> texts(made_.back().texts.get(), count);
  texts_.push_back({made_.back().texts, texts});
  return texts;
}

void RunObjects::end_run() {
  number_ = 0;
  owners_.clear();
  texts_.clear();
  if (made_.empty()) return;
  spare_.clear();
  for (Array& array : made_) {
    if (array.count > kMostSpareTexts || spare_.size() == kMostSpare) continue;
    if (array.texts.use_count() == 1)
      std::for_each_n(array.texts.get(), array.count, [](std::string& text) {
        if (text.capacity() > kLongestSpare) std::string().swap(text);  // an assignment would keep the memory
      });
    spare_.push_back(std::move(array));
  }
  made_.clear();
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

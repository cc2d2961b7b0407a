#include "ep/sdk/scratch.h"

#include <utility>

#include "base/checked.h"

namespace tenon::plugin {

namespace {

constexpr size_t kGranularity = 256;

}  // namespace

ScratchPool::ScratchPool(std::shared_ptr<ScratchSource> source, size_t keep_bytes)
    : source_(std::move(source)), keep_bytes_(keep_bytes) {}

ScratchPool::~ScratchPool() {
  for (const FreeBlock& block : std::exchange(state_.lock()->free, {})) source_->free(block.data);
}

ScratchPool::Block& ScratchPool::Block::operator=(Block&& other) noexcept {
  if (this == &other) return *this;
  reset();
  pool_ = std::exchange(other.pool_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  stream_ = std::move(other.stream_);
  return *this;
}

void ScratchPool::Block::reset() {
  if (pool_ != nullptr) pool_->give_back(*this);
  pool_ = nullptr;
  data_ = nullptr;
  size_bytes_ = 0;
  stream_ = nullptr;
}

Result<ScratchPool::Block> ScratchPool::take(size_t size_bytes, std::shared_ptr<StreamProgress> stream) {
  Block block;
  if (size_bytes == 0) return block;
  const auto padded = checked_add(size_bytes, kGranularity - 1);
  if (!padded) return out_of_range("A scratch block of {} bytes is too large.", size_bytes);
  const size_t rounded = *padded / kGranularity * kGranularity;
  {
    auto state = state_.lock();
    auto best = state->free.end();
    for (auto candidate = state->free.begin(); candidate != state->free.end(); ++candidate) {
      // A block of more than twice the size would be missed by whoever needs a large one.
      if (candidate->size_bytes < rounded || candidate->size_bytes / 2 > rounded) continue;
      if (!candidate->ready_for(stream.get())) {
        ++state->stats.kept_waiting;
        continue;
      }
      if (best == state->free.end() || candidate->size_bytes < best->size_bytes) best = candidate;
    }
    if (best != state->free.end()) {
      block.data_ = best->data;
      block.size_bytes_ = best->size_bytes;
      state->stats.free_bytes -= best->size_bytes;
      *best = std::move(state->free.back());
      state->free.pop_back();
      state->stats.free_blocks = state->free.size();
      ++state->stats.reused;
    }
  }
  if (block.data_ == nullptr) {
    TENON_TRY_ASSIGN(block.data_, source_->allocate(rounded));
    block.size_bytes_ = rounded;
    ++state_.lock()->stats.blocks;
  }
  block.pool_ = this;
  block.stream_ = std::move(stream);
  return block;
}

void ScratchPool::give_back(Block& block) {
  std::vector<void*> spare;
  {
    auto state = state_.lock();
    const uint64_t point = block.stream_ != nullptr ? block.stream_->queued() : 0;
    state->free.push_back({block.data_, block.size_bytes_, std::move(block.stream_), point});
    state->stats.free_bytes += block.size_bytes_;
    spare = trim(*state);
    state->stats.free_blocks = state->free.size();
  }
  for (void* memory : spare) source_->free(memory);
}

std::vector<void*> ScratchPool::trim(State& state) {
  std::vector<void*> spare;
  for (size_t i = 0; i < state.free.size() && state.stats.free_bytes > keep_bytes_;) {
    if (!state.free[i].ready_for(nullptr)) {
      ++i;
      continue;
    }
    spare.push_back(state.free[i].data);
    state.stats.free_bytes -= state.free[i].size_bytes;
    --state.stats.blocks;
    state.free[i] = std::move(state.free.back());
    state.free.pop_back();
  }
  return spare;
}

ScratchPool::Stats ScratchPool::stats() const { return state_.lock()->stats; }

}  // namespace tenon::plugin

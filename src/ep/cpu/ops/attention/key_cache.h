// The keys and values that an attention kernel reads: those of its inputs, or of the caches that it writes first.
#pragma once

#include "ep/cpu/ops/reference_kernel.h"
#include "ops/attention.h"

namespace tenon::cpu {

// Element `i` of an int32 or int64 input, not farther from 0 than positions can be.
int64_t length_at(const KernelContext& context, size_t input, DataType type, int64_t i);
// Errors: another type than int32 or int64.
Status check_lengths(const TensorSpec& spec, std::string_view what);

// Prepared for one node; a kernel calls begin() once for each run, then write() for every head of every batch if
// writes(), and reads keys and values after that.
class KeyCacheWriter {
 public:
  // Keys or values of one run. Key `s` of a batch that has `before` keys in the past is row s of the past if s <
  // before, else row s - before.
  struct Rows {
    const std::byte* data = nullptr;
    HeadStrides at;  // in elements
  };
  struct Run {
    Rows k, v, past_k, past_v;                   // without a past that is read where it lies, that is null
    std::byte *to_k = nullptr, *to_v = nullptr;  // null where nothing is written
    bool is_first = false;                       // of a shared cache: nothing is in it
  };

  // Errors: outputs that were planned with other shapes, caches of another type than K and V.
  static Result<KeyCacheWriter> create(const KernelNode& node, const AttentionDesc& desc);

  // Scratch that begin() is given, for caches that the node does not put out.
  size_t scratch_bytes() const { return scratch_k_ + scratch_v_; }
  // Errors: a length of keys that the caches do not have.
  Result<Run> begin(KernelContext& context, std::byte* scratch) const;
  // True if write() has anything to do.
  static bool writes(const Run& run) { return run.to_k != nullptr; }
  // Fills one head of both caches. Threads: different heads at once.
  void write(const KernelContext& context, const Run& run, int64_t batch, int64_t head) const;

  // The keys of a batch, those of them in the past, and the positions before its first query.
  int64_t keys(const KernelContext& context, const Run& run, int64_t batch) const;
  int64_t before(const KernelContext& context, const Run& run, int64_t batch) const;
  int64_t offset(const KernelContext& context, const Run& run, int64_t batch) const;

 private:
  int64_t length(const KernelContext& context, int64_t batch) const;
  Status begin_shared(const KernelContext& context, Run& run) const;

  AttentionDesc desc_;
  TensorSpec present_k_, present_v_, lengths_;
  DataType total_type_ = DataType::kUndefined;
  bool writes_ = false;
  int64_t k_bytes_ = 0, v_bytes_ = 0;  // of an element
  size_t scratch_k_ = 0, scratch_v_ = 0;
};

}  // namespace tenon::cpu

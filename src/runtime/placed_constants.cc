#include "runtime/placed_constants.h"

#include <algorithm>

#include "device/copy.h"

namespace tenon {

Tensor PlacedConstants::find_own(const ConstantRef& constant, SpaceId space) const {
  for (EpId ep : providers_.ids()) {
    const IdVector<AllocatorId, SpaceId>& own = spaces_.table().of_ep[ep];
    const AllocatorId allocator(std::find(own.begin(), own.end(), space) - own.begin());
    if (!own.contains(allocator)) continue;
    Tensor known = providers_[ep]->placed_constant(constant, allocator);
    if (known.data() != nullptr) return known;
  }
  return {};
}

Result<Tensor> PlacedConstants::place(const ConstantRef& constant, const std::string& name, SpaceId space,
                                      bool disallow_copies) {
  const std::pair key(constant.get(), space);
  {
    auto placed = placed_.lock();
    const auto found = placed->find(key);
    // Another constant may have been made at the address of one that is gone.
    if (found != placed->end() && !found->second.source.expired()) return found->second.tensor;
  }
  // Without the lock: allocators and transfers are plugins' code, which may block or use this session.
  Placed made{.source = constant, .tensor = {}};
  TENON_TRY_ASSIGN(made.tensor, copy(constant, name, space, disallow_copies));
  auto placed = placed_.lock();  // ends before `made`, which then holds what was replaced or is not needed
  Placed& entry = (*placed)[key];
  if (entry.source.expired()) std::swap(entry, made);
  return entry.tensor;
}

Result<Tensor> PlacedConstants::copy(const ConstantRef& constant, const std::string& name, SpaceId space,
                                     bool disallow_copies) {
  if (Tensor known = find_own(constant, space); known.data() != nullptr) return known;
  TENON_TRY_ASSIGN(const Tensor source,
                   Tensor::view(constant->type, constant->shape, const_cast<std::byte*>(constant->data.bytes()),
                                constant->size_bytes));
  if (disallow_copies && constant->size_bytes > 0)
    return copy_disallowed(name.c_str(), source.space(), spaces_.table().at(space), CopyReason::kNotCompatible);
  TENON_TRY_ASSIGN(Tensor target, spaces_.allocate(space, constant->type, constant->shape));
  CopyLedger made_now;
  TENON_TRY_CONTEXT(copy_tensor(target, source, CopyReason::kNotCompatible, texts_.keep(name), &made_now,
                                spaces_.transfer(source.space(), target.space())),
                    "while placing the constant \"{}\"", name);
  copies_.add(made_now.records);
  return target;
}

Result<Tensor> PlacedConstants::explain(const ConstantRef& constant, const std::string& name, SpaceId space,
                                        CopyLedger* copies) const {
  if (Tensor known = find_own(constant, space); known.data() != nullptr) return known;
  MemorySpace there = spaces_.table().at(space);
  there.alignment = 0;
  note_copy({.bytes = constant->size_bytes,
             .source = MemorySpace{},
             .target = there,
             .reason = CopyReason::kNotCompatible,
             .what = texts_.keep(name),
             .once = true},
            copies);
  return Tensor::view(constant->type, constant->shape, const_cast<std::byte*>(constant->data.bytes()),
                      constant->size_bytes, nullptr, there);
}

}  // namespace tenon

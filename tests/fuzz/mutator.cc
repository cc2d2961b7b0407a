#include "mutator.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>

namespace tenon::fuzz {

namespace {

size_t below(Random& random, size_t count) { return static_cast<size_t>(random() % count); }
bool one_in(Random& random, size_t count) { return below(random, count) == 0; }

constexpr uint64_t kNumbers[] = {0,
                                 1,
                                 2,
                                 3,
                                 4,
                                 7,
                                 8,
                                 13,
                                 16,
                                 28,
                                 64,
                                 127,
                                 128,
                                 255,
                                 65535,
                                 65536,
                                 INT32_MAX,
                                 uint64_t{1} << 31,
                                 UINT32_MAX,
                                 uint64_t{1} << 32,
                                 uint64_t{1} << 40,
                                 uint64_t{1} << 62,
                                 INT64_MAX,
                                 uint64_t{1} << 63,
                                 UINT64_MAX,
                                 UINT64_MAX - 1};
constexpr float kFloats[] = {0.0f,
                             -0.0f,
                             1.0f,
                             -1.0f,
                             0.5f,
                             1e-38f,
                             1e38f,
                             std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()};

// A path of the model may lead nowhere in a tree that has been changed already.
bool exists(const MessageRef& root, const Path& path) {
  const Message* message = root.get();
  for (size_t i = 0; i < path.size(); ++i) {
    if (message == nullptr || path[i] >= message->fields.size()) return false;
    message = message->fields[path[i]].message.get();
  }
  return true;
}

}  // namespace

Mutator::Mutator(MessageRef model) : model_(std::move(model)) {
  for (Path& path : all_paths(model_)) {
    const MessageKind parent = parent_of(model_, path).kind;
    const Field& field = field_at(model_, path);
    if (is_weight(parent, field)) {
      weights_.push_back(std::move(path));
      continue;
    }
    by_class_[{parent, field.number}].push_back(path);
    paths_.push_back(std::move(path));
  }
  for (const auto& [where, paths] : by_class_) classes_.push_back(where);
}

// Half of the time every field is as likely as any other, half of the time every class of fields: there are thousands
// of names in a model, and one IR version.
Path Mutator::pick(const MessageRef& root, Random& random) const {
  for (;;) {
    const std::vector<Path>* from = &paths_;
    if (!weights_.empty() && one_in(random, 12)) {
      from = &weights_;
    } else if (one_in(random, 2)) {
      from = &by_class_.at(classes_[below(random, classes_.size())]);
    }
    const Path& path = (*from)[below(random, from->size())];
    if (exists(root, path)) return path;
  }
}

uint64_t Mutator::changed_number(uint64_t value, Random& random) const {
  switch (below(random, 5)) {
    case 0:
      return value ^ uint64_t { 1 } << below(random, 64);
    case 1:
      return value + 1;
    case 2:
      return value - 1;
    case 3:
      return below(random, 40);
    default:
      return kNumbers[below(random, std::size(kNumbers))];
  }
}

std::string Mutator::changed_bytes(const Field& field, const Class& where, Random& random) const {
  std::string bytes = field.message ? serialize(*field.message) : field.bytes ? *field.bytes : "";
  switch (below(random, 6)) {
    case 0:
      if (!bytes.empty()) bytes.resize(below(random, bytes.size()));
      return bytes;
    case 1:
      if (!bytes.empty()) bytes[below(random, bytes.size())] ^= static_cast<char>(1 << below(random, 8));
      return bytes;
    case 2:
      return bytes + std::string(1 + below(random, 40), static_cast<char>(random()));
    default:
      break;
  }
  // Another one's: a name becomes a name that exists, an operator an operator that exists.
  const std::vector<Path>& others = by_class_.at(where);
  const Field& other = field_at(model_, others[below(random, others.size())]);
  return other.message ? serialize(*other.message) : other.bytes ? *other.bytes : "";
}

Field Mutator::changed(const Field& field, const Class& where, Random& random) const {
  Field copy = field;
  if (one_in(random, 20)) {  // another field, or another wire type: what follows is read as something else
    if (one_in(random, 2)) {
      copy.number = static_cast<uint32_t>(1 + below(random, 26));
    } else {
      constexpr uint32_t kWires[] = {0, 1, 2, 3, 5, 6, 7};
      copy.wire = kWires[below(random, std::size(kWires))];
    }
    return copy;
  }
  if (field.wire == 0 || field.wire == 1) {
    copy.value = changed_number(field.value, random);
  } else if (field.wire == 5) {
    copy.value = one_in(random, 2) ? std::bit_cast<uint32_t>(kFloats[below(random, std::size(kFloats))])
                                   : field.value ^ uint64_t { 1 } << below(random, 32);
  } else if (by_class_.contains(where)) {
    copy.bytes = std::make_shared<const std::string>(changed_bytes(field, where, random));
    copy.message = nullptr;
  } else if (field.bytes && !field.bytes->empty()) {  // weights
    std::string bytes = *field.bytes;
    if (one_in(random, 4)) bytes.resize(below(random, bytes.size()));
    if (!bytes.empty()) bytes[below(random, bytes.size())] ^= static_cast<char>(1 << below(random, 8));
    copy.bytes = std::make_shared<const std::string>(std::move(bytes));
  }
  return copy;
}

MessageRef Mutator::change_one(const MessageRef& root, Random& random, size_t& weight_changes) const {
  const Path path = pick(root, random);
  const MessageKind kind = parent_of(root, path).kind;
  const Class where{kind, field_at(root, path).number};
  if (is_weight(kind, field_at(root, path))) ++weight_changes;
  const size_t action = below(random, 10);
  return with_change(root, path, [&](std::vector<Field>& fields, size_t index) {
    if (action == 0) {
      fields.erase(fields.begin() + static_cast<ptrdiff_t>(index));
    } else if (action == 1) {
      const Field twice = fields[index];
      fields.insert(fields.begin() + static_cast<ptrdiff_t>(below(random, fields.size() + 1)), twice);
    } else if (action == 2) {
      std::swap(fields[index], fields[below(random, fields.size())]);
    } else {
      fields[index] = changed(fields[index], where, random);
    }
  });
}

Mutator::Mutant Mutator::mutate(Random& random) const {
  Mutant mutant;
  MessageRef root = model_;
  // Mostly one change: with many, one of them is almost always refused at once, and the others are never met.
  mutant.changes = one_in(random, 3) ? 1 + below(random, 4) : 1;
  for (size_t i = 0; i < mutant.changes; ++i) root = change_one(root, random, mutant.weight_changes);
  mutant.bytes = serialize(*root);
  if (one_in(random, 50)) mutant.bytes.resize(below(random, mutant.bytes.size() + 1));
  return mutant;
}

}  // namespace tenon::fuzz

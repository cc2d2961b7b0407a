// Changes a model in ways that a damaged file, a broken exporter or an attacker could.
#pragma once

#include <map>
#include <random>
#include <utility>
#include <vector>

#include "proto_tree.h"

namespace tenon::fuzz {

using Random = std::mt19937_64;

class Mutator {
 public:
  explicit Mutator(MessageRef model);

  struct Mutant {
    std::string bytes;
    size_t changes = 0;
    size_t weight_changes = 0;  // of `changes`, those inside the elements of a tensor
  };
  // The same for the same `random`.
  Mutant mutate(Random& random) const;
  const MessageRef& model() const { return model_; }

 private:
  using Class = std::pair<MessageKind, uint32_t>;  // kind of the message, number of the field
  MessageRef change_one(const MessageRef& root, Random& random, size_t& weight_changes) const;
  Path pick(const MessageRef& root, Random& random) const;
  Field changed(const Field& field, const Class& where, Random& random) const;
  uint64_t changed_number(uint64_t value, Random& random) const;
  std::string changed_bytes(const Field& field, const Class& where, Random& random) const;

  MessageRef model_;
  std::vector<Path> paths_;  // without weights
  std::vector<Path> weights_;
  std::map<Class, std::vector<Path>> by_class_;
  std::vector<Class> classes_;
};

}  // namespace tenon::fuzz

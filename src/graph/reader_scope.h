// Maps names to values while a graph is read.
//
// A Level is one Graph being made; a Scope is one set of names in it. A function's body has a scope of its own in the
// level that calls it. Subgraphs are read when the level around them is complete, so that they see all its names.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/reader_internal.h"
#include "graph/schema.h"

namespace tenon::reader {

struct Scope;

// An attribute with its references resolved. `graph_scope` is where the names of a graph are looked up.
struct BoundAttribute {
  ParsedAttribute parsed;
  std::shared_ptr<Scope> graph_scope;
};

// One call of a function that is being inlined.
struct Call {
  const Function* function = nullptr;
  std::shared_ptr<const Call> outer;
  std::vector<BoundAttribute> attributes;
  std::string prefix;  // of names that the body makes
};

// A subgraph that waits to be read.
struct Subgraph {
  NodeId node;
  size_t attribute = 0;
  std::string_view message;
  std::shared_ptr<Scope> lexical_parent;
  size_t depth = 0;
  int32_t position = 0;
};

struct Level {
  // Where a value comes from, by ValueId: the position of what defines it, or one of these.
  static constexpr int32_t kPending = -1;   // read, and not defined so far
  static constexpr int32_t kCaptured = -2;  // of an outer level

  Graph graph;
  Level* parent = nullptr;
  bool may_hide = false;  // ReadContext::may_hide
  bool inlined = false;   // read in the course of a call: counts against the limits of inlining
  int32_t position = 0;   // nodes met so far
  PerValue<int32_t> defined_at;
  PerNode<std::optional<Schema>> schemas;  // nothing for an unknown operator
  std::vector<Subgraph> subgraphs;
  std::vector<ValueId> generated;                 // values of function bodies, to get unique names
  std::unordered_map<ValueId, ValueId> imported;  // by the parent's id

  ValueId add(Value value, int32_t where);
};

struct Scope {
  Level* level = nullptr;
  std::shared_ptr<Scope> lexical_parent;  // null for the model's graph and for function bodies
  int32_t position = 0;                   // of the node that holds this subgraph, in its lexical parent
  std::shared_ptr<const Call> call;       // null outside of functions
  const Opsets* opsets = nullptr;
  size_t depth = 0;
  std::unordered_map<std::string_view, ValueId> names;
  std::unordered_set<std::string_view> awaited;  // outputs of the function that its body has not made yet
  std::vector<std::pair<std::string_view, ValueId>> pending;

  // The value that a node of this scope reads; made as pending when nothing has defined it so far.
  ValueId read(std::string_view name);
  // Declares what an input, initializer or node makes. `what` is for messages.
  Result<ValueId> define(std::string_view name, const char* what);
  // Finds each pending value in an enclosing scope, or fails.
  Status resolve_pending(size_t& captures_left);

 private:
  Status check_shadowing(std::string_view name) const;
  Status undefined(std::string_view name, ValueId id) const;
};

}  // namespace tenon::reader

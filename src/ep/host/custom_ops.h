// Custom operators: the OrtCustomOps of a program or plugin, as an EP of one session.
//
// Ownership: an OrtCustomOpDomain borrows its operators; both are the program's until the sessions that use them are
// gone, as in the reference.
// Threads: a domain is complete before a session uses it; kernels run from any thread.
// Errors: an operator that throws, gives a null kernel or lacks a member gives a status that names operator and member.
#pragma once

#include <tenon/ep.h>
#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "abi/objects/key_value_pairs.h"
#include "ep/api/device_provider.h"
#include "graph/graph.h"

struct OrtCustomOpDomain {
  std::string name;
  std::vector<const OrtCustomOp*> ops;
};

namespace tenon::abi {

// Is this one that CreateCustomOpDomain made and nobody has released?
bool is_custom_op_domain(const OrtCustomOpDomain* domain);

// The operators of several domains, as values: what sessions keep.
class CustomOps {
 public:
  CustomOps() = default;
  explicit CustomOps(std::span<OrtCustomOpDomain* const> domains);

  bool empty() const { return domains_.empty(); }
  // The operator for a node whose input types are known as far as they are; null when there is none. `why_not` then
  // says what came closest.
  const OrtCustomOp* find(const Graph& graph, const Node& node, std::string* why_not = nullptr) const;
  // OK unless two operators of one domain take the same inputs, of the same opsets, under one name.
  Status check_names() const;
  // Gives the outputs of the nodes that find() knows their types, and the shapes that the operators say. True if
  // something changed.
  Result<bool> infer_types(Graph& graph) const;

 private:
  std::vector<OrtCustomOpDomain> domains_;
};

// True if the message speaks of a domain of the session's own: a node of it is not a fault of the model.
bool has_custom_domain(const OrtSessionOptions& options, const std::string& message);

class KernelHost;

// An EP that runs the operators' nodes which no other EP takes, in host memory. `keep` is what the operators are part
// of.
std::unique_ptr<DeviceProvider> make_custom_op_provider(CustomOps ops, std::shared_ptr<const KernelHost> host,
                                                        std::shared_ptr<const void> keep);

// Makes the domains of session options an EP that a session can name, until this object is gone; the session then keeps
// what it needs. It offers no device, so nobody else sees it.
class CustomOpEp {
 public:
  static Result<std::unique_ptr<CustomOpEp>> create(const OrtSessionOptions& options);
  ~CustomOpEp();
  CustomOpEp(const CustomOpEp&) = delete;
  CustomOpEp& operator=(const CustomOpEp&) = delete;

  EpChoice choice() const { return {.ep_name = name_}; }

 private:
  explicit CustomOpEp(std::string name) : name_(std::move(name)) {}
  const std::string name_;
};

}  // namespace tenon::abi

// Getters of a session's inputs, outputs, overridable initializers and partitions.
#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/objects/type_info.h"
#include "abi/session.h"

namespace tenon::abi {
namespace {

OrtStatus* get_count(const char* function, const OrtSession* session, size_t* out,
                     std::span<const ValueInfo> (Session::*infos)() const) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers(function, {{"session", session}, {"out", out}})) return bad;
  *out = (session->core().*infos)().size();
  return nullptr;
}

OrtStatus* get_type(const char* function, const OrtSession* session, size_t index, OrtTypeInfo** out,
                    std::span<const ValueInfo> (Session::*infos)() const) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers(function, {{"session", session}, {"type_info", out}})) return bad;
  const std::span<const ValueInfo> all = (session->core().*infos)();
  if (index >= all.size()) return make_ort_status(ORT_FAIL, "out of index");
  return guarded([&] { return make_object(out, to_type_info(all[index])); });
}

OrtStatus* get_name(const char* function, const OrtSession* session, size_t index, OrtAllocator* allocator, char** out,
                    std::span<const ValueInfo> (Session::*infos)() const) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers(function, {{"session", session}, {"allocator", allocator}, {"value", out}}))
    return bad;
  const std::span<const ValueInfo> all = (session->core().*infos)();
  if (index >= all.size()) return make_ort_status(ORT_FAIL, "index out of range");
  return copy_text(allocator, all[index].name, out);
}

constexpr auto kInputs = &Session::inputs;
constexpr auto kOutputs = &Session::outputs;
constexpr auto kOverridable = &Session::overridable_initializers;

}  // namespace

OrtStatus* ort_api::SessionGetInputCount(const OrtSession* session, size_t* out) noexcept {
  return get_count("SessionGetInputCount", session, out, kInputs);
}

OrtStatus* ort_api::SessionGetOutputCount(const OrtSession* session, size_t* out) noexcept {
  return get_count("SessionGetOutputCount", session, out, kOutputs);
}

OrtStatus* ort_api::SessionGetOverridableInitializerCount(const OrtSession* session, size_t* out) noexcept {
  return get_count("SessionGetOverridableInitializerCount", session, out, kOverridable);
}

OrtStatus* ort_api::SessionGetInputTypeInfo(const OrtSession* session, size_t index, OrtTypeInfo** type_info) noexcept {
  return get_type("SessionGetInputTypeInfo", session, index, type_info, kInputs);
}

OrtStatus* ort_api::SessionGetOutputTypeInfo(const OrtSession* session, size_t index,
                                             OrtTypeInfo** type_info) noexcept {
  return get_type("SessionGetOutputTypeInfo", session, index, type_info, kOutputs);
}

OrtStatus* ort_api::SessionGetOverridableInitializerTypeInfo(const OrtSession* session, size_t index,
                                                             OrtTypeInfo** type_info) noexcept {
  return get_type("SessionGetOverridableInitializerTypeInfo", session, index, type_info, kOverridable);
}

OrtStatus* ort_api::SessionGetInputName(const OrtSession* session, size_t index, OrtAllocator* allocator,
                                        char** value) noexcept {
  return get_name("SessionGetInputName", session, index, allocator, value, kInputs);
}

OrtStatus* ort_api::SessionGetOutputName(const OrtSession* session, size_t index, OrtAllocator* allocator,
                                         char** value) noexcept {
  return get_name("SessionGetOutputName", session, index, allocator, value, kOutputs);
}

OrtStatus* ort_api::SessionGetOverridableInitializerName(const OrtSession* session, size_t index,
                                                         OrtAllocator* allocator, char** value) noexcept {
  return get_name("SessionGetOverridableInitializerName", session, index, allocator, value, kOverridable);
}

OrtStatus* ort_api::Session_GetEpGraphAssignmentInfo(const OrtSession* session,
                                                     const OrtEpAssignedSubgraph* const** ep_subgraphs,
                                                     size_t* num_ep_subgraphs) noexcept {
  clear(ep_subgraphs);
  clear(num_ep_subgraphs);
  if (OrtStatus* bad = check_pointers(
          "Session_GetEpGraphAssignmentInfo",
          {{"session", session}, {"ep_subgraphs", ep_subgraphs}, {"num_ep_subgraphs", num_ep_subgraphs}}))
    return bad;
  if (!config_flag(session->options.config_entries, "session.record_ep_graph_assignment_info", false))
    return make_ort_status(ORT_FAIL,
                           "Session configuration entry 'session.record_ep_graph_assignment_info' must be set to "
                           "\"1\" to retrieve EP graph assignment information.");
  *ep_subgraphs = session->part_pointers.data();
  *num_ep_subgraphs = session->part_pointers.size();
  return nullptr;
}

OrtStatus* ort_api::EpAssignedSubgraph_GetEpName(const OrtEpAssignedSubgraph* ep_subgraph, const char** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("EpAssignedSubgraph_GetEpName", {{"ep_subgraph", ep_subgraph}, {"out", out}}))
    return bad;
  *out = ep_subgraph->ep_name.c_str();
  return nullptr;
}

OrtStatus* ort_api::EpAssignedSubgraph_GetNodes(const OrtEpAssignedSubgraph* ep_subgraph,
                                                const OrtEpAssignedNode* const** ep_nodes,
                                                size_t* num_ep_nodes) noexcept {
  clear(ep_nodes);
  clear(num_ep_nodes);
  if (OrtStatus* bad =
          check_pointers("EpAssignedSubgraph_GetNodes",
                         {{"ep_subgraph", ep_subgraph}, {"ep_nodes", ep_nodes}, {"num_ep_nodes", num_ep_nodes}}))
    return bad;
  *ep_nodes = ep_subgraph->pointers.data();
  *num_ep_nodes = ep_subgraph->pointers.size();
  return nullptr;
}

OrtStatus* ort_api::EpAssignedNode_GetName(const OrtEpAssignedNode* ep_node, const char** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("EpAssignedNode_GetName", {{"ep_node", ep_node}, {"out", out}})) return bad;
  *out = ep_node->name.c_str();
  return nullptr;
}

OrtStatus* ort_api::EpAssignedNode_GetDomain(const OrtEpAssignedNode* ep_node, const char** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("EpAssignedNode_GetDomain", {{"ep_node", ep_node}, {"out", out}})) return bad;
  *out = ep_node->domain.c_str();
  return nullptr;
}

OrtStatus* ort_api::EpAssignedNode_GetOperatorType(const OrtEpAssignedNode* ep_node, const char** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("EpAssignedNode_GetOperatorType", {{"ep_node", ep_node}, {"out", out}}))
    return bad;
  *out = ep_node->op_type.c_str();
  return nullptr;
}

}  // namespace tenon::abi

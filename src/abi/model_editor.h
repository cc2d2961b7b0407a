// Converts a model that a program built with OrtModelEditorApi to a model of the core.
//
// OrtGraph, OrtNode and OrtValueInfo are those of ep/host/graph_view.h; here nodes name their values, and a graph owns
// what was added to it.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include "ep/host/graph_view.h"
#include "graph/reader.h"

namespace tenon::abi {

// Checks names, order and operators as the reader does for a file. Initializers are shared, not copied: the values live
// as long as the result.
Result<Model> to_core(const OrtModel& model);

// `base` with the nodes, initializers and new domains of `update`; its inputs, and its outputs, become those of the
// update where that has any. Nodes of `base` are not changed.
// Errors: as above; a domain of another version, a name that `base` has.
Result<Model> with_update(const Model& base, const OrtModel& update);

}  // namespace tenon::abi

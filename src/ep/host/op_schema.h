// OrtOpSchema: a row of the operator table with the reference's way of numbering what constrains types.
//
// Ownership: self-contained; what getters hand out lives as long as the schema.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <string>
#include <vector>

struct OrtOpSchemaTypeConstraint {
  std::string name;
  std::vector<std::string> types;  // "tensor(float)"
  std::vector<const char*> type_texts;
  std::vector<size_t> inputs, outputs;
};

struct OrtOpSchema {
  struct Parameter {
    std::string name;
    int constraint = -1;  // index into `constraints`; -1: a fixed type
  };
  int since_version = 0;
  std::vector<Parameter> inputs, outputs;
  std::vector<OrtOpSchemaTypeConstraint> constraints;
};

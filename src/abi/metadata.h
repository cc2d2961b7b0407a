// OrtModelMetadata: a copy of the metadata in a model's file.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/session.h>

struct OrtModelMetadata {
  tenon::ModelMetadata data;
};

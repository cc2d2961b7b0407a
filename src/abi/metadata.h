// OrtModelMetadata: a copy of what a model's file says of itself.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/session.h>

struct OrtModelMetadata {
  tenon::ModelMetadata data;
};

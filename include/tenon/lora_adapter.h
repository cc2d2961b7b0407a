// LoRA adapters: files (.onnx_adapter) with named tensors that a run puts in the place of a model's inputs or
// initializers, so that one session serves many fine-tuned models. The format is ONNX Runtime's.
//
//   #include <tenon/lora_adapter.h>
//   #include <tenon/session.h>
//   auto adapter = *tenon::LoraAdapter::load("style.onnx_adapter");  // maps the file
//   auto session = *tenon::Session::load("model.onnx", {.initializers_as_inputs = true});
//   auto results = *session->run(adapter.parameters);  // and the model's inputs
//
// Ownership: parameters are views of the file's mapping (or of the copied bytes) and keep it. Threads: a value.
// Errors: kInvalidArgument for bytes that are no adapter, kUnsupported for another version of the format; the message
// says where the file is broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/tensor.h"

namespace tenon {

struct LoraAdapter {
  static constexpr int32_t kFormatVersion = 1;

  int32_t format_version = kFormatVersion;
  // Versions that the author gave to adapter and model; nothing depends on them.
  int32_t adapter_version = 0;
  int32_t model_version = 0;
  std::vector<std::pair<std::string, Tensor>> parameters;  // in the file's order

  // The file must not shrink while a parameter is in use.
  TENON_API static Result<LoraAdapter> load(const std::string& path);
  // Copies the bytes.
  TENON_API static Result<LoraAdapter> read(std::span<const std::byte> bytes);
  // The bytes of a file. Errors: a parameter that is no tensor of numbers in host memory; more than 2 GB.
  TENON_API Result<std::vector<std::byte>> write() const;
};

}  // namespace tenon

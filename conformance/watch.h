// The watch: a library of this program that it puts between a host and the plugin under test (watch/watch_api.h). It
// lists the host's objects that the plugin has not released, and gives the plugin's own factories.
//
// Lifetime: longer than the host's registration. One in a process.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <string>
#include <vector>

#include "conformance/status.h"
#include "conformance/watch/watch_api.h"

namespace tenon::conformance {

class Watch {
 public:
  struct LiveObjects {
    std::string kind;     // "OrtMemoryInfo"
    std::string made_by;  // "CreateCpuMemoryInfo"
    size_t count = 0;
  };

  // Loads the plugin and the watch. Errors: the plugin does not load or is none (the host says it better); this system
  // has no watch.
  static Result<std::unique_ptr<Watch>> create(const std::string& plugin);
  // The library for the host to load in the plugin's place.
  const std::string& library() const { return library_; }

  std::vector<LiveObjects> live() const;
  // The plugin's factory of this EP; null when the host has none.
  OrtEpFactory* factory(const std::string& ep_name) const;

 private:
  Watch(std::string library, const TenonWatchApi* api) : library_(std::move(library)), api_(api) {}

  const std::string library_;
  const TenonWatchApi* const api_;
};

}  // namespace tenon::conformance

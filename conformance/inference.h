// A session that computes y = Relu(x), run on imported tensors.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/tensors.h"

namespace tenon::conformance {

inline constexpr int64_t kReluCount = 3 * 1024;
inline constexpr size_t kReluBytes = kReluCount * sizeof(float);
// The input, then the output.
inline constexpr size_t kFrameBytes = 2 * kReluBytes;

float relu_input(int frame, int64_t index);
void upload(std::byte* memory, int frame);
// Empty, or the first element that is wrong.
std::string read_back(const std::byte* memory, int frame);

// Each way to share that the EP takes and this program can make.
struct Exporters {
  std::vector<std::unique_ptr<MemoryExporter>> memory;
  std::vector<std::unique_ptr<SemaphoreExporter>> semaphores;
  // Nothing where the EP has no importer or there is no such way; the check then says why it is skipped.
  static std::optional<Exporters> of(Check& check);
};

class ReluSession {
 public:
  // Null when the session cannot be made; that is the check's failure.
  static std::unique_ptr<ReluSession> create(Check& check);
  // Binds tensors of the import and runs once on `stream`. A failure of run() is the check's.
  Status try_run(OrtSyncStream* stream, OrtExternalResourceImporter* importer, const OrtExternalMemoryHandle* memory) {
    return try_run(stream, importer, memory, false, {});
  }
  using Entries = std::map<std::string, std::string>;  // of the run's configuration
  Status try_queue(OrtSyncStream* stream, const OrtExternalMemoryHandle* memory, const Entries& entries) {
    return try_run(stream, check_.importer(), memory, true, entries);
  }
  // The same without waiting for the stream; the tensors live as long as this.
  bool queue(OrtSyncStream* stream, const OrtExternalMemoryHandle* memory) {
    return check_.expect_ok(try_queue(stream, memory, {}), "A run that does not wait");
  }
  bool run(OrtSyncStream* stream, const OrtExternalMemoryHandle* memory) {
    return check_.expect_ok(try_run(stream, check_.importer(), memory), "A run on imported memory");
  }
  OrtSession* session() { return session_.get(); }

 private:
  explicit ReluSession(Check& check) : check_(check) {}
  Status try_run(OrtSyncStream* stream, OrtExternalResourceImporter* importer, const OrtExternalMemoryHandle* memory,
                 bool keep, const Entries& entries);
  Check& check_;
  std::vector<Owned<OrtValue>> kept_;
  Owned<OrtSession> session_;
};

}  // namespace tenon::conformance

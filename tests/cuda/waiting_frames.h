// A program of the C ABI whose stream waits for another program's timeline.
#pragma once

#include <string>

#include "conformance/host.h"
#include "other_program.h"

namespace tenon::test {

class WaitingFrames {
 public:
  explicit WaitingFrames(conformance::Host& host) : host_(host) {}

  // Makes the streams and takes the other program's timeline.
  Status open(OtherProgram& program);
  // Queues a wait on the stream.
  Status wait(uint64_t value);
  // Returns when the stream has done all that was queued.
  Status finish() { return host_.wait_for(stream_.get()); }
  // In the place of a program that is gone: what waits goes on.
  Status signal_elsewhere(uint64_t value);
  // A model of four operators. `unified`: all of the session's work goes to one stream of its own.
  Result<conformance::Owned<OrtSession>> make_session(const char* load_timeout_ms = "300", bool unified = false);
  // From host memory to host memory, on the stream, or on one of the run's own; 0 ms: without a deadline.
  Status run(OrtSession* session, bool on_stream, int64_t timeout_ms);

 private:
  Status answer(OrtStatus* status) { return conformance::to_status(host_.take(status), "The C ABI"); }

  conformance::Host& host_;
  conformance::Owned<OrtExternalResourceImporter> importer_;
  conformance::Owned<OrtSyncStream> stream_, elsewhere_;
  conformance::Owned<OrtExternalSemaphoreHandle> semaphore_;
};

}  // namespace tenon::test

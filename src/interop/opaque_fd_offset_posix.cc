#include <fcntl.h>
#include <tenon/external_memory.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/status.h"
#include "interop/fd_memory.h"

namespace tenon {

namespace {

constexpr size_t kGranularity = 4096;
constexpr size_t kChunkBytes = 256 * kGranularity;
// The caller exports a page or two for this; a search of gigabytes means that it passed another object.
constexpr uint64_t kLargestObject = uint64_t{1} << 30;
constexpr size_t kShortestNonce = 16;

Result<size_t> read_at(int fd, std::byte* buffer, size_t size, uint64_t offset, const std::string& what) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::pread(fd, buffer + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    TENON_UNSUPPORTED_IF(count < 0, "File descriptor {} of {} cannot be read: {}.", fd, what,
                         errno_text("pread", errno));
    if (count == 0) break;
    done += count;
  }
  return done;
}

}  // namespace

Result<size_t> find_opaque_fd_offset(int fd, const void* nonce, size_t nonce_bytes) {
  const std::string what = "the probe allocation";
  TENON_INVALID_IF(nonce == nullptr, "The nonce is null.");
  TENON_INVALID_IF(nonce_bytes < kShortestNonce || nonce_bytes > kGranularity,
                   "The nonce has {} bytes; it takes {} to {} to tell an allocation from chance.", nonce_bytes,
                   kShortestNonce, kGranularity);
  TENON_INVALID_IF(fd < 0, "File descriptor {} of {} is not valid.", fd, what);
  TENON_TRY_ASSIGN(const FdObject object, query_fd_object(fd, what));
  TENON_INVALID_IF(object.size_bytes > kLargestObject, "The object behind {} has {} bytes; at most {} are searched.",
                   what, object.size_bytes, kLargestObject);

  // Read, not mapped: an object that is cut meanwhile ends the search instead of the process.
  std::vector<std::byte> chunk(std::min<size_t>(kChunkBytes, object.size_bytes));
  std::vector<size_t> found;
  for (uint64_t offset = 0; offset < object.size_bytes && found.size() < 2; offset += kChunkBytes) {
    TENON_TRY_ASSIGN(const size_t size, read_at(fd, chunk.data(), chunk.size(), offset, what));
    for (size_t i = 0; i + nonce_bytes <= size; i += kGranularity)
      if (std::memcmp(chunk.data() + i, nonce, nonce_bytes) == 0) found.push_back(offset + i);
  }
  TENON_UNSUPPORTED_IF(found.empty(),
                       "The object behind {} does not hold the nonce at any multiple of {}: the layout is unknown.",
                       what, kGranularity);
  TENON_UNSUPPORTED_IF(found.size() > 1,
                       "The object behind {} holds the nonce more than once (at {} and {}): the layout is ambiguous.",
                       what, found[0], found[1]);
  return found[0];
}

}  // namespace tenon

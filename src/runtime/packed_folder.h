// A folder of packed weights that the sessions of several processes map (config key tenon.packed_weights_folder).
//
// A file holds one packing, under the hash of what it is made of. The process that needs a packing first writes it; it
// appears under its name when it is whole. Who uses what is said by locks on bytes of the file "lock", which the system
// gives back when a process ends, whatever ends it. The last session that uses a packing removes its file, and the last
// one that has the folder open removes what is left in it, and the folder.
//
// Lifetime: packings keep the folder open. The bytes stay when their file is removed; nobody may shorten it.
// Threads: any; one at a time packs or maps.
// Errors: reasons for which a session packs for itself. A file that is damaged is written again.
#pragma once

#include <sys/types.h>
#include <tenon/external_memory.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/content_hash.h"
#include "base/status.h"

namespace tenon {

class PackedFolder : public std::enable_shared_from_this<PackedFolder> {
 public:
  // Makes the folder if it is not there. It has to belong to this user, and no other may write to it: a file of it
  // takes the place of weights. `limit_bytes`: of all files together; 0: as much as there is room.
  static Result<std::shared_ptr<PackedFolder>> open(const std::string& path, size_t limit_bytes);
  ~PackedFolder();
  PackedFolder(const PackedFolder&) = delete;
  PackedFolder& operator=(const PackedFolder&) = delete;

  // The packing of this name, read-only and aligned to a page. `pack` fills `bytes` of zeroed memory, where no process
  // has done it. Errors besides those of files: another process keeps the packing locked, this process is a fork of the
  // one that opened the folder.
  Result<std::shared_ptr<const std::byte>> get(const ContentHash& name, size_t bytes,
                                               const std::function<void(std::byte*)>& pack);

 private:
  PackedFolder(std::string path, OwnedHandle folder, OwnedHandle lock, size_t limit_bytes);
  // The mapping of a whole file; null if there is none that fits.
  std::byte* map(const ContentHash& name, size_t bytes) const;
  Result<std::byte*> write(const ContentHash& name, size_t bytes, const std::function<void(std::byte*)>& pack) const;
  void give_up(const ContentHash& name);
  // Calls `visit` with the name and the size of each file that sessions write.
  void for_files(const std::function<void(const char*, size_t)>& visit) const;

  const std::string path_;  // absolute
  const OwnedHandle folder_, lock_;
  const size_t limit_bytes_;
  const pid_t process_;  // a fork shares the locks, and must neither take nor release them
  std::mutex mutex_;
  std::map<ContentHash, int> users_;
};

// Differs for each build of this library: the file that holds it, with size and time. "" where the system does not
// know.
std::string library_build();

}  // namespace tenon

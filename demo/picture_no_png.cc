// Builds without libpng: pictures are refused.
#include "demo/picture.h"

namespace tenon::demo {

Status Picture::write_png(const std::string& path) const {
  return unsupported("The picture \"{}\" cannot be written: this build has no libpng.", path);
}

}  // namespace tenon::demo

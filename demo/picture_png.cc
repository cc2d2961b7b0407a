#include <png.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "demo/page.h"
#include "demo/picture.h"

namespace tenon::demo {

Status Picture::write_png(const std::string& path) const {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (file == nullptr) return not_found("The picture \"{}\" cannot be written: {}.", path, errno_text("open", errno));
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = kFrameWidth;
  image.height = kFrameHeight;
  image.format = PNG_FORMAT_RGB;
  if (png_image_write_to_stdio(&image, file.get(), 0, rgb_.data(), 0, nullptr) == 0 || std::fflush(file.get()) != 0) {
    const Status failed = device_error("Writing the picture \"{}\" fails: {}.", path, image.message);
    png_image_free(&image);
    return failed;
  }
  return {};
}

}  // namespace tenon::demo

#include "programs/npy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include <tenon/external_memory.h>

#include "programs/status.h"

namespace tenon::programs {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeaderBytes = 64 << 10;

struct NpyType {
  std::string_view descr;
  DataType type;
};
constexpr NpyType kTypes[] = {
    {"<f4", DataType::kFloat},     {"<f8", DataType::kDouble},      {"<f2", DataType::kFloat16},
    {"|b1", DataType::kBool},      {"|i1", DataType::kInt8},        {"<i2", DataType::kInt16},
    {"<i4", DataType::kInt32},     {"<i8", DataType::kInt64},       {"|u1", DataType::kUint8},
    {"<u2", DataType::kUint16},    {"<u4", DataType::kUint32},      {"<u8", DataType::kUint64},
    {"<c8", DataType::kComplex64}, {"<c16", DataType::kComplex128},
};

struct Header {
  DataType type = DataType::kUndefined;
  Shape shape;
};

// Reads the header's text, a Python dictionary of three known keys. Every step says what it expected.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  Result<Header> parse() {
    TENON_TRY(expect('{'));
    while (!take('}')) {
      TENON_TRY_ASSIGN(const std::string_view key, quoted());
      TENON_TRY(expect(':'));
      if (key == "descr") {
        TENON_TRY(parse_type());
      } else if (key == "fortran_order") {
        TENON_TRY(parse_order());
      } else if (key == "shape") {
        TENON_TRY(parse_shape());
      } else {
        return invalid_argument("Its header has an unknown key \"{}\".", key);
      }
      if (!take(',')) {
        TENON_TRY(expect('}'));
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) return invalid_argument("Its header goes on after the closing brace.");
    if (!has_type_ || !has_order_ || !has_shape_)
      return invalid_argument("Its header lacks descr, fortran_order or shape.");
    return header_;
  }

 private:
  void skip_space() {
    const size_t begin = std::min(rest_.find_first_not_of(" \n\t\r"), rest_.size());
    rest_.remove_prefix(begin);
  }
  bool take(char wanted) {
    skip_space();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  Status expect(char wanted) {
    if (take(wanted)) return {};
    return invalid_argument(
        "Its header has {} where \"{}\" is expected.",
        rest_.empty() ? "its end" : format("byte {:#04x}", static_cast<unsigned char>(rest_.front())), wanted);
  }
  Result<std::string_view> quoted() {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '\'' && quote != '"')
      return invalid_argument("Its header has no quoted text where a key or type is expected.");
    const size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) return invalid_argument("Its header has a quoted text without an end.");
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  Status parse_type() {
    skip_space();
    if (rest_.starts_with("[")) return unsupported("Its elements are records, which no tensor holds.");
    TENON_TRY_ASSIGN(const std::string_view descr, quoted());
    for (const NpyType& row : kTypes) {
      // One-byte types have no byte order, and NumPy accepts any mark there.
      if (row.descr == descr ||
          (row.descr.front() == '|' && descr.size() == 3 && row.descr.substr(1) == descr.substr(1)))
        header_.type = row.type;
    }
    if (descr.starts_with(">"))
      return unsupported(
          "Its elements ({}) have the other byte order; write them with numpy.save(FILE, "
          "array.astype(\"<{}\")).",
          descr, descr.substr(1));
    if (header_.type == DataType::kUndefined)
      return unsupported("Its element type \"{}\" is none that a tensor can have.", descr);
    has_type_ = true;
    return {};
  }
  Status parse_order() {
    if (take_word("True")) return unsupported("It is stored in Fortran order; write it with numpy.ascontiguousarray.");
    if (!take_word("False")) return invalid_argument("Its header has a fortran_order that is neither True nor False.");
    has_order_ = true;
    return {};
  }
  Status parse_shape() {
    TENON_TRY(expect('('));
    header_.shape = Shape();
    while (!take(')')) {
      skip_space();
      int64_t dim = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), dim);
      if (error != std::errc() || dim < 0)
        return invalid_argument("Its header has a shape with something that is no dimension.");
      if (header_.shape.rank() == Shape::kMaxRank)
        return unsupported("It has more than {} dimensions.", Shape::kMaxRank);
      header_.shape.push_back(dim);
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      if (!take(',')) {
        TENON_TRY(expect(')'));
        break;
      }
    }
    has_shape_ = true;
    return {};
  }

  std::string_view rest_;
  Header header_;
  bool has_type_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

Status read_all(int fd, void* data, size_t size_bytes) {
  auto* out = static_cast<char*>(data);
  while (size_bytes > 0) {
    const ssize_t got = ::read(fd, out, size_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_failure("It cannot be read", errno);
    if (got == 0) return invalid_argument("It ends {} bytes early.", size_bytes);
    out += got;
    size_bytes -= static_cast<size_t>(got);
  }
  return {};
}

Status write_all(int fd, const void* data, size_t size_bytes, const std::string& path) {
  const auto* from = static_cast<const char*>(data);
  while (size_bytes > 0) {
    const ssize_t done = ::write(fd, from, size_bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return io_failure(format("The file \"{}\" cannot be written", path), errno);
    from += done;
    size_bytes -= static_cast<size_t>(done);
  }
  return {};
}

Result<Tensor> read_open_file(int fd) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return io_failure("It cannot be read", errno);
  if (!S_ISREG(info.st_mode)) return invalid_argument("It is no regular file.");
  const auto file_bytes = static_cast<size_t>(info.st_size);

  unsigned char start[12] = {};
  if (file_bytes < 10) return invalid_argument("It is no .npy file: it has only {} bytes.", file_bytes);
  TENON_TRY(read_all(fd, start, 10));
  if (std::memcmp(start, "PK", 2) == 0)
    return invalid_argument("It is no .npy file but an archive (.npz): save each array of it with numpy.save.");
  if (std::memcmp(start, kMagic.data(), kMagic.size()) != 0)
    return invalid_argument("It is no .npy file, as numpy.save writes them: it begins otherwise.");
  const int version = start[6];
  if (version < 1 || version > 3) return unsupported("It has format version {}; 1 to 3 are known.", version);
  size_t prefix_bytes = 10;
  size_t header_bytes = start[8] | static_cast<size_t>(start[9]) << 8;
  if (version > 1) {
    TENON_TRY(read_all(fd, start + 10, 2));
    prefix_bytes = 12;
    header_bytes |= static_cast<size_t>(start[10]) << 16 | static_cast<size_t>(start[11]) << 24;
  }
  if (header_bytes > kMaxHeaderBytes || header_bytes > file_bytes - prefix_bytes)
    return invalid_argument("Its header claims {} bytes, which is more than the file ({} bytes) or the limit ({}) has.",
                            header_bytes, file_bytes, kMaxHeaderBytes);
  std::string text(header_bytes, '\0');
  TENON_TRY(read_all(fd, text.data(), text.size()));
  TENON_TRY_ASSIGN(const Header header, HeaderParser(text).parse());
  TENON_TRY_ASSIGN(const size_t data_bytes, tensor_size_bytes(header.type, header.shape));
  const size_t room = file_bytes - prefix_bytes - header_bytes;
  if (data_bytes != room)
    return invalid_argument("Its header says {}{}, which takes {} bytes, and {} follow.", data_type_name(header.type),
                            header.shape.to_string(), data_bytes, room);
  TENON_TRY_ASSIGN(Tensor tensor, Tensor::allocate(header.type, header.shape));
  TENON_TRY(read_all(fd, tensor.data(), data_bytes));
  if (header.type == DataType::kBool) {
    for (size_t i = 0; i < data_bytes; ++i)
      if (tensor.data_as<uint8_t>()[i] > 1)
        return invalid_argument("Its element {} is {}, which is no bool.", i, tensor.data_as<uint8_t>()[i]);
  }
  return tensor;
}

}  // namespace

Result<Tensor> read_npy(const std::string& path) {
  // O_NONBLOCK: a pipe without a writer must not hang the open; it is refused as no regular file.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return io_failure(format("The file \"{}\" cannot be opened", path), errno);
  const OwnedHandle file = OwnedHandle::take_fd(fd);
  Result<Tensor> tensor = read_open_file(fd);
  if (!tensor.ok())
    return Status(tensor.status().code(),
                  format("The file \"{}\" gives no array. {}", path, tensor.status().message()));
  return tensor;
}

Status write_npy(const std::string& path, const Tensor& tensor) {
  std::string_view descr;
  for (const NpyType& row : kTypes)
    if (row.type == tensor.type()) descr = row.descr;
  if (descr.empty())
    return unsupported("NumPy has no type for {}, so \"{}\" cannot be written.", data_type_name(tensor.type()), path);
  std::string shape;
  for (const int64_t dim : tensor.shape().dims()) shape += format("{}, ", dim);
  if (tensor.shape().rank() > 1) shape.resize(shape.size() - 2);
  if (tensor.shape().rank() == 1) shape.pop_back();
  std::string text = format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  // The data begins at a multiple of 64 bytes, as NumPy writes it.
  constexpr size_t kPrefixBytes = 10;
  while ((kPrefixBytes + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string head(kMagic);
  head += {'\x01', '\x00', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  head += text;

  const OwnedHandle file = OwnedHandle::take_fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) return io_failure(format("The file \"{}\" cannot be written", path), errno);
  TENON_TRY(write_all(file.fd(), head.data(), head.size(), path));
  return write_all(file.fd(), tensor.data(), tensor.size_bytes(), path);
}

}  // namespace tenon::programs

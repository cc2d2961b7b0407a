// The parts of protozero that the reader uses, and the field numbers of ONNX's messages (onnx-ml.proto of onnx 1.23.2).
// A field that arrives with another wire type than its message says is skipped, as protobuf does.
// Errors: protozero throws on truncated or broken input; the reader's entry points catch that once.
#pragma once

#include <cstdint>
#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <string_view>

namespace tenon::proto {

using Reader = protozero::pbf_reader;

inline std::string_view text(protozero::data_view view) { return {view.data(), view.size()}; }
inline Reader reader(std::string_view message) { return Reader(message.data(), message.size()); }

// The value that Reader::tag_and_type() gives for a field of each wire type, for `case` labels.
constexpr uint32_t varint(uint32_t field) { return field << 3; }
constexpr uint32_t fixed64(uint32_t field) { return field << 3 | 1; }
constexpr uint32_t bytes(uint32_t field) { return field << 3 | 2; }
constexpr uint32_t fixed32(uint32_t field) { return field << 3 | 5; }

template <typename Use>
void for_each_packed_varint(std::string_view packed, Use&& use) {
  const char* at = packed.data();
  const char* const end = at + packed.size();
  while (at != end) use(protozero::decode_varint(&at, end));
}

// A remainder shorter than one element is ignored.
template <typename T, typename Use>
void for_each_packed_fixed(std::string_view packed, Use&& use) {
  for (size_t i = 0; i + sizeof(T) <= packed.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, packed.data() + i, sizeof(T));
    use(value);
  }
}

struct ModelProto {
  enum : uint32_t {
    kIrVersion = 1,
    kProducerName = 2,
    kProducerVersion = 3,
    kDomain = 4,
    kModelVersion = 5,
    kDocString = 6,
    kGraph = 7,
    kOpsetImport = 8,
    kMetadata = 14,
    kFunctions = 25
  };
};
struct OpsetProto {
  enum : uint32_t { kDomain = 1, kVersion = 2 };
};
struct EntryProto {
  enum : uint32_t { kKey = 1, kValue = 2 };
};
// A key and its value: metadata, and what is said of external data. Views of `message`.
struct Entry {
  std::string_view key, value;
};
Entry read_entry(std::string_view message);
struct GraphProto {
  enum : uint32_t {
    kNode = 1,
    kName = 2,
    kInitializer = 5,
    kDocString = 10,
    kInput = 11,
    kOutput = 12,
    kValueInfo = 13,
    kSparseInitializer = 15
  };
};
struct NodeProto {
  enum : uint32_t {
    kInput = 1,
    kOutput = 2,
    kName = 3,
    kOpType = 4,
    kAttribute = 5,
    kDocString = 6,
    kDomain = 7,
    kOverload = 8,
    kMetadata = 9
  };
};
struct FunctionProto {
  enum : uint32_t {
    kName = 1,
    kInput = 4,
    kOutput = 5,
    kAttribute = 6,
    kNode = 7,
    kOpsetImport = 9,
    kDomain = 10,
    kAttributeProto = 11,
    kOverload = 13
  };
};
struct AttributeProto {
  enum : uint32_t {
    kName = 1,
    kF = 2,
    kI = 3,
    kS = 4,
    kT = 5,
    kG = 6,
    kFloats = 7,
    kInts = 8,
    kStrings = 9,
    kTensors = 10,
    kGraphs = 11,
    kTypeProto = 14,
    kTypeProtos = 15,
    kType = 20,
    kRefAttrName = 21,
    kSparseTensor = 22,
    kSparseTensors = 23
  };
};
struct ValueInfoProto {
  enum : uint32_t { kName = 1, kType = 2 };
};
struct TypeProto {
  enum : uint32_t { kTensor = 1, kSequence = 4, kMap = 5, kOpaque = 7, kSparseTensor = 8, kOptional = 9 };
  enum TensorField : uint32_t { kElementType = 1, kShape = 2 };  // kElementType: also of kSequence and kOptional
  enum MapField : uint32_t { kMapKeyType = 1, kMapValueType = 2 };
  enum ShapeField : uint32_t { kDim = 1 };
  enum DimField : uint32_t { kDimValue = 1, kDimParam = 2, kDimDenotation = 3 };
};
struct SparseTensorProto {
  enum : uint32_t { kValues = 1, kIndices = 2, kDims = 3 };
};
struct TensorProto {
  enum : uint32_t {
    kDims = 1,
    kDataType = 2,
    kSegment = 3,
    kFloatData = 4,
    kInt32Data = 5,
    kStringData = 6,
    kInt64Data = 7,
    kName = 8,
    kRawData = 9,
    kDoubleData = 10,
    kUint64Data = 11,
    kDocString = 12,
    kExternalData = 13,
    kDataLocation = 14,
    kMetadata = 16
  };
};

}  // namespace tenon::proto

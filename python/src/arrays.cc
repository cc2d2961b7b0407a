#include "arrays.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "value.h"

namespace tenon::python {
namespace {

// numpy's own types. int64 and uint64 have two numbers each.
struct NumpyType {
  int number;
  DataType type;
};
constexpr std::array<NumpyType, 16> kNumpyTypes = {{
    {NPY_FLOAT, DataType::kFloat},
    {NPY_INT64, DataType::kInt64},
    {NPY_DOUBLE, DataType::kDouble},
    {NPY_UINT8, DataType::kUint8},
    {NPY_INT8, DataType::kInt8},
    {NPY_INT32, DataType::kInt32},
    {NPY_BOOL, DataType::kBool},
    {NPY_HALF, DataType::kFloat16},
    {NPY_UINT16, DataType::kUint16},
    {NPY_INT16, DataType::kInt16},
    {NPY_UINT32, DataType::kUint32},
    {NPY_UINT64, DataType::kUint64},
    {NPY_COMPLEX64, DataType::kComplex64},
    {NPY_COMPLEX128, DataType::kComplex128},
    {NPY_LONGLONG, DataType::kInt64},
    {NPY_ULONGLONG, DataType::kUint64},
}};

// Those of ml_dtypes that have a whole byte or more for an element.
struct NamedType {
  const char* name;
  DataType type;
};
constexpr std::array<NamedType, 6> kNamedTypes = {{
    {"bfloat16", DataType::kBfloat16},
    {"float8_e4m3fn", DataType::kFloat8E4M3FN},
    {"float8_e4m3fnuz", DataType::kFloat8E4M3FNUZ},
    {"float8_e5m2", DataType::kFloat8E5M2},
    {"float8_e5m2fnuz", DataType::kFloat8E5M2FNUZ},
    {"float8_e8m0fnu", DataType::kFloat8E8M0},
}};

constexpr int kStringDType = 2056;  // numpy.dtypes.StringDType

PyArrayObject* as_array(nb::handle object) { return reinterpret_cast<PyArrayObject*>(object.ptr()); }

bool is_text(int number) {
  return number == NPY_OBJECT || number == NPY_UNICODE || number == NPY_STRING || number == kStringDType;
}

DataType named_type(PyArray_Descr* dtype) {
  nb::object name = nb::handle(reinterpret_cast<PyObject*>(dtype)).attr("name");
  const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), nullptr);
  if (text == nullptr) throw nb::python_error();
  for (const NamedType& known : kNamedTypes)
    if (std::strcmp(text, known.name) == 0) return known.type;
  return DataType::kUndefined;
}

DataType type_of(PyArray_Descr* dtype) {
  const int number = dtype->type_num;
  for (const NumpyType& known : kNumpyTypes)
    if (known.number == number) return known.type;
  if (is_text(number)) return DataType::kString;
  return number >= NPY_USERDEF ? named_type(dtype) : DataType::kUndefined;
}

int numpy_number(DataType type) {
  for (const NumpyType& known : kNumpyTypes)
    if (known.type == type) return known.number;
  // Packed types and the float8 that onnxruntime gives as bytes.
  if (type == DataType::kFloat8E4M3FN) return NPY_UINT8;
  return -1;
}

Shape shape_of(PyArrayObject* array, const std::string& what) {
  const int rank = PyArray_NDIM(array);
  if (rank > Shape::kMaxRank)
    raise(ORT_INVALID_ARGUMENT, what + " has " + std::to_string(rank) + " dimensions; at most " +
                                    std::to_string(Shape::kMaxRank) + " are allowed.");
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(PyArray_DIM(array, i));
  return shape;
}

// Text of one element as onnxruntime takes it: str() of what is no string.
std::string text_of(nb::handle element) {
  nb::object text = nb::borrow(element);
  if (PyBytes_Check(element.ptr()) != 0) {
    char* bytes = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(element.ptr(), &bytes, &size) != 0) throw nb::python_error();
    return {bytes, static_cast<size_t>(size)};
  }
  if (PyUnicode_Check(element.ptr()) == 0) text = nb::str(element);
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes == nullptr) throw nb::python_error();
  return {bytes, static_cast<size_t>(size)};
}

Tensor string_tensor_of(nb::handle array) {
  std::shared_ptr<InputTexts> held;
  if (std::optional<Tensor> plain = plain_strings_of(array, held)) return *std::move(plain);
  const Shape shape = shape_of(as_array(array), "An array of strings");
  std::vector<std::string> texts;
  nb::object elements = array.attr("ravel")().attr("tolist")();
  texts.reserve(nb::len(elements));
  for (nb::handle element : elements) texts.push_back(text_of(element));
  return unwrap(string_tensor(std::move(texts), shape));
}

// numpy's fixed-width text: UCS4, filled up with zeros. False for what is no character.
bool assign_ucs4(const uint32_t* codes, size_t count, std::string& text) {
  while (count > 0 && codes[count - 1] == 0) --count;
  text.clear();
  for (size_t i = 0; i < count; ++i) {
    const uint32_t code = codes[i];
    const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += static_cast<char>(0xC0 | code >> 6);
      tail(0);
    } else if (code < 0x10000) {
      if (code >= 0xD800 && code < 0xE000) return false;
      text += static_cast<char>(0xE0 | code >> 12);
      tail(6), tail(0);
    } else {
      if (code > 0x10FFFF) return false;
      text += static_cast<char>(0xF0 | code >> 18);
      tail(12), tail(6), tail(0);
    }
  }
  return true;
}

// The texts of an array of such elements of `width` characters. Most are ASCII: many are narrowed at once as if they
// were, which compilers do with vectors.
bool assign_all_ucs4(const uint32_t* codes, size_t width, std::span<std::string> texts) {
  constexpr size_t kPiece = 1024;
  std::array<char, kPiece> narrow;
  const size_t rows = width == 0 ? texts.size() : std::max<size_t>(1, kPiece / width);
  for (size_t begin = 0; begin < texts.size(); begin += rows) {
    const size_t end = std::min(texts.size(), begin + rows);
    const size_t count = (end - begin) * width;
    uint32_t all = count > kPiece ? 0x80 : 0;
    if (count <= kPiece) {
      for (size_t i = 0; i < count; ++i) {
        all |= codes[i];
        narrow[i] = static_cast<char>(codes[i]);
      }
    }
    const char* row = narrow.data();
    for (size_t i = begin; i < end; ++i, row += width, codes += width) {
      if (all >= 0x80) {
        if (!assign_ucs4(codes, width, texts[i])) return false;
        continue;
      }
      size_t length = width;
      while (length > 0 && row[length - 1] == 0) --length;
      texts[i].assign(row, length);
    }
  }
  return true;
}

// numpy gives a new reference to an array of `dtype` (stolen; null: its own choice) that C code can read.
nb::object make_array(nb::handle object, PyArray_Descr* dtype) {
  PyObject* made = PyArray_CheckFromAny(object.ptr(), dtype, 0, 0,
                                        NPY_ARRAY_CARRAY_RO | NPY_ARRAY_NOTSWAPPED | NPY_ARRAY_ENSUREARRAY, nullptr);
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

constexpr const char* kOwner = "tenon.owner";

void drop_owner(PyObject* capsule) {
  delete static_cast<std::shared_ptr<const void>*>(PyCapsule_GetPointer(capsule, kOwner));
}

nb::object no_numpy_type(DataType type) {
  raise(PyExc_RuntimeError, "No corresponding Numpy type for Tensor Type. " + std::string(data_type_name(type)) +
                                " (where the package ml_dtypes is installed, it has bfloat16 and all float8; the "
                                "bytes of others are an OrtValue's, data_ptr())");
}

nb::object array_over(const Tensor& tensor) {
  const DataType type = tensor.type();
  PyArray_Descr* dtype = nullptr;
  if (const int number = numpy_number(type); number >= 0) {
    dtype = PyArray_DescrFromType(number);
  } else {
    nb::object named = dtype_of(type);
    if (!named.is_valid()) return no_numpy_type(type);
    dtype = reinterpret_cast<PyArray_Descr*>(named.release().ptr());
  }
  if (dtype == nullptr) throw nb::python_error();
  std::array<npy_intp, Shape::kMaxRank> dims{};
  const Shape& shape = tensor.shape();
  for (int i = 0; i < shape.rank(); ++i) dims[i] = shape[i];
  if (tensor.size_bytes() == 0) {
    PyObject* empty = PyArray_Empty(shape.rank(), dims.data(), dtype, 0);
    if (empty == nullptr) throw nb::python_error();
    return nb::steal(empty);
  }
  const int flags = tensor.read_only() ? NPY_ARRAY_CARRAY_RO : NPY_ARRAY_CARRAY;
  nb::object array = nb::steal(
      PyArray_NewFromDescr(&PyArray_Type, dtype, shape.rank(), dims.data(), nullptr, tensor.data(), flags, nullptr));
  if (!array.is_valid()) throw nb::python_error();
  auto owner = std::make_unique<std::shared_ptr<const void>>(tensor.owner());
  PyObject* capsule = PyCapsule_New(owner.get(), kOwner, drop_owner);
  if (capsule == nullptr) throw nb::python_error();
  (void)owner.release();
  if (PyArray_SetBaseObject(as_array(array), capsule) != 0) throw nb::python_error();
  return array;
}

// A new reference.
PyObject* make_string(std::string_view text) {
  // Tokens of one character are common, and Python has one object for each of ASCII.
  static std::array<PyObject*, 128> known{};
  if (text.size() == 1 && static_cast<unsigned char>(text[0]) < known.size()) {
    PyObject*& one = known[static_cast<unsigned char>(text[0])];
    if (one == nullptr) one = PyUnicode_DecodeUTF8(text.data(), 1, nullptr);
    if (one == nullptr) throw nb::python_error();
    Py_INCREF(one);
    return one;
  }
  PyObject* object = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr);
  if (object == nullptr) throw nb::python_error();
  return object;
}

// Arrays of fewer do without a StringMaker, whose table has to be cleared.
constexpr int64_t kFewStrings = 32;

// Makes Python's strings of an array's elements. Arrays of words and labels repeat them: one object for equal ones
// costs a third of a new one, and its release less than that. The texts outlive the maker.
class StringMaker {
 public:
  explicit StringMaker(int64_t count) : bits_(count < kManyStrings ? 7 : 9) {}
  // A new reference.
  PyObject* make(std::string_view text) {
    // Python has the shorter ones already.
    if (left_ == 0 || text.size() < 2 || text.size() > kLongest) return make_string(text);
    if (known_ == nullptr) known_.reset(new Known[size_t{1} << bits_]());  // tokens of one character do without
    const Ends ends = ends_of(text);
    Known& known = known_[slot_of(ends, text.size())];
    if (known.ends == ends && known.text.size() == text.size() && is_middle_equal(known.text, text)) {
      left_ += 3;
      Py_INCREF(known.object);
      return known.object;
    }
    --left_;
    known = {ends, text, make_string(text)};
    return known.object;
  }

 private:
  static constexpr size_t kLongest = 64;
  static constexpr int64_t kManyStrings = 512;
  // The first and the last bytes of a text, all of it up to 16 of them.
  struct Ends {
    uint64_t first = 0, last = 0;
    friend bool operator==(const Ends&, const Ends&) = default;
  };
  struct Known {
    Ends ends;
    std::string_view text;       // of no bytes: there is none
    PyObject* object = nullptr;  // the array's
  };

  template <typename Word>
  static Ends words_of(std::string_view text) {
    Word first = 0, last = 0;
    std::memcpy(&first, text.data(), sizeof(Word));
    std::memcpy(&last, text.data() + text.size() - sizeof(Word), sizeof(Word));
    return {first, last};
  }
  static Ends ends_of(std::string_view text) {
    return text.size() >= 8   ? words_of<uint64_t>(text)
           : text.size() >= 4 ? words_of<uint32_t>(text)
                              : words_of<uint16_t>(text);
  }
  static bool is_middle_equal(std::string_view a, std::string_view b) {
    return a.size() <= 16 || a.data() == b.data() || std::memcmp(a.data() + 8, b.data() + 8, a.size() - 16) == 0;
  }
  size_t slot_of(const Ends& ends, size_t size) const {
    const uint64_t mixed = ends.first * 0x9E3779B97F4A7C15 ^ ends.last * 0xC2B2AE3D27D4EB4F;
    return (mixed + size) * 0x9E3779B97F4A7C15 >> (64 - bits_);
  }

  const int bits_;  // of a slot's number
  std::unique_ptr<Known[]> known_;
  int64_t left_ = 64;  // a search in vain costs a quarter of what a repeated one saves: with fewer than that it ends
};

nb::object strings_to_python(const Tensor& tensor) {
  std::array<npy_intp, Shape::kMaxRank> dims{};
  const Shape& shape = tensor.shape();
  for (int i = 0; i < shape.rank(); ++i) dims[i] = shape[i];
  PyObject* made = PyArray_SimpleNew(shape.rank(), dims.data(), NPY_OBJECT);
  if (made == nullptr) throw nb::python_error();
  nb::object array = nb::steal(made);
  auto** elements = static_cast<PyObject**>(PyArray_DATA(as_array(array)));
  const int64_t count = shape.element_count();
  const auto fill = [&](const auto& make) {
    for (int64_t i = 0; i < count; ++i) {
      PyObject* const before =
          std::exchange(elements[i], make(text_at(tensor, i)));  // the stable ABI has no Py_XSETREF
      Py_XDECREF(before);
    }
  };
  if (count < kFewStrings) {
    fill(&make_string);
  } else {
    StringMaker maker(count);
    fill([&](std::string_view text) { return maker.make(text); });
  }
  return array;
}

nb::object object_to_python(const Object& object);

// The element of a tensor as a number or text of Python; an invalid object for types that the caller leaves to numpy.
nb::object element_to_python(const Tensor& tensor, int64_t index) {
  PyObject* made = nullptr;
  switch (tensor.type()) {
    case DataType::kString:
      return nb::steal(make_string(text_at(tensor, index)));
    case DataType::kInt64:
      made = PyLong_FromLongLong(static_cast<const int64_t*>(tensor.data())[index]);
      break;
    case DataType::kFloat:
      made = PyFloat_FromDouble(static_cast<const float*>(tensor.data())[index]);
      break;
    case DataType::kDouble:
      made = PyFloat_FromDouble(static_cast<const double*>(tensor.data())[index]);
      break;
    default:
      return {};
  }
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

// The elements of a tensor, in order.
std::vector<nb::object> elements_of(const Tensor& tensor) {
  const int64_t count = tensor.shape().element_count();
  std::vector<nb::object> made;
  made.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    made.push_back(element_to_python(tensor, i));
    if (made.back().is_valid()) continue;
    made.clear();
    nb::object list = to_python(tensor).attr("ravel")().attr("tolist")();
    for (nb::handle element : list) made.push_back(nb::borrow(element));
    break;
  }
  return made;
}

// A dictionary; keys are strings or integers, values any tensor. A sequence of maps (ZipMap) mostly has the same keys
// in each, which `keys` then holds.
nb::object map_to_python(const Object& map, const Tensor*& known, std::vector<nb::object>& keys) {
  const Tensor& key_tensor = map.elements()[0]->as_tensor();
  if (known == nullptr || known->data() != key_tensor.data() || known->shape() != key_tensor.shape()) {
    keys = elements_of(key_tensor);
    known = &key_tensor;
  }
  const std::vector<nb::object> values = elements_of(map.elements()[1]->as_tensor());
  nb::dict made;
  for (size_t i = 0; i < keys.size() && i < values.size(); ++i) made[keys[i]] = values[i];
  return made;
}

// The dictionaries of a sequence of maps with the same keys; a row of its values each.
nb::object map_rows_to_python(const Tensor& key_tensor, const Tensor& values) {
  const std::vector<nb::object> keys = elements_of(key_tensor);
  const std::vector<nb::object> numbers = elements_of(values);
  const int64_t rows = values.shape()[0];
  nb::object made = nb::steal(PyList_New(static_cast<Py_ssize_t>(rows)));
  if (!made.is_valid()) throw nb::python_error();
  auto number = numbers.begin();
  for (int64_t row = 0; row < rows; ++row) {
    PyObject* map = PyDict_New();
    if (map == nullptr) throw nb::python_error();
    PyList_SetItem(made.ptr(), static_cast<Py_ssize_t>(row), map);  // the list's from here
    for (const nb::object& key : keys)
      if (PyDict_SetItem(map, key.ptr(), (number++)->ptr()) != 0) throw nb::python_error();
  }
  return made;
}

// The arrays of a sequence of tensors that lie in one, without a value for each in between.
nb::object parts_to_python(const Tensor& whole, const Shape& part) {
  const int64_t size = part.element_count();
  const int64_t count = whole.shape().element_count() / size;
  const size_t part_bytes = static_cast<size_t>(size) * data_type_size(whole.type());
  MemorySpace space = whole.space();
  space.alignment = 0;
  nb::object made = nb::steal(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!made.is_valid()) throw nb::python_error();
  for (int64_t i = 0; i < count; ++i) {
    const Tensor element = unwrap(Tensor::view(whole.type(), part, whole.data_as<std::byte>() + i * part_bytes,
                                               part_bytes, whole.owner(), space));
    PyList_SetItem(made.ptr(), static_cast<Py_ssize_t>(i), to_python(element).release().ptr());
  }
  return made;
}

nb::object object_to_python(const Object& object) {
  if (object.kind() == ObjectKind::kTensor) return to_python(object.as_tensor());
  if (object.parts_whole() != nullptr) return parts_to_python(*object.parts_whole(), *object.parts_shape());
  if (object.map_keys() != nullptr) return map_rows_to_python(*object.map_keys(), *object.map_values());
  const Tensor* known = nullptr;
  std::vector<nb::object> keys;
  if (object.kind() == ObjectKind::kMap) return map_to_python(object, known, keys);
  nb::list made;
  for (const ObjectRef& element : object.elements())
    made.append(element->kind() == ObjectKind::kMap ? map_to_python(*element, known, keys)
                                                    : object_to_python(*element));
  return made;
}

// Lists and tuples of Python's own numbers and texts, nested to any depth, in one pass and without an array of numpy's
// in between. It runs no code of the program's, so nothing changes the lists while it reads.
class ListReader {
 public:
  static bool reads(DataType type) {
    return type == DataType::kString || type == DataType::kFloat || type == DataType::kDouble ||
           type == DataType::kInt64;
  }
  explicit ListReader(DataType type) : type_(type) {}

  // Nothing for a list that numpy has to look at: with elements of other kinds, ragged or empty.
  std::optional<Tensor> read(PyObject* list) {
    for (PyObject* at = list; is_list(at); at = item(at, 0)) {
      if (size(at) == 0 || shape_.rank() == Shape::kMaxRank) return std::nullopt;
      shape_.push_back(size(at));
    }
    if (!is_regular(list, 0) || !start() || !read_level(list, 0)) return std::nullopt;
    return finish();
  }
  // The keys or values of a dictionary as a vector.
  std::optional<Tensor> read_dict(PyObject* dict, bool keys) {
    shape_.push_back(PyDict_Size(dict));
    if (!start()) return std::nullopt;
    Py_ssize_t position = 0;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    while (PyDict_Next(dict, &position, &key, &value) != 0)
      if (!read_element(keys ? key : value)) return std::nullopt;
    return finish();
  }

 private:
  static bool is_list(PyObject* object) { return PyList_Check(object) != 0 || PyTuple_Check(object) != 0; }
  static Py_ssize_t size(PyObject* list) { return PyList_Check(list) != 0 ? PyList_Size(list) : PyTuple_Size(list); }
  static PyObject* item(PyObject* list, Py_ssize_t i) {
    return PyList_Check(list) != 0 ? PyList_GetItem(list, i) : PyTuple_GetItem(list, i);
  }

  bool start() {
    const Result<int64_t> count = shape_.checked_element_count();
    if (!count.ok()) return false;
    if (type_ == DataType::kString) {
      texts_.reserve(static_cast<size_t>(*count));
      return true;
    }
    numbers_ = unwrap(Tensor::allocate(type_, shape_));
    return true;
  }
  // Whether the lists have the sizes of the first ones, before there is memory for as many elements.
  bool is_regular(PyObject* list, int level) {
    if (!is_list(list) || size(list) != shape_[level]) return false;
    if (level + 1 == shape_.rank()) return true;
    for (Py_ssize_t i = 0; i < shape_[level]; ++i)
      if (!is_regular(item(list, i), level + 1)) return false;
    return true;
  }
  bool read_level(PyObject* list, int level) {
    const bool last = level + 1 == shape_.rank();
    for (Py_ssize_t i = 0; i < shape_[level]; ++i)
      if (!(last ? read_element(item(list, i)) : read_level(item(list, i), level + 1))) return false;
    return true;
  }
  bool read_element(PyObject* from) {
    if (type_ == DataType::kString) {
      if (PyUnicode_Check(from) == 0) return false;
      Py_ssize_t length = 0;
      const char* bytes = PyUnicode_AsUTF8AndSize(from, &length);
      if (bytes == nullptr) throw nb::python_error();
      texts_.emplace_back(bytes, static_cast<size_t>(length));
      return true;
    }
    if (type_ == DataType::kInt64) {
      if (PyLong_CheckExact(from) == 0) return false;
      int overflow = 0;
      const int64_t number = PyLong_AsLongLongAndOverflow(from, &overflow);
      numbers_.data_as<int64_t>()[next_++] = number;
      return overflow == 0;
    }
    if (PyFloat_CheckExact(from) == 0) return false;
    const double number = PyFloat_AsDouble(from);
    if (type_ == DataType::kDouble) {
      numbers_.data_as<double>()[next_++] = number;
      return true;
    }
    // numpy warns of numbers that are too large.
    if (std::isfinite(number) && std::abs(number) > std::numeric_limits<float>::max()) return false;
    numbers_.data_as<float>()[next_++] = static_cast<float>(number);
    return true;
  }
  Tensor finish() {
    if (type_ == DataType::kString) return unwrap(string_tensor(std::move(texts_), shape_));
    return std::move(numbers_);
  }

  DataType type_;
  Shape shape_;
  std::vector<std::string> texts_;
  Tensor numbers_;
  int64_t next_ = 0;
};

[[noreturn]] void raise_kind(nb::handle object, const std::string& expected, const std::string& name) {
  if (is_array(object))
    raise(ORT_INVALID_ARGUMENT,
          "input with name: '" + name + "' expected to be of type: " + expected + " but received a tensor");
  if (PyDict_Check(object.ptr()) != 0)
    raise(ORT_INVALID_ARGUMENT, "Unexpected input data type. Actual: (a dictionary) , expected: (" + expected +
                                    ") for input \"" + name + "\"");
  nb::object type = nb::str(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))));
  raise(PyExc_RuntimeError, "Unable to handle object of type " + std::string(nb::cast<std::string>(type)) +
                                " for input \"" + name + "\", which is " + expected);
}

[[noreturn]] void raise_type(const std::string& actual, const ObjectType& expected, const std::string& name) {
  raise(ORT_INVALID_ARGUMENT, "Unexpected input data type. Actual: (" + actual + ") , expected: (" +
                                  expected.to_string() + ") for input \"" + name + "\"");
}

ObjectRef to_object(nb::handle value, const ObjectTypeRef& type, const std::string& name);

ObjectRef to_map(nb::handle value, const ObjectType& type, const std::string& name) {
  if (PyDict_Check(value.ptr()) == 0) raise_kind(value, type.to_string(), name);
  const DataType value_type =
      type.element != nullptr && type.element->kind == ObjectKind::kTensor ? type.element->type : DataType::kUndefined;
  const auto side = [&](bool keys, DataType element) {
    std::optional<Tensor> plain;
    if (ListReader::reads(element)) plain = ListReader(element).read_dict(value.ptr(), keys);
    if (plain) return *std::move(plain);
    const nb::dict dict = nb::borrow<nb::dict>(value);
    const nb::list list = keys ? dict.keys() : dict.values();
    for (nb::handle key : dict.keys()) {
      const bool is_string = PyUnicode_Check(key.ptr()) != 0;
      if (is_string != (type.type == DataType::kString))
        raise(ORT_INVALID_ARGUMENT, "Input \"" + name + "\" is " + type.to_string() + ", and " +
                                        nb::cast<std::string>(nb::repr(key)) + " is a key of its dictionary.");
    }
    // Integers become floats where the model wants those; 2.5 does not become 2, and is an error of types later.
    const nb::object natural = make_array(list, nullptr);
    const nb::object wanted = dtype_of(element);
    if (wanted.is_valid() && PyArray_SIZE(as_array(natural)) > 0 &&
        PyArray_CanCastTypeTo(PyArray_DESCR(as_array(natural)), reinterpret_cast<PyArray_Descr*>(wanted.ptr()),
                              NPY_SAME_KIND_CASTING) == 0)
      return tensor_of_array(natural);
    return tensor_of_object(list, element, nullptr, name);
  };
  Tensor keys = side(true, type.type);
  Tensor values = side(false, value_type);
  if (keys.type() != type.type || (value_type != DataType::kUndefined && values.type() != value_type))
    raise_type("map(" + std::string(data_type_name(keys.type())) + "," + type_text(values.type()) + ")", type, name);
  return unwrap(Object::map(std::move(keys), std::move(values)));
}

ObjectRef to_object(nb::handle value, const ObjectTypeRef& type, const std::string& name) {
  switch (type->kind) {
    case ObjectKind::kTensor:
      return Object::tensor(tensor_of_object(value, type->type, nullptr, name));
    case ObjectKind::kMap:
      return to_map(value, *type, name);
    case ObjectKind::kOptional:
      return value.is_none() ? nullptr : to_object(value, type->element, name);
    case ObjectKind::kSequence:
      break;
  }
  if (PyList_Check(value.ptr()) == 0 && PyTuple_Check(value.ptr()) == 0) raise_kind(value, type->to_string(), name);
  std::vector<ObjectRef> elements;
  elements.reserve(nb::len(value));
  for (nb::handle element : value) {
    elements.push_back(to_object(element, type->element, name));
    if (type->element->kind != ObjectKind::kTensor || type->element->type == DataType::kUndefined) continue;
    if (const DataType made = elements.back()->as_tensor().type(); made != type->element->type)
      raise_type("seq(" + type_text(made) + ")", *type, name);
  }
  return Object::sequence(std::move(elements));
}

}  // namespace

void import_numpy() {
  if (_import_array() < 0) throw nb::python_error();
}

bool is_array(nb::handle object) { return PyArray_Check(object.ptr()) != 0; }

DataType element_type(nb::handle array) { return type_of(PyArray_DESCR(as_array(array))); }

void raise_no_element_type(nb::handle array) {
  PyArray_Descr* dtype = PyArray_DESCR(as_array(array));
  nb::object name = nb::str(nb::handle(reinterpret_cast<PyObject*>(dtype)));
  raise(PyExc_RuntimeError, "Numpy_type " + std::to_string(dtype->type_num) + " can't be converted to MLDataType: no " +
                                "tensor has elements of the dtype " + nb::cast<std::string>(name) + ".");
}

DataType element_type_of_dtype(nb::handle dtype) {
  PyArray_Descr* found = nullptr;
  if (PyArray_DescrConverter(dtype.ptr(), &found) != NPY_SUCCEED) throw nb::python_error();
  const nb::object kept = nb::steal(reinterpret_cast<PyObject*>(found));
  const DataType type = type_of(found);
  if (type == DataType::kUndefined)
    raise(PyExc_RuntimeError, "No tensor has elements of the dtype " + nb::cast<std::string>(nb::str(kept)) + ".");
  return type;
}

nb::object dtype_of(DataType type) {
  if (const int number = numpy_number(type); number >= 0)
    return nb::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(number)));
  if (type == DataType::kString) return nb::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(NPY_OBJECT)));
  for (const NamedType& known : kNamedTypes) {
    if (known.type != type) continue;
    PyObject* package = PyImport_ImportModule("ml_dtypes");
    if (package == nullptr) {
      PyErr_Clear();
      return {};
    }
    nb::object scalar = nb::getattr(nb::steal(package), known.name, nb::none());
    PyArray_Descr* found = nullptr;
    if (scalar.is_none() || PyArray_DescrConverter(scalar.ptr(), &found) != NPY_SUCCEED) {
      PyErr_Clear();
      return {};
    }
    return nb::steal(reinterpret_cast<PyObject*>(found));
  }
  return {};
}

std::optional<Tensor> view_of(nb::handle object, bool owned) {
  PyArrayObject* array = as_array(object);
  const DataType type = element_type(object);
  if (type == DataType::kUndefined || type == DataType::kString || !PyArray_ISCARRAY_RO(array) ||
      PyArray_NDIM(array) > Shape::kMaxRank)
    return std::nullopt;
  Shape shape;
  for (int i = 0; i < PyArray_NDIM(array); ++i) shape.push_back(PyArray_DIM(array, i));
  Result<Tensor> view = Tensor::view(type, shape, PyArray_DATA(array), static_cast<size_t>(PyArray_NBYTES(array)),
                                     owned ? keep_alive(object) : nullptr);
  if (!view.ok()) return std::nullopt;
  return PyArray_ISWRITEABLE(array) ? *std::move(view) : view->as_read_only();
}

std::optional<Tensor> plain_strings_of(nb::handle object, std::shared_ptr<InputTexts>& spare) {
  PyArrayObject* const array = as_array(object);
  const int type = PyArray_TYPE(array);
  if ((type != NPY_OBJECT && type != NPY_UNICODE) || PyArray_NDIM(array) > Shape::kMaxRank) return std::nullopt;
  // Columns of a table, mostly. A copy of the references costs less than an element at a time.
  if (!PyArray_ISCARRAY_RO(array)) return plain_strings_of(make_array(object, nullptr), spare);
  if (spare.use_count() != 1) spare = std::make_shared<InputTexts>();
  std::vector<std::string>& texts = spare->texts;
  texts.resize(static_cast<size_t>(PyArray_SIZE(array)));
  if (type == NPY_OBJECT) {
    auto* const* element = static_cast<PyObject* const*>(PyArray_DATA(array));
    for (std::string& text : texts) {
      PyObject* const from = *element++;
      if (from == nullptr || PyUnicode_Check(from) == 0) return std::nullopt;
      Py_ssize_t size = 0;
      const char* bytes = PyUnicode_AsUTF8AndSize(from, &size);
      if (bytes == nullptr) throw nb::python_error();
      text.assign(bytes, static_cast<size_t>(size));
    }
  } else {
    const size_t width = texts.empty() ? 0 : static_cast<size_t>(PyArray_NBYTES(array)) / 4 / texts.size();
    if (!assign_all_ucs4(static_cast<const uint32_t*>(PyArray_DATA(array)), width, texts)) return std::nullopt;
  }
  spare->addresses.clear();
  for (const std::string& text : texts) spare->addresses.push_back(&text);
  spare->addresses.push_back(nullptr);  // data() is never null
  return unwrap(Tensor::view(DataType::kString, shape_of(array, "An array of strings"), spare->addresses.data(),
                             texts.size() * sizeof(void*), spare));
}

Tensor tensor_of_array(nb::handle array, bool* copied) {
  const DataType type = element_type(array);
  if (type == DataType::kUndefined) raise_no_element_type(array);
  if (copied != nullptr) *copied = type == DataType::kString;
  if (type == DataType::kString) return string_tensor_of(array);
  if (std::optional<Tensor> view = view_of(array, /*owned=*/true)) return *std::move(view);
  (void)shape_of(as_array(array), "The array");
  if (copied != nullptr) *copied = true;
  // Byte order, alignment and strides as C code wants them; of the same type.
  const int number = PyArray_DESCR(as_array(array))->type_num;
  PyArray_Descr* native = nullptr;
  if (number < NPY_USERDEF) native = PyArray_DescrFromType(number);
  const nb::object fit = make_array(array, native);
  if (std::optional<Tensor> view = view_of(fit, /*owned=*/true)) return *std::move(view);
  raise_no_element_type(array);
}

Tensor tensor_of_array_as(nb::handle array, DataType type) {
  Tensor tensor = tensor_of_array(array);
  const size_t has = data_type_size(tensor.type());
  const size_t wants = data_type_size(type);
  if (tensor.type() == DataType::kString || wants != has)
    raise(PyExc_RuntimeError, "The elements of the array (" + std::string(data_type_name(tensor.type())) + ") have " +
                                  std::to_string(has) + " bytes, and those of the ONNX type " +
                                  std::to_string(static_cast<int>(type)) + " (" + std::string(data_type_name(type)) +
                                  ") " + std::to_string(wants) + ".");
  Tensor same = unwrap(tensor.reinterpret(type, tensor.shape()));
  return tensor.read_only() ? same.as_read_only() : same;
}

Tensor tensor_of_object(nb::handle object, DataType tensor_type, const ObjectTypeRef& type, const std::string& name) {
  if (type != nullptr) {
    // A tensor for an optional tensor, and an array for an element, come through here as well.
    return object_tensor(to_object(object, type, name));
  }
  if (is_array(object)) return tensor_of_array(object);
  const bool scalar = PyArray_CheckScalar(object.ptr()) != 0;
  if (!scalar && PyList_Check(object.ptr()) == 0 && PyTuple_Check(object.ptr()) == 0)
    raise_kind(object, "tensor(" + std::string(data_type_name(tensor_type)) + ")", name);
  if (scalar) return tensor_of_array(make_array(object, nullptr));
  if (ListReader::reads(tensor_type))
    if (std::optional<Tensor> plain = ListReader(tensor_type).read(object.ptr())) return *std::move(plain);
  nb::object dtype = tensor_type == DataType::kUndefined ? nb::object() : dtype_of(tensor_type);
  try {
    // As onnxruntime does: numpy's conversion to the model's type, which cuts 2.5 to 2.
    return tensor_of_array(make_array(object, reinterpret_cast<PyArray_Descr*>(dtype.release().ptr())));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;
    raise(PyExc_RuntimeError, "Could not create tensor from given input list for input \"" + name +
                                  "\", which is tensor(" + std::string(data_type_name(tensor_type)) +
                                  "): " + str_of(error.value()));
  }
}

nb::object to_python(const Tensor& tensor) {
  if (tensor.type() == DataType::kString) return strings_to_python(tensor);
  if (tensor.type() != DataType::kObject) return array_over(tensor);
  const ObjectRef object = object_of(tensor);
  return object == nullptr ? nb::none() : object_to_python(*object);
}

nb::object to_python_copy(const Tensor& tensor) {
  if (holds_addresses(tensor.type())) return to_python(tensor);
  return array_over(tensor).attr("copy")();
}

}  // namespace tenon::python

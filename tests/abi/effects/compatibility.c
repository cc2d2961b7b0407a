/* What a model says of the EPs that compiled it: from a file and from bytes. */
#include <unistd.h>

#include "effects.h"
#include "small_model.h"

static OrtAllocator* allocator;

static void answer(const char* what, OrtStatus* status, char* info) {
  show(what, status);
  printf("  %s\n", text_or_null(info));
  if (info != NULL) allocator->Free(allocator, info);
}

static void from_file(const char* path, const char* ep) {
  char what[200];
  char* info = NULL;
  snprintf(what, sizeof what, "file %s, %s", text_or_null(path), text_or_null(ep));
  OrtStatus* status = api->GetCompatibilityInfoFromModel(path, ep, allocator, &info);
  answer(what, status, info);
}

static void from_bytes(const char* what, const void* data, size_t size, const char* ep) {
  char* info = NULL;
  OrtStatus* status = api->GetCompatibilityInfoFromModelBytes(data, size, ep, allocator, &info);
  answer(what, status, info);
}

static void run(void) {
  static struct bytes model, twice, empty;
  struct bytes entry = {{0}, 0};
  char folder[] = "/tmp/tenon_compatibility_XXXXXX";
  char* info = NULL;
  MUST(GetAllocatorWithDefaultOptions(&allocator));
  if (mkdtemp(folder) == NULL || chdir(folder) != 0) exit(4);
  small_model(&model);
  FILE* file = fopen("model.onnx", "wb");
  if (file == NULL || fwrite(model.data, 1, model.size, file) != model.size || fclose(file) != 0) exit(4);
  file = fopen("junk.onnx", "wb");
  if (file == NULL || fwrite("junk", 1, 4, file) != 4 || fclose(file) != 0) exit(4);
  file = fopen("empty.onnx", "wb");
  if (file == NULL || fclose(file) != 0) exit(4);
  from_file(NULL, "SomeEp");
  from_file("", "SomeEp");
  from_file("model.onnx", NULL);
  from_file("model.onnx", "");
  from_file("model.onnx", "SomeEp");
  from_file("model.onnx", "OtherEp");
  from_file("model.onnx", "SomeE");
  from_file("nothing.onnx", "SomeEp");
  from_file("junk.onnx", "SomeEp");
  from_file("empty.onnx", "SomeEp");
  from_file(".", "SomeEp");
  from_bytes("null", NULL, 4, "SomeEp");
  from_bytes("no bytes", model.data, 0, "SomeEp");
  from_bytes("no ep", model.data, model.size, NULL);
  from_bytes("empty ep", model.data, model.size, "");
  from_bytes("bytes", model.data, model.size, "SomeEp");
  from_bytes("bytes, another ep", model.data, model.size, "OtherEp");
  from_bytes("junk", "junk", 4, "SomeEp");
  from_bytes("cut", model.data, model.size - 5, "SomeEp");
  from_bytes("metadata alone", model.data + model.size - 45, 45, "SomeEp");
  twice = model;
  put_text(&entry, 1, "ep_compatibility_info.SomeEp");
  put_text(&entry, 2, "version 8");
  put_message(&twice, 14, &entry);
  from_bytes("two entries", twice.data, twice.size, "SomeEp");
  entry.size = 0;
  put_text(&entry, 1, "ep_compatibility_info.SomeEp");
  put_message(&empty, 14, &entry);
  from_bytes("an entry without text", empty.data, empty.size, "SomeEp");
  CALL(GetCompatibilityInfoFromModel("model.onnx", "SomeEp", NULL, &info));
  CALL(GetCompatibilityInfoFromModel("model.onnx", "SomeEp", allocator, NULL));
  CALL(GetCompatibilityInfoFromModelBytes(model.data, model.size, "SomeEp", NULL, &info));
  CALL(GetCompatibilityInfoFromModelBytes(model.data, model.size, "SomeEp", allocator, NULL));
  if (unlink("model.onnx") != 0 || unlink("junk.onnx") != 0 || unlink("empty.onnx") != 0 || rmdir(folder) != 0) exit(4);
}

/* Attributes: each type goes in and comes out, as another type, and into too little room. */
#include "effects.h"

static void read_as(const OrtOpAttr* attribute, const char* what, OrtOpAttrType type, size_t room) {
  unsigned char buffer[64];
  char text[96];
  size_t size = 77, i;
  memset(buffer, 0xee, sizeof(buffer));
  snprintf(text, sizeof(text), "ReadOpAttr %s as %d into %zu", what, (int)type, room);
  if (show(text, api->ReadOpAttr(attribute, type, room > 0 ? buffer : NULL, room, &size))) {
    for (i = 0; i < room && i < 24; ++i) printf(" %02x", buffer[i]);
    printf("\n");
  }
  printf("  size %zu\n", size);
}

static void examine(const char* what, OrtOpAttr* attribute) {
  OrtOpAttrType type = (OrtOpAttrType)99;
  const char* name = NULL;
  OrtValue* tensor = NULL;
  int as;
  if (attribute == NULL) return;
  CALL(OpAttr_GetName(attribute, &name));
  CALL(OpAttr_GetType(attribute, &type));
  printf("%s: \"%s\" type %d\n", what, text_or_null(name), (int)type);
  for (as = 0; as <= 9; ++as) {
    if (as == ORT_OP_ATTR_GRAPH || as == ORT_OP_ATTR_TENSOR) continue;
    read_as(attribute, what, (OrtOpAttrType)as, 0);
    read_as(attribute, what, (OrtOpAttrType)as, 3);
    read_as(attribute, what, (OrtOpAttrType)as, 8);
    read_as(attribute, what, (OrtOpAttrType)as, 64);
  }
  CALL(OpAttr_GetTensorAttributeAsOrtValue(attribute, &tensor));
  printf("  tensor %d\n", tensor != NULL);
  api->ReleaseValue(tensor);
  api->ReleaseOpAttr(attribute);
}

static OrtOpAttr* make(const char* name, const void* data, int len, OrtOpAttrType type) {
  OrtOpAttr* attribute = NULL;
  char text[96];
  snprintf(text, sizeof(text), "CreateOpAttr \"%s\" length %d type %d", name, len, (int)type);
  show(text, api->CreateOpAttr(name, data, len, type, &attribute));
  printf("  made %d\n", attribute != NULL);
  return attribute;
}

static void run(void) {
  const int64_t ints[3] = {1, -2, 3};
  const float floats[3] = {1.5f, -2.5f, 3.5f};
  const char* texts[2] = {"abc", "defg"};
  examine("int", make("i", ints, 1, ORT_OP_ATTR_INT));
  examine("int of length 3", make("i3", ints, 3, ORT_OP_ATTR_INT));
  examine("ints", make("is", ints, 3, ORT_OP_ATTR_INTS));
  examine("no ints", make("is0", ints, 0, ORT_OP_ATTR_INTS));
  examine("float", make("f", floats, 1, ORT_OP_ATTR_FLOAT));
  examine("floats", make("fs", floats, 3, ORT_OP_ATTR_FLOATS));
  examine("string", make("s", "hello", 5, ORT_OP_ATTR_STRING));
  examine("string of length 3", make("s3", "hello", 3, ORT_OP_ATTR_STRING));
  examine("string with its zero", make("s6", "hello", 6, ORT_OP_ATTR_STRING));
  examine("empty string", make("s0", "", 0, ORT_OP_ATTR_STRING));
  examine("strings", make("ss", texts, 2, ORT_OP_ATTR_STRINGS));
  examine("empty name", make("", ints, 1, ORT_OP_ATTR_INT));
  api->ReleaseOpAttr(NULL);
  printf("released\n");
}

/* A model as bytes, for programs that compile or load one: y[N,64] = (Relu(x[N,3]) + w[3]) * big[3,64], with an
 * initializer that nothing reads and an entry of metadata. */
#ifndef TENON_TESTS_ABI_SMALL_MODEL_H_
#define TENON_TESTS_ABI_SMALL_MODEL_H_

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
  unsigned char data[4096];
  size_t size;
};

static void put_byte(struct bytes* to, unsigned value) {
  if (to->size == sizeof to->data) exit(4);
  to->data[to->size++] = (unsigned char)value;
}

static void put_varint(struct bytes* to, uint64_t value) {
  for (; value >= 128; value >>= 7) put_byte(to, (unsigned)(value & 127) | 128);
  put_byte(to, (unsigned)value);
}

static void put_int(struct bytes* to, unsigned field, int64_t value) {
  put_varint(to, field << 3);
  put_varint(to, (uint64_t)value);
}

static void put(struct bytes* to, unsigned field, const void* data, size_t size) {
  put_varint(to, field << 3 | 2);
  put_varint(to, size);
  for (size_t i = 0; i < size; ++i) put_byte(to, ((const unsigned char*)data)[i]);
}

static void put_text(struct bytes* to, unsigned field, const char* text) { put(to, field, text, strlen(text)); }
static void put_message(struct bytes* to, unsigned field, const struct bytes* from) {
  put(to, field, from->data, from->size);
}

static void put_node(struct bytes* graph, const char* op, const char* first, const char* second, const char* output) {
  struct bytes node = {{0}, 0};
  put_text(&node, 1, first);
  if (second != NULL) put_text(&node, 1, second);
  put_text(&node, 2, output);
  put_text(&node, 3, op);
  put_text(&node, 4, op);
  put_message(graph, 1, &node);
}

static void put_tensor(struct bytes* graph, const char* name, const int64_t* dims, size_t rank, float first) {
  struct bytes tensor = {{0}, 0};
  size_t count = 1;
  for (size_t i = 0; i < rank; ++i) {
    put_int(&tensor, 1, dims[i]);
    count *= (size_t)dims[i];
  }
  put_int(&tensor, 2, 1);
  put_text(&tensor, 8, name);
  put_varint(&tensor, 9 << 3 | 2);
  put_varint(&tensor, count * 4);
  for (size_t i = 0; i < count; ++i) {
    const float value = first + (float)(i % 7);
    unsigned char raw[4];
    memcpy(raw, &value, 4);
    for (int b = 0; b < 4; ++b) put_byte(&tensor, raw[b]);
  }
  put_message(graph, 5, &tensor);
}

static void put_value(struct bytes* graph, unsigned field, const char* name, const char* symbol, int64_t last) {
  struct bytes first_dim = {{0}, 0}, last_dim = {{0}, 0}, shape = {{0}, 0}, tensor = {{0}, 0}, type = {{0}, 0},
               value = {{0}, 0};
  put_text(&first_dim, 2, symbol);
  put_int(&last_dim, 1, last);
  put_message(&shape, 1, &first_dim);
  put_message(&shape, 1, &last_dim);
  put_int(&tensor, 1, 1);
  put_message(&tensor, 2, &shape);
  put_message(&type, 1, &tensor);
  put_text(&value, 1, name);
  put_message(&value, 2, &type);
  put_message(graph, field, &value);
}

static void small_model(struct bytes* model) {
  struct bytes graph = {{0}, 0}, opset = {{0}, 0}, entry = {{0}, 0};
  const int64_t vector[] = {3}, matrix[] = {3, 64};
  put_node(&graph, "Relu", "x", NULL, "a");
  put_node(&graph, "Add", "a", "w", "s");
  put_node(&graph, "MatMul", "s", "big", "y");
  put_text(&graph, 2, "small");
  put_tensor(&graph, "w", vector, 1, 0.5f);
  put_tensor(&graph, "big", matrix, 2, -1);
  put_tensor(&graph, "unused", vector, 1, 0);
  put_value(&graph, 11, "x", "N", 3);
  put_value(&graph, 12, "y", "N", 64);
  put_text(&opset, 1, "");
  put_int(&opset, 2, 17);
  put_text(&entry, 1, "ep_compatibility_info.SomeEp");
  put_text(&entry, 2, "version 7");
  model->size = 0;
  put_int(model, 1, 8);
  put_text(model, 2, "tests");
  put_message(model, 7, &graph);
  put_message(model, 8, &opset);
  put_message(model, 14, &entry);
}

#endif

/* Key-value pairs: adding, replacing, removing, and the arrays that list them. */
#include "effects.h"

static void list(const OrtKeyValuePairs* pairs) {
  const char* const* keys = NULL;
  const char* const* values = NULL;
  size_t count = 99, i;
  api->GetKeyValuePairs(pairs, &keys, &values, &count);
  printf("%zu pairs:", count);
  for (i = 0; i < count; ++i) printf(" %s=%s", keys[i], values[i]);
  printf("\n");
}

static void run(void) {
  OrtKeyValuePairs* pairs = NULL;
  api->CreateKeyValuePairs(&pairs);
  printf("created: %d\n", pairs != NULL);
  list(pairs);
  api->AddKeyValuePair(pairs, "zebra", "1");
  api->AddKeyValuePair(pairs, "apple", "2");
  api->AddKeyValuePair(pairs, "Mango", "3");
  api->AddKeyValuePair(pairs, "apple2", "");
  list(pairs);
  api->AddKeyValuePair(pairs, "apple", "another");
  list(pairs);
  printf("GetKeyValue apple: %s\n", text_or_null(api->GetKeyValue(pairs, "apple")));
  printf("GetKeyValue empty value: \"%s\"\n", text_or_null(api->GetKeyValue(pairs, "apple2")));
  printf("GetKeyValue missing: %s\n", text_or_null(api->GetKeyValue(pairs, "nothing")));
  printf("GetKeyValue empty key: %s\n", text_or_null(api->GetKeyValue(pairs, "")));
  api->AddKeyValuePair(pairs, "", "value of nothing");
  list(pairs);
  api->AddKeyValuePair(pairs, NULL, "value of null");
  api->AddKeyValuePair(pairs, "key of null", NULL);
  list(pairs);
  api->RemoveKeyValuePair(pairs, "nothing");
  api->RemoveKeyValuePair(pairs, "zebra");
  api->RemoveKeyValuePair(pairs, "");
  api->RemoveKeyValuePair(pairs, NULL);
  list(pairs);
  printf("GetKeyValue removed: %s\n", text_or_null(api->GetKeyValue(pairs, "zebra")));
  api->ReleaseKeyValuePairs(pairs);
  api->CreateKeyValuePairs(&pairs);
  api->AddKeyValuePair(pairs, "c", "1");
  api->AddKeyValuePair(pairs, "b", "2");
  api->AddKeyValuePair(pairs, "a", "3");
  api->RemoveKeyValuePair(pairs, "b");
  list(pairs);
  api->AddKeyValuePair(pairs, "b", "4");
  list(pairs);
  api->AddKeyValuePair(pairs, "b", "4");
  list(pairs);
  api->ReleaseKeyValuePairs(pairs);
  api->ReleaseKeyValuePairs(NULL);
  printf("released\n");
}

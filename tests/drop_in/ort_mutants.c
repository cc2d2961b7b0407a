/* Bytes of a model in ONNX Runtime's format, changed and cut at random: a session or a status, never a crash. Stock does
 * not check all of them, so only libtenon runs this. */
#include "drop_in.h"

static uint64_t state = 1;
static uint64_t next(uint64_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % below;
}

int main(int argc, char** argv) {
  static const char* const names[] = {"matmul.ort", "loop.ort"};
  size_t n, sessions = 0, statuses = 0;
  start(argc, argv);
  for (n = 0; n < 2; ++n) {
    static unsigned char original[1 << 20], bytes[1 << 20];
    FILE* file = fopen(model(names[n]), "rb");
    size_t size;
    int turn;
    if (file == NULL) return 1;
    size = fread(original, 1, sizeof(original), file);
    fclose(file);
    for (turn = 0; turn < 3000; ++turn) {
      OrtSession* session = NULL;
      OrtStatus* status;
      size_t changes = 1 + next(4), given = next(8) == 0 ? next(size) : size;
      memcpy(bytes, original, size);
      while (changes-- > 0) {
        const size_t at = 8 + next(size - 8);
        bytes[at] = next(3) == 0 ? (unsigned char)next(256) : (unsigned char)(bytes[at] + next(9) - 4);
      }
      status = ort->CreateSessionFromArray(env, bytes, given, NULL, &session);
      if (status == NULL) {
        ++sessions;
        ort->ReleaseSession(session);
      } else {
        ++statuses;
        ort->ReleaseStatus(status);
      }
    }
  }
  printf("sessions %d, statuses %d\n", sessions > 100, statuses > 1000);
  return finish();
}

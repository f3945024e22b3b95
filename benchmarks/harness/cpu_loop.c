// SPDX-License-Identifier: MIT
// Reads streams and writes streams, all of the same length, and computes nothing: the least that a kernel with these
// inputs and results takes, but for what is left over from whole lines. By the threads of the OpenMP that torch has loaded, so that no second one spins beside it.
#include <stddef.h>
#include <stdint.h>

#define MOST 4

typedef long long Line __attribute__((vector_size(64), aligned(1)));

struct Streams {
  const char* in[MOST];
  char* out[MOST];
  int64_t bytes, ahead;  // of each stream; how far ahead of what it reads it fetches, or 0
  int32_t ins, outs, threads;
};

struct Runtime {
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned);  // GOMP_parallel
  int (*thread)(void);                                           // omp_get_thread_num
};

static struct Runtime runtime;

static inline __attribute__((always_inline)) void move(const struct Streams* s, size_t from, size_t to, int ins,
                                                       int outs, int fetch) {
  const char* in[MOST];
  char* out[MOST];
  for (int k = 0; k < ins; ++k) in[k] = s->in[k];
  for (int k = 0; k < outs; ++k) out[k] = s->out[k];
  const size_t ahead = (size_t)s->ahead;
  for (size_t at = from; at < to; at += sizeof(Line)) {
    Line all = {0};
    for (int k = 0; k < ins; ++k) {
      if (fetch) __builtin_prefetch(in[k] + at + ahead, 0, 3);
      all ^= *(const Line*)(in[k] + at);
    }
    for (int k = 0; k < outs; ++k) *(Line*)(out[k] + at) = all;
  }
}

static void part(void* streams) {
  const struct Streams* s = streams;
  const size_t lines = (size_t)s->bytes / sizeof(Line), threads = (size_t)s->threads;
  const size_t own = (size_t)runtime.thread(), from = lines * own / threads, to = lines * (own + 1) / threads;
#define CASE(INS, OUTS)                                              \
  if (s->ins == INS && s->outs == OUTS) {                            \
    if (s->ahead)                                                    \
      move(s, from * sizeof(Line), to * sizeof(Line), INS, OUTS, 1); \
    else                                                             \
      move(s, from * sizeof(Line), to * sizeof(Line), INS, OUTS, 0); \
    return;                                                          \
  }
  CASE(1, 1)
  CASE(2, 1) CASE(2, 2) CASE(3, 1) CASE(3, 2)
#undef CASE
      move(s, from * sizeof(Line), to * sizeof(Line), s->ins, s->outs, s->ahead != 0);
}

void loop_use(void* parallel, void* thread) {
  runtime.parallel = (void (*)(void (*)(void*), void*, unsigned, unsigned))parallel;
  runtime.thread = (int (*)(void))thread;
}

void loop_run(struct Streams* streams) { runtime.parallel(part, streams, (unsigned)streams->threads, 0); }

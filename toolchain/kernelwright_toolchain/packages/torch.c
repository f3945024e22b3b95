// SPDX-License-Identifier: MIT
// The operators as torch's dispatcher calls them in C: by functions of torch's stable shim, found by name in the
// libtorch_cpu.so of the process. A call that is not plain (a copy to make, a refusal) is Python's, which has the words.
#pragma GCC diagnostic ignored "-Wunused-function"  // what no expression of this package needs
#define KW_DIMS 12
#define KW_SHIM_VERSION ((uint64_t)2 << 56 | (uint64_t)10 << 48)

typedef uint64_t kw_value;
typedef void (*kw_boxed)(kw_value *, uint64_t, uint64_t);

static struct {
  int (*data)(void *, void **);
  int (*sizes)(void *, const int64_t **);
  int (*strides)(void *, const int64_t **);
  int (*dims)(void *, int64_t *);
  int (*dtype)(void *, int32_t *);
  int (*device_type)(void *, int32_t *);
  int (*device_index)(void *, int32_t *);
  int (*free)(void *);
  int (*empty)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, void **);
  int (*init)(const char *, const char *, const char *, uint32_t, void **);
  int (*impl)(void *, const char *, kw_boxed, uint64_t);
  int (*call)(const char *, const char *, kw_value *, uint64_t);
  void (*check)(_Bool, const char *, const char *, uint32_t, const char *);
  int (*stream)(int32_t, void **);
  int32_t cuda;
} kw_shim;

struct kw_shape {
  int64_t dims, at[KW_DIMS];
};

struct kw_tensor {
  void *handle, *data;
  const int64_t *sizes, *strides;
  int64_t dims, own[KW_DIMS], steps[KW_DIMS];
  int32_t dtype, type, index;
};

static _Thread_local int kw_refused;

// Python's integers: no overflow goes unseen, and a quotient is rounded down.
static int64_t kw_add(int64_t a, int64_t b, int *odd) {
  *odd |= __builtin_add_overflow(a, b, &a);
  return a;
}

static int64_t kw_sub(int64_t a, int64_t b, int *odd) {
  *odd |= __builtin_sub_overflow(a, b, &a);
  return a;
}

static int64_t kw_mul(int64_t a, int64_t b, int *odd) {
  *odd |= __builtin_mul_overflow(a, b, &a);
  return a;
}

static int64_t kw_div(int64_t a, int64_t b, int *odd) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) {
    *odd = 1;
    return 0;
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t kw_mod(int64_t a, int64_t b, int *odd) {
  if (b == 0 || b == -1) {
    *odd |= b == 0;
    return 0;
  }
  int64_t left = a % b;
  return left != 0 && (left < 0) != (b < 0) ? left + b : left;
}

static int64_t kw_at(const int64_t *of, int64_t dims, int64_t i, int *odd) {
  if (i < -dims || i >= dims) {
    *odd = 1;
    return 0;
  }
  return of[i < 0 ? i + dims : i];
}

static int64_t kw_numel(const struct kw_tensor *t) {
  int64_t count = 1;
  for (int64_t i = 0; i < t->dims; ++i) count *= t->sizes[i];
  return count;
}

static int kw_dense(const struct kw_tensor *t) {
  int64_t next = 1;
  if (kw_numel(t) == 0) return 1;
  for (int64_t i = t->dims; i-- > 0;) {
    if (t->sizes[i] != 1 && t->strides[i] != next) return 0;
    next *= t->sizes[i];
  }
  return 1;
}

static struct kw_shape kw_shape_of(const struct kw_tensor *t) {
  struct kw_shape made = {t->dims, {0}};
  memcpy(made.at, t->sizes, sizeof *made.at * (size_t)t->dims);
  return made;
}

static struct kw_shape kw_slice(struct kw_shape of, int64_t first, int64_t end) {
  struct kw_shape made = {0, {0}};
  if (first < 0) first = first + of.dims > 0 ? first + of.dims : 0;
  if (end < 0) end += of.dims;
  for (int64_t i = first; i < end && i < of.dims; ++i) made.at[made.dims++] = of.at[i];
  return made;
}

static struct kw_shape kw_join(struct kw_shape a, struct kw_shape b, int *odd) {
  if (a.dims + b.dims > KW_DIMS) {
    *odd = 1;
    return a;
  }
  memcpy(a.at + a.dims, b.at, sizeof *a.at * (size_t)b.dims);
  a.dims += b.dims;
  return a;
}

static int kw_alike(struct kw_shape a, struct kw_shape b) {
  return a.dims == b.dims && memcmp(a.at, b.at, sizeof *a.at * (size_t)a.dims) == 0;
}

static int kw_read(kw_value value, struct kw_tensor *t) {
  t->handle = (void *)value;
  t->index = 0;
  if (kw_shim.dims(t->handle, &t->dims) || t->dims > KW_DIMS || kw_shim.sizes(t->handle, &t->sizes) ||
      kw_shim.strides(t->handle, &t->strides) || kw_shim.dtype(t->handle, &t->dtype) ||
      kw_shim.device_type(t->handle, &t->type) || kw_shim.data(t->handle, &t->data))
    return 1;
  return t->type == kw_shim.cuda && kw_shim.device_index(t->handle, &t->index);
}

// A result without gaps, where `first` is.
static int kw_make(const struct kw_tensor *first, struct kw_shape shape, int32_t dtype, struct kw_tensor *t) {
  int64_t next = 1;
  int odd = 0;
  for (int64_t i = shape.dims; i-- > 0;) {
    if (shape.at[i] < 0) return 1;
    t->own[i] = shape.at[i];
    t->steps[i] = next;
    next = kw_mul(next, shape.at[i] > 0 ? shape.at[i] : 1, &odd);
  }
  t->sizes = t->own;
  t->strides = t->steps;
  t->dims = shape.dims;
  if (odd || kw_shim.empty(t->dims, t->own, t->steps, dtype, first->type, first->index, &t->handle)) return 1;
  return kw_shim.data(t->handle, &t->data);
}

static int kw_stream(const struct kw_tensor *first, void **stream) {
  *stream = 0;
  if (first->type != kw_shim.cuda) return 0;
  return !kw_shim.stream || kw_shim.stream(first->index, stream);
}

// Frees what was made, or what was given.
static void kw_finish(struct kw_tensor *tensors, int count) {
  for (int i = 0; i < count; ++i) {
    if (tensors[i].handle) kw_shim.free(tensors[i].handle);
    tensors[i].handle = 0;
  }
}

// Python's turn: it takes what is on the stack. 0 where its results are there.
static int kw_elsewhere(const char *name, kw_value *stack, int results) {
  kw_refused = 0;
  if (kw_shim.call(name, "", stack, KW_SHIM_VERSION)) return kw_fail("%s: Python was stopped", name);
  for (int i = 0; kw_refused && i < results; ++i) kw_shim.free((void *)stack[i]);
  return kw_refused;
}

// Raises: the last thing that a call does, when nothing is left to free.
static void kw_raise(void) { kw_shim.check(0, "kw", "kw", 0, kw_text); }

static int kw_shim_found(void) {
  void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  void *cuda = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  int32_t (*number)(void);
  if (!library) return 0;
  const struct {
    void *to;
    const char *name;
  } wanted[] = {
      {&kw_shim.data, "aoti_torch_get_data_ptr"}, {&kw_shim.sizes, "aoti_torch_get_sizes"},
      {&kw_shim.strides, "aoti_torch_get_strides"}, {&kw_shim.dims, "aoti_torch_get_dim"},
      {&kw_shim.dtype, "aoti_torch_get_dtype"}, {&kw_shim.device_type, "aoti_torch_get_device_type"},
      {&kw_shim.device_index, "aoti_torch_get_device_index"}, {&kw_shim.free, "aoti_torch_delete_tensor_object"},
      {&kw_shim.empty, "aoti_torch_empty_strided"}, {&kw_shim.init, "aoti_torch_library_init_impl"},
      {&kw_shim.impl, "torch_library_impl"}, {&kw_shim.call, "torch_call_dispatcher"},
      {&kw_shim.check, "aoti_torch_check"}, {&number, "aoti_torch_device_type_cuda"},
  };
  for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; ++i) {
    void *found = dlsym(library, wanted[i].name);
    if (!found) return 0;
    memcpy(wanted[i].to, &found, sizeof found);
  }
  kw_shim.cuda = number();
  void *found = cuda ? dlsym(cuda, "aoti_torch_get_current_cuda_stream") : 0;
  memcpy(&kw_shim.stream, &found, sizeof found);
  return 1;
}

/* SPDX-License-Identifier: MIT */
/*
 * What every kernelwright C function shares: status codes, element types, devices, errors.
 *
 * The library links nothing but glibc. It finds libcuda.so.1 by itself on the first call
 * for a GPU, so a program that only uses KW_CPU never touches a driver.
 *
 * KW_API at the start of a line begins a declaration that ends at the next semicolon; the build
 * reads these to make kernelwright.h and the table that Python binds from.
 */
#ifndef KERNELWRIGHT_BASE_H
#define KERNELWRIGHT_BASE_H

#include <stdint.h>

#ifdef __cplusplus
#define KW_EXTERN_C extern "C"
#else
#define KW_EXTERN_C extern
#endif
#define KW_API KW_EXTERN_C __attribute__((visibility("default")))

/* What every kw_ function that can fail returns. The numbers never change. */
typedef int32_t kw_status;
enum {
  KW_OK = 0,
  KW_ERROR_INVALID_ARGUMENT = 1, /* the call is wrong whatever the machine */
  KW_ERROR_UNSUPPORTED = 2,      /* right, but this build or this device cannot do it */
  KW_ERROR_NO_DRIVER = 3,        /* libcuda.so.1 is not there or lacks a function */
  KW_ERROR_DRIVER_TOO_OLD = 4,   /* the driver is older than the wheel's toolkit accepts */
  KW_ERROR_NO_DEVICE = 5,        /* no such GPU */
  KW_ERROR_NO_IMAGE = 6,         /* the wheel has no kernel for this GPU */
  KW_ERROR_IMAGE_MISSING = 7,    /* a kernel file is not where it should be */
  KW_ERROR_IMAGE_CORRUPT = 8,    /* a kernel file is not the one this library was built with */
  KW_ERROR_CUDA = 9,             /* the driver said no; its words are in kw_last_error() */
  KW_ERROR_FORKED = 10,          /* CUDA was used before fork(); this child cannot use it */
  KW_ERROR_OUT_OF_MEMORY = 11,
  KW_ERROR_SYSTEM = 12 /* a system call failed */
};

/* Element types. */
enum {
  KW_FLOAT32 = 0,
  KW_FLOAT16 = 1,
  KW_BFLOAT16 = 2,
  KW_FLOAT64 = 3,
  KW_UINT8 = 4,
  KW_INT8 = 5,
  KW_INT32 = 6,
  KW_FLOAT8_E4M3FN = 7
};

/* Where a call runs: a CUDA device ordinal, or this. */
enum { KW_CPU = -1 };

/* First in each kw_tensor. */
enum { KW_TENSOR = 1 };

/*
 * An array, for the functions whose names end in _tensors: they find out by themselves how rows lie, and what does not
 * go together. They also take a tensor of torch in its place, by the address that `tensor._cdata` has in Python, once
 * kw_share_torch() has found how to read one.
 */
typedef struct kw_tensor {
  int64_t kind; /* KW_TENSOR */
  void* data;
  const int64_t* sizes;   /* of `dims` dimensions */
  const int64_t* strides; /* elements from one to the next in each */
  int64_t dims;           /* 0 to 1024 */
  int32_t dtype;          /* an element type; any other number is one that no function takes */
  int32_t device;         /* where it lies: a CUDA device ordinal, or KW_CPU */
} kw_tensor;

/* How an optimizer makes an update of a gradient and its states. */
enum { KW_ADAM = 0, KW_ADEMAMIX = 1, KW_MOMENTUM = 2, KW_RMSPROP = 3, KW_ADAGRAD = 4, KW_LION = 5 };

/* The numbers of a step of an optimizer, the same for all its tensors. Those that a rule has no use for are not read.
 */
typedef struct kw_optimizer {
  double lr;
  double beta1;
  double beta2;
  double beta3;
  double alpha;
  double eps;
  double weight_decay;
  double grad_scale; /* what gradients are multiplied by first */
  int64_t step;      /* 1 at the first */
  int32_t rule;      /* KW_ADAM to KW_LION */
  int32_t reserved;  /* 0 */
} kw_optimizer;

/* One tensor of a step: arrays of `count` elements without a gap. */
typedef struct kw_optimizer_tensor {
  void* param;
  const void* grad;
  void* state1;
  void* state2;   /* NULL for a rule of one state */
  float* absmax1; /* scales of 8-bit states, else NULL */
  float* absmax2;
  int64_t count;
} kw_optimizer_tensor;

/* Version of this library, such as "0.1.0". */
KW_API const char* kw_version(void);

/* Number of this ABI; a change that breaks callers raises it. */
KW_API int32_t kw_abi(void);

/* What went wrong in this thread's last failed call; "" if nothing did. Valid until its next failure. */
KW_API const char* kw_last_error(void);

/* The name of a status code, such as "KW_ERROR_NO_IMAGE". */
KW_API const char* kw_status_name(kw_status status);

/*
 * Sets an option of the process: "kernels" (a directory to load kernel files from instead of
 * the wheel's own; their hashes are then not checked), "arch" (force one image, such as the
 * name of a cubin or PTX row), "threads" (CPU threads, "0" is the default), "cpu_isa" (force one
 * of what kw_cpu_isa() names). An empty value resets it. Options for the GPU take effect for
 * operators that were not used yet.
 */
KW_API kw_status kw_set_option(const char* name, const char* value);

/* Threads the CPU path uses from now on; 0 returns to the default (OMP_NUM_THREADS, else all cores allowed). */
KW_API kw_status kw_set_num_threads(int32_t threads);

/* Threads the CPU path would use now. */
KW_API int32_t kw_num_threads(void);

/*
 * Makes the CPU path run on the threads of the OpenMP runtime that the process has loaded (torch's, or that of a
 * program compiled with -fopenmp), as many as kw_num_threads(), instead of threads of its own beside them. A forked
 * child falls back to its own. KW_ERROR_UNSUPPORTED where there is no such runtime, or this process itself was forked:
 * the library's own threads go on.
 */
KW_API kw_status kw_share_openmp(void);

/*
 * Makes tensors of the torch that the process has loaded arguments for the functions that take a kw_tensor.
 * KW_ERROR_UNSUPPORTED where there is none, or it lacks the C functions that read one.
 */
KW_API kw_status kw_share_torch(void);

/* What those functions take `tensor` for: the same as a kw_tensor, whose sizes and strides are the tensor's own. */
KW_API kw_status kw_read_tensor(const kw_tensor* tensor, kw_tensor* found);

/*
 * Registers the kernels of an operator of torch, such as "rms_norm.residual", for the CPU and CUDA, with the torch that
 * the process has loaded; torch.ops.kernelwright has it with `schema`, from the parenthesis on, and
 * torch.ops._kernelwright an operator of the same name for the calls that those kernels leave to it.
 * KW_ERROR_UNSUPPORTED where the library has no such kernel, or torch lacks the C functions it needs.
 */
KW_API kw_status kw_torch_implement(const char* name, const char* schema);

/* For that operator: what the kernel failed with that handed over this call of the thread; KW_OK where it left it. */
KW_API int32_t kw_torch_failed(void);

/* For that operator: refuses the call that the thread is in, in these words. Its results are thrown away. */
KW_API void kw_torch_refuse(const char* words);

/*
 * For a program without Python, such as one that runs a package of AOTInductor: registers all operators that have
 * kernels for torch, schemas and kernels for the CPU and CUDA, with the torch that the process has loaded. The calls
 * that those kernels leave to Python are refused then. Once in a process; more calls, and one after Python's package
 * has registered them, change nothing. KW_ERROR_UNSUPPORTED where the process has no torch, or it lacks the C functions
 * this needs.
 */
KW_API kw_status kw_torch_register(void);

/* Which instruction set the CPU path picked: "amx", "avx512", "avx2", "neon" or "scalar". */
KW_API const char* kw_cpu_isa(void);

/* Number of CUDA devices; 0 where the driver sees none, and 0 with KW_ERROR_NO_DRIVER where there is no driver. */
KW_API kw_status kw_device_count(int32_t* count);

/* The CUDA level of the driver, such as 12020; also with KW_ERROR_DRIVER_TOO_OLD. Does not start CUDA. */
KW_API kw_status kw_driver_version(int32_t* version);

/* Compute capability of a device, major*10+minor. */
KW_API kw_status kw_device_capability(int32_t device, int32_t* capability);

/* Which image (such as the name of a cubin row) operator `op` would load for a device of this capability. */
KW_API kw_status kw_image_for(const char* op, int32_t capability, const char** image);

/*
 * Makes a call that is written in memory, eight bytes for each part: a function of this library that returns a
 * kw_status, its numbers and pointers in their order and room for 22 of them, and its doubles and room for eight.
 * Whoever makes up calls at run time, as ctypes does, spends more on each argument of a call than on all of such a
 * block.
 */
KW_API kw_status kw_call(const void* call);

#endif

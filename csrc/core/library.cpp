// SPDX-License-Identifier: MIT
#include "core/library.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/options.h"

namespace kw {

// What the driver's compiler says about PTX. The driver may compile as late as the first use and write then, so this
// lives as long as the image.
struct JitLog {
  char text[4096];
  void* values[2];  // read and written by the driver
};

namespace {

LoadedImage* all = nullptr;  // parallel to built_images()

const char* log_of(const LoadedImage& loaded) {
  return loaded.log != nullptr && loaded.log->text[0] != '\0' ? loaded.log->text : "nothing";
}

void drop(LoadedImage* loaded) {
  free(loaded->path);
  free(loaded->log);
  *loaded = {};
}

kw_status load_failed(const Driver& driver, const LoadedImage& loaded, const DeviceState& device, CUresult code) {
  if (loaded.image->kind == KW_IMAGE_CUBIN) {
    return driver_refused(driver, "cuLibraryLoadData", code, "loading %s for CUDA device %d (%s)", loaded.path,
                          device.ordinal, device.name);
  }
  return driver_refused(
      driver, "cuLibraryLoadData", code, "compiling %s for CUDA device %d (%s)%s; the driver's compiler said: %s",
      loaded.path, device.ordinal, device.name,
      code == CUDA_ERROR_UNSUPPORTED_PTX_VERSION
          ? " (this PTX is newer than the driver; update the driver or use a build for an older toolkit)"
          : "",
      log_of(loaded));
}

kw_status find_failed(const Driver& driver, const LoadedImage& loaded, const DeviceState& device, const char* function,
                      CUresult code, const char* kernel) {
  return driver_refused(driver, function, code, "taking kernel %s of %s for CUDA device %d (%s)%s%s", kernel,
                        loaded.path, device.ordinal, device.name,
                        loaded.log != nullptr ? "; the driver's compiler said: " : "",
                        loaded.log != nullptr ? log_of(loaded) : "");
}

kw_status load(const Driver& driver, const DeviceState& device, LoadedImage* loaded) {
  Options options;
  read_options(&options);
  KernelFile file;
  KW_TRY(read_kernel_file(*loaded->image, options.kernels, &file));
  loaded->path = strdup(file.path);
  const bool compiled = loaded->image->kind == KW_IMAGE_PTX;
  if (compiled) loaded->log = static_cast<JitLog*>(calloc(1, sizeof *loaded->log));
  if (loaded->path == nullptr || (compiled && loaded->log == nullptr)) {
    return fail(KW_ERROR_OUT_OF_MEMORY, "no memory for loading %s", file.path);
  }
  JitOption jit[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void** values = nullptr;
  if (compiled) {
    values = loaded->log->values;
    values[0] = loaded->log->text;
    values[1] = reinterpret_cast<void*>(sizeof loaded->log->text - 1);
  }
  const CUresult code = driver.cuLibraryLoadData(&loaded->library, file.bytes, compiled ? jit : nullptr, values,
                                                 compiled ? 2 : 0, nullptr, nullptr, 0);
  return code == CUDA_SUCCESS ? KW_OK : load_failed(driver, *loaded, device, code);
}

}  // namespace

kw_status load_image(const Driver& driver, const DeviceState& device, const Image& image, const LoadedImage** loaded) {
  const Images images = built_images();
  if (all == nullptr) {
    all = static_cast<LoadedImage*>(calloc(static_cast<size_t>(images.count), sizeof *all));
    if (all == nullptr) return fail(KW_ERROR_OUT_OF_MEMORY, "no memory for the table of loaded images");
  }
  LoadedImage* slot = &all[&image - images.first];
  if (slot->library == nullptr) {
    slot->image = &image;
    const kw_status status = load(driver, device, slot);
    if (status != KW_OK) {
      drop(slot);
      return status;
    }
  }
  *loaded = slot;
  return KW_OK;
}

kw_status find_function(const Driver& driver, const LoadedImage& loaded, const DeviceState& device, const char* name,
                        size_t bytes, CUfunction* function) {
  CUkernel kernel = nullptr;
  const CUresult code = driver.cuLibraryGetKernel(&kernel, loaded.library, name);
  if (code == CUDA_ERROR_NOT_FOUND) {
    return fail(
        KW_ERROR_IMAGE_CORRUPT,
        "%s has no kernel %s for CUDA device %d (%s): it was made from other sources or for another GPU; build it "
        "again",
        loaded.path, name, device.ordinal, device.name);
  }
  if (code != CUDA_SUCCESS) return find_failed(driver, loaded, device, "cuLibraryGetKernel", code, name);
  size_t offset = 0, size = 0;
  if (driver.cuKernelGetParamInfo != nullptr &&
      driver.cuKernelGetParamInfo(kernel, 0, &offset, &size) == CUDA_SUCCESS && size != bytes) {
    return fail(
        KW_ERROR_IMAGE_CORRUPT,
        "kernel %s of %s takes %zu bytes of parameters, this library hands it %zu: they were made from different "
        "sources; build both again",
        name, loaded.path, size, bytes);
  }
  const CUresult taken = driver.cuKernelGetFunction(function, kernel);
  return taken == CUDA_SUCCESS ? KW_OK : find_failed(driver, loaded, device, "cuKernelGetFunction", taken, name);
}

}  // namespace kw

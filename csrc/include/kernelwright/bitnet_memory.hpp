// SPDX-License-Identifier: MIT
// Memory of a GPU, or of the CPU, that goes back to a pool when its owner ends.
#pragma once

#include <kernelwright/bitnet_driver.hpp>

#include <stdlib.h>
#include <string.h>

#include <map>
#include <mutex>
#include <utility>

namespace kernelwright {

struct PoolStatistics {
  int64_t in_use = 0;       // bytes of blocks that are out
  int64_t peak = 0;         // the most there were
  int64_t reserved = 0;     // bytes that the pool has from the system
  int64_t allocations = 0;  // blocks given
  int64_t reused = 0;       // of these such as were there already
};

class Pool;

// Moves, and returns its memory once. The pool must live longer.
class Block {
 public:
  Block() = default;
  Block(Block&& other) noexcept { *this = std::move(other); }
  Block& operator=(Block&& other) noexcept;
  ~Block() { reset(); }
  void reset();

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  friend class Pool;
  Block(Pool* pool, char* data, int64_t bytes) : pool_(pool), data_(data), bytes_(bytes) {}
  Pool* pool_ = nullptr;
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Freed blocks are kept, and given again to who asks for as many bytes or a quarter less.
class Pool {
 public:
  explicit Pool(const Context& context) : context_(context) {}
  ~Pool() { trim(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  Block allocate(int64_t bytes) {
    constexpr int64_t kUnit = 256;
    if (bytes < 0) throw Error(KW_ERROR_INVALID_ARGUMENT, "Pool: a negative number of bytes");
    const int64_t size = (bytes + kUnit) / kUnit * kUnit;  // room for none is room, too
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = free_.lower_bound(size);
    int64_t given = size;
    char* data = nullptr;
    if (found != free_.end() && found->first <= size + size / 4) {
      given = found->first;
      data = found->second;
      free_.erase(found);
      ++statistics_.reused;
    } else {
      data = from_system(size);
      statistics_.reserved += size;
    }
    ++statistics_.allocations;
    statistics_.in_use += given;
    if (statistics_.in_use > statistics_.peak) statistics_.peak = statistics_.in_use;
    return Block(this, data, given);
  }

  // Gives back to the system what nobody has.
  void trim() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& each : free_) {
      to_system(each.second);
      statistics_.reserved -= each.first;
    }
    free_.clear();
  }

  const PoolStatistics& statistics() const { return statistics_; }

 private:
  friend class Block;

  void take_back(char* data, int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    statistics_.in_use -= bytes;
    free_.emplace(bytes, data);
  }

  char* from_system(int64_t bytes) const {
    if (context_.cpu()) {
      void* data = nullptr;
      if (posix_memalign(&data, 256, static_cast<size_t>(bytes)) != 0)
        throw Error(KW_ERROR_OUT_OF_MEMORY, "Pool: no memory for " + std::to_string(bytes) + " bytes");
      return static_cast<char*>(data);
    }
    const Context::Scope scope(context_);
    Driver::Address address = 0;
    if (Driver::get().allocate(&address, static_cast<size_t>(bytes)) != 0)
      throw Error(KW_ERROR_OUT_OF_MEMORY, "Pool: GPU " + std::to_string(context_.ordinal()) + " has no " +
                                              std::to_string(bytes) + " bytes left");
    return reinterpret_cast<char*>(address);
  }

  void to_system(char* data) const {
    if (context_.cpu()) return free(data);
    const Context::Scope scope(context_);
    Driver::get().release(reinterpret_cast<Driver::Address>(data));
  }

  const Context& context_;
  std::mutex mutex_;
  std::multimap<int64_t, char*> free_;  // by size
  PoolStatistics statistics_;
};

inline Block& Block::operator=(Block&& other) noexcept {
  if (this != &other) {
    reset();
    pool_ = std::exchange(other.pool_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

inline void Block::reset() {
  if (pool_ != nullptr) pool_->take_back(data_, bytes_);
  pool_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

// Copies that have happened when they return.
inline void copy_in(const Context& context, void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  if (context.cpu()) {
    memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  const Context::Scope scope(context);
  Driver::require(Driver::get().from_host(reinterpret_cast<Driver::Address>(to), from, static_cast<size_t>(bytes)),
                  "cuMemcpyHtoD");
}

inline void copy_out(const Context& context, void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  if (context.cpu()) {
    memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  const Context::Scope scope(context);
  Driver::require(Driver::get().to_host(to, reinterpret_cast<Driver::Address>(from), static_cast<size_t>(bytes)),
                  "cuMemcpyDtoH");
}

}  // namespace kernelwright

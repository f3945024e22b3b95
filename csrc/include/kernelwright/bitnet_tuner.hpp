// SPDX-License-Identifier: MIT
// What was timed on this machine, kept in a file: for a key a number. A file of another GPU, of other kernels, or that
// somebody has damaged is left aside with a word.
#pragma once

#include <kernelwright/bitnet_driver.hpp>

#include <dlfcn.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

namespace kernelwright {

inline uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Of the manifest beside the library, which has the sha256 of every kernel file; of its version where there is none.
inline std::string kernels_key() {
  Dl_info found{};
  std::string text = kw_version();
  if (dladdr(reinterpret_cast<const void*>(&kw_version), &found) != 0 && found.dli_fname != nullptr) {
    const std::string path = found.dli_fname;
    std::ifstream file(path.substr(0, path.find_last_of('/') + 1) + "../manifest.json", std::ios::binary);
    std::ostringstream all;
    if (file && all << file.rdbuf()) text += all.str();
  }
  char hex[17];
  snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(hash_of(text)));
  return hex;
}

class Tuner {
 public:
  // `key`: the machine and its kernels. An empty path keeps nothing.
  Tuner(std::string path, std::string key) : path_(std::move(path)), key_(std::move(key)) { load(); }

  // In the user's home, as the system knows it; nothing where it knows none.
  static std::string default_path() {
    const passwd* const user = getpwuid(getuid());
    return user == nullptr || user->pw_dir == nullptr ? std::string()
                                                      : std::string(user->pw_dir) + "/.cache/kernelwright-bitnet.txt";
  }

  // Why the file was of no use; "" if it was, or there was none.
  const std::string& note() const { return note_; }

  bool knows(const std::string& what) const { return numbers_.count(what) != 0; }
  int64_t number(const std::string& what) const { return numbers_.at(what); }
  void put(const std::string& what, int64_t number) { numbers_[what] = number; }

  // All at once, so that who reads it meanwhile sees one whole file. False: it could not be written, which costs time
  // at the next start and nothing else.
  bool save() const {
    if (path_.empty()) return false;
    const std::string part = path_ + "." + std::to_string(getpid());
    {
      std::ofstream file(part, std::ios::binary | std::ios::trunc);
      const std::string text = body();
      if (!(file << text << "end " << hash_of(text) << "\n") || !file.flush()) return false;
    }
    if (rename(part.c_str(), path_.c_str()) == 0) return true;
    remove(part.c_str());
    return false;
  }

 private:
  static constexpr const char* kFirst = "kernelwright bitnet tuning 1 ";

  std::string body() const {
    std::string text = kFirst + key_ + "\n";
    for (const auto& each : numbers_) text += each.first + " " + std::to_string(each.second) + "\n";
    return text;
  }

  void load() {
    if (path_.empty()) return;
    std::ifstream file(path_, std::ios::binary);
    if (!file) return;
    std::ostringstream all;
    all << file.rdbuf();
    const std::string text = all.str();
    const size_t last = text.rfind("end ");
    if (text.rfind(kFirst, 0) != 0 || last == std::string::npos ||
        text.substr(last) != "end " + std::to_string(hash_of(text.substr(0, last))) + "\n") {
      note_ = path_ + " is damaged, or no tuning cache: it is left aside and written anew";
      return;
    }
    std::istringstream lines(text.substr(0, last));
    std::string line;
    std::getline(lines, line);
    if (line != kFirst + key_) {
      note_ = path_ + " is of another GPU or other kernels: it is left aside and written anew";
      return;
    }
    while (std::getline(lines, line)) {
      const size_t space = line.rfind(' ');
      if (space != std::string::npos) numbers_[line.substr(0, space)] = atoll(line.c_str() + space + 1);
    }
  }

  std::string path_, key_, note_;
  std::map<std::string, int64_t> numbers_;
};

}  // namespace kernelwright

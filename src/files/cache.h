#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/reading.h"
#include "base/time.h"
#include "files/file.h"

namespace sluice::files {

// The files that answer requests for one path.
struct Content {
  Files files;
  std::string_view vary;  // the Vary field; empty if absent
  bool is_coded = false;  // there is a compressed file beside the identity
};

// One core's contents by path, with limits on memory and on open files. Evicts the least recently used entry first.
class Cache {
 public:
  struct Limits {
    std::size_t files = 0;    // open or in memory
    std::uint64_t bytes = 0;  // of the files in memory
  };
  struct Entry {
    std::string path;
    Content content;
    Instant checked{};
    std::size_t files = 0;
    std::uint64_t bytes = 0;
  };
  struct Counters {
    std::uint64_t hits = 0;    // answered without a system call
    std::uint64_t misses = 0;  // looked up, or checked for a change
    std::uint64_t files = 0;   // gauge
    std::uint64_t bytes = 0;   // gauge

    [[nodiscard]] Readings readings() const;
  };

  explicit Cache(Limits limits) : limits_(limits) {}
  Cache(const Cache&) = delete;

  // Returns null if there is no entry. Moves the entry to the front. The pointer is valid until the next store() or
  // erase().
  [[nodiscard]] Entry* find(std::string_view path) {
    const auto known = by_path_.find(path);
    if (known == by_path_.end()) return nullptr;
    if (known->second != entries_.begin()) entries_.splice(entries_.begin(), entries_, known->second);
    return &*known->second;
  }
  void store(std::string_view path, Content content, Instant now);
  void erase(std::string_view path);

  void count_hit() { ++counters_.hits; }
  void count_miss() { ++counters_.misses; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  using Entries = std::list<Entry>;
  // Only files that exist have entries, so clients cannot cause collisions. A fast, unkeyed hash is therefore enough.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view path) const noexcept;
  };
  using ByPath = std::unordered_map<std::string_view, Entries::iterator, Hash, std::equal_to<>>;

  void remove(ByPath::iterator known);

  const Limits limits_;
  Counters counters_;
  Entries entries_;  // the most recently used first
  ByPath by_path_;   // the keys are views of the entries' paths
};

inline std::size_t Cache::Hash::operator()(std::string_view path) const noexcept {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  std::uint64_t hash = path.size() * odd;
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * odd;
    hash ^= hash >> 32;
  };
  const auto load = [](const char* at, auto word) {
    std::memcpy(&word, at, sizeof word);
    return std::uint64_t{word};
  };
  const char* at = path.data();
  std::size_t left = path.size();
  for (; left >= 8; left -= 8, at += 8) mix(load(at, std::uint64_t{}));
  if (left >= 4) {
    mix(load(at, std::uint32_t{}) << 32 | load(at + left - 4, std::uint32_t{}));
  } else if (left != 0) {
    mix(load(at, std::uint8_t{}) << 16 | load(at + left / 2, std::uint8_t{}) << 8 |
        load(at + left - 1, std::uint8_t{}));
  }
  return hash;
}

}  // namespace sluice::files

#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/buffer.h"

namespace sluice::api::resident {

// One whole answer, ready to be sent.
struct Answer {
  std::shared_ptr<const void> tags;  // owns the memory that its fields point into
  Buffer bytes;
  std::string total;  // the value of X-Total-Count
};

// One core's answers to repeated queries of one version of a table. When they exceed the limit, the least recently used
// are evicted. An answer is stored when its query comes the second time.
class AnswerCache {
 public:
  explicit AnswerCache(std::size_t limit);

  // Returns null if there is no answer. Counts a hit or a miss.
  [[nodiscard]] const std::shared_ptr<const Answer>* find(std::string_view key);
  // Whether to store an answer of this size: true if it is small enough and its query has recently come before.
  [[nodiscard]] bool admits(std::string_view key, std::uint64_t size);
  void store(std::string_view key, std::shared_ptr<const Answer> answer);
  void clear();

  struct Counters {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Answer> answer;
  };
  using Order = std::list<Entry>;
  // Clients choose the keys. With a secret seed they cannot choose keys whose hashes collide.
  struct Hash {
    std::uint64_t seed = 0;
    std::size_t operator()(std::string_view text) const;
  };

  [[nodiscard]] static std::size_t cost(const Entry& entry);

  const std::size_t limit_;
  Order order_;  // the most recently used first
  std::unordered_map<std::string_view, Order::iterator, Hash> entries_;
  std::array<std::uint32_t, 1024> seen_{};  // hashes of past queries, indexed by their lowest bits
  Counters counters_;
};

}  // namespace sluice::api::resident

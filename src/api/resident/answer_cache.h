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
  std::shared_ptr<const void> tags;  // what its fields are views of
  Buffer bytes;
  std::string total;  // of X-Total-Count
};

// One core's answers to queries that have come before, of one version of a table: the least recently used go when they
// take more than the limit. A query is worth a place when it comes the second time.
class AnswerCache {
 public:
  explicit AnswerCache(std::size_t limit) : limit_(limit) {}

  // Null: it is not there. Counts.
  [[nodiscard]] const std::shared_ptr<const Answer>* find(std::string_view key);
  // Whether an answer of that size is to be kept: the query has come before, as far as is remembered.
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
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const;
  };

  [[nodiscard]] static std::size_t cost(const Entry& entry);

  const std::size_t limit_;
  Order order_;  // the most recently used first
  std::unordered_map<std::string_view, Order::iterator, Hash, std::equal_to<>> entries_;
  std::array<std::uint32_t, 1024> seen_{};  // hashes of queries that have come, by their lowest bits
  Counters counters_;
};

}  // namespace sluice::api::resident

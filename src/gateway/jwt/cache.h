#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "gateway/jwt/verifier.h"

namespace sluice::gateway::jwt {

// Tokens that one core has verified, by their text, most recently used first. Holds at most `max_tokens` and
// `max_bytes`; beyond these, the least recently used token is evicted. Expired tokens are removed by the next look-up.
class Cache {
 public:
  Cache(std::size_t max_tokens, std::size_t max_bytes) : max_tokens_(max_tokens), max_bytes_(max_bytes) {}
  Cache(const Cache&) = delete;

  // Null if the token is not cached or has expired. The pointer is valid until the next call. The time of a look-up
  // does not reveal bytes of cached tokens: bytes are compared only if the whole hash is equal.
  [[nodiscard]] const Verified* find(std::string_view token, double now_s);
  void add(std::string_view token, const Verified& verified);
  void clear();

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct Entry;
  using Entries = std::list<Entry>;
  using ByEnd = std::multimap<double, Entries::iterator>;
  struct Entry {
    std::string token;
    Verified verified;
    std::size_t bytes = 0;
    ByEnd::iterator by_end{};
  };

  void remove(Entries::iterator entry);

  const std::size_t max_tokens_;
  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  Entries entries_;
  std::unordered_map<std::string_view, Entries::iterator> by_token_;  // its keys are the entries' tokens
  ByEnd by_end_;
};

}  // namespace sluice::gateway::jwt

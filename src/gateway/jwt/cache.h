#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gateway/jwt/verifier.h"

namespace sluice::gateway::jwt {

// Tokens that one core has verified, by their text, most recently used first. Holds at most `max_tokens` and
// `max_bytes`. A full cache adds a token only when it comes a second time, and evicts the least recently used one:
// tokens that are used once neither displace others nor cost an insertion. Expired tokens are removed by the next
// look-up.
class Cache {
 public:
  Cache(std::size_t max_tokens, std::size_t max_bytes);
  Cache(const Cache&) = delete;

  // Null if the token is not cached or has expired. The pointer is valid until the next call. The time of a look-up
  // does not reveal bytes of cached tokens: bytes are compared only if the whole hash is equal. Each cache has its own
  // secret seed of the hash.
  [[nodiscard]] const Verified* find(std::string_view token, double now_s);
  void add(std::string_view token, const Verified& verified);
  void clear();

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct Entry;
  using Entries = std::list<Entry>;
  using ByEnd = std::multimap<double, Entries::iterator>;
  // Compares the hash first. With a std::string_view as its key, libstdc++'s std::unordered_map compares the texts of
  // all entries, without their hashes, if there are at most 20.
  struct Key {
    std::uint64_t hash = 0;
    std::string_view token;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept { return key.hash; }
  };
  struct Entry {
    std::string token;
    std::uint64_t hash = 0;
    Verified verified;
    std::size_t bytes = 0;
    ByEnd::iterator by_end{};
  };

  [[nodiscard]] Key key_of(std::string_view token) const;
  // Whether a token with this hash has come lately. Remembers it.
  [[nodiscard]] bool came_before(std::uint64_t hash);
  void remove(Entries::iterator entry);

  const std::size_t max_tokens_;
  const std::size_t max_bytes_;
  std::uint64_t seed_ = 0;
  std::size_t bytes_ = 0;
  Entries entries_;
  std::unordered_map<Key, Entries::iterator, Hash> by_token_;  // its keys are views of the entries' tokens
  ByEnd by_end_;
  std::vector<std::uint64_t> seen_;  // hashes of tokens that came while the cache was full, by their lowest bits
};

}  // namespace sluice::gateway::jwt

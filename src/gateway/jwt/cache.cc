#include "gateway/jwt/cache.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include <openssl/rand.h>
#include <xxhash.h>

namespace sluice::gateway::jwt {
namespace {

constexpr std::size_t entry_bytes = 320;  // an estimate: the entry and its nodes in the three containers
constexpr std::size_t most_seen = 64 * 1024;

}  // namespace

Cache::Cache(std::size_t max_tokens, std::size_t max_bytes) : max_tokens_(max_tokens), max_bytes_(max_bytes) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&seed_), sizeof seed_) != 1) {
    throw std::runtime_error("there is no randomness");
  }
}

Cache::Key Cache::key_of(std::string_view token) const {
  return {.hash = XXH3_64bits_withSeed(token.data(), token.size(), seed_), .token = token};
}

const Verified* Cache::find(std::string_view token, double now_s) {
  while (!by_end_.empty() && by_end_.begin()->first <= now_s) remove(by_end_.begin()->second);
  const auto found = by_token_.find(key_of(token));
  if (found == by_token_.end()) return nullptr;
  const auto entry = found->second;
  if (entry != entries_.begin()) entries_.splice(entries_.begin(), entries_, entry);
  return &entry->verified;
}

void Cache::add(std::string_view token, const Verified& verified) {
  const std::size_t bytes = entry_bytes + token.size() + verified.claims->bytes();
  if (max_tokens_ == 0 || bytes > max_bytes_) return;
  const Key key = key_of(token);
  if (by_token_.contains(key)) return;
  const auto full = [&] { return entries_.size() >= max_tokens_ || bytes_ + bytes > max_bytes_; };
  if (full() && !came_before(key.hash)) return;
  while (full()) remove(std::prev(entries_.end()));
  entries_.push_front({.token = std::string(token), .hash = key.hash, .verified = verified, .bytes = bytes});
  const auto entry = entries_.begin();
  entry->by_end = by_end_.emplace(verified.ends_s, entry);
  by_token_.emplace(Key{.hash = entry->hash, .token = entry->token}, entry);
  bytes_ += bytes;
}

bool Cache::came_before(std::uint64_t hash) {
  if (seen_.empty()) seen_.resize(std::bit_ceil(std::min(max_tokens_, most_seen)));
  std::uint64_t& last = seen_[hash & (seen_.size() - 1)];
  return std::exchange(last, hash) == hash;
}

void Cache::clear() {
  by_token_.clear();
  by_end_.clear();
  entries_.clear();
  bytes_ = 0;
}

void Cache::remove(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_token_.erase({.hash = entry->hash, .token = entry->token});
  by_end_.erase(entry->by_end);
  entries_.erase(entry);
}

}  // namespace sluice::gateway::jwt

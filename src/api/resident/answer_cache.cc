#include "api/resident/answer_cache.h"

#include <stdexcept>
#include <utility>

#include <openssl/rand.h>
#include <xxhash.h>

namespace sluice::api::resident {
namespace {

std::uint64_t make_seed() {
  std::uint64_t seed = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&seed), sizeof seed) != 1) {
    throw std::runtime_error("there is no randomness");
  }
  return seed;
}

}  // namespace

AnswerCache::AnswerCache(std::size_t limit) : limit_(limit), entries_(0, Hash{make_seed()}) {}

std::size_t AnswerCache::Hash::operator()(std::string_view text) const {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

std::size_t AnswerCache::cost(const Entry& entry) {
  constexpr std::size_t around = 256;  // the nodes and the allocator's overhead
  return entry.answer->bytes.capacity() + entry.key.capacity() + around;
}

const std::shared_ptr<const Answer>* AnswerCache::find(std::string_view key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    ++counters_.misses;
    return nullptr;
  }
  ++counters_.hits;
  if (found->second != order_.begin()) order_.splice(order_.begin(), order_, found->second);
  return &found->second->answer;
}

bool AnswerCache::admits(std::string_view key, std::uint64_t size) {
  if (size > limit_ / 8) return false;
  const std::uint64_t hash = entries_.hash_function()(key);
  const auto mark = static_cast<std::uint32_t>(hash >> 32);
  return std::exchange(seen_[hash % seen_.size()], mark) == mark;
}

void AnswerCache::store(std::string_view key, std::shared_ptr<const Answer> answer) {
  if (const auto found = entries_.find(key); found != entries_.end()) return;
  order_.push_front({.key = std::string(key), .answer = std::move(answer)});
  entries_.emplace(order_.front().key, order_.begin());
  counters_.bytes += cost(order_.front());
  while (counters_.bytes > limit_ && !order_.empty()) {
    counters_.bytes -= cost(order_.back());
    entries_.erase(order_.back().key);
    order_.pop_back();
  }
}

void AnswerCache::clear() {
  entries_.clear();
  order_.clear();
  seen_ = {};
  counters_.bytes = 0;
}

}  // namespace sluice::api::resident

#include "api/resident/answer_cache.h"

#include <utility>

#include <xxhash.h>

namespace sluice::api::resident {

std::size_t AnswerCache::Hash::operator()(std::string_view text) const { return XXH3_64bits(text.data(), text.size()); }

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
  const std::uint64_t hash = Hash()(key);
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

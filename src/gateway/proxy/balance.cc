#include "gateway/proxy/balance.h"

#include <algorithm>
#include <cmath>

#include <xxhash.h>

namespace sluice::gateway {
namespace {

// The finalizer of SplitMix64.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// Xorshift.
std::uint64_t draw(std::uint64_t& state, std::uint64_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return mix(state) % below;
}

}  // namespace

std::uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

Choice::Choice(std::span<Candidate* const> all, std::span<const std::uint64_t> tried) : all_(all), tried_(tried) {
  for (const Group group : {Group::regular, Group::backups, Group::not_removed}) {
    group_ = group;
    for (const Candidate* one : all_) total_ += weight(*one);
    if (total_ != 0) return;
  }
}

std::uint64_t Choice::weight(const Candidate& one) const {
  if (!tried_.empty() && std::ranges::find(tried_, one.id) != tried_.end()) return 0;
  if (group_ == Group::not_removed) return one.is_removed ? 0 : std::uint64_t{one.weight} * 100;
  return one.is_backup == (group_ == Group::backups) ? std::uint64_t{one.weight} * one.share : 0;
}

Candidate* Choice::round_robin() const {
  Candidate* best = nullptr;
  for (Candidate* one : all_) {
    const auto own = static_cast<std::int64_t>(weight(*one));
    if (own == 0) continue;
    one->current += own;
    if (best == nullptr || one->current > best->current) best = one;
  }
  if (best != nullptr) best->current -= static_cast<std::int64_t>(total_);
  return best;
}

Candidate* Choice::at(std::uint64_t place, const Candidate* skipped) const {
  for (Candidate* one : all_) {
    if (one == skipped) continue;
    const std::uint64_t own = weight(*one);
    if (place < own) return one;
    place -= own;
  }
  return nullptr;
}

Candidate* Choice::least(std::uint64_t& random) const {
  if (total_ == 0) return nullptr;
  Candidate* const first = at(draw(random, total_), nullptr);
  const std::uint64_t others = total_ - weight(*first);
  if (others == 0) return first;
  Candidate* const second = at(draw(random, others), first);
  const bool has_fewer = second->in_flight * weight(*first) < first->in_flight * weight(*second);
  return has_fewer ? second : first;
}

Candidate* Choice::hash(std::uint64_t key) const {
  Candidate* best = nullptr;
  double highest = 0;
  for (Candidate* one : all_) {
    const std::uint64_t own = weight(*one);
    if (own == 0) continue;
    // Between 0 and 1, exclusive.
    const double place = (static_cast<double>(mix(key ^ one->id) >> 11) + 0.5) * 0x1p-53;
    const double mark = static_cast<double>(own) / -std::log(place);
    if (best != nullptr && mark <= highest) continue;
    best = one;
    highest = mark;
  }
  return best;
}

}  // namespace sluice::gateway

#include "http/compress/cache.h"

#include <algorithm>
#include <utility>

namespace sluice::http::compress {
namespace {

constexpr std::size_t form_bytes = 512;  // overhead of a form and its entries in the list and the table

bool is_weak_form(std::string_view weak_tag, std::string_view tag) {
  return weak_tag.size() == tag.size() + 2 && weak_tag.ends_with(tag);
}

}  // namespace

std::size_t Cache::Hash::operator()(const Key& key) const noexcept {
  std::uint64_t hash = std::hash<const void*>{}(key.owner);
  for (const std::uint64_t part : {key.begin, key.size}) {
    hash = (hash ^ part) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
  }
  return hash;
}

Cache::List::iterator Cache::drop(List::iterator kept) {
  bytes_ -= kept->cost;
  by_key_.erase(kept->key);
  return list_.erase(kept);
}

std::shared_ptr<const Cache::Form> Cache::find(const Source& source, Coding coding) {
  const auto found = by_key_.find(key_of(source));
  if (found == by_key_.end() || !found->second->is_of(source.owner)) return nullptr;
  const auto& form = found->second->forms[static_cast<std::size_t>(coding)];
  if (!form || !is_weak_form(form->weak_tag, source.tag)) return nullptr;
  list_.splice(list_.begin(), list_, found->second);
  return form;
}

bool Cache::reserve(const Source& source, Coding coding) {
  if (limit_ == 0) return false;
  const std::pair making(key_of(source), coding);
  if (std::ranges::find(being_made_, making) != being_made_.end()) return false;
  being_made_.push_back(making);
  return true;
}

void Cache::abandon(const Source& source, Coding coding) { std::erase(being_made_, std::pair(key_of(source), coding)); }

std::shared_ptr<const Cache::Form> Cache::store(const Source& source, Coding coding, Buffer&& bytes) {
  abandon(source, coding);
  if (limit_ == 0 || bytes.size() > most_bytes()) return nullptr;
  for (auto kept = list_.begin(); kept != list_.end();) kept = kept->owner.expired() ? drop(kept) : std::next(kept);

  auto form = std::make_shared<Form>();
  form->weak_tag = "W/" + std::string(source.tag);
  if (bytes.capacity() - bytes.size() > bytes.size() / 4) {  // the buffer was allocated for the worst case
    form->bytes = Buffer(bytes.size());
    form->bytes.append(bytes.view());
  } else {
    form->bytes = std::move(bytes);
  }
  const std::size_t cost = form->bytes.capacity() + form_bytes;

  const Key key = key_of(source);
  if (const auto found = by_key_.find(key); found == by_key_.end()) {
    list_.push_front({.key = key, .owner = source.owner, .cost = 0, .forms = {}});
    by_key_.emplace(key, list_.begin());
  } else {
    list_.splice(list_.begin(), list_, found->second);
  }
  Kept& kept = list_.front();
  auto& place = kept.forms[static_cast<std::size_t>(coding)];
  if (place) {
    const std::size_t replaced = place->bytes.capacity() + form_bytes;
    kept.cost -= replaced;
    bytes_ -= replaced;
  }
  place = form;
  kept.cost += cost;
  bytes_ += cost;
  while (bytes_ > limit_) drop(std::prev(list_.end()));
  return form;
}

}  // namespace sluice::http::compress

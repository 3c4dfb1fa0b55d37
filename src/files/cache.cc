#include "files/cache.h"

#include <utility>

namespace sluice::files {

void Cache::store(std::string_view path, Content content, Instant now) {
  erase(path);
  Entry entry{.path = std::string(path), .content = std::move(content), .checked = now};
  for (const auto& file : entry.content.files) {
    if (!file) continue;
    ++entry.files;
    entry.bytes += file->bytes.size();
  }
  if (entry.files > limits_.files || entry.bytes > limits_.bytes) return;
  while (counters_.files + entry.files > limits_.files || counters_.bytes + entry.bytes > limits_.bytes) {
    remove(by_path_.find(entries_.back().path));
  }
  counters_.files += entry.files;
  counters_.bytes += entry.bytes;
  entries_.push_front(std::move(entry));
  by_path_.emplace(entries_.front().path, entries_.begin());
}

Readings Cache::Counters::readings() const {
  return {
      counter("sluice_files_cache_hits_total", "Requests for files answered from the cache as it was.", hits),
      counter("sluice_files_cache_misses_total", "Requests for files that were looked up, or for a change.", misses),
      gauge("sluice_files_cache_files", "Files in memory or open in the cache.", files),
      gauge("sluice_files_cache_bytes", "Bytes of the files in memory in the cache.", bytes),
  };
}

void Cache::erase(std::string_view path) {
  if (const auto known = by_path_.find(path); known != by_path_.end()) remove(known);
}

void Cache::remove(ByPath::iterator known) {
  const auto entry = known->second;
  counters_.files -= entry->files;
  counters_.bytes -= entry->bytes;
  by_path_.erase(known);
  entries_.erase(entry);
}

}  // namespace sluice::files

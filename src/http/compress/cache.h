#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/buffer.h"
#include "http/compress/options.h"

namespace sluice::http::compress {

// Caches compressed forms of immutable bytes, such as files, on one core. A source is identified by the object that
// owns its bytes, not by its name or tag: two files may have the same tag, and a name may later mean another file. The
// cache does not keep the owner alive. The forms become useless when the owner is destroyed.
class Cache {
 public:
  struct Source {
    std::shared_ptr<const void> owner;
    std::uint64_t begin = 0;  // an address, or an offset in the file
    std::uint64_t size = 0;
    std::string_view tag;  // its strong ETag
  };
  struct Form {
    std::string weak_tag;
    Buffer bytes;
  };

  explicit Cache(std::size_t limit) : limit_(limit) {}

  // The size of the longest form that the cache stores.
  [[nodiscard]] std::size_t most_bytes() const { return limit_ / 8; }

  // Returns null if the form is not in the cache.
  [[nodiscard]] std::shared_ptr<const Form> find(const Source& source, Coding coding);
  // For a caller that compresses piece by piece. Returns true only to the first caller, which must then call store() or
  // abandon().
  [[nodiscard]] bool reserve(const Source& source, Coding coding);
  void abandon(const Source& source, Coding coding);
  // Evicts the least recently used sources if there is no room. Returns null and leaves `bytes` unchanged if they are
  // longer than most_bytes().
  std::shared_ptr<const Form> store(const Source& source, Coding coding, Buffer&& bytes);

  // The total cost of the stored forms, and the number of their sources.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return by_key_.size(); }

 private:
  struct Key {
    const void* owner;
    std::uint64_t begin;
    std::uint64_t size;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Kept {
    Key key;
    std::weak_ptr<const void> owner;
    std::size_t cost = 0;
    std::array<std::shared_ptr<const Form>, coding_count> forms;

    // Compares owners, because a later source may have the same address.
    [[nodiscard]] bool is_of(const std::shared_ptr<const void>& other) const {
      return !owner.owner_before(other) && !other.owner_before(owner);
    }
  };
  using List = std::list<Kept>;
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept;
  };

  static Key key_of(const Source& source) { return {source.owner.get(), source.begin, source.size}; }
  List::iterator drop(List::iterator kept);

  const std::size_t limit_;
  std::size_t bytes_ = 0;
  List list_;  // the most recently used one is the first
  std::unordered_map<Key, List::iterator, Hash> by_key_;
  std::vector<std::pair<Key, Coding>> being_made_;  // few: each has an encoder
};

}  // namespace sluice::http::compress

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

// One core's compressed forms of bytes that do not change: files. A source is known by what keeps it in memory, not by
// its name or its tag: two files may have the same tag, and the same name may mean another file tomorrow. Its forms do
// not keep it alive, and are of no use when nobody does.
class Cache {
 public:
  struct Source {
    std::shared_ptr<const void> owner;
    std::uint64_t begin = 0;  // an address, or an offset in the file
    std::uint64_t size = 0;
    std::string_view tag;  // its ETag, a strong one
  };
  struct Form {
    std::string weak_tag;
    Buffer bytes;
  };

  explicit Cache(std::size_t limit) : limit_(limit) {}

  // The longest form that is kept.
  [[nodiscard]] std::size_t most_bytes() const { return limit_ / 8; }

  // Null: it is not there.
  [[nodiscard]] std::shared_ptr<const Form> find(const Source& source, Coding coding);
  // For one who makes a form piece by piece: true for the first alone, who then calls store() or abandon().
  [[nodiscard]] bool reserve(const Source& source, Coding coding);
  void abandon(const Source& source, Coding coding);
  // Drops the sources that were used longest ago where there is no room. Null: it is longer than
  // what is kept, and `bytes` are as they were.
  std::shared_ptr<const Form> store(const Source& source, Coding coding, Buffer&& bytes);

  // What is kept, by its cost, and of how many sources.
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

    // Another one may have its address when it is gone.
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
  List list_;  // the one that was used last goes first
  std::unordered_map<Key, List::iterator, Hash> by_key_;
  std::vector<std::pair<Key, Coding>> being_made_;  // few: each has an encoder
};

}  // namespace sluice::http::compress

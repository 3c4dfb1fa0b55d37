// Hash maps with the keys of our look-ups. docs/decisions/0021-hash-maps.md has the figures.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <benchmark/benchmark.h>
#include <boost/unordered/unordered_flat_map.hpp>
#include <tsl/robin_map.h>
#include <xxhash.h>

namespace {

using Value = const void*;

template <class K>
using Std = std::unordered_map<typename K::Key, Value, typename K::Hash>;
template <class K>
using Boost = boost::unordered_flat_map<typename K::Key, Value, typename K::Hash>;
template <class K>
using Robin = tsl::robin_map<typename K::Key, Value, typename K::Hash, std::equal_to<>>;
template <class K>
using Absl = absl::flat_hash_map<typename K::Key, Value, typename K::Hash, std::equal_to<>>;

std::uint64_t random_number() {
  static std::mt19937_64 random(7);
  return random();
}

struct Xxh3 {
  std::uint64_t operator()(std::string_view text) const noexcept {
    return XXH3_64bits_withSeed(text.data(), text.size(), 4711);
  }
};

// The texts of all keys, one behind the other.
template <class HashOf, std::size_t size, bool is_token>
struct Text {
  using Key = std::string_view;
  using Hash = HashOf;

  static const Key& of(const Key& text) { return text; }
  static void append(std::string& texts) {
    const std::size_t begin = texts.size();
    texts += is_token ? "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6IjEifQ." : "/assets/";
    while (texts.size() < begin + size) texts += "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef"[random_number() % 32];
  }
  static std::vector<Key> keys(std::string& texts, std::size_t count) {
    texts.reserve(texts.size() + count * size);
    for (std::size_t i = 0; i < count; ++i) append(texts);
    std::vector<Key> keys;
    for (std::size_t i = 0; i < count; ++i) keys.push_back(std::string_view(texts).substr(i * size, size));
    return keys;
  }
};
using Token = Text<std::hash<std::string_view>, 700, true>;
using TokenXxh3 = Text<Xxh3, 700, true>;
using Path = Text<std::hash<std::string_view>, 20, false>;
using PathXxh3 = Text<Xxh3, 20, false>;

// The map's key has its hash, so the hashes are compared before the texts.
struct TokenHashed {
  struct Key {
    std::uint64_t hash = 0;
    std::string_view text;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept { return key.hash; }
  };
  static Key of(const Key& key) { return {.hash = Xxh3()(key.text), .text = key.text}; }
  static std::vector<Key> keys(std::string& texts, std::size_t count) {
    std::vector<Key> keys;
    for (const auto text : Token::keys(texts, count)) keys.push_back(of({.text = text}));
    return keys;
  }
};

// 32 bytes that are random already.
struct Digest {
  using Key = std::array<std::uint64_t, 4>;
  static const Key& of(const Key& key) { return key; }
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept { return key[0]; }
  };
  static std::vector<Key> keys(std::string&, std::size_t count) {
    std::vector<Key> keys(count);
    for (Key& key : keys) std::ranges::generate(key, random_number);
    return keys;
  }
};

// Numbers that are counted up.
struct Id {
  using Key = std::uint64_t;
  using Hash = std::hash<std::uint64_t>;
  static Key of(Key key) { return key; }
  static std::vector<Key> keys(std::string&, std::size_t count) {
    static std::uint64_t last = 0;
    std::vector<Key> keys(count);
    std::ranges::generate(keys, [] { return ++last; });
    return keys;
  }
};

// `count` entries, the same keys at other addresses and in another order, and as many keys that have no entry.
template <class K, template <class> class Map>
struct Filled {
  explicit Filled(std::size_t count) : keys(K::keys(texts, count)), others(K::keys(other_texts, count)), asked(keys) {
    std::ranges::shuffle(asked, std::mt19937(7));
    const auto move_texts = [&](auto member) {
      for (auto& key : asked) asked_texts += member(key);
      std::size_t at = 0;
      for (auto& key : asked) {
        std::string_view& text = member(key);
        text = std::string_view(asked_texts).substr(at, text.size());
        at += text.size();
      }
    };
    if constexpr (std::is_same_v<K, TokenHashed>) move_texts([](auto& key) -> std::string_view& { return key.text; });
    if constexpr (std::is_same_v<typename K::Key, std::string_view>) {
      move_texts([](auto& key) -> std::string_view& { return key; });
    }
    fill(map);
  }
  void fill(Map<K>& into) const {
    for (const auto& key : keys) into.emplace(key, &key);
  }

  std::string texts, other_texts, asked_texts;
  std::vector<typename K::Key> keys, others, asked;
  Map<K> map;
};

template <class K, template <class> class Map>
void look_up(benchmark::State& state, bool hit) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const Filled<K, Map> filled(count);
  const auto& asked = hit ? filled.asked : filled.others;
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(filled.map.find(K::of(asked[at])) != filled.map.end());
    if (++at == count) at = 0;
  }
}

template <class K, template <class> class Map>
void hit(benchmark::State& state) {
  look_up<K, Map>(state, true);
}

template <class K, template <class> class Map>
void miss(benchmark::State& state) {
  look_up<K, Map>(state, false);
}

// An empty map grows to all entries; the time is of one entry, with its part of destroying the map.
template <class K, template <class> class Map>
void insert(benchmark::State& state) {
  const Filled<K, Map> filled(static_cast<std::size_t>(state.range(0)));
  while (state.KeepRunningBatch(state.range(0))) {
    Map<K> map;
    filled.fill(map);
    benchmark::DoNotOptimize(map.size());
  }
}

// An entry goes and another comes, as in a cache that is full.
template <class K, template <class> class Map>
void erase(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  Filled<K, Map> filled(count);
  std::vector<typename K::Key>*in = &filled.keys, *out = &filled.others;
  std::size_t at = 0;
  for (auto _ : state) {
    filled.map.erase((*in)[at]);
    filled.map.emplace(K::of((*out)[at]), nullptr);
    if (++at == count) {
      at = 0;
      std::swap(in, out);
    }
  }
}

// The time is of one entry.
template <class K, template <class> class Map>
void iterate(benchmark::State& state) {
  const Filled<K, Map> filled(static_cast<std::size_t>(state.range(0)));
  while (state.KeepRunningBatch(state.range(0))) {
    std::uintptr_t sum = 0;
    for (const auto& [key, value] : filled.map) sum += reinterpret_cast<std::uintptr_t>(value);
    benchmark::DoNotOptimize(sum);
  }
}

template <class K>
void hash(benchmark::State& state) {
  std::string texts;
  const auto keys = K::keys(texts, 64);
  std::size_t at = 0;
  for (auto _ : state) benchmark::DoNotOptimize(typename K::Hash()(keys[at++ % 64]));
}

#define MAPS(operation, key)                                                    \
  BENCHMARK_TEMPLATE(operation, key, Std)->Arg(10)->Arg(1'000)->Arg(100'000);   \
  BENCHMARK_TEMPLATE(operation, key, Boost)->Arg(10)->Arg(1'000)->Arg(100'000); \
  BENCHMARK_TEMPLATE(operation, key, Robin)->Arg(10)->Arg(1'000)->Arg(100'000); \
  BENCHMARK_TEMPLATE(operation, key, Absl)->Arg(10)->Arg(1'000)->Arg(100'000)
#define OPERATIONS(key) \
  MAPS(hit, key);       \
  MAPS(miss, key);      \
  MAPS(insert, key);    \
  MAPS(erase, key);     \
  MAPS(iterate, key)

OPERATIONS(Token);
OPERATIONS(TokenXxh3);
OPERATIONS(TokenHashed);
OPERATIONS(Path);
OPERATIONS(PathXxh3);
OPERATIONS(Digest);
OPERATIONS(Id);
BENCHMARK_TEMPLATE(hash, Token);
BENCHMARK_TEMPLATE(hash, TokenXxh3);
BENCHMARK_TEMPLATE(hash, Path);
BENCHMARK_TEMPLATE(hash, PathXxh3);

}  // namespace

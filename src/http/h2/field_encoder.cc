#include "http/h2/field_encoder.h"

#include <algorithm>
#include <cstring>

#include "base/ascii.h"
#include "base/assert.h"
#include "base/copy.h"
#include "core/slab.h"
#include "http/fields.h"

namespace sluice::http::h2 {
namespace {

constexpr std::size_t static_entries = 61;
constexpr std::size_t none = SIZE_MAX;

// The first byte of an index or a length (RFC 7541, 6).
struct Prefix {
  std::uint8_t pattern;
  std::uint8_t bits;
};
constexpr Prefix indexed{0x80, 7};
constexpr Prefix with_indexing{0x40, 6};
constexpr Prefix without_indexing{0x00, 4};
constexpr Prefix plain_string{0x00, 7};
constexpr std::size_t most_integer_bytes = 11;

// Writes an integer (RFC 7541, 5.1).
char* put_integer(char* to, Prefix prefix, std::size_t value) {
  const std::size_t most = (std::size_t{1} << prefix.bits) - 1;
  if (value < most) {
    *to++ = static_cast<char>(prefix.pattern | value);
    return to;
  }
  *to++ = static_cast<char>(prefix.pattern | most);
  for (value -= most; value >= 128; value >>= 7) *to++ = static_cast<char>(value | 128);
  *to++ = static_cast<char>(value);
  return to;
}

char* put_string(char* to, std::string_view text) {
  to = put_integer(to, plain_string, text.size());
  return copy_short(to, text);
}

char* put_lower_case(char* to, std::string_view token) {
  return std::ranges::transform(token, to, [](char c) { return to_lower(c); }).out;
}

// Names of response fields in the static table (RFC 7541, appendix A).
enum KnownName : unsigned {
  unknown = 0,
  status = 8,
  accept_ranges = 18,
  access_control_allow_origin = 20,
  age = 21,
  allow = 22,
  cache_control = 24,
  content_disposition = 25,
  content_encoding = 26,
  content_language = 27,
  content_length = 28,
  content_location = 29,
  content_range = 30,
  content_type = 31,
  date = 33,
  etag = 34,
  expires = 36,
  last_modified = 44,
  link = 45,
  location = 46,
  proxy_authenticate = 48,
  refresh = 52,
  retry_after = 53,
  server = 54,
  set_cookie = 55,
  strict_transport_security = 56,
  vary = 59,
  via = 60,
  www_authenticate = 61,
};

KnownName known_name(std::string_view name) {
  const auto is = [name](std::string_view other) { return same_name(name, other); };
  switch (name.size()) {
    case 3:
      return is("age") ? age : is("via") ? via : unknown;
    case 4:
      return is("date") ? date : is("etag") ? etag : is("vary") ? vary : is("link") ? link : unknown;
    case 5:
      return is("allow") ? allow : unknown;
    case 6:
      return is("server") ? server : unknown;
    case 7:
      return is("expires") ? expires : is("refresh") ? refresh : unknown;
    case 8:
      return is("location") ? location : unknown;
    case 10:
      return is("set-cookie") ? set_cookie : unknown;
    case 11:
      return is("retry-after") ? retry_after : unknown;
    case 12:
      return is("content-type") ? content_type : unknown;
    case 13:
      return is("last-modified")   ? last_modified
             : is("cache-control") ? cache_control
             : is("accept-ranges") ? accept_ranges
             : is("content-range") ? content_range
                                   : unknown;
    case 14:
      return is("content-length") ? content_length : unknown;
    case 16:
      return is("content-encoding")     ? content_encoding
             : is("content-language")   ? content_language
             : is("content-location")   ? content_location
             : is("www-authenticate")   ? www_authenticate
             : is("proxy-authenticate") ? proxy_authenticate
                                        : unknown;
    case 19:
      return is("content-disposition") ? content_disposition : unknown;
    case 25:
      return is("strict-transport-security") ? strict_transport_security : unknown;
    case 27:
      return is("access-control-allow-origin") ? access_control_allow_origin : unknown;
    default:
      return unknown;
  }
}

template <class Word>
std::uint64_t load(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

std::uint64_t hash_more(std::uint64_t hash, std::string_view text, std::uint64_t fold) {
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ (word | fold)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  };
  const char* const begin = text.data();
  const std::size_t size = text.size();
  if (size >= 8) {
    for (std::size_t at = 0; at + 8 < size; at += 8) mix(load<std::uint64_t>(begin + at));
    mix(load<std::uint64_t>(begin + size - 8));
  } else if (size >= 4) {
    mix(load<std::uint32_t>(begin) << 32 | load<std::uint32_t>(begin + size - 4));
  } else if (size != 0) {
    const auto byte = [&](std::size_t at) { return static_cast<std::uint64_t>(static_cast<unsigned char>(begin[at])); };
    mix(byte(0) << 16 | byte(size / 2) << 8 | byte(size - 1));
  }
  return hash;
}

// Sets the bit that distinguishes lower case from upper case. Among the other token characters, this makes only '^' and
// '~' equal.
constexpr std::uint64_t case_bits = 0x2020'2020'2020'2020;
bool has_no_case(char c) { return c == '^' || c == '~'; }

std::uint64_t hash_of(std::string_view name, std::string_view value) {
  const std::uint64_t seed = name.size() << 32 | value.size();
  return hash_more(hash_more(seed, name, case_bits), value, 0);
}

// Whether the b.size() bytes at `a` equal `b`.
bool same(const char* a, std::string_view b, std::uint64_t fold) {
  const std::size_t size = b.size();
  if (size >= 8) {
    std::uint64_t difference = 0;
    const auto compare = [&](std::size_t at) {
      difference |= (load<std::uint64_t>(a + at) | fold) ^ (load<std::uint64_t>(b.data() + at) | fold);
    };
    for (std::size_t at = 0; at + 8 < size; at += 8) compare(at);
    compare(size - 8);
    return difference == 0;
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (((a[i] ^ b[i]) & ~static_cast<char>(fold)) != 0) return false;
  }
  return true;
}

}  // namespace

void FieldEncoder::add(Buffer& out, std::string_view name, std::string_view value) {
  const std::uint64_t hash = hash_of(name, value);
  char* const begin = out.reserve(name.size() + value.size() + 3 * most_integer_bytes);
  char* to = begin;
  if (const std::size_t found = uses_table_ ? find(hash, name, value) : none; found != none) {
    to = put_integer(to, indexed, static_entries + end_ - found);
  } else {
    const KnownName known = known_name(name);
    const bool is_kept = uses_table_ && std::ranges::none_of(name, has_no_case) &&
                         is_worth_an_entry(hash, known, name.size() + value.size() + entry_overhead);
    to = put_integer(to, is_kept ? with_indexing : without_indexing, known);
    if (known == unknown) to = put_lower_case(put_integer(to, plain_string, name.size()), name);
    to = put_string(to, value);
    if (is_kept) insert(hash, name, value);
  }
  out.commit(static_cast<std::size_t>(to - begin));
}

void FieldEncoder::add_status(Buffer& out, int code) {
  const auto known = [&](char index) { out.push_back(static_cast<char>(0x80 | index)); };
  switch (code) {
    case 200:
      return known(8);
    case 204:
      return known(9);
    case 206:
      return known(10);
    case 304:
      return known(11);
    case 400:
      return known(12);
    case 404:
      return known(13);
    case 500:
      return known(14);
    default:
      const char digits[] = {static_cast<char>('0' + code / 100), static_cast<char>('0' + code / 10 % 10),
                             static_cast<char>('0' + code % 10)};
      char* const begin = out.reserve(8);
      out.commit(static_cast<std::size_t>(
          put_string(put_integer(begin, without_indexing, status), {digits, sizeof digits}) - begin));
  }
}

void FieldEncoder::resize(std::size_t bytes) {
  most_bytes_ = std::min(bytes, most_table_bytes);
  evict_to(most_bytes_);
}

// Returns the number of the entry.
std::size_t FieldEncoder::find(std::uint64_t hash, std::string_view name, std::string_view value) const {
  for (std::size_t n = end_; n != oldest_;) {
    const std::size_t at = --n % most_entries;
    if (hashes_[at] != static_cast<std::uint32_t>(hash)) continue;
    const Entry& entry = entries_[at];
    if (entry.name_size != name.size() || entry.value_size != value.size()) continue;
    if (same(entry.text, name, case_bits) && same(entry.text + entry.name_size, value, 0)) return n;
  }
  return none;
}

bool FieldEncoder::is_worth_an_entry(std::uint64_t hash, unsigned known, std::size_t size) {
  if (size > most_bytes_ / 4) return false;
  switch (known) {
    case set_cookie:  // secret and different in every response
      return false;
    case age:
    case content_length:
    case content_range:
    case etag:
    case expires:
    case last_modified:
    case location: {
      std::uint16_t& place = seen_once_[hash >> 58];
      const auto tag = static_cast<std::uint16_t>(hash >> 32 | 1);
      if (place == tag) return true;
      place = tag;
      return false;
    }
    default:
      return true;
  }
}

void FieldEncoder::insert(std::uint64_t hash, std::string_view name, std::string_view value) {
  const std::size_t size = name.size() + value.size();
  evict_to(most_bytes_ - size - entry_overhead);
  SLUICE_ASSERT(end_ - oldest_ < most_entries);
  const Entry entry{static_cast<char*>(core::slab_allocate(size)), static_cast<std::uint16_t>(name.size()),
                    static_cast<std::uint16_t>(value.size())};
  static_cast<void>(copy_short(put_lower_case(entry.text, name), value));
  const std::size_t at = end_++ % most_entries;
  entries_[at] = entry;
  hashes_[at] = static_cast<std::uint32_t>(hash);
  bytes_ += size + entry_overhead;
}

void FieldEncoder::evict_to(std::size_t bytes) {
  while (bytes_ > bytes) {
    const Entry& entry = entries_[oldest_++ % most_entries];
    const std::size_t size = std::size_t{entry.name_size} + entry.value_size;
    core::slab_free(entry.text, size);
    bytes_ -= size + entry_overhead;
  }
}

}  // namespace sluice::http::h2

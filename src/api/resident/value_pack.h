#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Packs values into fewer bytes than their texts: whole numbers, decimals, dates, timestamps and UUIDs in the
// databases' usual notation. A text is packed only if unpacking gives exactly the same text.
namespace sluice::api::resident {

// The first byte of a packed value: its type, and often its length. PackedRows handles words.
//
//   00          NULL
//   01          text: its size as 4 bytes, and its bytes
//   02          of another form: the form, then as 01
//   03          UUID: 16 bytes
//   04          date: days since 1970 as 3 bytes
//   05 06       timestamp since 1970: whole seconds as 5 bytes (05), or microseconds as 8 bytes (06)
//   07 08       as 05 and 06, followed by the hours of the zone as a byte
//   09 0a       a word: its number as 1 byte, or as 2
//   10 + n      a whole number of n bytes
//   20 + n      a decimal: the number of digits after the point, and all digits as a whole number of n bytes
//   30 ... 4f   a whole number from 0 to 31
//   50 ... 7f   one of the first words
//   80 ... ff   text of up to 127 bytes
//
// Numbers are signed and little-endian.
namespace pack {
inline constexpr unsigned char null = 0x00;
inline constexpr unsigned char text = 0x01;
inline constexpr unsigned char other = 0x02;
inline constexpr unsigned char uuid = 0x03;
inline constexpr unsigned char date = 0x04;
inline constexpr unsigned char seconds = 0x05;
inline constexpr unsigned char microseconds = 0x06;
inline constexpr unsigned char seconds_zone = 0x07;
inline constexpr unsigned char microseconds_zone = 0x08;
inline constexpr unsigned char word1 = 0x09;
inline constexpr unsigned char word2 = 0x0a;
inline constexpr unsigned char integer = 0x10;
inline constexpr unsigned char decimal = 0x20;
inline constexpr unsigned char small = 0x30;
inline constexpr unsigned char word = 0x50;
inline constexpr unsigned char short_text = 0x80;
}  // namespace pack

// The maximum size of an unpacked value, except for texts.
inline constexpr std::size_t most_unpacked = 48;

// Packs a whole number or a decimal of up to 18 digits. Returns false, and appends nothing, for any other text.
[[nodiscard]] bool append_packed_number(std::string_view text, std::string& out);
// The same for a date, a timestamp or a UUID.
[[nodiscard]] bool append_packed_time_or_uuid(std::string_view text, std::string& out);

// is_packed_number: whether a value with this first byte is a whole number or a decimal. packed_size: the number of
// bytes after the first.
[[nodiscard]] constexpr bool is_packed_number(unsigned char head) { return head > pack::integer && head < pack::word; }
[[nodiscard]] constexpr std::size_t packed_size(unsigned char head) {
  switch (head) {
    case pack::uuid:
      return 16;
    case pack::date:
      return 3;
    case pack::seconds:
      return 5;
    case pack::seconds_zone:
      return 6;
    case pack::microseconds:
      return 8;
    case pack::microseconds_zone:
      return 9;
    default:
      if (head < pack::decimal) return head - pack::integer;
      return head < pack::small ? head - pack::decimal + 1u : 0;
  }
}
// Writes the value's text to `out`, which has room for most_unpacked bytes, and returns the end of the text. `from`
// points to the bytes after the first one.
[[nodiscard]] char* unpack_value(unsigned char head, const char* from, char* out);

}  // namespace sluice::api::resident

#include "api/resident/value_pack.h"

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace sluice::api::resident {
namespace {

// The unpacked text and the packed size. Empty if the text was not packed.
struct Packed {
  std::string text;
  std::size_t size = 0;
};

std::optional<Packed> packed(std::string_view text, bool (*append)(std::string_view, std::string&)) {
  std::string bytes = "before";
  if (!append(text, bytes)) {
    EXPECT_EQ(bytes, "before") << text;
    return std::nullopt;
  }
  bytes.erase(0, 6);
  const auto head = static_cast<unsigned char>(bytes[0]);
  EXPECT_EQ(packed_size(head), bytes.size() - 1) << text;
  EXPECT_EQ(is_packed_number(head), append == append_packed_number) << text;
  // Memory of exactly this size, so that the sanitizer finds a read or write past its end.
  const auto from = std::make_unique<char[]>(bytes.size() - 1);
  if (bytes.size() > 1) std::memcpy(from.get(), bytes.data() + 1, bytes.size() - 1);
  const auto out = std::make_unique<char[]>(most_unpacked);
  const char* const end = unpack_value(head, from.get(), out.get());
  return Packed{.text = std::string(out.get(), static_cast<std::size_t>(end - out.get())), .size = bytes.size()};
}

void expect_packed(std::string_view text, bool (*append)(std::string_view, std::string&), std::size_t size) {
  const auto made = packed(text, append);
  ASSERT_TRUE(made) << text;
  EXPECT_EQ(made->text, text);
  EXPECT_EQ(made->size, size) << text;
}

TEST(ValuePack, Numbers) {
  const auto number = append_packed_number;
  expect_packed("0", number, 1);
  expect_packed("31", number, 1);
  expect_packed("32", number, 2);
  expect_packed("127", number, 2);
  expect_packed("128", number, 3);
  expect_packed("-1", number, 2);
  expect_packed("-128", number, 2);
  expect_packed("-129", number, 3);
  expect_packed("32767", number, 3);
  expect_packed("32768", number, 4);
  expect_packed("1000000", number, 4);
  expect_packed("4294967296", number, 6);
  expect_packed("999999999999999999", number, 9);
  expect_packed("-999999999999999999", number, 9);
  expect_packed("1.50", number, 4);
  expect_packed("-2.25", number, 4);
  expect_packed("0.0", number, 3);
  expect_packed("0.5", number, 3);
  expect_packed("-0.001", number, 3);
  expect_packed("19.99", number, 4);
  expect_packed("0.12345678901234567", number, 9);
  expect_packed("12345.000000000000", number, 9);
  for (const char* const text : {"",
                                 "-",
                                 "-0",
                                 "-0.0",
                                 "00",
                                 "01",
                                 "+1",
                                 ".5",
                                 "1.",
                                 "1e5",
                                 "1E5",
                                 " 1",
                                 "1 ",
                                 "0x1",
                                 "NaN",
                                 "Infinity",
                                 "1.2.3",
                                 "1,5",
                                 "9223372036854775807",
                                 "1234567890123456789",
                                 "0.1234567890123456789",
                                 "-.5",
                                 "--1"}) {
    EXPECT_FALSE(packed(text, number)) << text;
  }
}

TEST(ValuePack, DatesTimestampsAndUuids) {
  const auto other = append_packed_time_or_uuid;
  expect_packed("2026-11-22", other, 4);
  expect_packed("1970-01-01", other, 4);
  expect_packed("0001-01-01", other, 4);
  expect_packed("0000-02-29", other, 4);
  expect_packed("9999-12-31", other, 4);
  expect_packed("2026-11-22 18:30:00", other, 6);
  expect_packed("0001-01-01 00:00:00", other, 6);
  expect_packed("9999-12-31 23:59:59", other, 6);
  expect_packed("2026-11-22 18:30:00.5", other, 9);
  expect_packed("1969-12-31 23:59:59.999999", other, 9);
  expect_packed("0001-01-01 00:00:00.000001", other, 9);
  expect_packed("2026-11-22 18:30:00+00", other, 7);
  expect_packed("2026-11-22 18:30:00-12", other, 7);
  expect_packed("2026-11-22 18:30:00.123456+14", other, 10);
  expect_packed("00000000-0000-0000-0000-000000000000", other, 17);
  expect_packed("0189abcd-ef01-7234-89ab-cdef01234567", other, 17);
  for (const char* const text : {"",
                                 "2026-02-29",
                                 "2026-13-01",
                                 "2026-00-01",
                                 "2026-11-00",
                                 "2026/11/22",
                                 "20261122..",
                                 "2026-11-22T18:30:00",
                                 "2026-11-22 24:00:00",
                                 "2026-11-22 18:60:00",
                                 "2026-11-22 18:30:60",
                                 "2026-11-22 18:30",
                                 "2026-11-22 18:30:00.",
                                 "2026-11-22 18:30:00.50",
                                 "2026-11-22 18:30:00.0",
                                 "2026-11-22 18:30:00.1234567",
                                 "2026-11-22 18:30:00Z",
                                 "2026-11-22 18:30:00-00",
                                 "2026-11-22 18:30:00+01:30",
                                 "2026-11-22 18:30:00+1",
                                 "2026-11-22 18:30:00 BC",
                                 "0044-03-15 BC",
                                 "infinity",
                                 "0189ABCD-ef01-7234-89ab-cdef01234567",
                                 "0189abcd-ef01-7234-89ab-cdef0123456",
                                 "0189abcdxef01-7234-89ab-cdef01234567",
                                 "0189abcd-ef01-7234-89ab-cdef0123456g"}) {
    EXPECT_FALSE(packed(text, other)) << text;
  }
}

// For texts that are almost values, unpacking gives the original text too.
TEST(ValuePack, AnythingComesOutAsItWentIn) {
  std::mt19937 random(7);
  const std::string_view parts[] = {"2026-11-22", "18:30:00", ".25", "+01", "-",  "0",
                                    "1",          "99999",    ".",   " ",   "00", "T"};
  int kept = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (std::size_t i = random() % 5; i-- > 0;) text += parts[random() % std::size(parts)];
    for (const auto append : {append_packed_number, append_packed_time_or_uuid}) {
      const auto made = packed(text, append);
      if (!made) continue;
      ++kept;
      ASSERT_EQ(made->text, text);
    }
  }
  EXPECT_GT(kept, 1000);
}

}  // namespace
}  // namespace sluice::api::resident

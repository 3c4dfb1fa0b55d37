#include "sql/postgres/messages.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::sql::postgres {
namespace {

using namespace std::string_literals;

std::string u16(unsigned value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }
std::string u32(std::uint32_t value) { return u16(value >> 16) + u16(value & 0xffff); }
std::string message(char type, const std::string& payload) {
  return type + u32(static_cast<std::uint32_t>(payload.size() + 4)) + payload;
}
std::string take(Buffer& out) {
  std::string bytes(out.view());
  out.clear();
  return bytes;
}

TEST(FrameTest, FindsAMessageOnlyWhenItIsWhole) {
  const std::string bytes = message('D', "abc") + "Z";
  for (std::size_t size = 0; size < 8; ++size) {
    Message found;
    EXPECT_EQ(frame(bytes.data(), size, 100, found), Framing::need_more);
    EXPECT_EQ(found.size, size < 5 ? 0u : 8u);
  }
  for (std::size_t size = 8; size <= bytes.size(); ++size) {
    Message found;
    ASSERT_EQ(frame(bytes.data(), size, 8, found), Framing::complete);
    EXPECT_EQ(found.type, 'D');
    EXPECT_EQ(found.payload, "abc");
    EXPECT_EQ(found.size, 8u);
  }
}

TEST(FrameTest, RefusesImpossibleAndOverlongLengths) {
  Message found;
  for (const std::uint32_t length : {0U, 1U, 3U}) {
    const std::string bytes = "D" + u32(length) + "abc";
    EXPECT_EQ(frame(bytes.data(), bytes.size(), 100, found), Framing::malformed) << length;
  }
  const std::string empty = "S" + u32(4);
  EXPECT_EQ(frame(empty.data(), empty.size(), 100, found), Framing::complete);
  EXPECT_EQ(found.payload, "");
  const std::string large = "D" + u32(100);
  EXPECT_EQ(frame(large.data(), large.size(), 100, found), Framing::too_large);
  EXPECT_EQ(frame(large.data(), large.size(), 101, found), Framing::need_more);
  const std::string largest = "D" + u32(0xffffffffU);
  EXPECT_EQ(frame(largest.data(), largest.size(), 1 << 30, found), Framing::too_large);
  EXPECT_EQ(found.size, std::size_t{1} << 32);
}

TEST(CutRowTest, CutsFieldsNullsAndEmptyValues) {
  const std::string row = u16(4) + u32(3) + "abc" + u32(0xffffffffU) + u32(0) + u32(1) + "x";
  Field fields[4];
  ASSERT_TRUE(cut_row(row, 4, fields));
  EXPECT_EQ(fields[0].view(), "abc");
  EXPECT_TRUE(fields[1].is_null());
  EXPECT_FALSE(fields[2].is_null());
  EXPECT_EQ(fields[2].size, 0u);
  EXPECT_EQ(fields[3].view(), "x");
  EXPECT_TRUE(cut_row(u16(0), 0, nullptr));
  // Neither a shorter prefix nor one byte more is a row of four columns.
  for (std::size_t size = 0; size < row.size(); ++size)
    EXPECT_FALSE(cut_row(std::string_view(row).substr(0, size), 4, fields));
  EXPECT_FALSE(cut_row(row + "y", 4, fields));
  EXPECT_FALSE(cut_row(row, 3, fields));
  EXPECT_FALSE(cut_row(u16(1) + u32(0x7fffffffU) + "a", 1, fields));
  EXPECT_FALSE(cut_row(u16(1) + u32(0xfffffffeU) + "a", 1, fields));
  EXPECT_FALSE(cut_row("", 0, fields));
}

TEST(ParseTest, ErrorsAndNotices) {
  const std::string payload = "SFEHLER\0VERROR\0C42703\0Mno column\0Ddetail\0Hhint\0P17\0Rroutine\0Xnew\0\0"s;
  const auto notice = parse_notice(payload);
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->severity, "ERROR") << "the one that is not translated";
  EXPECT_EQ(notice->sqlstate, "42703");
  EXPECT_EQ(notice->message, "no column");
  EXPECT_EQ(notice->detail, "detail");
  EXPECT_EQ(notice->hint, "hint");
  EXPECT_EQ(notice->position, 17u);
  EXPECT_EQ(notice->routine, "routine");
  for (std::size_t size = 0; size < payload.size(); ++size) {
    EXPECT_FALSE(parse_notice(std::string_view(payload).substr(0, size))) << size;
  }
  EXPECT_FALSE(parse_notice(payload + "x"));
  EXPECT_TRUE(parse_notice("\0"s));
  EXPECT_EQ(parse_notice("P1x\0\0"s)->position, 0u);
  EXPECT_EQ(parse_notice("P99999999999\0\0"s)->position, 0u);
}

TEST(ParseTest, RowDescription) {
  const auto field = [](const std::string& name, std::uint32_t type) {
    return name + '\0' + u32(1) + u16(2) + u32(type) + u16(4) + u32(0xffffffffU) + u16(0);
  };
  const std::string payload = u16(2) + field("id", 23) + field("", 25);
  const auto fields = parse_row_description(payload);
  ASSERT_TRUE(fields);
  ASSERT_EQ(fields->size(), 2u);
  EXPECT_EQ((*fields)[0].name, "id");
  EXPECT_EQ((*fields)[0].type, 23u);
  EXPECT_EQ((*fields)[1].name, "");
  EXPECT_EQ((*fields)[1].type, 25u);
  for (std::size_t size = 0; size < payload.size(); ++size) {
    EXPECT_FALSE(parse_row_description(std::string_view(payload).substr(0, size))) << size;
  }
  EXPECT_FALSE(parse_row_description(payload + "x"));
  EXPECT_FALSE(parse_row_description(u16(65535)));
  EXPECT_TRUE(parse_row_description(u16(0)));
}

TEST(ParseTest, SmallMessages) {
  EXPECT_EQ(parse_parameter_description(u16(2) + u32(23) + u32(25)), (std::vector<std::uint32_t>{23, 25}));
  EXPECT_FALSE(parse_parameter_description(u16(2) + u32(23)));
  EXPECT_FALSE(parse_parameter_description(u16(0) + "x"));
  EXPECT_EQ(parse_parameter_status("TimeZone\0UTC\0"s)->value, "UTC");
  EXPECT_FALSE(parse_parameter_status("TimeZone\0UTC"s));
  EXPECT_FALSE(parse_parameter_status("TimeZone\0UTC\0x"s));
  EXPECT_EQ(parse_backend_key(u32(7) + u32(8))->secret, 8u);
  EXPECT_FALSE(parse_backend_key(u32(7)));
  EXPECT_EQ(parse_notification(u32(7) + "news\0hello\0"s)->payload, "hello");
  EXPECT_FALSE(parse_notification(u32(7) + "news\0hello"s));
  EXPECT_EQ(parse_ready("I"), 'I');
  EXPECT_EQ(parse_ready("E"), 'E');
  EXPECT_FALSE(parse_ready("X"));
  EXPECT_FALSE(parse_ready("II"));
  EXPECT_FALSE(parse_ready(""));
}

TEST(ParseTest, Authentication) {
  using Kind = AuthenticationRequest::Kind;
  EXPECT_EQ(parse_authentication(u32(0))->kind, Kind::ok);
  EXPECT_FALSE(parse_authentication(u32(0) + "x"));
  EXPECT_EQ(parse_authentication(u32(3))->kind, Kind::cleartext);
  EXPECT_EQ(parse_authentication(u32(5) + "salt")->data, "salt");
  EXPECT_FALSE(parse_authentication(u32(5) + "sal"));
  EXPECT_TRUE(parse_authentication(u32(10) + "SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"s)->offers_scram_sha_256);
  EXPECT_TRUE(parse_authentication(u32(10) + "SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"s)->offers_scram_sha_256_plus);
  EXPECT_FALSE(parse_authentication(u32(10) + "SCRAM-SHA-256-PLUS\0\0"s)->offers_scram_sha_256);
  EXPECT_TRUE(parse_authentication(u32(10) + "SCRAM-SHA-256-PLUS\0\0"s)->offers_scram_sha_256_plus);
  EXPECT_FALSE(parse_authentication(u32(10) + "SCRAM-SHA-256\0\0"s)->offers_scram_sha_256_plus);
  EXPECT_FALSE(parse_authentication(u32(10) + "SCRAM-SHA-256\0"s));
  EXPECT_EQ(parse_authentication(u32(11) + "r=x")->data, "r=x");
  EXPECT_EQ(parse_authentication(u32(12) + "v=x")->kind, Kind::sasl_final);
  EXPECT_EQ(parse_authentication(u32(7))->kind, Kind::unsupported);
  EXPECT_FALSE(parse_authentication("abc"));
}

TEST(WriteTest, MessagesAreAsTheProtocolSays) {
  Buffer out;
  write_startup(out, {{"user", "a"}, {"database", "b"}});
  EXPECT_EQ(take(out), u32(27) + u32(196608) + "user\0a\0database\0b\0\0"s);
  write_parse(out, "s1", "SELECT $1", {});
  EXPECT_EQ(take(out), message('P', "s1\0SELECT $1\0"s + u16(0)));
  const std::uint32_t types[] = {0, 20};
  write_parse(out, "", "SELECT $1, $2", types);
  EXPECT_EQ(take(out), message('P', "\0SELECT $1, $2\0"s + u16(2) + u32(0) + u32(20)));
  write_describe_statement(out, "s1");
  EXPECT_EQ(take(out), message('D', "Ss1\0"s));
  write_close_statement(out, "s1");
  EXPECT_EQ(take(out), message('C', "Ss1\0"s));
  char parameters[32];
  char* end = put_parameter(parameters, "abc");
  end = put_parameter(end, std::nullopt);
  end = put_parameter(end, "");
  write_bind(out, "s1", 3, {parameters, static_cast<std::size_t>(end - parameters)});
  EXPECT_EQ(take(out), message('B', "\0s1\0"s + u16(0) + u16(3) + u32(3) + "abc" + u32(0xffffffffU) + u32(0) + u16(0)));
  write_execute(out, 1000);
  EXPECT_EQ(take(out), message('E', "\0"s + u32(1000)));
  write_sync(out);
  EXPECT_EQ(take(out), message('S', ""));
  write_query(out, "SELECT 1");
  EXPECT_EQ(take(out), message('Q', "SELECT 1\0"s));
  write_password(out, "pw");
  EXPECT_EQ(take(out), message('p', "pw\0"s));
  write_sasl_initial(out, "SCRAM-SHA-256", "n,,");
  EXPECT_EQ(take(out), message('p', "SCRAM-SHA-256\0"s + u32(3) + "n,,"));
  write_sasl_response(out, "c=biws");
  EXPECT_EQ(take(out), message('p', "c=biws"));
  write_terminate(out);
  EXPECT_EQ(take(out), message('X', ""));
  write_ssl_request(out);
  EXPECT_EQ(take(out), u32(8) + u32(80877103));
  write_cancel(out, {7, 9});
  EXPECT_EQ(take(out), u32(16) + u32(80877102) + u32(7) + u32(9));
}

}  // namespace
}  // namespace sluice::sql::postgres

#include "http/h1/chunked.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::http::h1 {
namespace {

using State = ChunkedDecoder::Step::State;
using Reading = ChunkedDecoder::Reading;

struct Outcome {
  State state = State::need_more;
  Reason reason = Reason::none;
  std::size_t consumed = 0;  // not compared after a refusal
  std::string data;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Feeds the pieces, each from its own allocation of exact size, so that AddressSanitizer detects reads beyond it.
Outcome feed(const std::vector<std::string_view>& pieces, Reading reading) {
  ChunkedDecoder decoder(reading);
  Outcome outcome;
  for (std::string_view piece : pieces) {
    auto block = std::make_unique<char[]>(piece.size());
    piece.copy(block.get(), piece.size());
    std::string_view rest(block.get(), piece.size());
    do {
      const auto step = decoder.decode(rest);
      EXPECT_EQ(step.state == State::data, !step.data.empty());
      EXPECT_TRUE(step.state != State::need_more || step.consumed == rest.size());
      rest.remove_prefix(step.consumed);
      outcome.data += step.data;
      outcome.consumed += step.consumed;
      outcome.state = step.state;
      outcome.reason = step.reason;
      if (step.state == State::refused) outcome.consumed = 0;
      if (step.state == State::done || step.state == State::refused) return outcome;
    } while (!rest.empty());
  }
  outcome.state = State::need_more;
  return outcome;
}

Outcome decode_as(Reading reading, std::string_view bytes) {
  const Outcome whole = feed({bytes}, reading);
  std::vector<std::string_view> each;
  for (std::size_t i = 0; i < bytes.size(); ++i) each.push_back(bytes.substr(i, 1));
  EXPECT_TRUE(feed(each, reading) == whole) << "byte by byte: " << bytes.substr(0, 300);
  if (bytes.size() < 2000) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_TRUE(feed({bytes.substr(0, size), bytes.substr(size)}, reading) == whole)
          << "split at " << size << ": " << bytes;
    }
  }
  return whole;
}

// Strictly; the tolerant decoder reads what the strict one does not refuse in the same way.
Outcome decode(std::string_view bytes) {
  Outcome strict = decode_as(Reading::strict, bytes);
  if (strict.state != State::refused) {
    EXPECT_TRUE(decode_as(Reading::tolerant, bytes) == strict) << bytes.substr(0, 300);
  }
  return strict;
}

std::string data_of(std::string_view bytes) {
  const Outcome outcome = decode(bytes);
  EXPECT_EQ(outcome.state, State::done) << bytes << "\n" << describe(outcome.reason);
  EXPECT_EQ(outcome.consumed, bytes.size());
  return outcome.data;
}

void refused(std::string_view bytes, Reason reason, int status = 400) {
  const Outcome outcome = decode(bytes);
  EXPECT_EQ(outcome.state, State::refused) << bytes;
  EXPECT_EQ(describe(outcome.reason), describe(reason)) << bytes;
  EXPECT_EQ(status_of(outcome.reason), status);
}

TEST(ChunkedDecoder, Bodies) {
  EXPECT_EQ(data_of("0\r\n\r\n"), "");
  EXPECT_EQ(data_of("5\r\nhello\r\n0\r\n\r\n"), "hello");
  EXPECT_EQ(data_of("5\r\nhello\r\n00000007\r\n, \r\n0\r\n\r\n000\r\n\r\n"), "hello, \r\n0\r\n");
  EXPECT_EQ(data_of("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n"), "01234567890123456789");
  EXPECT_EQ(data_of("0000000000000001\r\nx\r\n0000000000000000\r\n\r\n"), "x");
  const std::string large(0x1000, 'x');
  EXPECT_EQ(data_of("1000\r\n" + large + "\r\n0\r\n\r\n"), large);
}

TEST(ChunkedDecoder, StopsWhereTheNextRequestBegins) {
  const Outcome outcome = decode("1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\n");
  EXPECT_EQ(outcome.state, State::done);
  EXPECT_EQ(outcome.consumed, 11u);
}

TEST(ChunkedDecoder, NeedsMore) {
  for (const char* bytes : {"", "5", "5\r", "5\r\n", "5\r\nhel", "5\r\nhello", "5\r\nhello\r", "5\r\nhello\r\n",
                            "0\r\n", "0\r\n\r", "0\r\na: b\r\n", "7fffffffffffffff\r\nx"}) {
    EXPECT_EQ(decode(bytes).state, State::need_more) << bytes;
  }
}

TEST(ChunkedDecoder, GoesOnAfterReset) {
  ChunkedDecoder decoder;
  ASSERT_EQ(decoder.decode("0;a\r\nt: v\r\n\r\n").state, State::done);
  decoder.reset();
  const auto step = decoder.decode("3\r\nabc");
  EXPECT_EQ(step.data, "abc");
  EXPECT_EQ(step.consumed, 6u);
}

TEST(ChunkedDecoder, AnnouncesWhatIsToCome) {
  ChunkedDecoder decoder;
  ASSERT_EQ(decoder.decode("10;a=b\r").state, State::need_more);
  EXPECT_EQ(decoder.announced(), 0u);
  ASSERT_EQ(decoder.decode("\n").state, State::need_more);
  EXPECT_EQ(decoder.announced(), 16u);
  ASSERT_EQ(decoder.decode("hello").state, State::data);
  EXPECT_EQ(decoder.announced(), 11u);
  ASSERT_EQ(decoder.decode("hello, hello").state, State::data);
  EXPECT_EQ(decoder.announced(), 0u);
}

TEST(ChunkedDecoder, Sizes) {
  for (const char* bytes : {"\r\n",
                            "g\r\n",
                            "-1\r\n",
                            "+1\r\n",
                            "0x1\r\n",
                            " 1\r\n",
                            "1 \r\n",
                            "1\t\r\n",
                            "1 2;a\r\n",
                            "1 \n;a\r\n",
                            "1 \r;a\r\n",
                            "1g\r\n",
                            "1,\r\n",
                            ";a\r\n",
                            "\"1\"\r\n",
                            "1.0\r\n",
                            "\xb1\r\n",
                            "8000000000000000\r\n",
                            "ffffffffffffffff\r\n",
                            "10000000000000000\r\n",
                            "00000000000000000\r\n",
                            "00000000000000001\r\n",
                            "1\r\nx\r\n\r\n"}) {
    refused(bytes, Reason::bad_chunk_size);
  }
  refused("1\nx\r\n", Reason::bare_lf);
  refused("\n", Reason::bad_chunk_size);
  refused("1\rx\r\n", Reason::bare_cr);
  refused("1\r\r\nx", Reason::bare_cr);
}

TEST(ChunkedDecoder, ChunkEnds) {
  refused("1\r\nxy\r\n", Reason::bad_chunk_end);
  refused("1\r\nx0\r\n\r\n", Reason::bad_chunk_end);
  refused("1\r\nx\n0\r\n\r\n", Reason::bare_lf);
  refused("1\r\nx\r0\r\n\r\n", Reason::bare_cr);
  refused("0\r\n\n", Reason::bare_lf);
  refused("0\r\n\rx", Reason::bare_cr);
}

TEST(ChunkedDecoder, Extensions) {
  EXPECT_EQ(data_of("1;a\r\nx\r\n0;b=c;d=\"e f\"\r\n\r\n"), "x");
  EXPECT_EQ(data_of("1; a \t\xff\r\nx\r\n0\r\n\r\n"), "x");
  EXPECT_EQ(data_of("1 ;a\r\nx\r\n0\t \t;a\r\n\r\n"), "x");
  refused("1" + std::string(257, ' ') + ";a\r\nx\r\n0\r\n\r\n", Reason::chunk_extension_too_long);
  EXPECT_EQ(data_of("1;" + std::string(255, 'a') + "\r\nx\r\n0\r\n\r\n"), "x");
  refused("1;" + std::string(256, 'a') + "\r\nx\r\n0\r\n\r\n", Reason::chunk_extension_too_long);
  const std::string longest = "1;" + std::string(255, 'a') + "\r\nx\r\n";
  EXPECT_EQ(data_of(longest + longest + "0;" + std::string(255, 'a') + "\r\n\r\n"), "xx");
  refused(longest + "0;" + std::string(256, 'a') + "\r\n\r\n", Reason::chunk_extension_too_long);
  refused("1;a\nx\r\n0\r\n\r\n", Reason::bare_lf);
  refused("1;a\rx\r\n", Reason::bare_cr);
  refused("1;a\x01\r\n", Reason::bad_chunk_size);
  refused(std::string("1;a\0\r\n", 6), Reason::bad_chunk_size);
  refused("1;\"\x7f\"\r\n", Reason::bad_chunk_size);
}

// Old and small servers write such chunks (RFC 9112, 2.2 and 7.1.1).
TEST(ChunkedDecoder, ServersMayBeCareless) {
  for (const char* bytes :
       {"2  \r\nhi\r\n0\r\n\r\n", "2\t \t\r\nhi\r\n00 \r\n\r\n", "2\nhi\n0\n\n", "2\nhi\r\n0\n\r\n", "2\r\nhi\n0\r\n\n",
        "2 \nhi\n0 \n\n", "2;a=b\nhi\n0;c\n\n", "2 ; a\nhi\n0\n\n", "2\nhi\n0\nA: b\nC:\n\n"}) {
    const Outcome outcome = decode_as(Reading::tolerant, bytes);
    EXPECT_EQ(outcome.state, State::done) << bytes;
    EXPECT_EQ(outcome.data, "hi") << bytes;
    EXPECT_EQ(outcome.consumed, std::string_view(bytes).size()) << bytes;
    EXPECT_EQ(decode(bytes).state, State::refused) << bytes;
  }
  const auto refused_also = [](const std::string& bytes, Reason reason) {
    const Outcome outcome = decode_as(Reading::tolerant, bytes);
    EXPECT_EQ(outcome.state, State::refused) << bytes;
    EXPECT_EQ(describe(outcome.reason), describe(reason)) << bytes;
  };
  for (const char* bytes : {"\n", " 2\n", "2 2\n", "2 x\r\n", "\r\n", "2\nhi\n\n"})
    refused_also(bytes, Reason::bad_chunk_size);
  for (const char* bytes : {"2\rhi", "2 \rhi", "2;a\rhi", "2\r\r\nhi", "2\nhi\r0\n"})
    refused_also(bytes, Reason::bare_cr);
  refused_also("2\nhi2\n", Reason::bad_chunk_end);
  refused_also("2;\x01\n", Reason::bad_chunk_size);
  refused_also("0\nA\n\n", Reason::bare_lf);
  refused_also("0\nA: b\n c\n\n", Reason::bad_trailer);
  const auto extended = [](std::size_t size) { return "2;" + std::string(size - 1, 'a') + "\r\nhi\r\n0\r\n\r\n"; };
  EXPECT_EQ(decode_as(Reading::tolerant, extended(8192)).data, "hi");
  refused_also(extended(8193), Reason::chunk_extension_too_long);
  refused_also("2" + std::string(8193, ' ') + "\n", Reason::chunk_extension_too_long);

  ChunkedDecoder again(Reading::tolerant);
  ASSERT_EQ(again.decode("0\n\n").state, State::done);
  again.reset();
  EXPECT_EQ(again.decode("0\n\n").state, State::done);
}

TEST(ChunkedDecoder, Trailers) {
  EXPECT_EQ(data_of("0\r\nRow-Count: 5\r\nX_y:\r\nZ:\t\xc3\xa9 \r\n\r\n"), "");
  for (const char* line : {": v", "a b: v", "a : v", "novalue", "a\x80: v", " a: v", "a: b\x01", "a: b\x7f"}) {
    refused("0\r\n" + std::string(line) + "\r\n\r\n", Reason::bad_trailer);
  }
  refused("0\r\na: b\r\n c\r\n\r\n", Reason::bad_trailer);
  refused("0\r\na: b\n\r\n", Reason::bare_lf);
  refused("0\r\na\n\r\n", Reason::bare_lf);
  refused("0\r\na: b\rc\r\n\r\n", Reason::bare_cr);
  const auto of_size = [](std::size_t size) { return "0\r\na:" + std::string(size - 2, 'v') + "\r\n\r\n"; };
  EXPECT_EQ(data_of(of_size(8192)), "");
  refused(of_size(8193), Reason::trailers_too_large, 431);
  refused("0\r\n" + std::string(8193, 'n'), Reason::trailers_too_large, 431);
  std::string many = "0\r\n";
  for (int i = 0; i < 4097; ++i) many += "a:\r\n";
  refused(many, Reason::trailers_too_large, 431);
}

TEST(ChunkEncoding, SizeIsFilledIn) {
  Buffer out;
  out.append("head");
  std::size_t mark = begin_chunk(out);
  out.append("hello");
  end_chunk(out, mark);
  mark = begin_chunk(out);
  end_chunk(out, mark);  // an empty chunk is not written
  mark = begin_chunk(out);
  out.append(std::string(0xABC, 'x'));
  end_chunk(out, mark);
  append_last_chunk(out);
  EXPECT_EQ(out.view(), "head00000005\r\nhello\r\n00000ABC\r\n" + std::string(0xABC, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(data_of(out.view().substr(4)), "hello" + std::string(0xABC, 'x'));
}

TEST(ChunkEncoding, MarkSurvivesWhatWasConsumedBefore) {
  Buffer out;
  out.append("sent long ago");
  out.consume(5);
  const std::size_t mark = begin_chunk(out);
  out.append(std::string(10'000, 'y'));  // the buffer grows, which moves its content to the front
  end_chunk(out, mark);
  EXPECT_EQ(out.view().substr(0, 18), "long ago00002710\r\n");
}

TEST(ChunkEncoding, TrailersThatAreValid) {
  Buffer out;
  const Field trailers[] = {{"Row-Count", "42"}, {"X", "a\r\nSet-Cookie: b"}, {"Bad name", "v"}, {"Empty", ""}};
  append_last_chunk(out, trailers);
  EXPECT_EQ(out.view(), "0\r\nRow-Count: 42\r\nEmpty: \r\n\r\n");
  EXPECT_EQ(data_of(out.view()), "");
}

TEST(Chunked, TrailersAreKeptForWhoeverWantsThem) {
  const std::string bytes = "1\r\nx\r\n0\r\nA: b c \r\nEmpty:\r\nX-Sum:7\r\n\r\n";
  for (std::size_t split = 0; split < bytes.size(); ++split) {
    ChunkedDecoder decoder;
    Buffer lines;
    for (std::string_view rest : {std::string_view(bytes).substr(0, split), std::string_view(bytes).substr(split)}) {
      while (!rest.empty()) rest.remove_prefix(decoder.decode(rest, &lines).consumed);
    }
    const auto fields = trailer_fields(lines.view());
    ASSERT_EQ(fields.size(), 3u) << split;
    EXPECT_EQ(fields[0].name, "A");
    EXPECT_EQ(fields[0].value, "b c");
    EXPECT_EQ(fields[1].name, "Empty");
    EXPECT_EQ(fields[1].value, "");
    EXPECT_EQ(fields[2].value, "7");
  }
  EXPECT_TRUE(trailer_fields("").empty());
}

}  // namespace
}  // namespace sluice::http::h1

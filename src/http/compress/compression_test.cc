#include "http/compress/compression.h"

#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/simulated_reactor.h"
#include "core/sleep.h"
#include "http/compress/test_support.h"
#include "http/spans_for_tests.h"

namespace sluice::http::compress {
namespace {

Buffer buffer_of(std::string_view text) {
  Buffer buffer;
  buffer.append(text);
  return buffer;
}

// One pull of a source: it gives a text, at once or after a delay, and may then end or fail.
struct Step {
  std::string text;
  Duration after{};
  bool fails = false;
};
class Scripted final : public BodySource {
 public:
  Scripted(core::Reactor& reactor, std::deque<Step> steps, int* alive = nullptr)
      : reactor_(reactor), steps_(std::move(steps)), alive_(alive) {
    if (alive_ != nullptr) ++*alive_;
  }
  ~Scripted() override {
    if (alive_ != nullptr) --*alive_;
  }
  core::Async<Result<Progress>> pull(Buffer& out) override {
    Step step = std::move(steps_.front());
    steps_.pop_front();
    if (step.after != Duration{}) return wait(std::move(step), out);
    return give(step, out);
  }
  std::span<const Field> trailers() const override { return {&trailer_, 1}; }

 private:
  core::Task<Result<Progress>> wait(Step step, Buffer& out) {
    co_await core::Sleep(reactor_, reactor_.now() + step.after);
    co_return give(step, out);
  }
  Result<Progress> give(const Step& step, Buffer& out) {
    out.append(step.text);
    if (step.fails) return fail(Errc::closed);
    return steps_.empty() ? Progress::done : Progress::more;
  }

  core::Reactor& reactor_;
  std::deque<Step> steps_;
  int* alive_;
  Field trailer_{"Row-Count", "7"};
};

// A temporary file, deleted with its last owner.
struct TemporaryFile {
  std::FILE* file = std::tmpfile();
  explicit TemporaryFile(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), file);
    std::fflush(file);
  }
  ~TemporaryFile() { std::fclose(file); }
  TemporaryFile(const TemporaryFile&) = delete;
};

class CompressionTest : public testing::Test {
 protected:
  core::SimulatedReactor reactor{1};
  core::Mailbox mailbox{reactor};
  core::BlockingPool threads{1, 16};
  std::function<Response()> make;
  Options options;
  std::shared_ptr<Compression> compression;
  std::vector<Field> request_fields;
  core::TaskGroup tasks;

  CompressionTest() { options.codings = {Coding::zstd, Coding::brotli, Coding::gzip}; }

  void step() {
    mailbox.deliver();
    reactor.turn(reactor.timers().next());
  }

  Response ask(std::string_view accepted, Method method = Method::get) {
    if (!compression) compression = std::make_shared<Compression>(options, reactor, mailbox, threads);
    const std::vector<std::shared_ptr<Filter>> filters = {compression};
    Exchange exchange;
    exchange.request.method = method;
    std::vector<Field> fields = request_fields;
    if (!accepted.empty()) fields.push_back({"accept-encoding", accepted});
    exchange.request.fields = fields;
    EXPECT_FALSE(exchange.ask(filters).take());
    Response response = make();
    exchange.filter(response);
    return response;
  }

  // The bytes of every write, and how the response ended.
  struct Sent {
    std::vector<std::string> writes;
    std::vector<Instant> times;
    bool done = false;
    bool failed = false;
    [[nodiscard]] std::string bytes() const {
      std::string all;
      for (const std::string& write : writes) all += write;
      return all;
    }
  };
  static core::Task<void> pull_all(BodySource& source, Sent& sent, core::Reactor& reactor) {
    Buffer out;
    out.append("earlier");  // earlier responses are in the same buffer
    for (;;) {
      const auto progress = co_await source.pull(out);
      if (!progress) {
        sent.failed = true;
        co_return;
      }
      const bool done = *progress == BodySource::Progress::done;
      EXPECT_TRUE(done || out.size() > 7) << "a pull gives something";
      sent.writes.emplace_back(out.view().substr(7));
      sent.times.push_back(reactor.now());
      out.truncate(7);
      if (done) break;
    }
    sent.done = true;
  }
  Sent send(Response& response) {
    Sent sent;
    if (auto* source = std::get_if<std::unique_ptr<BodySource>>(&response.body)) {
      tasks.spawn(pull_all(**source, sent, reactor));
      while (!sent.done && !sent.failed) step();
      return sent;
    }
    if (auto* own = std::get_if<Buffer>(&response.body)) sent.writes.emplace_back(own->view());
    if (auto* shared = std::get_if<SharedBytes>(&response.body)) sent.writes.emplace_back(shared->bytes);
    if (auto* spans = std::get_if<SharedSpans>(&response.body)) {
      for (const std::string_view piece : spans->pieces()) sent.writes.emplace_back(piece);
    }
    if (auto* file = std::get_if<FileRange>(&response.body)) {
      std::string text(file->size, '\0');
      EXPECT_EQ(::pread(file->fd, text.data(), text.size(), static_cast<off_t>(file->offset)),
                static_cast<ssize_t>(text.size()));
      sent.writes.push_back(std::move(text));
    }
    sent.done = true;
    return sent;
  }

  static Response text_response(Body body, std::string_view type = "text/plain") {
    Response response;
    response.fields.add_trusted("Content-Type", type);
    response.body = std::move(body);
    return response;
  }
  void answer(std::string text) {
    make = [text] { return text_response(buffer_of(text)); };
  }
  void stream(std::deque<Step> steps, int* alive = nullptr) {
    make = [this, steps, alive] {
      return text_response(std::unique_ptr<BodySource>(std::make_unique<Scripted>(reactor, steps, alive)));
    };
  }
  static bool is_stream(const Response& response) {
    return std::holds_alternative<std::unique_ptr<BodySource>>(response.body);
  }
};

constexpr std::string_view name_in(Coding coding) {
  return coding == Coding::gzip ? "gzip" : coding == Coding::brotli ? "br" : "zstd";
}

TEST_F(CompressionTest, ASmallAnswerIsCompressedAtOnce) {
  const std::string text = words(20'000);
  answer(text);
  for (const Coding coding : all_codings) {
    Response response = ask(name_in(coding));
    EXPECT_EQ(response.fields.get("content-encoding"), name_in(coding));
    EXPECT_EQ(response.fields.get("vary"), "Accept-Encoding");
    EXPECT_LT(size_of(response.body).value(), text.size() / 2);
    EXPECT_EQ(decode_whole(coding, send(response).bytes()), text);
  }
  EXPECT_EQ(compression->counters().answers, 3u);
  EXPECT_EQ(compression->counters().bytes_in, 60'000u);
}

TEST_F(CompressionTest, AClientThatTakesNoneGetsItAsItIsAndCachesAreTold) {
  const std::string text = words(20'000);
  answer(text);
  for (const char* accepted : {"", "identity", "deflate", "gzip;q=0, br;q=0, zstd;q=0", "gzip;q=0.5, identity"}) {
    Response response = ask(accepted);
    EXPECT_EQ(response.fields.get("content-encoding"), "");
    EXPECT_EQ(response.fields.get("vary"), "Accept-Encoding");
    EXPECT_EQ(send(response).bytes(), text);
  }
}

TEST_F(CompressionTest, OurOrderDecidesAmongEquals) {
  answer(words(5000));
  EXPECT_EQ(ask("gzip, br, zstd").fields.get("content-encoding"), "zstd");
  options.codings = {Coding::gzip, Coding::brotli};
  compression.reset();
  EXPECT_EQ(ask("gzip, br, zstd").fields.get("content-encoding"), "gzip");
  EXPECT_EQ(ask("zstd").fields.get("content-encoding"), "");
}

TEST_F(CompressionTest, WhatIsShortGoesOutAsItIs) {
  answer(words(1023));
  Response response = ask("gzip");
  EXPECT_EQ(response.fields.get("content-encoding"), "");
  EXPECT_EQ(response.fields.get("vary"), "") << "no request could have it compressed";
  answer(words(1024));
  EXPECT_EQ(ask("gzip").fields.get("content-encoding"), "gzip");
  answer(words(10));
  EXPECT_EQ(ask("gzip, identity;q=0").fields.get("content-encoding"), "gzip") << "the client takes nothing else";
  answer("");
  EXPECT_EQ(ask("gzip, identity;q=0").fields.get("content-encoding"), "") << "there is nothing to encode";
  options.minimum = {0};
  compression.reset();
  answer("x");
  Response tiny = ask("br");
  EXPECT_EQ(decode_whole(Coding::brotli, send(tiny).bytes()), "x");
}

TEST_F(CompressionTest, OtherMediaTypesAreLeftAlone) {
  for (const char* type : {"image/png", "application/octet-stream", ""}) {
    make = [type] { return text_response(buffer_of(words(5000)), type); };
    Response response = ask("gzip");
    EXPECT_EQ(response.fields.get("content-encoding"), "") << type;
    EXPECT_EQ(response.fields.get("vary"), "") << type;
  }
  make = [] {
    Response response;
    response.body = buffer_of(words(5000));
    return response;
  };
  EXPECT_EQ(ask("gzip").fields.get("content-encoding"), "");
  options.types = {"image/*"};
  compression.reset();
  make = [] { return text_response(buffer_of(words(5000)), "image/bmp"); };
  EXPECT_EQ(ask("gzip").fields.get("content-encoding"), "gzip");
}

TEST_F(CompressionTest, WhatForbidsIt) {
  const Field reasons[] = {{"Content-Encoding", "br"},
                           {"content-encoding", "gzip"},
                           {"Set-Cookie", "id=1"},
                           {"Cache-Control", "public, No-Transform, max-age=5"},
                           {"Content-Digest", "sha-256=:x:"},
                           {"Repr-Digest", "sha-256=:x:"},
                           {"Digest", "sha-256=x"},
                           {"Content-MD5", "x"},
                           {"Content-Range", "bytes */5000"}};
  for (const Field& reason : reasons) {
    make = [reason] {
      Response response = text_response(buffer_of(words(5000)));
      response.fields.add(reason.name, reason.value);
      return response;
    };
    for (const char* accepted : {"gzip", "gzip, identity;q=0"}) {
      Response response = ask(accepted);
      EXPECT_EQ(response.fields.get("vary"), "") << reason.name;
      EXPECT_EQ(response.fields.items().size(), 2u) << reason.name;
      EXPECT_EQ(send(response).bytes(), words(5000)) << reason.name;
    }
  }
  make = [] {
    Response response = text_response(buffer_of(words(5000)));
    response.fields.add("Cache-Control", "max-age=5, must-revalidate");
    return response;
  };
  EXPECT_EQ(ask("gzip").fields.get("content-encoding"), "gzip");
}

TEST_F(CompressionTest, StatusesWithoutABodyAreLeftAlone) {
  for (const int status : {101, 103, 204, 205}) {
    make = [status] {
      Response response = text_response(buffer_of(words(5000)));
      response.status = status;
      return response;
    };
    EXPECT_EQ(ask("gzip").fields.items().size(), 1u) << status;
  }
  for (const int status : {200, 201, 403, 404, 500}) {
    make = [status] {
      Response response = text_response(buffer_of(words(5000)), "application/problem+json");
      response.status = status;
      return response;
    };
    EXPECT_EQ(ask("gzip").fields.get("content-encoding"), "gzip") << status;
  }
}

TEST_F(CompressionTest, PartsSayThatTheWholeVaries) {
  const auto part = [this](std::string_view type) {
    make = [type] {
      Response response = text_response(buffer_of(words(5000)), type);
      response.status = 206;
      response.fields.add("Content-Range", "bytes 0-4999/10000");
      response.fields.add("ETag", "\"t\"");
      return response;
    };
    return ask("gzip");
  };
  Response response = part("text/plain");
  EXPECT_EQ(response.fields.get("vary"), "Accept-Encoding");
  EXPECT_EQ(response.fields.get("etag"), "\"t\"");
  EXPECT_EQ(response.fields.get("content-encoding"), "");
  EXPECT_EQ(send(response).bytes(), words(5000));
  EXPECT_EQ(part("multipart/byteranges; boundary=x").fields.get("vary"), "Accept-Encoding");
  EXPECT_EQ(part("image/png").fields.get("vary"), "");
}

TEST_F(CompressionTest, VaryIsAddedToWhatIsThere) {
  const auto vary_beside = [this](std::string_view before) {
    make = [before] {
      Response response = text_response(buffer_of(words(5000)));
      response.fields.add("Vary", before);
      return response;
    };
    const Response response = ask("gzip");
    EXPECT_EQ(response.fields.items().size(), 3u);
    return std::string(response.fields.get("vary"));
  };
  EXPECT_EQ(vary_beside("Accept"), "Accept, Accept-Encoding");
  EXPECT_EQ(vary_beside("Accept, Origin"), "Accept, Origin, Accept-Encoding");
  EXPECT_EQ(vary_beside("accept-encoding, Origin"), "accept-encoding, Origin");
  EXPECT_EQ(vary_beside("*"), "*");
  EXPECT_EQ(vary_beside(""), "Accept-Encoding");
}

TEST_F(CompressionTest, AStrongTagBecomesWeakAndRangesAreNotOffered) {
  const auto with_tag = [this](std::string_view tag, std::string_view accepted) {
    make = [tag] {
      Response response = text_response(buffer_of(words(5000)));
      response.fields.add_trusted("ETag", tag);
      response.fields.add_trusted("Accept-Ranges", "bytes");
      response.fields.add_trusted("Last-Modified", "then");
      return response;
    };
    return ask(accepted);
  };
  Response response = with_tag("\"abc\"", "gzip");
  EXPECT_EQ(response.fields.get("etag"), "W/\"abc\"");
  EXPECT_EQ(response.fields.get("accept-ranges"), "");
  EXPECT_EQ(response.fields.get("last-modified"), "then");
  EXPECT_EQ(with_tag("W/\"abc\"", "gzip").fields.get("etag"), "W/\"abc\"");
  response = with_tag("\"abc\"", "");
  EXPECT_EQ(response.fields.get("etag"), "\"abc\"");
  EXPECT_EQ(response.fields.get("accept-ranges"), "bytes");
}

TEST_F(CompressionTest, ATagThatTakesASuffixStaysStrong) {
  const auto tag_of = [this](int status, std::string_view tag, std::string_view accepted,
                             std::string_view known = "W/\"7\"") {
    request_fields = {{"If-None-Match", known}};
    make = [status, tag] {
      Response response = text_response(buffer_of(words(5000)));
      response.status = status;
      if (status == 304) response.body = {};
      response.fields.add_owned("ETag", std::string(tag));
      response.tag_takes_suffix = true;
      return response;
    };
    const Response response = ask(accepted);
    return std::string(response.fields.get("etag"));
  };
  EXPECT_EQ(tag_of(200, "\"7\"", "gzip"), "\"7;gzip\"");
  EXPECT_EQ(tag_of(200, "\"7;csv\"", "br"), "\"7;csv;br\"");
  EXPECT_EQ(tag_of(200, "\"7\"", ""), "\"7\"");
  EXPECT_EQ(tag_of(304, "\"7\"", "gzip"), "\"7\"") << "it is the one that the client has";
  EXPECT_EQ(tag_of(304, "\"7\"", "br, gzip", "\"6\", \"7;gzip\""), "\"7;gzip\"");
  EXPECT_EQ(tag_of(304, "\"7\"", "br", "\"7;gzip\""), "\"7\"");
  EXPECT_EQ(tag_of(304, "\"7;gzip\"", "gzip", "\"7;gzip\""), "\"7;gzip\"");
}

TEST_F(CompressionTest, NotModifiedSaysWhatTheWholeAnswerWouldSay) {
  const auto not_modified = [this](std::string_view known, std::string_view accepted, std::string_view type) {
    request_fields = {{"If-None-Match", known}};
    make = [type] {
      Response response;
      response.status = 304;
      if (!type.empty()) response.fields.add("Content-Type", type);
      response.fields.add("ETag", "\"abc\"");
      return response;
    };
    const Response response = ask(accepted);
    return std::string(response.fields.get("etag")) + " " + std::string(response.fields.get("vary"));
  };
  EXPECT_EQ(not_modified("W/\"abc\"", "gzip", "text/html"), "W/\"abc\" Accept-Encoding");
  EXPECT_EQ(not_modified("\"x\", W/\"abc\"", "gzip", ""), "W/\"abc\" Accept-Encoding");
  EXPECT_EQ(not_modified("\"abc\"", "gzip", "text/html"), "\"abc\" Accept-Encoding")
      << "what it knows is not compressed";
  EXPECT_EQ(not_modified("W/\"abc\"", "", "text/html"), "\"abc\" Accept-Encoding");
  EXPECT_EQ(not_modified("W/\"abc\"", "gzip", "image/png"), "\"abc\" ");
}

TEST_F(CompressionTest, HeadHasTheFieldsOfGetAndNoLength) {
  int alive = 0;
  for (const std::size_t size : {5000, 500'000}) {
    answer(words(size));
    Response got = ask("br");
    Response head = ask("br", Method::head);
    ASSERT_EQ(head.fields.items().size(), got.fields.items().size());
    for (std::size_t i = 0; i < got.fields.items().size(); ++i) {
      EXPECT_EQ(head.fields.items()[i].name, got.fields.items()[i].name);
      EXPECT_EQ(head.fields.items()[i].value, got.fields.items()[i].value);
    }
    EXPECT_FALSE(size_of(head.body));
  }
  const auto before = compression->counters().bytes_in;
  stream({{words(5000)}}, &alive);
  {
    Response head = ask("br", Method::head);
    EXPECT_EQ(head.fields.get("content-encoding"), "br");
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(compression->counters().bytes_in, before) << "nothing is compressed";
  answer(words(100));
  EXPECT_EQ(size_of(ask("br", Method::head).body), 100u);
}

TEST_F(CompressionTest, LongBodiesInMemoryAreStreamed) {
  for (const std::string& text : {words(1'000'000), noise(400'000), std::string(5'000'000, 'x')}) {
    for (const Coding coding : all_codings) {
      for (const bool shared : {false, true}) {
        make = [&text, shared] {
          return text_response(shared ? Body(SharedBytes{nullptr, text}) : Body(buffer_of(text)));
        };
        Response response = ask(name_in(coding));
        ASSERT_TRUE(is_stream(response));
        const Sent sent = send(response);
        EXPECT_TRUE(decode_whole(coding, sent.bytes()) == text);
      }
    }
  }
}

TEST_F(CompressionTest, BodiesInPiecesAreCompressedAsOne) {
  for (const std::size_t size : {1100u, 64u * 1024, 64u * 1024 + 1, 1'000'000u}) {
    const std::string text = words(size);
    for (const std::size_t most : {20u, 3000u, 200'000u}) {
      make = [&] { return text_response(in_pieces(text, most)); };
      for (const Coding coding : all_codings) {
        Response response = ask(name_in(coding));
        EXPECT_EQ(response.fields.get("content-encoding"), name_in(coding));
        EXPECT_EQ(is_stream(response), size > Compression::whole_bytes);
        EXPECT_TRUE(decode_whole(coding, send(response).bytes()) == text) << size << " in pieces of up to " << most;
      }
      Response as_it_is = ask("identity");
      EXPECT_TRUE(send(as_it_is).bytes() == text);
      Response head = ask("gzip", Method::head);
      EXPECT_EQ(head.fields.get("content-encoding"), "gzip");
    }
  }
}

TEST_F(CompressionTest, FieldsStayGoodWhereTheBodyIsInPieces) {
  struct Served {
    std::string tag = "\"seven\"";
    std::string text = words(3000);
  };
  std::weak_ptr<Served> alive;
  make = [&] {
    auto served = std::make_shared<Served>();
    alive = served;
    SharedSpans spans(served);
    spans.add(std::string_view(served->text).substr(0, 1000));
    spans.add(std::string_view(served->text).substr(2000));
    Response response = text_response(std::move(spans));
    response.fields.add("X-Of-The-Body", served->tag);
    return response;
  };
  {
    Response response = ask("gzip");
    EXPECT_EQ(response.fields.get("x-of-the-body"), "\"seven\"");
    EXPECT_FALSE(alive.expired());
    EXPECT_EQ(decode_whole(Coding::gzip, send(response).bytes()),
              words(3000).substr(0, 1000) + words(3000).substr(2000));
  }
  EXPECT_TRUE(alive.expired());
}

TEST_F(CompressionTest, OneTurnCompressesABoundedPiece) {
  answer(words(1'000'000));
  Response response = ask("zstd");
  Sent sent;
  tasks.spawn(pull_all(*std::get<std::unique_ptr<BodySource>>(response.body), sent, reactor));
  auto before = compression->counters().bytes_in;
  EXPECT_EQ(before, Turnstile::turn_bytes);
  while (!sent.done) {
    step();
    const auto after = compression->counters().bytes_in;
    EXPECT_LE(after - before, Turnstile::turn_bytes);
    before = after;
  }
  EXPECT_EQ(before, 1'000'000u);
}

TEST_F(CompressionTest, FilesAreReadInPieces) {
  for (const std::size_t size : {2000, 65'536, 65'537, 1'000'000}) {
    const std::string text = words(size);
    const auto file = std::make_shared<const TemporaryFile>("xx" + text + "yy");
    make = [&] {
      return text_response(FileRange{.owner = file, .fd = ::fileno(file->file), .offset = 2, .size = text.size()});
    };
    for (const Coding coding : all_codings) {
      Response response = ask(name_in(coding));
      ASSERT_TRUE(is_stream(response));
      EXPECT_TRUE(decode_whole(coding, send(response).bytes()) == text);
    }
  }
}

TEST_F(CompressionTest, AFileThatMayMakeUsWaitIsReadByAThread) {
  // procfs does not support reads without blocking.
  const std::shared_ptr<std::FILE> file(std::fopen("/proc/filesystems", "re"), [](std::FILE* f) { std::fclose(f); });
  ASSERT_NE(file, nullptr);
  char expected[16384];
  const ssize_t size = ::pread(::fileno(file.get()), expected, sizeof expected, 0);
  ASSERT_GT(size, 20);
  options.minimum = {0};
  make = [&] {
    return text_response(FileRange{
        .owner = file, .fd = ::fileno(file.get()), .offset = 3, .size = static_cast<std::uint64_t>(size) - 3});
  };
  for (const Coding coding : all_codings) {
    Response response = ask(name_in(coding));
    EXPECT_EQ(decode_whole(coding, send(response).bytes()), std::string_view(expected, size).substr(3));
  }
  Response left = ask("gzip");
  Sent sent;
  core::TaskGroup pulling;
  pulling.spawn(pull_all(*std::get<std::unique_ptr<BodySource>>(left.body), sent, reactor));
  pulling.cancel();  // while the thread reads
}

TEST_F(CompressionTest, AFileThatHasBecomeShorterCutsTheAnswer) {
  const auto file = std::make_shared<const TemporaryFile>(words(300'000));
  make = [&] {
    return text_response(FileRange{.owner = file, .fd = ::fileno(file->file), .offset = 0, .size = 300'001});
  };
  Response response = ask("gzip");
  const Sent sent = send(response);
  EXPECT_TRUE(sent.failed);
  EXPECT_FALSE(decode(Coding::gzip, sent.bytes())->complete);
  EXPECT_EQ(compression->counters().cached, 0u);
}

TEST_F(CompressionTest, StreamsComeBackHoweverTheyAreCut) {
  const std::string text = words(3000);
  for (const Coding coding : all_codings) {
    for (std::size_t piece = 1; piece <= text.size(); piece = piece < 20 ? piece + 1 : piece * 3 / 2) {
      for (const Duration after : {Duration{}, Duration(2ms)}) {
        std::deque<Step> steps;
        for (std::size_t at = 0; at < text.size(); at += piece) steps.push_back({text.substr(at, piece), after});
        stream(steps);
        Response response = ask(name_in(coding));
        ASSERT_EQ(decode_whole(coding, send(response).bytes()), text) << piece;
      }
    }
  }
}

TEST_F(CompressionTest, AStreamWithoutBytesIsAnEmptyBody) {
  for (const Coding coding : all_codings) {
    for (const Duration after : {Duration{}, Duration(2ms)}) {
      stream({{"", after}});
      Response response = ask(name_in(coding));
      EXPECT_EQ(decode_whole(coding, send(response).bytes()), "");
    }
  }
}

TEST_F(CompressionTest, NothingWaitsInTheCompressor) {
  for (const Coding coding : all_codings) {
    stream({{"first "}, {"row, ", 10ms}, {"second "}, {"row, ", 20ms}, {"", 30ms}, {"third row", 5ms}, {"", 40ms}});
    Response response = ask(name_in(coding));
    const Instant begin = reactor.now();
    const Sent sent = send(response);
    std::vector<std::string> seen;
    std::string bytes;
    for (std::size_t i = 0; i < sent.writes.size(); ++i) {
      bytes += sent.writes[i];
      seen.push_back(decode(coding, bytes)->text);
    }
    const std::vector<std::string> wanted{"first ", "first row, second ", "first row, second row, ",
                                          "first row, second row, third row", "first row, second row, third row"};
    EXPECT_EQ(seen, wanted);
    ASSERT_EQ(sent.times.size(), 5u);
    const Duration due[] = {0ms, 10ms, 30ms, 65ms, 105ms};
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_GE(sent.times[i] - begin, due[i]);
      EXPECT_LE(sent.times[i] - begin, due[i] + 5ms + 2ms * i);
    }
  }
}

TEST_F(CompressionTest, WhileThereIsNoWaitingTheCompressorDecides) {
  std::deque<Step> steps;
  for (int i = 0; i < 1000; ++i) steps.push_back({words(300)});
  stream(steps);
  Response response = ask("gzip");
  const Sent sent = send(response);
  EXPECT_LE(sent.writes.size(), 10u);
  EXPECT_EQ(decode_whole(Coding::gzip, sent.bytes())->size(), 300'000u);
}

TEST_F(CompressionTest, TrailersComeThrough) {
  stream({{words(2000)}, {words(10), 2ms}});
  Response response = ask("zstd");
  const Sent sent = send(response);
  EXPECT_TRUE(sent.done);
  const auto trailers = std::get<std::unique_ptr<BodySource>>(response.body)->trailers();
  ASSERT_EQ(trailers.size(), 1u);
  EXPECT_EQ(trailers[0].name, "Row-Count");
  EXPECT_EQ(trailers[0].value, "7");
}

TEST_F(CompressionTest, AStreamThatBreaksIsCut) {
  for (const Coding coding : all_codings) {
    for (const Duration after : {Duration{}, Duration(2ms)}) {
      stream({{words(200'000)}, {"lost", after, true}});
      Response response = ask(name_in(coding));
      const Sent sent = send(response);
      EXPECT_TRUE(sent.failed);
      EXPECT_FALSE(decode(coding, sent.bytes())->complete);
    }
  }
}

TEST_F(CompressionTest, WhoAwaitsAPullMayGoBeforeTheBody) {
  stream({{"first "}, {"second ", 10ms}, {"third", 10ms}});
  Response response = ask("gzip");
  BodySource& source = *std::get<std::unique_ptr<BodySource>>(response.body);
  Sent sent;
  {
    core::TaskGroup gone;
    gone.spawn(pull_all(source, sent, reactor));
    reactor.turn(reactor.now());
  }
  ASSERT_EQ(sent.writes.size(), 1u);
  const Instant later = reactor.now() + 50ms;
  while (reactor.now() < later) reactor.turn(later);  // the awaited piece becomes ready meanwhile
  const std::string before = sent.bytes();
  sent = send(response);
  EXPECT_EQ(decode_whole(Coding::gzip, before + sent.bytes()), "first second third");
}

TEST_F(CompressionTest, DestroyingTheBodyCancelsIt) {
  int alive = 0;
  for (const Duration after : {Duration{}, Duration(1h)}) {
    std::deque<Step> steps(50, Step{noise(Turnstile::turn_bytes)});
    steps[3].after = after;
    stream(steps, &alive);
    for (int turns = 0; turns < 6; ++turns) {
      Response response = ask("gzip");
      EXPECT_EQ(alive, 1);
      Sent sent;
      core::TaskGroup pulling;
      pulling.spawn(pull_all(*std::get<std::unique_ptr<BodySource>>(response.body), sent, reactor));
      for (int i = 0; i < turns; ++i) {
        mailbox.deliver();
        reactor.turn(reactor.now());
      }
      EXPECT_FALSE(sent.done);
      pulling.cancel();
    }
    EXPECT_EQ(alive, 0);
  }
  answer(words(200'000));
  Response response = ask("gzip");
  EXPECT_EQ(decode_whole(Coding::gzip, send(response).bytes()), words(200'000)) << "the encoder is good for another";
}

TEST_F(CompressionTest, WithoutMemoryAnswersGoOutAsTheyAre) {
  options.memory = 1_MiB;
  answer(words(200'000));
  std::vector<Response> under_way;
  for (int i = 0; i < 20; ++i) under_way.push_back(ask("gzip"));
  std::size_t compressed = 0;
  for (Response& response : under_way) {
    const bool encoded = response.fields.get("content-encoding") == "gzip";
    compressed += encoded ? 1 : 0;
    EXPECT_EQ(response.fields.get("vary"), "Accept-Encoding");
    const std::string bytes = send(response).bytes();
    EXPECT_TRUE(encoded ? decode_whole(Coding::gzip, bytes) == words(200'000) : bytes == words(200'000));
  }
  EXPECT_GE(compressed, 1u);
  EXPECT_EQ(compression->counters().no_memory, 20 - compressed);
  answer(words(20'000));
  EXPECT_EQ(ask("gzip").fields.get("content-encoding"), "gzip");
}

// Like a response of the files module: bytes or a range kept alive by a shared owner, and fields that live as long.
struct Served {
  std::string text;
  std::string tag;
  TemporaryFile file;
  explicit Served(std::string content, std::string etag) : text(std::move(content)), tag(std::move(etag)), file(text) {}
};

TEST_F(CompressionTest, FilesAreCompressedOnce) {
  for (const bool in_memory : {true, false}) {
    for (const std::size_t size : {30'000, 300'000}) {
      compression.reset();
      auto served = std::make_shared<const Served>(words(size), "\"t\"");
      make = [&] {
        Response response = in_memory
                                ? text_response(SharedBytes{served, served->text})
                                : text_response(FileRange{served, ::fileno(served->file.file), 0, served->text.size()});
        response.fields.add_trusted("ETag", served->tag);
        return response;
      };
      for (const Coding coding : all_codings) {
        Response first = ask(name_in(coding));
        EXPECT_TRUE(decode_whole(coding, send(first).bytes()) == words(size));
        const auto worked = compression->counters().bytes_in;
        Response second = ask(name_in(coding));
        ASSERT_TRUE(size_of(second.body)) << "its length is known now";
        EXPECT_EQ(second.fields.get("etag"), "W/\"t\"");
        EXPECT_EQ(second.fields.get("content-encoding"), name_in(coding));
        EXPECT_TRUE(decode_whole(coding, send(second).bytes()) == words(size));
        EXPECT_EQ(compression->counters().bytes_in, worked);
      }
      EXPECT_EQ(compression->counters().cached, 3u);
      EXPECT_EQ(compression->counters().answers, 6u);

      // The file changes but keeps its tag. The new content is compressed, and the fields stay valid after the old
      // file's end.
      Response before = ask("gzip");
      served = std::make_shared<const Served>(words(size, 2), "\"t\"");
      Response after = ask("gzip");
      EXPECT_EQ(before.fields.get("etag"), "W/\"t\"");
      EXPECT_TRUE(decode_whole(Coding::gzip, send(before).bytes()) == words(size));
      EXPECT_TRUE(decode_whole(Coding::gzip, send(after).bytes()) == words(size, 2));
    }
  }
}

TEST_F(CompressionTest, FieldsStayGoodWhereNothingIsCached) {
  options.cache = {0};
  auto served = std::make_shared<const Served>(words(30'000), "\"a tag that is long enough for the heap\"");
  make = [&] {
    Response response = text_response(SharedBytes{served, served->text});
    response.fields.add_trusted("Last-Modified", served->tag);
    return response;
  };
  Response response = ask("gzip");
  Response head = ask("gzip", Method::head);
  served.reset();
  EXPECT_EQ(response.fields.get("last-modified"), "\"a tag that is long enough for the heap\"");
  EXPECT_EQ(head.fields.get("last-modified"), "\"a tag that is long enough for the heap\"");
  EXPECT_EQ(decode_whole(Coding::gzip, send(response).bytes()), words(30'000));
}

TEST_F(CompressionTest, WhatIsMadeForOneAnswerIsNotCached) {
  for (const std::size_t size : {30'000, 300'000}) {
    const auto served = std::make_shared<const Served>(words(size), "\"t\"");
    bool once = true;
    make = [&] {
      Response response = text_response(SharedBytes{.owner = served, .bytes = served->text, .once = once});
      response.fields.add_trusted("ETag", served->tag);
      return response;
    };
    const auto cached = [&] {
      const auto before = compression ? compression->counters().cached : 0;
      Response first = ask("gzip");
      EXPECT_TRUE(decode_whole(Coding::gzip, send(first).bytes()) == served->text);
      Response second = ask("gzip");
      EXPECT_TRUE(decode_whole(Coding::gzip, send(second).bytes()) == served->text);
      return compression->counters().cached - before;
    };
    EXPECT_EQ(cached(), 0u) << size;
    once = false;
    EXPECT_EQ(cached(), 1u) << size;
  }
}

TEST_F(CompressionTest, OnlyOneOfManyCollectsForTheCache) {
  auto served = std::make_shared<const Served>(words(300'000), "\"t\"");
  make = [&] {
    Response response = text_response(SharedBytes{served, served->text});
    response.fields.add_trusted("ETag", served->tag);
    return response;
  };
  auto abandoned = std::make_unique<Response>(ask("gzip"));
  Response other = ask("gzip");
  abandoned.reset();
  EXPECT_TRUE(decode_whole(Coding::gzip, send(other).bytes()) == served->text);
  Response first = ask("gzip");
  EXPECT_TRUE(is_stream(first)) << "what was abandoned is not cached, and nobody else collected";
  (void)send(first);
  EXPECT_FALSE(is_stream(ask("gzip")));
}

TEST_F(CompressionTest, AnAnswerOfManyFieldsIsCompressed) {
  make = [] {
    Response response = text_response(buffer_of(words(5000)));
    while (response.fields.items().size() < FieldList::inline_capacity) response.fields.add("X", "y");
    return response;
  };
  Response response = ask("gzip");
  EXPECT_EQ(response.fields.get("Content-Encoding"), "gzip");
  EXPECT_EQ(response.fields.get("Vary"), "Accept-Encoding");
  EXPECT_EQ(decode_whole(Coding::gzip, send(response).bytes()), words(5000));
}

}  // namespace
}  // namespace sluice::http::compress

#include "files/store.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include <gtest/gtest.h>

#include "core/run_to_end.h"

namespace sluice::files {
namespace {

using namespace std::string_literals;

class StoreTest : public ::testing::Test {
 public:
  StoreTest() {
    path = ::testing::TempDir() + "store-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) throw std::system_error(errno, std::generic_category());
    options.path.value = path + "/files";
    options.limit.value = 1_MiB;
  }
  ~StoreTest() override {
    store.reset();
    std::filesystem::remove_all(path);
  }

  void open() { store.emplace("pictures", options, *reactor, mailbox, threads); }

  template <class T>
  T wait(core::Task<T> task) {
    return core::run_to_end(*reactor, &mailbox, std::move(task));
  }
  static core::Task<Result<http::Blob>> write_all(http::BlobWriter& writer, std::string_view bytes, std::size_t step) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
      auto written = co_await writer.write(bytes.substr(0, step));
      if (!written) co_return std::unexpected(written.error());
    }
    co_return co_await writer.finish();
  }
  Result<http::Blob> put(std::string_view bytes, std::string_view type = "text/plain", std::size_t step = SIZE_MAX) {
    const auto writer = store->begin(type);
    return wait(write_all(*writer, bytes, step));
  }
  static http::BlobAnswer file(std::string hash, std::string media_type = {}, std::string name = {},
                               std::string cache_control = {}) {
    return {.hash = std::move(hash),
            .media_type = std::move(media_type),
            .name = std::move(name),
            .cache_control = std::move(cache_control)};
  }
  http::Response get(http::BlobAnswer answer, std::vector<http::Field> fields = {},
                     http::Method method = http::Method::get) {
    http::Request request;
    request.method = method;
    request.fields = fields;
    return wait(store->serve(request, std::move(answer)));
  }
  std::string body_of(const http::Response& response) {
    if (const auto* source = std::get_if<std::unique_ptr<http::BodySource>>(&response.body)) {
      return wait([](http::BodySource& from) -> core::Task<std::string> {
        Buffer out;
        while (co_await from.pull(out) == http::BodySource::Progress::more) continue;
        co_return std::string(out.view());
      }(**source));
    }
    if (const auto* bytes = std::get_if<http::SharedBytes>(&response.body)) return std::string(bytes->bytes);
    const auto* range = std::get_if<http::FileRange>(&response.body);
    if (range == nullptr) return "";
    std::string bytes(range->size, '\0');
    EXPECT_EQ(read_whole(range->fd, bytes.data(), bytes.size(), range->offset, Patience::any), 0);
    return bytes;
  }
  std::size_t files() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options.path.value)) {
      count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  }

  std::string path;
  StoreOptions options;
  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  core::Mailbox mailbox{*reactor};
  core::BlockingPool threads{2, 64};
  std::optional<Store> store;
};

TEST_F(StoreTest, WhatIsWrittenIsServed) {
  open();
  std::string large;
  while (large.size() < 700'000) large += std::to_string(large.size()) + ",";
  for (const std::size_t step : {std::size_t{1000}, std::size_t{16'384}, SIZE_MAX}) {
    const auto blob = put(large, "text/plain", step);
    ASSERT_TRUE(blob);
    EXPECT_EQ(blob->size, large.size());
    const http::Response answer = get(file(blob->hash));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(body_of(answer), large);
    EXPECT_EQ(answer.fields.get("ETag"), "\"" + blob->hash + "\"");
  }
  EXPECT_EQ(files(), 1u);
}

TEST_F(StoreTest, AFileOfTheLimitIsTakenAndOneMoreByteIsNot) {
  options.limit.value = 300_KiB;
  open();
  EXPECT_TRUE(put(std::string(300 << 10, 'x'), "text/plain", 10'000));
  for (const std::size_t step : {std::size_t{10'000}, SIZE_MAX}) {
    const auto refused = put(std::string((300 << 10) + 1, 'x'), "text/plain", step);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::limit);
  }
  EXPECT_EQ(files(), 1u);
}

TEST_F(StoreTest, TypesAreChosenAndLookedAt) {
  options.types = {{"image/*"}, {"text/csv"}};
  open();
  EXPECT_TRUE(store->takes("image/png"));
  EXPECT_TRUE(store->takes("text/csv"));
  EXPECT_FALSE(store->takes("text/html"));
  EXPECT_FALSE(store->takes("imagex/png"));
  EXPECT_TRUE(put("\x89PNG\r\n\x1a\n and more", "image/png", 1));
  for (const std::string& wrong : {"<html>"s, ""s, "\x89PN"s, std::string(600'000, 'x')}) {
    const auto refused = put(wrong, "image/png", 999);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::malformed);
  }
  EXPECT_TRUE(put("a,b", "text/csv"));
  EXPECT_EQ(files(), 2u);
}

TEST_F(StoreTest, OnlySoManyAreOnTheirWay) {
  options.uploads = 2;
  open();
  auto first = store->begin("a/b");
  const auto second = store->begin("a/b");
  EXPECT_TRUE(first && second);
  EXPECT_EQ(store->begin("a/b"), nullptr);
  first.reset();
  EXPECT_NE(store->begin("a/b"), nullptr);
}

TEST_F(StoreTest, WhoLeavesLeavesNothing) {
  open();
  {
    const auto writer = store->begin("a/b");
    core::TaskGroup tasks;
    tasks.spawn([](http::BlobWriter& to) -> core::Task<void> {
      for (int i = 0; i < 3; ++i) (void)co_await to.write(std::string(200'000, 'x'));
      (void)co_await to.write({});
    }(*writer));
    tasks.cancel();  // probably while a thread writes
  }
  {
    const auto writer = store->begin("a/b");
    EXPECT_TRUE(wait([](http::BlobWriter& to) -> core::Task<bool> {
      co_return (co_await to.write(std::string(600'000, 'x'))).has_value();
    }(*writer)));
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(StoreTest, AnswersAreNotRun) {
  open();
  const auto blob = put("<script>");
  const http::Response answer = get(file(blob->hash, "text/html", "a.html"));
  EXPECT_EQ(answer.fields.get("Content-Type"), "text/html");
  EXPECT_EQ(answer.fields.get("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(answer.fields.get("Content-Security-Policy"), "default-src 'none'; sandbox");
  EXPECT_EQ(answer.fields.get("Content-Disposition"), "inline; filename=\"a.html\"");
  EXPECT_EQ(answer.fields.get("Last-Modified"), "");
}

TEST_F(StoreTest, TypesComeFromTheRowOrFromTheFirstBytes) {
  open();
  const auto png = put("\x89PNG\r\n\x1a\n"s + std::string(100'000, 'x'));
  const auto text = put("text");
  EXPECT_EQ(get(file(png->hash)).fields.get("Content-Type"), "image/png");
  EXPECT_EQ(get(file(png->hash)).fields.get("Content-Type"), "image/png") << "from the cache";
  EXPECT_EQ(get(file(text->hash)).fields.get("Content-Type"), "application/octet-stream");
  EXPECT_EQ(get(file(text->hash, "text/plain")).fields.get("Content-Type"), "text/plain");
  EXPECT_EQ(get(file(text->hash, "text/csv")).fields.get("Content-Type"), "text/csv");
  // Invalid types, and text that would add a field, are not sent.
  for (const char* odd : {"text", "text/plain; charset=x", "a/b\r\nX-Other: y", "/", "a/"}) {
    EXPECT_EQ(get(file(text->hash, odd)).fields.get("Content-Type"), "application/octet-stream") << odd;
  }
}

TEST_F(StoreTest, ConditionsAndRanges) {
  open();
  const auto blob = put("0123456789");
  const http::BlobAnswer plain = file(blob->hash, "text/plain", "", "max-age=1");
  const std::string tag = "\"" + blob->hash + "\"";
  http::Response answer = get(plain, {{"If-None-Match", tag}});
  EXPECT_EQ(answer.status, 304);
  EXPECT_EQ(answer.fields.get("ETag"), tag);
  EXPECT_EQ(answer.fields.get("Cache-Control"), "max-age=1");
  EXPECT_EQ(answer.fields.get("Content-Type"), "");
  EXPECT_EQ(get(plain, {{"If-Match", "\"other\""}}).status, 412);
  answer = get(plain, {{"Range", "bytes=2-4"}});
  EXPECT_EQ(answer.status, 206);
  EXPECT_EQ(body_of(answer), "234");
  EXPECT_EQ(answer.fields.get("Content-Type"), "text/plain");
  EXPECT_EQ(get(plain, {{"Range", "bytes=20-"}}).status, 416);
  const auto long_one = put(std::string(10'000, 'x'));
  answer = get(file(long_one->hash), {{"Range", "bytes=0-1,9000-9001"}});
  EXPECT_EQ(answer.status, 206);
  EXPECT_TRUE(
      body_of(answer).contains("\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes 0-1/10000\r\n"));
  answer = get(file(long_one->hash, "text/csv", "a.csv"), {{"Range", "bytes=0-1,9000-9001"}});
  const std::string type(answer.fields.get("Content-Type"));
  const std::string boundary = type.substr(std::string("multipart/byteranges; boundary=").size());
  const std::string head = "--" + boundary + "\r\nContent-Type: text/csv\r\nContent-Range: bytes ";
  EXPECT_EQ(answer.status, 206);
  EXPECT_EQ(type, "multipart/byteranges; boundary=" + boundary);
  EXPECT_EQ(answer.fields.get("Content-Disposition"), "inline; filename=\"a.csv\"");
  EXPECT_EQ(body_of(answer),
            head + "0-1/10000\r\n\r\nxx\r\n" + head + "9000-9001/10000\r\n\r\nxx\r\n--" + boundary + "--\r\n");
  EXPECT_EQ(get(plain, {{"Range", "bytes=2-4"}, {"If-Range", tag}}).status, 206);
  EXPECT_EQ(get(plain, {{"Range", "bytes=2-4"}, {"If-Range", "\"other\""}}).status, 200);
  EXPECT_EQ(get(plain, {}, http::Method::head).status, 200);
}

TEST_F(StoreTest, CountsWhatComesAndWhatIsRefused) {
  options.types = {{"image/*"}};
  options.limit.value = ByteSize{1000};
  options.uploads = 1;
  open();
  const std::string png = "\x89PNG\r\n\x1a\n"s;
  EXPECT_TRUE(put(png, "image/png"));
  EXPECT_TRUE(put(png, "image/png"));
  EXPECT_FALSE(put(std::string(1001, 'x'), "image/png"));
  EXPECT_FALSE(put("GIF89a", "image/png"));
  EXPECT_FALSE(store->takes("text/plain"));
  {
    const auto writer = store->begin("image/png");
    EXPECT_EQ(store->begin("image/png"), nullptr);
  }
  const Store::Counters& counters = store->counters();
  EXPECT_EQ(counters.files, 2u);
  EXPECT_EQ(counters.bytes, 2 * png.size());
  EXPECT_EQ(counters.too_long, 1u);
  EXPECT_EQ(counters.wrong_type, 2u);
  EXPECT_EQ(counters.too_many, 1u);
  EXPECT_EQ(counters.failed, 0u);
}

TEST_F(StoreTest, AMissingFileIsNotFound) {
  open();
  const auto blob = put("abc");
  std::filesystem::remove_all(options.path.value + "/" + blob->hash.substr(0, 2));
  EXPECT_EQ(get(file(blob->hash)).status, 404);
  EXPECT_TRUE(put("abc"));
  EXPECT_EQ(body_of(get(file(blob->hash))), "abc");
}

TEST(ContentDisposition, Names) {
  EXPECT_EQ(content_disposition("a b.png"), "inline; filename=\"a b.png\"");
  EXPECT_EQ(content_disposition("Grüße.txt"), "inline; filename=\"Gr__e.txt\"; filename*=UTF-8''Gr%C3%BC%C3%9Fe.txt");
  EXPECT_EQ(content_disposition("a\"b\\c/../d"), "inline; filename=\"a_b_c_.._d\"; filename*=UTF-8''a%22b_c_.._d");
  EXPECT_EQ(content_disposition("a\r\nX: y"), "inline; filename=\"a__X: y\"; filename*=UTF-8''a__X%3A%20y");
  EXPECT_EQ(content_disposition("100%"), "inline; filename=\"100_\"; filename*=UTF-8''100%25");
  const std::string long_name = content_disposition(std::string(254, 'a') + "ß" + std::string(100, 'b'));
  EXPECT_EQ(long_name, "inline; filename=\"" + std::string(254, 'a') + "\"");
}

TEST(StoreOptions, Types) {
  for (const char* good : {"image/png", "image/*", "application/vnd.a+json"})
    EXPECT_EQ(StoreOptions::check_type(good), "");
  for (const char* wrong : {"", "image", "*/*", "image/p*", "image/", "Image/PNG", "text/plain; charset=utf-8"}) {
    EXPECT_NE(StoreOptions::check_type(wrong), "") << wrong;
  }
}

}  // namespace
}  // namespace sluice::files

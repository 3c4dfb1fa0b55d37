#include "files/static_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace sluice::files {
namespace {

namespace fs = std::filesystem;

// A clock that a test sets; no socket is ever touched.
class StillReactor final : public core::Reactor {
 public:
  StillReactor() : Reactor(Instant(1s)) {}
  void pass(Duration time) { now_ += time; }
  std::int64_t wall_clock_ns() const override { return 0; }
  Result<void> listen(core::Handle&, const core::Address&, const core::ListenOptions&) override { return {}; }
  Result<bool> accept(core::Handle&, core::Handle&, core::Address*) override { return false; }
  Result<bool> connect(core::Handle&, const core::Address&) override { return false; }
  Result<void> connect_result(core::Handle&) override { return {}; }
  Result<core::Address> local_address(const core::Handle&) const override { return core::Address{}; }
  void close(core::Handle&) noexcept override {}
  void shutdown_write(core::Handle&) noexcept override {}
  void reset_on_close(core::Handle&) noexcept override {}
  core::Io recv(core::Handle&, char*, std::size_t) override { return {}; }
  core::Io send(core::Handle&, std::span<const iovec>) override { return {}; }
  core::Io send_file(core::Handle&, int, std::uint64_t, std::size_t) override { return {}; }
  void turn(Instant) override {}
  void wake() noexcept override {}
};

class StaticFilesTest : public testing::Test {
 public:
  StaticFilesTest() {
    char name[] = "/tmp/sluice-files-XXXXXX";
    base = ::mkdtemp(name);
    fs::create_directories(base / "root" / "sub");
    write("root/index.html", "<p>home</p>");
    write("root/a.css", "p {}");
    write("root/sub/index.html", "sub");
    write("root/large.bin", std::string(200'000, 'x'));
    write("secret", "nothing of yours");
    fs::create_symlink("../secret", base / "root" / "out");
    fs::create_symlink("a.css", base / "root" / "inside.css");
    fs::create_directories(base / "root" / "empty");
    FilesOptions options;
    options.root.value = (base / "root").string();
    files = std::make_unique<StaticFiles>(options, reactor);
  }
  ~StaticFilesTest() override { fs::remove_all(base); }

  void write(const std::string& path, std::string_view bytes) { std::ofstream(base / path) << bytes; }
  http::Response get(std::string_view path, std::vector<http::Field> fields = {}) {
    http::Request request;
    const std::string target = "/" + std::string(path);
    request.target = target;
    request.path_values[0] = path;
    request.fields = fields;
    return files->handle(request).take();
  }
  static std::string text(const http::Response& response) {
    if (const auto* shared = std::get_if<http::SharedBytes>(&response.body)) return std::string(shared->bytes);
    return {};
  }

  fs::path base;
  StillReactor reactor;
  std::unique_ptr<StaticFiles> files;
};

TEST_F(StaticFilesTest, ServesWhatIsThere) {
  const auto css = get("a.css");
  EXPECT_EQ(css.status, 200);
  EXPECT_EQ(css.fields.get("content-type"), "text/css; charset=utf-8");
  EXPECT_EQ(text(css), "p {}");
  EXPECT_EQ(text(get("")), "<p>home</p>");
  EXPECT_EQ(text(get("sub/")), "sub");
  EXPECT_EQ(text(get("inside.css")), "p {}") << "a link that stays inside is a file";
  const auto large = get("large.bin");
  EXPECT_EQ(std::get<http::FileRange>(large.body).size, 200'000u);
}

TEST_F(StaticFilesTest, ThereIsNoWayOut) {
  for (const char* path : {"../secret", "sub/../../secret", "out", "/etc/passwd", "//etc/passwd", "sub/../out"}) {
    EXPECT_EQ(get(path).status, 404) << path;
  }
  EXPECT_EQ(get(std::string_view("a.css\0.html", 11)).status, 400);
}

TEST_F(StaticFilesTest, AnEncodedSlashSeparatesNothing) {
  const auto ask = [&](std::string_view segments) {
    std::string path(segments);
    std::ranges::replace(path, '\0', '/');
    http::Request request;
    request.path = path;
    request.segments = segments;
    request.path_values[0] = request.path.substr(1);
    return files->handle(request).take().status;
  };
  using namespace std::string_view_literals;
  EXPECT_EQ(ask("/sub/index.html"), 200);
  EXPECT_EQ(ask("/sub\0index.html"sv), 404);
  EXPECT_EQ(ask("/sub\0"sv), 404);
  EXPECT_EQ(ask("/..\0secret"sv), 404);
}

TEST_F(StaticFilesTest, ADirectoryIsSentToItsSlash) {
  const auto moved = get("sub");
  EXPECT_EQ(moved.status, 301);
  EXPECT_EQ(moved.fields.get("location"), "/sub/");
  EXPECT_EQ(get("empty/").status, 404);
  EXPECT_EQ(get("nothing/").status, 404);
  EXPECT_EQ(get("a.css/").status, 404);
}

TEST_F(StaticFilesTest, AChangeIsSeenAfterASecond) {
  EXPECT_EQ(text(get("a.css")), "p {}");
  write("root/a.css", "p { color: red }");
  EXPECT_EQ(text(get("a.css")), "p {}");
  reactor.pass(1s);
  EXPECT_EQ(text(get("a.css")), "p { color: red }");
  fs::remove(base / "root/a.css");
  reactor.pass(1s);
  EXPECT_EQ(get("a.css").status, 404);
}

TEST_F(StaticFilesTest, AKnownVersionIsNotSentAgain) {
  const auto first = get("a.css");
  const std::string tag(first.fields.get("etag"));
  const std::string date(first.fields.get("last-modified"));
  EXPECT_EQ(get("a.css", {{"If-None-Match", tag}}).status, 304);
  EXPECT_EQ(get("a.css", {{"If-None-Match", "\"x\", W/" + tag}}).status, 304);
  EXPECT_EQ(get("a.css", {{"If-None-Match", "\"x\""}, {"If-Modified-Since", date}}).status, 200);
  EXPECT_EQ(get("a.css", {{"If-Modified-Since", date}}).status, 304);
}

TEST_F(StaticFilesTest, TheCacheHasALimit) {
  for (int i = 0; i < 1500; ++i) write("root/sub/" + std::to_string(i), std::to_string(i));
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1500; ++i) ASSERT_EQ(text(get("sub/" + std::to_string(i))), std::to_string(i));
  }
}

TEST(StaticFiles, ARootThatIsNotThereIsAnError) {
  StillReactor reactor;
  FilesOptions options;
  options.root.value = "/nonexistent/folder";
  EXPECT_THROW(StaticFiles(options, reactor), std::system_error);
}

}  // namespace
}  // namespace sluice::files

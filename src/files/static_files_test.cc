#include "files/static_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/task.h"
#include "files/http_date.h"
#include "http/router.h"

namespace sluice::files {
namespace {

namespace fs = std::filesystem;

// The test sets its clock. It never touches a socket.
class StillReactor final : public core::Reactor {
 public:
  StillReactor() : Reactor(Instant(1s)) {}
  void pass(Duration time) { now_ += time; }
  std::int64_t wall_clock_ns() const override { return wall_clock; }
  Result<void> bind(core::Handle&, const core::Address&, bool) override { return {}; }
  Result<void> start_listening(core::Handle&, int) override { return {}; }
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

  std::int64_t wall_clock = 4'000'000'000'000'000'000;  // files created now have a date in the past
  void set_quiet(core::Handle&, bool) noexcept override {}
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
    write("root/large.bin", large);
    write("secret", "nothing of yours");
    fs::create_symlink("../secret", base / "root" / "out");
    fs::create_symlink(base / "root" / "a.css", base / "root" / "absolute.css");
    fs::create_symlink("/etc/passwd", base / "root" / "passwd");
    fs::create_symlink("a.css", base / "root" / "inside.css");
    fs::create_symlink("loop", base / "root" / "loop");
    fs::create_directories(base / "root" / "empty");
    options.root.value = (base / "root").string();
  }
  ~StaticFilesTest() override {
    files.reset();
    fs::remove_all(base);
  }

  void write(const std::string& path, std::string_view bytes) { std::ofstream(base / path) << bytes; }
  void set_time(const std::string& path, std::int64_t second) {
    const timespec times[2] = {{second, 0}, {second, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, (base / path).c_str(), times, 0), 0);
  }

  // A copy of an answer, which stays valid after the objects of the request are destroyed.
  struct Answer {
    int status = 0;
    std::map<std::string, std::string> fields;
    std::string body;
    std::optional<std::uint64_t> size;
    bool was_cut = false;
    std::string operator[](const std::string& name) const {
      const auto found = fields.find(name);
      return found == fields.end() ? "" : found->second;
    }
  };
  template <class T>
  T await(core::Async<T> async) {
    if (async.ready()) return async.take();
    std::optional<T> result;
    core::TaskGroup tasks;
    tasks.spawn([](core::Task<T> task, std::optional<T>& into) -> core::Task<void> {
      into.emplace(co_await std::move(task));
    }(async.take_task(), result));
    while (!result) {
      mailbox.deliver();
      std::this_thread::yield();
    }
    return std::move(*result);
  }
  Answer get(std::string_view path, std::vector<http::Field> fields = {}, http::Method method = http::Method::get) {
    if (!files) files = std::make_unique<StaticFiles>(options, reactor, mailbox, threads);
    http::Exchange exchange;
    http::Request& request = exchange.request;
    const std::string target = "/" + std::string(path);
    request.method = method;
    request.target = target;
    request.path = target;
    request.query = query;
    request.path_values[0] = request.path.substr(1);
    request.fields = fields;
    return read(await(files->handle(exchange)));
  }
  Answer read(http::Response response) {
    Answer answer;
    answer.status = response.status;
    for (const auto& [name, value] : response.fields.items()) {
      EXPECT_TRUE(answer.fields.emplace(name, value).second) << name << " comes twice";
    }
    answer.size = http::size_of(response.body);
    if (const auto* own = std::get_if<Buffer>(&response.body)) answer.body = own->view();
    if (const auto* shared = std::get_if<http::SharedBytes>(&response.body)) answer.body = shared->bytes;
    if (const auto* range = std::get_if<http::FileRange>(&response.body)) {
      answer.body.resize(range->size);
      const auto count = ::pread(range->fd, answer.body.data(), range->size, static_cast<off_t>(range->offset));
      answer.was_cut = count != static_cast<ssize_t>(range->size);
    }
    if (const auto* source = std::get_if<std::unique_ptr<http::BodySource>>(&response.body)) {
      Buffer buffer;
      for (;;) {
        const std::size_t before = buffer.size();
        const auto progress = await((*source)->pull(buffer));
        answer.was_cut = !progress;
        if (!progress || *progress == http::BodySource::Progress::done) break;
        EXPECT_GT(buffer.size(), before);
        if (between_pulls) between_pulls();
      }
      answer.body = buffer.view();
    }
    return answer;
  }

  const std::string large = [] {
    std::string text;
    for (int i = 0; text.size() < 300'000; ++i) text += std::to_string(i) + " ";
    return text;
  }();
  fs::path base;
  FilesOptions options;
  std::string query;
  std::function<void()> between_pulls;
  StillReactor reactor;
  core::Mailbox mailbox{reactor};
  core::BlockingPool threads{1, 64};
  std::unique_ptr<StaticFiles> files;
};

TEST_F(StaticFilesTest, ServesWhatIsThere) {
  const auto css = get("a.css");
  EXPECT_EQ(css.status, 200);
  EXPECT_EQ(css["Content-Type"], "text/css; charset=utf-8");
  EXPECT_EQ(css.body, "p {}");
  EXPECT_EQ(css["Vary"], "");
  set_time("root/index.html", 784'111'777);
  EXPECT_EQ(get("")["Last-Modified"], "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(get("").body, "<p>home</p>");
  EXPECT_EQ(get("sub/").body, "sub");
  EXPECT_EQ(get("inside.css").body, "p {}") << "a link that stays inside is a file";
  const auto whole = get("large.bin");
  EXPECT_EQ(whole.body, large);
  EXPECT_EQ(whole["Accept-Ranges"], "bytes");
  write("root/\xc3\xbc b.txt", "name");
  EXPECT_EQ(get("\xc3\xbc b.txt").body, "name");
  write("root/nothing", "");
  EXPECT_EQ(get("nothing").size, 0u);
}

TEST_F(StaticFilesTest, ThereIsNoWayOut) {
  using namespace std::string_view_literals;
  for (const std::string_view path :
       {"../secret"sv, "sub/../../secret"sv, "out"sv, "/etc/passwd"sv, "//etc/passwd"sv, "sub/../out"sv, "passwd"sv,
        "absolute.css"sv, "loop"sv, "loop/a.css"sv, "..%2fsecret"sv, "%2e%2e/secret"sv, "a.css/../../secret"sv, ".."sv,
        "../"sv, "../root/a.css"sv, "a.css\0.html"sv, "a.css\0"sv, "out/"sv}) {
    EXPECT_EQ(get(path).status, 404) << path;
  }
  EXPECT_EQ(get(std::string(5000, 'x')).status, 404);
  EXPECT_EQ(get(std::string(300, 'x')).status, 404);
}

TEST_F(StaticFilesTest, NamesThatBeginWithADotAreHidden) {
  for (const char* path : {"root/.git", "root/.well-known", "root/sub/.well-known"}) fs::create_directory(base / path);
  const char* hidden[] = {".env", ".git/config", "sub/.x", ".well-known/.x", "sub/.well-known/x", ".well-knownx"};
  for (const char* path : hidden) write("root/" + std::string(path), "x");
  write("root/.well-known/x", "x");
  EXPECT_EQ(get(".well-known/x").status, 200);
  for (const char* path : hidden) EXPECT_EQ(get(path).status, 404) << path;
  for (const char* path : {".git", ".git/", "sub/.well-known/"}) EXPECT_EQ(get(path).status, 404) << path;
  options.dotfiles = true;
  files.reset();
  for (const char* path : hidden) EXPECT_EQ(get(path).status, 200) << path;
}

TEST_F(StaticFilesTest, WhatIsNoFileIsNotThere) {
  ASSERT_EQ(::mkfifo((base / "root/fifo").c_str(), 0600), 0);
  EXPECT_EQ(get("fifo").status, 404) << "and nobody waits for its other end";
  options.root.value = "/dev";
  files.reset();
  EXPECT_EQ(get("null").status, 404);
  EXPECT_EQ(get("zero").status, 404);
  EXPECT_EQ(get("tty").status, 404);
}

// While this object exists, the process runs as the user nobody, who may read less than root. This affects all threads.
struct Nobody {
  Nobody() : was_root(::geteuid() == 0) {
    if (was_root) {
      EXPECT_EQ(::seteuid(65534), 0);
    }
  }
  ~Nobody() {
    if (was_root) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }
  bool was_root;
};

TEST_F(StaticFilesTest, WhatMayNotBeReadIs403) {
  for (const char* path : {"", "root"}) fs::permissions(base / path, fs::perms(0755));
  fs::permissions(base / "root/index.html", fs::perms(0644));
  fs::permissions(base / "root/a.css", fs::perms::none);
  fs::permissions(base / "root/sub", fs::perms::none);
  {
    const Nobody nobody;
    EXPECT_EQ(get("index.html").status, 200);
    EXPECT_EQ(get("a.css").status, 403);
    EXPECT_EQ(get("sub/").status, 403);
    EXPECT_EQ(get("sub/index.html").status, 403);
    EXPECT_EQ(get("sub/nothing").status, 403) << "whether it is there is not told";
    EXPECT_EQ(get("out").status, 404);
  }
  fs::permissions(base / "root/sub", fs::perms::owner_all);
}

TEST_F(StaticFilesTest, AnEncodedSlashSeparatesNothing) {
  const auto ask = [&](std::string_view segments) {
    std::string path(segments);
    std::ranges::replace(path, '\0', '/');
    http::Exchange exchange;
    http::Request& request = exchange.request;
    request.path = path;
    request.segments = segments;
    request.path_values[0] = request.path.substr(1);
    return read(await(files->handle(exchange))).status;
  };
  using namespace std::string_view_literals;
  (void)get("sub/index.html");
  EXPECT_EQ(ask("/sub/index.html"), 200);
  EXPECT_EQ(ask("/sub\0index.html"sv), 404);
  EXPECT_EQ(ask("/sub\0"sv), 404);
  EXPECT_EQ(ask("/..\0secret"sv), 404);
}

TEST_F(StaticFilesTest, ADirectoryIsSentToItsSlash) {
  EXPECT_EQ(get("sub").status, 301);
  EXPECT_EQ(get("sub")["Location"], "/sub/");
  query = "a=b&c=%20d";
  EXPECT_EQ(get("sub")["Location"], "/sub/?a=b&c=%20d");
  query = "";
  fs::create_directories(base / "root/\xc3\xbc \\\"<");
  EXPECT_EQ(get("\xc3\xbc \\\"<")["Location"], "/%C3%BC%20%5C%22%3C/");
  EXPECT_EQ(get("empty/").status, 404);
  EXPECT_EQ(get("nothing/").status, 404);
  EXPECT_EQ(get("a.css/").status, 404);
}

TEST_F(StaticFilesTest, TheFirstIndexThatExistsAnswers) {
  options.index = {"index.htm", "index.html", "other.html"};
  write("root/sub/other.html", "other");
  EXPECT_EQ(get("sub/").body, "sub");
  write("root/sub/index.htm", "first");
  reactor.pass(1s);
  EXPECT_EQ(get("sub/").body, "first");
  fs::remove(base / "root/sub/index.htm");
  fs::remove(base / "root/sub/index.html");
  fs::create_directories(base / "root/sub/index.html");
  reactor.pass(1s);
  EXPECT_EQ(get("sub/").body, "other") << "a folder is no index";
}

TEST_F(StaticFilesTest, AChangeIsSeenAfterASecond) {
  EXPECT_EQ(get("a.css").body, "p {}");
  const std::string tag = get("a.css")["ETag"];
  write("root/a.css", "p { color: red }");
  EXPECT_EQ(get("a.css").body, "p {}");
  reactor.pass(1s);
  EXPECT_EQ(get("a.css").body, "p { color: red }");
  EXPECT_NE(get("a.css")["ETag"], tag);
  fs::remove(base / "root/a.css");
  reactor.pass(1s);
  EXPECT_EQ(get("a.css").status, 404);
}

TEST_F(StaticFilesTest, TheTagOfAFileUpToAMebibyteIsThatOfItsContent) {
  for (const std::size_t size : {std::size_t{4}, std::size_t{200} << 10, std::size_t{1} << 20}) {
    const std::string one(size, 'a');
    const std::string other(size, 'b');
    write("root/one", one);
    set_time("root/one", 1'700'000'000);
    write("root/copy", one);
    reactor.pass(1s);
    const std::string tag = get("one")["ETag"];
    EXPECT_EQ(get("copy")["ETag"], tag) << "another inode and another time";

    write("root/one", other);
    set_time("root/one", 1'700'000'000);
    reactor.pass(1s);
    const auto changed = get("one", {{"If-None-Match", tag}});
    EXPECT_EQ(changed.status, 200);
    EXPECT_EQ(changed.body, other) << "rewritten in place, with the size and the time that it had";
    EXPECT_NE(changed["ETag"], tag);
  }
}

TEST_F(StaticFilesTest, TheTagOfALargerFileIsThatOfItsTimes) {
  const std::string one((std::size_t{1} << 20) + 1, 'a');
  write("root/one", one);
  set_time("root/one", 1'700'000'000);
  const std::string tag = get("one")["ETag"];
  EXPECT_EQ(get("one", {{"If-None-Match", tag}}).status, 304);
  // The time of change has the resolution of the kernel's clock ticks, so the new one could be the same.
  for (struct stat before{}, now{};
       now.st_ctim.tv_sec == before.st_ctim.tv_sec && now.st_ctim.tv_nsec == before.st_ctim.tv_nsec;) {
    if (before.st_ino == 0) ASSERT_EQ(::stat((base / "root/one").c_str(), &before), 0);
    write("root/one", one);
    set_time("root/one", 1'700'000'000);
    ASSERT_EQ(::stat((base / "root/one").c_str(), &now), 0);
  }
  reactor.pass(1s);
  EXPECT_EQ(get("one", {{"If-None-Match", tag}}).status, 200);
}

TEST_F(StaticFilesTest, TimesOfReproducibleBuildsAreNoDates) {
  for (const std::int64_t second : {0, 1}) {
    set_time("root/a.css", second);
    reactor.pass(1s);
    EXPECT_EQ(get("a.css")["Last-Modified"], "");
  }
  set_time("root/a.css", 2);
  reactor.pass(1s);
  EXPECT_EQ(get("a.css")["Last-Modified"], "Thu, 01 Jan 1970 00:00:02 GMT");
}

TEST_F(StaticFilesTest, WhatHasNotChangedIsNotReadAgain) {
  (void)get("a.css");
  (void)get("a.css");
  EXPECT_EQ(files->counters().hits, 1u);
  EXPECT_EQ(files->counters().misses, 1u);
  EXPECT_EQ(files->counters().files, 1u);
  EXPECT_EQ(files->counters().bytes, 4u);
  reactor.pass(1s);
  (void)get("a.css");
  (void)get("large.bin");
  EXPECT_EQ(files->counters().misses, 3u);
  EXPECT_EQ(files->counters().files, 2u);
  EXPECT_EQ(files->counters().bytes, 4u) << "large ones are kept open, not in memory";
}

TEST_F(StaticFilesTest, ARootThatIsReplacedIsFollowed) {
  fs::create_directories(base / "next");
  write("next/a.css", "next");
  fs::create_symlink("root", base / "current");
  options.root.value = (base / "current").string();
  EXPECT_EQ(get("a.css").body, "p {}");
  fs::create_symlink("next", base / "new");
  fs::rename(base / "new", base / "current");
  reactor.pass(1s);
  EXPECT_EQ(get("a.css").body, "next");
  EXPECT_EQ(get("sub/").status, 404);
  fs::remove(base / "current");
  reactor.pass(1s);
  EXPECT_EQ(get("a.css").body, "next") << "until there is another one";
}

TEST_F(StaticFilesTest, AKnownVersionIsNotSentAgain) {
  options.cache_control = Located<std::string>("max-age=60");
  const auto first = get("a.css");
  const std::string tag = first["ETag"];
  const std::string date = first["Last-Modified"];
  EXPECT_EQ(get("a.css", {{"If-None-Match", "\"x\""}, {"If-Modified-Since", date}}).status, 200);
  EXPECT_EQ(get("a.css", {{"If-Modified-Since", date}}).status, 304);
  for (const auto method : {http::Method::get, http::Method::head}) {
    const auto known = get("a.css", {{"If-None-Match", "\"x\", W/" + tag}, {"Range", "bytes=0-1"}}, method);
    EXPECT_EQ(known.status, 304);
    EXPECT_EQ(known.fields, (std::map<std::string, std::string>{{"ETag", tag}, {"Cache-Control", "max-age=60"}}));
    EXPECT_EQ(known.body, "");
  }
  EXPECT_EQ(get("a.css", {{"If-Match", tag}}).status, 200);
  EXPECT_EQ(get("a.css", {{"If-Match", "\"x\""}}).status, 412);
  EXPECT_EQ(get("a.css", {{"If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"}}).status, 412);
  EXPECT_EQ(get("nothing", {{"If-Match", "*"}}).status, 404);
}

TEST_F(StaticFilesTest, ATimeAheadOfTheClockIsNotTold) {
  reactor.wall_clock = 1'000'000'000'000'000'000;
  const auto css = get("a.css");
  EXPECT_EQ(css.status, 200);
  EXPECT_FALSE(css.fields.contains("Last-Modified"));
  EXPECT_EQ(get("a.css", {{"If-Modified-Since", http_date(3'000'000'000)}}).status, 200);
}

TEST_F(StaticFilesTest, OneRange) {
  const std::string size = std::to_string(large.size());
  const auto part = get("large.bin", {{"Range", "bytes=1000-1009"}});
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part["Content-Range"], "bytes 1000-1009/" + size);
  EXPECT_EQ(part["Content-Type"], "application/octet-stream");
  EXPECT_EQ(part["ETag"], get("large.bin")["ETag"]);
  EXPECT_EQ(part.body, large.substr(1000, 10));
  const auto small = get("a.css", {{"Range", "bytes=-3"}});
  EXPECT_EQ(small["Content-Range"], "bytes 1-3/4");
  EXPECT_EQ(small.body, " {}");
  EXPECT_EQ(get("a.css", {{"Range", "bytes=0-9,1-9"}}).body, "p {}") << "one is left of several";
  EXPECT_EQ(get("a.css", {{"Range", "bytes=0-9,1-9"}}).status, 206);

  EXPECT_EQ(get("a.css", {{"Range", "bytes=0-0"}}, http::Method::head).status, 200);
  EXPECT_EQ(get("a.css", {{"Range", "lines=0-0"}}).status, 200);
  EXPECT_EQ(get("a.css", {{"Range", "bytes=2-1"}}).status, 200);
  const auto beyond = get("a.css", {{"Range", "bytes=4-"}});
  EXPECT_EQ(beyond.status, 416);
  EXPECT_EQ(beyond["Content-Range"], "bytes */4");
}

TEST_F(StaticFilesTest, RangesOfAnotherVersionAreNotObeyed) {
  const auto css = get("a.css");
  const http::Field range{"Range", "bytes=0-0"};
  const std::string tag = css["ETag"];
  const std::string date = css["Last-Modified"];
  EXPECT_EQ(get("a.css", {range, {"If-Range", tag}}).status, 206);
  EXPECT_EQ(get("a.css", {range, {"If-Range", date}}).status, 206);
  EXPECT_EQ(get("a.css", {range, {"If-Range", "W/" + tag}}).status, 200);
  EXPECT_EQ(get("a.css", {range, {"If-Range", "\"x\""}}).status, 200);
  EXPECT_EQ(get("a.css", {{"Range", "bytes=9-"}, {"If-Range", "\"x\""}}).status, 200) << "416 only of this version";
}

// The parts of a multipart/byteranges body: Content-Range and bytes.
std::vector<std::pair<std::string, std::string>> parts_of(const std::string& body, const std::string& media_type) {
  std::vector<std::pair<std::string, std::string>> parts;
  const std::string boundary = "--" + media_type.substr(media_type.find("boundary=") + 9);
  std::string rest = "\r\n" + body;
  for (;;) {
    EXPECT_TRUE(rest.starts_with("\r\n" + boundary));
    rest.erase(0, boundary.size() + 2);
    if (rest == "--\r\n") return parts;
    const auto head_end = rest.find("\r\n\r\n");
    const auto end = rest.find("\r\n" + boundary, head_end);
    if (head_end == std::string::npos || end == std::string::npos) {
      ADD_FAILURE() << "no part: " << rest.substr(0, 100);
      return parts;
    }
    const auto range = rest.find("Content-Range: ") + 15;
    EXPECT_NE(rest.substr(0, head_end).find("Content-Type: "), std::string::npos);
    parts.emplace_back(rest.substr(range, rest.find("\r\n", range) - range),
                       rest.substr(head_end + 4, end - head_end - 4));
    rest.erase(0, end);
  }
}

TEST_F(StaticFilesTest, SeveralRanges) {
  const std::string size = std::to_string(large.size());
  const auto answer = get("large.bin", {{"Range", "bytes=200000-299999, 0-9, -5, 10000-150000"}});
  EXPECT_EQ(answer.status, 206);
  EXPECT_FALSE(answer.was_cut);
  EXPECT_FALSE(answer.fields.contains("Content-Range"));
  EXPECT_EQ(answer["ETag"], get("large.bin")["ETag"]);
  const auto parts = parts_of(answer.body, answer["Content-Type"]);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0], std::pair("bytes 200000-300001/" + size, large.substr(200'000)))
      << "the last bytes belong to the first range";
  EXPECT_EQ(parts[1], std::pair("bytes 0-9/" + size, large.substr(0, 10)));
  EXPECT_EQ(parts[2], std::pair("bytes 10000-150000/" + size, large.substr(10'000, 140'001)));

  write("root/middle.txt", large.substr(0, 5000));
  const auto middle = get("middle.txt", {{"Range", "bytes=0-0,4999-"}});
  const auto two = parts_of(middle.body, middle["Content-Type"]);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].second, large.substr(0, 1));
  EXPECT_EQ(two[1].second, large.substr(4999, 1));
  EXPECT_NE(middle["Content-Type"], get("middle.txt", {{"Range", "bytes=0-0,4999-"}})["Content-Type"])
      << "each answer has its own boundary";
  const auto tiny = get("a.css", {{"Range", "bytes=0-0"}});
  EXPECT_EQ(tiny.status, 206);
  write("root/short.txt", large.substr(0, 200));
  EXPECT_EQ(get("short.txt", {{"Range", "bytes=0-0,199-"}}).status, 200) << "the parts would be longer than the whole";
}

TEST_F(StaticFilesTest, AFileThatShrinksCutsItsParts) {
  between_pulls = [&] { fs::resize_file(base / "root/large.bin", 100'000); };
  EXPECT_TRUE(get("large.bin", {{"Range", "bytes=0-99999,200000-200009"}}).was_cut);
}

TEST_F(StaticFilesTest, AFileThatIsReplacedIsSentAsItWas) {
  between_pulls = [&] {
    write("new", "other");
    fs::rename(base / "new", base / "root/large.bin");
    between_pulls = nullptr;
  };
  const auto answer = get("large.bin", {{"Range", "bytes=0-99999,200000-200009"}});
  EXPECT_FALSE(answer.was_cut);
  EXPECT_EQ(parts_of(answer.body, answer["Content-Type"]).at(1).second, large.substr(200'000, 10));
}

TEST_F(StaticFilesTest, Precompressed) {
  options.precompressed = true;
  write("root/app.js", "plain javascript");
  write("root/app.js.br", "brotli");
  write("root/app.js.zst", "zstandard");
  write("root/app.js.gz", "gzipped..");
  for (const char* name : {"app.js", "app.js.br", "app.js.zst", "app.js.gz"}) {
    set_time("root/" + std::string(name), 1'700'000'000);
  }
  const auto ask = [&](std::string_view accepted) { return get("app.js", {{"Accept-Encoding", accepted}}); };
  std::map<std::string, std::string> tags;
  for (const auto& [accepted, coding, body] :
       {std::tuple("gzip, deflate, br, zstd", "br", "brotli"), std::tuple("gzip, zstd;q=0.5", "gzip", "gzipped.."),
        std::tuple("zstd", "zstd", "zstandard"), std::tuple("identity", "", "plain javascript")}) {
    const auto answer = ask(accepted);
    EXPECT_EQ(answer["Content-Encoding"], coding);
    EXPECT_EQ(answer.body, body);
    EXPECT_EQ(answer["Content-Type"], "text/javascript; charset=utf-8");
    EXPECT_EQ(answer["Vary"], "Accept-Encoding");
    EXPECT_TRUE(tags.emplace(answer["ETag"], coding).second) << "a tag for each representation";
    const auto known = get("app.js", {{"Accept-Encoding", accepted}, {"If-None-Match", answer["ETag"]}});
    EXPECT_EQ(known.status, 304);
    EXPECT_EQ(known["Vary"], "Accept-Encoding");
    EXPECT_EQ(known["Content-Encoding"], "");
  }
  const auto part = get("app.js", {{"Accept-Encoding", "br"}, {"Range", "bytes=0-1"}});
  EXPECT_EQ(part.body, "br");
  EXPECT_EQ(part["Content-Range"], "bytes 0-1/6");
  EXPECT_EQ(part["Content-Encoding"], "br");
  write("root/long.js", large);
  write("root/long.js.gz", large);
  const auto parts = get("long.js", {{"Accept-Encoding", "gzip"}, {"Range", "bytes=0-1,1000-1001"}});
  EXPECT_EQ(parts.status, 200) << "several parts of what is coded would look as if they were coded together";
  EXPECT_EQ(parts["Content-Encoding"], "gzip");
  EXPECT_EQ(get("app.js.gz")["Content-Type"], "application/gzip") << "asked for itself, it is a file";

  set_time("root/app.js", 1'700'000'001);
  set_time("root/app.js.gz", 1'700'000'001);
  reactor.pass(1s);
  EXPECT_EQ(ask("br, zstd, gzip")["Content-Encoding"], "gzip") << "what is older than the file is of another version";
  fs::remove(base / "root/app.js");
  reactor.pass(1s);
  EXPECT_EQ(ask("br").status, 404);
}

TEST_F(StaticFilesTest, PrecompressedOnlyWhereItIsOn) {
  write("root/a.css.gz", "gzipped");
  const auto css = get("a.css", {{"Accept-Encoding", "gzip"}});
  EXPECT_EQ(css.body, "p {}");
  EXPECT_EQ(css["Vary"], "");
}

TEST_F(StaticFilesTest, TheFallbackAnswersForPages) {
  options.fallback = Located<std::string>("index.html");
  const http::Field page{"Accept", "text/html,application/xhtml+xml,*/*;q=0.8"};
  const http::Field anything{"Accept", "*/*"};
  const auto answer = get("users/5", {page});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "<p>home</p>");
  EXPECT_EQ(answer["Content-Type"], "text/html; charset=utf-8");
  EXPECT_EQ(answer["Vary"], "Accept");
  EXPECT_EQ(get("users/5/", {page}).status, 200);
  EXPECT_EQ(get("users/5.6", {page}).status, 200);
  EXPECT_EQ(get("empty/", {page}).status, 200);
  EXPECT_EQ(get("users/5", {anything}).status, 200);
  EXPECT_EQ(get("users/5").status, 200) << "who says nothing takes everything";
  EXPECT_EQ(get("users/5", {page}, http::Method::head).status, 200);
  EXPECT_EQ(get("users/5", {page, {"If-None-Match", answer["ETag"]}}).status, 304);
  EXPECT_EQ(get("a.css", {page}).body, "p {}");
  EXPECT_EQ(get("sub", {page}).status, 301);
  EXPECT_EQ(get("../secret", {page}).body, "<p>home</p>");

  files->set_api_paths({"/api/films", "/users", "/sub/a"});
  EXPECT_EQ(get("api/films/5/x", {page}).status, 404) << "below the path of an API";
  EXPECT_EQ(get("users/5", {page}).status, 404);
  EXPECT_EQ(get("users5", {anything}).status, 200);
  EXPECT_EQ(get("api/none", {page}).status, 200) << "beside it, a page may exist";
  EXPECT_EQ(get("api/none", {anything}).status, 404);
  EXPECT_EQ(get("api", {anything}).status, 404);
  EXPECT_EQ(get("apis", {anything}).status, 200);
  files->set_api_paths({});

  EXPECT_EQ(get("missing.js", {anything}).status, 404);
  EXPECT_EQ(get("missing.js").status, 404);
  for (const char* accepted : {"application/json", "image/*", "text/html;q=0, */*"}) {
    const auto missing = get("users/5", {{"Accept", accepted}});
    EXPECT_EQ(missing.status, 404) << accepted;
    EXPECT_EQ(missing["Vary"], "Accept");
  }
  fs::remove(base / "root/index.html");
  reactor.pass(1s);
  EXPECT_EQ(get("users/5", {page}).status, 404);
}

TEST_F(StaticFilesTest, ListingsAreOffUnlessAskedFor) {
  EXPECT_EQ(get("empty/").status, 404);
  options.index.clear();
  files.reset();
  EXPECT_EQ(get("sub/").status, 404);
  EXPECT_EQ(get("").status, 404);
}

TEST_F(StaticFilesTest, AListing) {
  options.listing = true;
  const std::string nasty = "<script>alert('&\"')";
  write("root/empty/" + nasty, "12345");
  write("root/empty/b.txt", "");
  write("root/empty/\xff", "");
  write("root/empty/.hidden", "");
  fs::create_directories(base / "root/empty/z");
  fs::create_symlink("../../secret", base / "root/empty/out");
  fs::create_symlink("../a.css", base / "root/empty/in");
  ASSERT_EQ(::mkfifo((base / "root/empty/fifo").c_str(), 0600), 0);
  for (const auto& name : {nasty, std::string("b.txt"), std::string("\xff"), std::string("z")}) {
    set_time("root/empty/" + name, 1'700'000'000);
  }
  set_time("root/a.css", 1'700'000'000);
  const auto page = get("empty/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page["Content-Type"], "text/html; charset=utf-8");
  EXPECT_EQ(page["Vary"], "Accept");
  EXPECT_EQ(page.body.find("<script"), std::string::npos);
  EXPECT_NE(
      page.body.find("href=\"%3Cscript%3Ealert%28%27%26%22%27%29\">&lt;script&gt;alert(&#39;&amp;&quot;&#39;)</a>"),
      std::string::npos);
  EXPECT_EQ(page.body.find("hidden"), std::string::npos);
  EXPECT_EQ(page.body.find("out"), std::string::npos);
  EXPECT_EQ(page.body.find("fifo"), std::string::npos);
  EXPECT_LT(page.body.find("href=\"z/\""), page.body.find("href=\"b.txt\"")) << "folders first";
  EXPECT_NE(page.body.find("href=\"../\""), std::string::npos);

  const http::Field json{"Accept", "application/json"};
  const auto list = get("empty/", {json});
  EXPECT_EQ(list["Content-Type"], "application/json");
  const std::string expected = R"x({"path":"/empty/","entries":[
{"name":"z","href":"z/","type":"folder","modified":"2023-11-14T22:13:20Z"},
{"name":"<script>alert('&\"')","href":"%3Cscript%3Ealert%28%27%26%22%27%29","type":"file","size":5,"modified":"2023-11-14T22:13:20Z"},
{"name":"b.txt","href":"b.txt","type":"file","size":0,"modified":"2023-11-14T22:13:20Z"},
{"name":"in","href":"in","type":"file","size":4,"modified":"2023-11-14T22:13:20Z"},
{"name":"?","href":"%FF","type":"file","size":0,"modified":"2023-11-14T22:13:20Z"}],"complete":true}
)x";
  std::string body = list.body;
  if (const auto at = body.find("\xef\xbf\xbd"); at != std::string::npos) body.replace(at, 3, "?");
  EXPECT_EQ(body, expected);
  EXPECT_NE(list["ETag"], page["ETag"]);
  EXPECT_EQ(get("empty/", {json, {"If-None-Match", list["ETag"]}}).status, 304);
  EXPECT_EQ(get("empty/", {{"Accept", "text/html, application/json;q=0.9"}}).body, page.body);
  EXPECT_EQ(get("sub/").body, "sub") << "the index goes first";
  EXPECT_EQ(get("nothing/").status, 404);
  EXPECT_EQ(get("a.css/").status, 404);
  EXPECT_EQ(get("empty").status, 301);

  fs::remove(base / "root/empty/b.txt");
  EXPECT_EQ(get("empty/", {json})["ETag"], list["ETag"]);
  reactor.pass(1s);
  EXPECT_EQ(get("empty/", {json}).body.find("b.txt"), std::string::npos);
}

TEST_F(StaticFilesTest, AListingHasALimit) {
  options.listing = true;
  for (std::size_t i = 0; i < most_listed; ++i) write("root/empty/" + std::to_string(i), "");
  const http::Field json{"Accept", "application/json"};
  EXPECT_TRUE(get("empty/", {json}).body.ends_with("\"complete\":true}\n"));
  write("root/empty/more", "");
  reactor.pass(1s);
  const auto list = get("empty/", {json});
  EXPECT_TRUE(list.body.ends_with("\"complete\":false}\n"));
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(list.body, '\n')), most_listed + 1);
  EXPECT_NE(get("empty/").body.find("There is more"), std::string::npos);
}

TEST_F(StaticFilesTest, TheCacheHasLimits) {
  options.cache_files = 100;
  options.cache_memory = ByteSize{100};
  for (int i = 0; i < 200; ++i) write("root/sub/" + std::to_string(i), std::to_string(i));
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(get("sub/" + std::to_string(i)).body, std::to_string(i));
      ASSERT_LE(files->counters().files, 100u);
      ASSERT_LE(files->counters().bytes, 100u);
    }
  }
  EXPECT_EQ(files->counters().hits, 0u) << "each has gone when it is asked for again";
  EXPECT_EQ(files->counters().files, 33u) << "of three bytes each";
  write("root/sub/long", std::string(101, 'x'));
  EXPECT_EQ(get("sub/long").size, 101u);
  EXPECT_EQ(files->counters().files, 33u) << "what is too long for it displaces nothing";
}

TEST_F(StaticFilesTest, WithoutACacheEverythingIsLookedUp) {
  options.cache_files = 0;
  EXPECT_EQ(get("a.css").body, "p {}");
  write("root/a.css", "p { }");
  EXPECT_EQ(get("a.css").body, "p { }");
  EXPECT_EQ(files->counters().files, 0u);
}

TEST_F(StaticFilesTest, APoolThatIsFullIs503) {
  core::BlockingPool full(1, 0);
  StaticFiles handler(options, reactor, mailbox, full);
  http::Exchange exchange;
  http::Request& request = exchange.request;
  request.path_values[0] = "never-asked-for";
  EXPECT_EQ(read(await(handler.handle(exchange)))["Retry-After"], "1");
}

TEST_F(StaticFilesTest, WhoLeavesIsNotWaitedFor) {
  auto handler = std::make_unique<StaticFiles>(options, reactor, mailbox, threads);
  http::Exchange exchange;
  http::Request& request = exchange.request;
  request.path_values[0] = "never-asked-for-either";
  {
    core::TaskGroup tasks;
    tasks.spawn([](core::Async<http::Response> async) -> core::Task<void> {
      (void)co_await std::move(async);
      ADD_FAILURE() << "it was cancelled";
    }(handler->handle(exchange)));
    ASSERT_EQ(tasks.size(), 1u);
  }
  handler.reset();
  EXPECT_EQ(get("a.css").status, 200);
  mailbox.deliver();
}

TEST_F(StaticFilesTest, OtherMethodsAre405) {
  (void)get("a.css");
  http::Router router;
  http::Router::Route route{.pattern = *http::Pattern::parse("/{file...}"), .handlers = {}};
  route.handlers[static_cast<std::size_t>(http::Method::get)] = files.get();
  ASSERT_TRUE(router.add(route));
  http::Exchange exchange;
  http::Request& request = exchange.request;
  request.path = request.segments = request.target = "/a.css";
  request.method = http::Method::post;
  auto answer = read(await(router.handle(exchange)));
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer["Allow"], "GET, HEAD, OPTIONS");
  request.method = http::Method::options;
  exchange.reset();
  answer = read(await(router.handle(exchange)));
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer["Allow"], "GET, HEAD, OPTIONS");
}

TEST_F(StaticFilesTest, ThePathItselfLeadsToItsFolder) {
  (void)get("a.css");
  http::Router router;
  http::Router::Route route{.pattern = *http::Pattern::parse("/my files/{file...}"), .handlers = {}, .folder = true};
  route.handlers[static_cast<std::size_t>(http::Method::get)] = files.get();
  ASSERT_TRUE(router.add(route));
  http::Exchange exchange;
  http::Request& request = exchange.request;
  request.path = request.segments = "/my files";
  request.query = "a=b";
  auto answer = read(await(router.handle(exchange)));
  EXPECT_EQ(answer.status, 301);
  EXPECT_EQ(answer["Location"], "/my%20files/?a=b");
  request.path = request.segments = "/my files/";
  exchange.reset();
  answer = read(await(router.handle(exchange)));
  EXPECT_EQ(answer.body, "<p>home</p>");
}

TEST(StaticFiles, ARootThatIsNotThereIsAnError) {
  StillReactor reactor;
  core::Mailbox mailbox(reactor);
  core::BlockingPool threads(1, 1);
  FilesOptions options;
  options.root.value = "/nonexistent/folder";
  EXPECT_THROW(StaticFiles(options, reactor, mailbox, threads), std::system_error);
  options.root.value = "/etc/passwd";
  EXPECT_THROW(StaticFiles(options, reactor, mailbox, threads), std::system_error);
}

}  // namespace
}  // namespace sluice::files

#include "base/log_writer.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

namespace sluice {
namespace {

constexpr Duration long_enough = 30s;

// A pipe or a pair of sockets. The test decides when it is read.
struct Ends {
  enum class Kind { pipe, socket };
  explicit Ends(Kind kind) {
    std::signal(SIGPIPE, SIG_IGN);
    int both[2] = {-1, -1};
    const int failed = kind == Kind::pipe ? ::pipe(both) : ::socketpair(AF_UNIX, SOCK_STREAM, 0, both);
    EXPECT_EQ(failed, 0);
    reader = both[0];
    writer = both[1];
  }
  ~Ends() {
    close_reader();
    ::close(writer);
  }
  void close_reader() {
    if (reader >= 0) ::close(std::exchange(reader, -1));
  }
  // Reads until the text ends with `end`.
  std::string read_until(std::string_view end) const {
    std::string text;
    char part[4096];
    while (!text.ends_with(end)) {
      const ssize_t size = ::read(reader, part, sizeof part);
      if (size <= 0) break;
      text.append(part, static_cast<std::size_t>(size));
    }
    return text;
  }
  int reader = -1;
  int writer = -1;
};

std::string line_of(int number) { return "line " + std::to_string(number) + std::string(90, '.') + "\n"; }

class ALogWriter : public testing::TestWithParam<Ends::Kind> {};

TEST_P(ALogWriter, WritesAtOnceWhileItsReaderReads) {
  const Ends ends(GetParam());
  LogWriter log(ends.writer, "it");
  log.write("one\n");
  char text[8];
  ASSERT_EQ(::read(ends.reader, text, sizeof text), 4);
  EXPECT_EQ(std::string_view(text, 4), "one\n");
}

// No call waits, the lines that fit arrive in order and whole, and the others are counted.
TEST_P(ALogWriter, DropsWholeLinesWhenItsReaderStalls) {
  const Ends ends(GetParam());
  LogWriter log(ends.writer, "it", 64 * 1024);
  constexpr int lines = 20'000;  // 2 MB
  for (int i = 0; i < lines; ++i) log.write(line_of(i));
  const std::uint64_t dropped = log.dropped();
  EXPECT_GT(dropped, 0U);
  std::string text;
  std::thread reader([&] {
    char part[4096];
    for (ssize_t size = 0; (size = ::read(ends.reader, part, sizeof part)) > 0;) {
      text.append(part, static_cast<std::size_t>(size));
      if (text.ends_with("the end\n")) return;
    }
  });
  log.finish(long_enough);
  EXPECT_EQ(::write(ends.writer, "the end\n", 8), 8);
  reader.join();
  int number = 0;
  for (std::size_t at = 0; text.compare(at, 5, "line ") == 0; at += line_of(number++).size()) {
    ASSERT_EQ(text.compare(at, line_of(number).size(), line_of(number)), 0) << number;
  }
  EXPECT_EQ(static_cast<std::uint64_t>(number) + dropped, static_cast<std::uint64_t>(lines));
}

TEST_P(ALogWriter, ReportsWhatItDroppedWhenTheReaderIsBack) {
  const Ends ends(GetParam());
  const Ends errors(Ends::Kind::pipe);
  LogWriter error_log(errors.writer, "the error log");
  set_error_log(&error_log);
  LogWriter log(ends.writer, "the log", 64 * 1024);
  while (log.dropped() < 5) log.write(line_of(1));
  const std::uint64_t dropped = log.dropped();
  std::thread reader([&] { (void)ends.read_until("the end\n"); });
  EXPECT_TRUE(errors.read_until("were dropped\n")
                  .ends_with(" the log was not read for a time: " + std::to_string(dropped) + " lines were dropped\n"));
  log.write("the end\n");
  reader.join();
  set_error_log(nullptr);
}

TEST_P(ALogWriter, EndsThoughNobodyReads) {
  const Ends ends(GetParam());
  LogWriter log(ends.writer, "it", 64 * 1024);
  while (log.dropped() == 0) log.write(line_of(1));
  log.finish(1ms);
  const std::uint64_t dropped = log.dropped();
  log.write("late\n");
  EXPECT_EQ(log.dropped(), dropped + 1);
}

TEST_P(ALogWriter, CountsWhatNobodyCanRead) {
  Ends ends(GetParam());
  ends.close_reader();
  LogWriter log(ends.writer, "it");
  log.write("one\ntwo\n");
  log.finish(long_enough);
  EXPECT_EQ(log.dropped(), 2U);
}

INSTANTIATE_TEST_SUITE_P(, ALogWriter, testing::Values(Ends::Kind::pipe, Ends::Kind::socket),
                         [](const auto& kind) { return kind.param == Ends::Kind::pipe ? "Pipe" : "Socket"; });

// A file in a folder of its own.
class ALogFile : public testing::Test {
 public:
  ALogFile() { EXPECT_NE(::mkdtemp(folder.data()), nullptr); }
  ~ALogFile() override { std::filesystem::remove_all(folder); }

  [[nodiscard]] LogFile open(const std::string& name) const {
    auto file = LogFile::open(folder + "/" + name);
    EXPECT_TRUE(file) << file.error();
    return std::move(*file);
  }
  [[nodiscard]] std::string text_of(const std::string& name) const {
    std::ifstream file(folder + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder = testing::TempDir() + "/log-XXXXXX";
};

TEST_F(ALogFile, IsAppendedTo) {
  for (const char* const line : {"one\n", "two\n"}) {
    LogWriter log("the log");
    log.change_file(open("log"));
    log.write(line);
  }
  EXPECT_EQ(text_of("log"), "one\ntwo\n");
  EXPECT_EQ(LogFile::open(folder + "/no/log").error(), "No such file or directory");
  EXPECT_EQ(LogFile::open(folder).error(), "Is a directory");
}

// The lines fill the buffer several times, so that many writes end within a line.
TEST_F(ALogFile, EveryLineIsWholeWhicheverFileItIsIn) {
  constexpr int threads = 4;
  constexpr int lines = 5000;
  LogWriter log("the log", 4 << 20);
  log.change_file(open("0"));
  int files = 1;
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < threads; ++i) {
      writers.emplace_back([&log] {
        for (int line = 0; line < lines; ++line) log.write(line_of(line));
      });
    }
    for (; files < 20; ++files) log.change_file(open(std::to_string(files)));
  }
  log.finish(long_enough);
  std::map<std::string, int> found;
  for (int i = 0; i < files; ++i) {
    std::istringstream text(text_of(std::to_string(i)));
    for (std::string line; std::getline(text, line);) ++found[line + "\n"];
  }
  EXPECT_EQ(found.size(), static_cast<std::size_t>(lines));
  for (int line = 0; line < lines; ++line) EXPECT_EQ(found[line_of(line)], threads) << line;
  EXPECT_EQ(log.dropped(), 0U);
}

TEST_F(ALogFile, AFullDiskCostsLinesAndDoesNotJoinThem) {
  const std::string line(99, '.');
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  LogWriter log("the log");
  log.change_file(open("log"));
  const rlimit full{.rlim_cur = 250, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  for (int i = 0; i < 5; ++i) log.write(line + "\n");
  while (log.dropped() < 3) std::this_thread::yield();
  log.write("lost\n");
  while (log.dropped() < 4) std::this_thread::yield();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  log.write("after\n");
  log.finish(long_enough);
  EXPECT_EQ(text_of("log"), line + "\n" + line + "\n" + std::string(50, '.') + "\nafter\n");
  EXPECT_EQ(log.dropped(), 4U);
}

// The disk became full before the program started, or before the file was opened again.
TEST_F(ALogFile, AFileThatEndsWithinALineIsContinuedOnTheNext) {
  std::ofstream(folder + "/log") << "one\ntw";
  LogWriter log("the log");
  log.change_file(open("log"));
  log.write("three\n");
  log.change_file(open("log"));
  log.finish(long_enough);
  EXPECT_EQ(text_of("log"), "one\ntw\nthree\n");
}

TEST(LogError, WritesNoControlCharacters) {
  const Ends ends(Ends::Kind::pipe);
  LogWriter log(ends.writer, "it");
  set_error_log(&log);
  log_error("of \x1b[31msomebody\x7f\nand\r\tmore");
  set_error_log(nullptr);
  EXPECT_TRUE(ends.read_until("\n").ends_with("sluice: of  [31msomebody  and  more\n"));
}

}  // namespace
}  // namespace sluice

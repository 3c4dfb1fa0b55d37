#include "services/host.h"

#include <atomic>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/core.h"
#include "msg/frame.h"

namespace sluice::services {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t say_id = 1;    // to everyone
constexpr std::uint32_t total_id = 2;  // how many frames all cores have had
constexpr std::uint32_t block_id = 3;  // answered by a thread of the pool
constexpr unsigned core_count = 2;

// The steps that all instances have taken, in order.
struct Steps {
  void add(const std::string& step) {
    const std::lock_guard lock(mutex);
    list.push_back(step);
  }
  std::vector<std::string> of(const std::string& core) {
    std::vector<std::string> found;
    for (const std::string& step : list) {
      if (step.ends_with(core)) found.push_back(step.substr(0, step.size() - core.size()));
    }
    return found;
  }
  std::mutex mutex;
  std::vector<std::string> list;
};

class First final : public msg::Service {
 public:
  explicit First(Steps* steps) : steps_(steps) {}
  void configure(msg::Context& context) override {
    context_ = &context;
    add("first configured ");
  }
  void wire(msg::Dispatcher& dispatcher) override {
    add("first wired ");
    dispatcher.on(say_id, [this](msg::Session&, const msg::Frame& frame) {
      ++frames;
      context_->broadcast({.id = say_id, .body = frame.body});
    });
    dispatcher.on(total_id, [this](msg::Session& session, const msg::Frame& frame) { return total(session, frame); });
    dispatcher.on(block_id, [this](msg::Session& session, const msg::Frame& frame) { return block(session, frame); });
  }
  void start() override {
    add("first started ");
    context_->every(1ms, [this] { ++ticks; });
  }
  void stop() override { add("first stopped "); }

  std::uint64_t frames = 0;
  std::uint64_t ticks = 0;

 private:
  void add(const std::string& step) { steps_->add(step + std::to_string(context_->core())); }
  core::Task<void> total(msg::Session& session, const msg::Frame& frame) {
    const auto frames_of = [](First& there) { return there.frames; };
    std::uint64_t sum = 0;
    for (unsigned core = 0; core < context_->cores(); ++core) {
      const auto count = co_await context_->call<First>(core, context_->reactor().now() + 10s, frames_of);
      if (!count) co_return (void) session.send_error(frame, msg::ErrorCode::internal, count.error().text());
      sum += *count;
    }
    session.reply(frame, total_id, std::to_string(sum));
  }
  core::Task<void> block(msg::Session& session, const msg::Frame& frame) {
    auto work = [text = std::string(msg::text_of(frame.body))] { return text + " from a thread"; };
    const auto text = co_await context_->block(std::move(work));
    session.reply(frame, block_id, text ? *text : "failed");
  }

  Steps* steps_;
  msg::Context* context_ = nullptr;
};

class Second final : public msg::Service {
 public:
  Second(Steps* steps, bool throws) : steps_(steps), throws_(throws) {}
  void configure(msg::Context& context) override {
    context_ = &context;
    EXPECT_NE(context.find<First>(), nullptr);
    if (throws_ && context.core() == 1) throw std::runtime_error("no configuration");
    steps_->add("second configured " + std::to_string(context.core()));
  }
  void stop() override { steps_->add("second stopped " + std::to_string(context_->core())); }

 private:
  Steps* steps_;
  const bool throws_;
  msg::Context* context_ = nullptr;
};

const std::string token = "0123456789abcdef";

// A host that runs on a thread of its own.
class Running {
 public:
  Running() {
    HostOptions options{.listen = {"127.0.0.1:0"},
                        .cores = core_count,
                        .admin = {.listen = "127.0.0.1:0", .token = token},
                        .grace = 200ms};
    options.ready = [this](const std::vector<std::string>& addresses) { ready_.set_value(addresses); };
    host_ = std::make_unique<Host>(options);
    host_->add<First>(&steps);
    host_->add<Second>(&steps, false);
    thread_ = std::thread([this] { result = host_->run(); });
    const auto addresses = ready_.get_future().get();
    EXPECT_EQ(addresses.size(), 2u);
    address = *core::Address::parse(addresses.at(0));
    admin = *core::Address::parse(addresses.at(1));
  }
  Running(const Running&) = delete;
  ~Running() { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    host_->stop();
    thread_.join();
  }

  Steps steps;
  core::Address address;
  core::Address admin;
  int result = -1;

 private:
  std::promise<std::vector<std::string>> ready_;
  std::unique_ptr<Host> host_;
  std::thread thread_;
};

// A client with a blocking socket.
class Client {
 public:
  explicit Client(const core::Address& address) : fd_(::socket(address.family(), SOCK_STREAM, 0)) {
    EXPECT_EQ(::connect(fd_, address.get(), address.size()), 0);
    const timeval most{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  }
  Client(const Client&) = delete;
  ~Client() { ::close(fd_); }

  void send(std::uint32_t id, std::string_view body) {
    Buffer bytes;
    msg::append_frame(bytes, {.id = id, .body = msg::bytes_of(body)});
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // The body of the next frame; "ended" after the end.
  std::string receive() {
    for (;;) {
      const auto frame = decoder_.next(in_);
      if (!frame) return "malformed";
      if (*frame) return std::string(msg::text_of((*frame)->body));
      const ssize_t got = ::recv(fd_, in_.reserve(4096), 4096, 0);
      if (got <= 0) return "ended";
      in_.commit(static_cast<std::size_t>(got));
    }
  }

 private:
  int fd_;
  Buffer in_;
  msg::FrameDecoder decoder_{msg::largest_body};
};

TEST(Host, ServesOnAllCores) {
  Running host;
  constexpr int clients = 16;
  constexpr int texts = 20;
  std::vector<std::unique_ptr<Client>> all;
  for (int i = 0; i < clients; ++i) {
    all.push_back(std::make_unique<Client>(host.address));
    all.back()->send(block_id, "text");
    EXPECT_EQ(all.back()->receive(), "text from a thread");
  }
  for (int text = 0; text < texts; ++text) {
    all[static_cast<std::size_t>(text) % clients]->send(say_id, std::to_string(text));
    for (const auto& client : all) EXPECT_EQ(client->receive(), std::to_string(text));
  }
  for (const auto& client : all) {
    client->send(total_id, "");
    EXPECT_EQ(client->receive(), std::to_string(texts));
  }
  host.stop();
  EXPECT_EQ(host.result, 0);
  for (const auto& client : all) EXPECT_EQ(client->receive(), "ended");
}

std::string get(const core::Address& admin, const std::string& path, const std::string& fields = {}) {
  const int fd = ::socket(admin.family(), SOCK_STREAM, 0);
  EXPECT_EQ(::connect(fd, admin.get(), admin.size()), 0);
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + fields + "\r\n";
  EXPECT_EQ(::send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::string answer;
  char room[4096];
  for (ssize_t got = 0; (got = ::recv(fd, room, sizeof room, 0)) > 0;)
    answer.append(room, static_cast<std::size_t>(got));
  ::close(fd);
  return answer;
}

TEST(Host, OperatorsSeeItsSessions) {
  Running host;
  Client one(host.address);
  Client two(host.address);
  for (Client* client : {&one, &two}) {
    client->send(block_id, "text");
    EXPECT_EQ(client->receive(), "text from a thread");
  }
  EXPECT_TRUE(get(host.admin, "/livez").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(get(host.admin, "/readyz").ends_with("ready\n"));
  EXPECT_TRUE(get(host.admin, "/metrics").starts_with("HTTP/1.1 401 "));
  const std::string metrics = get(host.admin, "/metrics", "Authorization: Bearer " + token + "\r\n");
  EXPECT_TRUE(metrics.contains("\nsluice_sessions_open 2\n")) << metrics;
  EXPECT_TRUE(metrics.contains("\nsluice_frames_received_total 2\n"));
  EXPECT_TRUE(metrics.contains("\nsluice_cores 2\n"));
}

TEST(Host, EachCoreTakesTheStepsInOrder) {
  Running host;
  host.stop();
  for (const char* core : {"0", "1"}) {
    EXPECT_EQ(host.steps.of(core), (std::vector<std::string>{"first configured ", "second configured ", "first wired ",
                                                             "first started ", "second stopped ", "first stopped "}));
  }
}

TEST(Host, AServiceThatCannotBeConfiguredEndsIt) {
  Steps steps;
  Host host({.listen = {"127.0.0.1:0"}, .cores = core_count});
  host.add<First>(&steps);
  host.add<Second>(&steps, true);
  EXPECT_EQ(host.run(), 1);
}

TEST(Host, OptionsThatAreWrong) {
  const auto refuses = [](void (*change)(HostOptions&)) {
    HostOptions options{.listen = {"127.0.0.1:0"}, .cores = 1};
    change(options);
    return Host(options).run() == 1;
  };
  EXPECT_TRUE(refuses([](HostOptions& options) { options.listen.clear(); }));
  EXPECT_TRUE(refuses([](HostOptions& options) { options.listen = {"127.0.0.1:9", "127.0.0.1:9"}; }));
  EXPECT_TRUE(refuses([](HostOptions& options) { options.cores = 257; }));
  EXPECT_TRUE(refuses([](HostOptions& options) { options.sessions.most_body = msg::largest_body + 1; }));
  EXPECT_TRUE(refuses([](HostOptions& options) { options.sessions.most_queued = 0; }));
  EXPECT_TRUE(refuses([](HostOptions& options) { options.sessions.heartbeat = 80s; }));
  EXPECT_TRUE(refuses([](HostOptions& options) { options.websocket.path.value = "room"; }));
  EXPECT_TRUE(refuses([](HostOptions& options) { options.websocket.window_bits = 3; }));
  EXPECT_TRUE(refuses([](HostOptions& options) { options.websocket.origins = {"example.com"}; }));
}

TEST(Host, AddressesAndCertificatesThatAreWrong) {
  EXPECT_EQ(Host({.listen = {"somewhere"}, .cores = 1}).run(), 1);
  EXPECT_EQ(Host({.listen = {"127.0.0.1:0"}, .cores = 1, .admin = {.listen = "*:0"}}).run(), 1);
  EXPECT_EQ(Host({.listen = {"127.0.0.1:0"}, .cores = 1, .admin = {.token = "short"}}).run(), 1);
  EXPECT_EQ(Host({.listen_tls = {"127.0.0.1:0"}, .cores = 1}).run(), 1);
  HostOptions missing{.listen_tls = {"127.0.0.1:0"}, .cores = 1};
  missing.tls.certificates = {{.certificate = "/nonexistent/cert.pem", .key = "/nonexistent/key.pem"}};
  EXPECT_EQ(Host(missing).run(), 1);
}

}  // namespace
}  // namespace sluice::services

// A whole HTTP/2 session without its network. The input follows the preface, in pieces whose sizes its first byte
// seeds. It must end in requests and upgrades that keep the rules, and in output that is bounded by the input. The
// frame guard's verdict must not depend on the pieces.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/simulated_reactor.h"
#include "fuzzing.h"
#include "http/h2/guard.h"
#include "http/h2/session.h"

namespace {

using namespace sluice;
using namespace sluice::http;
using namespace sluice::http::h2;
using sluice::fuzz::require;

constexpr std::string_view preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::size_t most_per_request = 64 * 1024;

class Pieces {
 public:
  explicit Pieces(std::uint8_t seed) : state_(seed * 2654435761u + 1), whole_(seed % 4 == 0) {}
  std::size_t next() {
    if (whole_) return SIZE_MAX;
    state_ = state_ * 1664525u + 1013904223u;
    return 1 + (state_ >> 24) % ((state_ & 0x10000u) != 0 ? 3 : 200);
  }

 private:
  std::uint32_t state_;
  bool whole_;
};

// A body long enough for several frames; a source of size 0 fails.
class Source final : public BodySource {
 public:
  explicit Source(std::size_t size) : left_(size) {}
  core::Async<Result<Progress>> pull(Buffer& out) override {
    const std::size_t size = std::min<std::size_t>(left_, 3000);
    if (size == 0) return fail(Errc::closed);
    out.append(std::string(size, 's'));
    left_ -= size;
    return left_ == 0 ? Progress::done : Progress::more;
  }
  std::span<const Field> trailers() const override { return {&trailer_, 1}; }

 private:
  std::size_t left_;
  Field trailer_{"row-count", "1"};
};

// Echoes what it receives, until the stream ends or fails, or the session drains.
class Talk final : public Upgrade {
 public:
  explicit Talk(int& count) : count_(count) { ++count_; }
  ~Talk() override { --count_; }
  core::Task<void> run(net::Duplex& duplex, http::BodyBudget&, std::uint64_t&) override {
    duplex_ = &duplex;
    Buffer buffer;
    bool goes_on = true;
    while (goes_on && !draining_) {
      const auto got = duplex.try_read(buffer, 1000);
      if (!got) {
        goes_on = (co_await duplex.readable(duplex.reactor().now() + 30s)).has_value();
        continue;
      }
      require(!*got || **got == buffer.size(), "another count than what came");
      iovec part{buffer.data(), buffer.size()};
      goes_on = *got && **got != 0 && (co_await duplex.write({&part, 1}, 10s)).has_value();
      buffer.clear();
    }
    duplex_ = nullptr;
  }
  void drain() override {
    draining_ = true;
    if (duplex_ != nullptr) duplex_->interrupt();
  }

 private:
  int& count_;
  net::Duplex* duplex_ = nullptr;
  bool draining_ = false;
};

class Judge final : public Handler {
 public:
  core::Async<Response> handle(Exchange& exchange) override {
    Request& request = exchange.request;
    ++requests;
    require(request.path.starts_with('/') || request.path == "*" || request.method == Method::connect, "a path");
    require(request.path.find('\0') == std::string_view::npos, "NUL in a path");
    require(request.path.size() == request.segments.size(), "segments of another path");
    require(request.segments.find("//") == std::string_view::npos, "an empty segment");
    require(("/" + std::string(request.segments) + "/").find("/../") == std::string::npos, "a path that leads up");
    require(!request.authority.empty() && request.authority.find_first_of(" \r\n@/") == std::string_view::npos,
            "an authority");
    require(request.fields.size() <= ServerOptions{}.field_limit, "too many fields");
    for (const Field& field : request.fields) {
      require(!field.name.empty() && field.name.find_first_of(" \t\r\n:ABCXYZ") == std::string_view::npos, "a name");
      require(field.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos, "a value");
      require(field.name != "connection" && field.name != "transfer-encoding", "a connection's field");
    }
    require(
        request.upgrade.empty() || (request.method == Method::connect && request.body == nullptr &&
                                    request.path.starts_with('/') && request.upgrade.find(',') == request.upgrade.npos),
        "another protocol");
    if (request.path.starts_with("/e") && request.upgrade.empty()) return echo(request);
    Response response;
    if (request.path.starts_with("/e")) {
      response.upgrade = std::make_unique<Talk>(upgrades);
      return response;
    }
    if (request.path.starts_with("/s")) {
      response.body = std::make_unique<Source>(request.path.size() * 1000);
    } else {
      Buffer bytes;
      bytes.append(std::string(request.path.size() * 100, 'b'));
      response.body = std::move(bytes);
      for (const Field& field : request.fields.first(std::min<std::size_t>(request.fields.size(), 4))) {
        response.fields.add(field.name, field.value);
      }
    }
    return response;
  }
  std::size_t requests = 0;
  int upgrades = 0;

 private:
  static core::Task<Response> echo(Request& request) {
    Response response;
    Buffer bytes;
    while (request.body != nullptr) {
      const auto piece = co_await request.body->read();
      if (!piece || piece->empty()) break;
      bytes.append(*piece);
    }
    response.body = std::move(bytes);
    co_return response;
  }
};

struct Quiet final : Session::Owner {
  void has_output() override {}
  void upgrade_ended() override {}
};

void fuzz_session(std::string_view bytes, std::uint8_t seed) {
  core::SimulatedReactor reactor(1);
  Judge judge;
  const ServerOptions options{.header_limit = 2048, .body_limit = 4096, .http2_streams = 8};
  sluice::http::ServerCounters counters;
  sluice::http::BodyBudget::Counters body_counters;
  sluice::http::BodyBudget bodies(reactor, 1 << 20, body_counters);
  Engine engine(reactor, judge, options, nullptr, counters, bodies);
  Quiet quiet;
  std::optional<Session> place(std::in_place, engine, quiet, "192.0.2.1", false);
  Session& session = *place;
  session.receive(preface);
  Pieces pieces(seed);
  std::size_t produced = 0;
  std::size_t received = 0;
  const auto produce = [&] {
    for (Buffer out;; out.clear()) {
      session.produce(out);
      if (out.empty()) break;
      require(out.size() <= 96 * 1024, "more at once than asked for");
      produced += out.size();
    }
  };
  while (!bytes.empty() && !session.over()) {
    const std::size_t size = std::min(bytes.size(), pieces.next());
    const auto copy = std::make_unique<char[]>(size);  // of exactly this size, for the address sanitizer
    bytes.copy(copy.get(), size);
    session.receive({copy.get(), size});
    received += size;
    bytes.remove_prefix(size);
    if (seed % 2 == 0) produce();
    if (seed % 3 == 0) reactor.turn(reactor.now());
    if (seed % 5 == 0 && received > 300) session.drain();
  }
  produce();
  // Each frame may cause an answer as long as the shortest frame, and each request an answer as long as its body.
  require(produced <= 4096 + received * 4 + judge.requests * most_per_request * 4 + 100'000, "output without a bound");
  static_cast<void>(session.expire(reactor.now() + 1h));
  produce();
  require(judge.upgrades <= static_cast<int>(options.http2_streams), "too many upgrades");
  if (seed % 7 != 0) {
    session.end();
    reactor.turn(reactor.now());
    require(!session.has_upgrades(), "an upgrade that does not hear of its end");
  }
  place.reset();
  require(judge.upgrades == 0, "an upgrade without a session");
}

struct Verdict {
  Flood flood{};
  std::uint32_t violation = 0;
};

Verdict judge_pieces(std::string_view bytes, Pieces pieces) {
  FrameGuard guard(256);
  const Instant now{1h};
  Verdict verdict;
  static_cast<void>(guard.inspect(preface, now));
  while (!bytes.empty() && guard.flood() == Flood::none && guard.violation() == 0) {
    std::string_view piece = bytes.substr(0, pieces.next());
    bytes.remove_prefix(piece.size());
    while (!piece.empty() && guard.flood() == Flood::none && guard.violation() == 0) {
      const std::size_t passed = guard.inspect(piece, now);
      require(passed <= piece.size(), "more than there is");
      require(passed == piece.size() || guard.question() != 0 || guard.flood() != Flood::none || guard.violation() != 0,
              "stopped for nothing");
      piece.remove_prefix(passed);
      if (guard.question() != 0) guard.settle(guard.question() % 3 != 0, now);
    }
  }
  verdict.flood = guard.flood();
  verdict.violation = guard.violation();
  return verdict;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  fuzz_session(bytes, data[0]);
  const Verdict whole = judge_pieces(bytes, Pieces(0));
  const Verdict parts = judge_pieces(bytes, Pieces(data[0]));
  require(whole.flood == parts.flood && whole.violation == parts.violation,
          "the guard's verdict depends on the pieces");
  return 0;
}

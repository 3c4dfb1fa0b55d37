#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "core/reactor.h"
#include "core/sleep.h"
#include "http/identity.h"
#include "http/server.h"
#include "http/spans_for_tests.h"

// Shared code of the HTTP/2 tests: a client without I/O based on nghttp2, frames written by hand, and a handler that
// returns every kind of response.
namespace sluice::http::h2 {

using TestFields = std::vector<std::pair<std::string, std::string>>;

inline std::string pattern(std::size_t seed, std::size_t size) {
  std::string text(size, '\0');
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (char& c : text) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>('a' + (state >> 60));
  }
  return text;
}

inline std::string frame(int type, int flags, std::uint32_t id, std::string_view payload = {}) {
  std::string bytes;
  for (int shift : {16, 8, 0}) bytes += static_cast<char>(payload.size() >> shift);
  bytes += static_cast<char>(type);
  bytes += static_cast<char>(flags);
  for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(id >> shift);
  return bytes.append(payload);
}
inline std::string number(std::uint32_t value) {
  std::string bytes;
  for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift);
  return bytes;
}
inline constexpr std::string_view preface_text = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
// A header block with GET, http, authority "test", and a path of fewer than 127 bytes. Uses neither Huffman coding nor
// the dynamic table.
inline std::string header_block(std::string_view path, char method = '\x82') {
  std::string block{method, '\x86', '\x01', '\x04'};
  block += "test";
  block += '\x04';
  block += static_cast<char>(path.size());
  return block.append(path);
}

class TestClient {
 public:
  struct Answer {
    int status = 0;
    std::vector<int> interim;  // statuses of interim responses
    std::map<std::string, std::string> fields;
    std::map<std::string, std::string> trailers;
    std::string body;
    bool ended = false;       // END_STREAM received
    bool closed = false;      // the stream is closed, for any reason
    std::uint32_t error = 0;  // the error code at its close
  };
  struct Options {
    bool opens_windows = true;
    std::uint32_t window = 65'535;
    bool enforces = true;  // the client checks that messages are well-formed
    std::uint32_t header_table = 4096;
  };

  TestClient() : TestClient(Options{}) {}
  explicit TestClient(const Options& options) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, &TestClient::on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &TestClient::on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &TestClient::on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &TestClient::on_close);
    nghttp2_option* settings = nullptr;
    nghttp2_option_new(&settings);
    nghttp2_option_set_no_auto_window_update(settings, options.opens_windows ? 0 : 1);
    nghttp2_option_set_peer_max_concurrent_streams(settings, 1000);
    if (!options.enforces) nghttp2_option_set_no_http_messaging(settings, 1);
    nghttp2_session_client_new2(&session_, callbacks, this, settings);
    nghttp2_option_del(settings);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry entries[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                              {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, options.window},
                                              {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, options.header_table}};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, entries, options.header_table != 4096 ? 3 : 2);
  }
  TestClient(const TestClient&) = delete;
  ~TestClient() { nghttp2_session_del(session_); }

  [[nodiscard]] nghttp2_session* session() { return session_; }

  std::int32_t get(const std::string& path, const TestFields& more = {}, const std::string& method = "GET") {
    return request(path, more, method, nullptr);
  }
  // `body` is sent as the window allows. If `ends` is false, the request stays open after it, for say() and end_side().
  std::int32_t post(const std::string& path, std::string body, const TestFields& more = {}, bool ends = true) {
    bodies_.push_back(std::make_unique<Body>(Body{std::move(body), 0, ends}));
    const std::int32_t id = request(path, more, "POST", bodies_.back().get());
    open_[id] = bodies_.back().get();
    return id;
  }
  // Sends CONNECT for another protocol (RFC 8441). say() and end_side() then send data.
  std::int32_t open(const std::string& path, const TestFields& more = {}, const std::string& protocol = "websocket") {
    TestFields fields{{":method", "CONNECT"}, {":scheme", "http"}, {":authority", "test"}, {":path", path}};
    fields.emplace_back(":protocol", protocol);
    fields.insert(fields.end(), more.begin(), more.end());
    bodies_.push_back(std::make_unique<Body>(Body{{}, 0, false}));
    const std::int32_t id = request_with(fields, bodies_.back().get());
    open_[id] = bodies_.back().get();
    return id;
  }
  void say(std::int32_t id, std::string_view bytes) {
    open_.at(id)->bytes += bytes;
    nghttp2_session_resume_data(session_, id);
  }
  void end_side(std::int32_t id) {
    open_.at(id)->ends = true;
    nghttp2_session_resume_data(session_, id);
  }
  std::int32_t request(const std::string& path, const TestFields& more, const std::string& method, void* body) {
    TestFields fields{{":method", method}, {":scheme", "http"}, {":authority", "test"}, {":path", path}};
    fields.insert(fields.end(), more.begin(), more.end());
    return request_with(fields, body);
  }
  std::int32_t request_with(const TestFields& fields, void* body = nullptr) {
    std::vector<nghttp2_nv> pairs;
    for (const auto& [name, value] : fields) {
      pairs.push_back({reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                       reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
                       NGHTTP2_NV_FLAG_NONE});
    }
    nghttp2_data_provider provider{};
    provider.source.ptr = body;
    provider.read_callback = &TestClient::read_body;
    return nghttp2_submit_request(session_, nullptr, pairs.data(), pairs.size(), body != nullptr ? &provider : nullptr,
                                  nullptr);
  }
  void reset(std::int32_t id, std::uint32_t error = NGHTTP2_CANCEL) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, error);
  }
  void resize_header_table(std::uint32_t bytes) {
    const nghttp2_settings_entry entry{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, bytes};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &entry, 1);
  }
  void open_window(std::int32_t id, std::int32_t by) {
    nghttp2_submit_window_update(session_, NGHTTP2_FLAG_NONE, id, by);
  }

  // Returns false if the server has violated the protocol.
  bool receive(std::string_view bytes) {
    const auto taken =
        nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    return taken == static_cast<ssize_t>(bytes.size());
  }
  std::string take_output() {
    std::string out;
    const std::uint8_t* bytes = nullptr;
    for (ssize_t size; (size = nghttp2_session_mem_send(session_, &bytes)) > 0;) {
      out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    }
    return out;
  }

  std::map<std::int32_t, Answer> answers;
  std::vector<std::pair<std::int32_t, std::uint32_t>> goaways;  // last stream and error code of each GOAWAY
  std::vector<std::string> order;  // the order in which GOAWAYs and ends of streams arrived
  int window_updates = 0;
  int invalid = 0;

 private:
  struct Body {
    std::string bytes;
    std::size_t sent;
    bool ends;
  };
  static std::string_view view(const std::uint8_t* bytes, std::size_t size) {
    return {reinterpret_cast<const char*>(bytes), size};
  }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_size,
                       const std::uint8_t* value, std::size_t value_size, std::uint8_t, void* user) {
    Answer& answer = static_cast<TestClient*>(user)->answers[frame->hd.stream_id];
    if (view(name, name_size) == ":status") {
      if (answer.status != 0) answer.interim.push_back(answer.status);
      answer.status = std::stoi(std::string(view(value, value_size)));
    } else {
      auto& into = frame->headers.cat == NGHTTP2_HCAT_RESPONSE ? answer.fields : answer.trailers;
      into.emplace(view(name, name_size), view(value, value_size));
    }
    return 0;
  }
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data, std::size_t size,
                     void* user) {
    static_cast<TestClient*>(user)->answers[id].body.append(view(data, size));
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& self = *static_cast<TestClient*>(user);
    const bool carries = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (carries && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      self.answers[frame->hd.stream_id].ended = true;
      self.order.emplace_back("end");
    }
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      self.order.emplace_back("goaway");
      self.goaways.emplace_back(frame->goaway.last_stream_id, frame->goaway.error_code);
    }
    if (frame->hd.type == NGHTTP2_WINDOW_UPDATE) ++self.window_updates;
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* user) {
    Answer& answer = static_cast<TestClient*>(user)->answers[id];
    answer.closed = true;
    answer.error = error;
    return 0;
  }
  static ssize_t read_body(nghttp2_session*, std::int32_t, std::uint8_t* to, std::size_t most, std::uint32_t* flags,
                           nghttp2_data_source* source, void*) {
    Body& body = *static_cast<Body*>(source->ptr);
    const std::size_t size = std::min(most, body.bytes.size() - body.sent);
    if (size == 0 && !body.ends) return NGHTTP2_ERR_DEFERRED;
    std::memcpy(to, body.bytes.data() + body.sent, size);
    body.sent += size;
    if (body.ends && body.sent == body.bytes.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(size);
  }

  nghttp2_session* session_ = nullptr;
  std::vector<std::unique_ptr<Body>> bodies_;
  std::map<std::int32_t, Body*> open_;
};

// Serves /KIND/SIZE/SEED. It counts the resources in use, so that a test can check that all are released.
class TestHandler final : public Handler {
 public:
  explicit TestHandler(core::Reactor& reactor) : reactor_(reactor), file_(std::tmpfile(), &std::fclose) {
    const std::string bytes = pattern(0, file_size);
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) std::abort();
    std::fflush(file_.get());
  }

  static constexpr std::size_t file_size = 200'000;
  int requests = 0;
  int waiting = 0;  // handlers that are waiting
  int sources = 0;  // BodySources that exist
  int pulls = 0;
  std::size_t pulled = 0;
  std::size_t read = 0;  // bytes of request bodies
  int upgrades = 0;
  int foreign_attributes = 0;          // requests that arrived with the attributes of another request
  std::weak_ptr<const Claims> claims;  // the claims set in the last request
  std::vector<std::string> heard;      // the events that upgrades observed, in order
  // The body of "/kept", "/kept-spans" and "/kept-stream". Those responses keep it alive.
  const std::shared_ptr<const std::string> kept = std::make_shared<const std::string>(pattern(9, 300'000));
  [[nodiscard]] bool holds_nothing() const {
    return waiting == 0 && sources == 0 && upgrades == 0 && file_.use_count() == 1 && kept.use_count() == 1;
  }

  core::Async<Response> handle(Exchange& exchange) override {
    Request& request = exchange.request;
    ++requests;
    if (exchange.attributes.find<Identity>() != nullptr) ++foreign_attributes;
    claims = exchange.attributes.set(Identity{.claims = Claims::parse("{}"), .expires_s = 1}).claims;
    const Target target(request.path);
    if (!request.upgrade.empty()) return connect(request, target);
    if (target.kind == "later" || target.kind == "never") return later(target);
    if (target.kind == "echo-more" && request.body != nullptr) request.body->allow_more(5000);
    if (target.kind == "echo" || target.kind == "echo-more") return echo(request);
    if (target.kind == "keep") return keep(request);
    if (target.kind == "one-piece") return one_piece(request);
    return answer(request, target);
  }

 private:
  struct Target {
    std::string kind;
    std::size_t size = 0;
    std::size_t seed = 0;
    explicit Target(std::string_view path) {
      std::string parts[3];
      std::size_t part = 0;
      for (const char c : path.substr(std::min<std::size_t>(1, path.size()))) {
        if (c != '/') {
          parts[part] += c;
        } else if (++part == 3) {
          break;
        }
      }
      kind = parts[0];
      size = std::strtoull(parts[1].c_str(), nullptr, 10);
      seed = std::strtoull(parts[2].c_str(), nullptr, 10);
    }
  };
  struct Counted {
    explicit Counted(int& place) : count(place) { ++count; }
    Counted(const Counted&) = delete;
    ~Counted() { --count; }
    int& count;
  };
  // Gives 1600 bytes per pull. "waits" pauses before each pull, "breaks" fails halfway, "blocks" stops halfway and
  // never continues. "plain" and "trailed" learn of the end by a pull of its own, and "plain" has no trailers.
  class Source final : public BodySource {
   public:
    Source(TestHandler& handler, const Target& target)
        : handler_(handler),
          counted_(handler.sources),
          kind_(target.kind),
          bytes_(pattern(target.seed, target.size)),
          count_(std::to_string(target.size)),
          trailer_{"Row-Count", count_} {}
    core::Async<Result<Progress>> pull(Buffer& out) override {
      ++handler_.pulls;
      if (kind_ == "blocks" && given_ >= bytes_.size() / 2) return wait(out, never);
      if (kind_ == "waits") return wait(out, handler_.reactor_.now() + 1ms);
      return next(out);
    }
    std::span<const Field> trailers() const override { return {&trailer_, kind_ == "plain" ? 0U : 1U}; }

   private:
    Result<Progress> next(Buffer& out) {
      if (kind_ == "breaks" && given_ > bytes_.size() / 2) return fail(Errc::closed);
      const std::size_t size = std::min<std::size_t>(1600, bytes_.size() - given_);
      out.append(std::string_view(bytes_).substr(given_, size));
      given_ += size;
      handler_.pulled += size;
      if (size != 0 && (kind_ == "plain" || kind_ == "trailed")) return Progress::more;
      return given_ == bytes_.size() ? Progress::done : Progress::more;
    }
    core::Task<Result<Progress>> wait(Buffer& out, Instant until) {
      co_await core::Sleep(handler_.reactor_, until);
      co_return next(out);
    }
    TestHandler& handler_;
    Counted counted_;
    std::string kind_;
    std::string bytes_;
    std::size_t given_ = 0;
    std::string count_;
    Field trailer_;
  };

  class KeptSource final : public BodySource {
   public:
    explicit KeptSource(std::shared_ptr<const std::string> kept) : kept_(std::move(kept)) {}
    core::Async<Result<Progress>> pull(Buffer& out) override {
      out.append(std::string_view(*kept_).substr(given_, 1000));
      given_ += 1000;
      return Result<Progress>(given_ < kept_->size() ? Progress::more : Progress::done);
    }
    const void* owner() const override { return kept_.get(); }

   private:
    const std::shared_ptr<const std::string> kept_;
    std::size_t given_ = 0;
  };

  // "echo" sends back what it receives, "greet" only sends, "deaf" waits for an interruption and reads nothing, "lasts"
  // continues for a second after its client has left. "ends" ends its side and then reads, "leaves" ends its side and
  // does not read, "cuts" cuts the stream after some bytes.
  class Talk final : public Upgrade {
   public:
    Talk(TestHandler& handler, const Target& target) : handler_(handler), counted_(handler.upgrades), target_(target) {}
    core::Task<void> run(net::Duplex& duplex, BodyBudget&, std::uint64_t&) override {
      duplex_ = &duplex;
      if (target_.kind == "greet") {
        hear("write", co_await say(pattern(target_.seed, target_.size)));
      } else if (target_.kind == "cuts") {
        hear("write", co_await say("half"));
        duplex.cut();
      } else if (target_.kind == "ends" || target_.kind == "leaves") {
        hear("write", co_await say("last words"));
        hear("end", co_await duplex.end(2s));
        if (target_.kind == "ends") co_await listen();
        if (target_.kind == "leaves") co_await core::Sleep(handler_.reactor_, handler_.reactor_.now() + 1s);
      } else if (target_.kind == "deaf") {
        hear("readable", co_await duplex.readable(never));
      } else {
        co_await echo();
      }
      if (target_.kind == "lasts") co_await core::Sleep(handler_.reactor_, handler_.reactor_.now() + 1s);
      duplex_ = nullptr;
    }
    void drain() override {
      handler_.heard.emplace_back("drain");
      draining_ = true;
      if (duplex_ != nullptr) duplex_->interrupt();
    }

   private:
    core::Task<void> echo() {
      Buffer buffer;
      for (;;) {
        if (draining_) {
          hear("write", co_await say("bye"));
          co_return;
        }
        const auto got = duplex_->try_read(buffer, 10'000);
        if (!got) {
          (void)co_await duplex_->readable(never);
          continue;
        }
        if (!*got || **got == 0) {
          handler_.heard.emplace_back(*got ? "end" : "closed");
          co_return;
        }
        handler_.read += **got;
        const auto written = co_await say(std::string(buffer.view()));
        buffer.clear();
        if (!written) {
          hear("write", written);
          co_return;
        }
      }
    }
    core::Task<void> listen() {
      Buffer buffer;
      for (;;) {
        const auto got = duplex_->try_read(buffer, 10'000);
        if (!got) {
          hear("readable", co_await duplex_->readable(never));
          continue;
        }
        if (!*got || **got == 0) {
          handler_.heard.emplace_back(*got ? "end" : "closed");
          co_return;
        }
        handler_.heard.emplace_back(buffer.view());
        buffer.clear();
      }
    }
    // Writes three parts, one of them empty.
    core::Task<Result<void>> say(std::string bytes) {
      const std::size_t half = bytes.size() / 2;
      iovec parts[] = {{bytes.data(), half}, {nullptr, 0}, {bytes.data() + half, bytes.size() - half}};
      co_return co_await duplex_->write(parts, 2s);
    }
    void hear(std::string what, Result<void> result) {
      what += result                                   ? " done"
              : result.error().code == Errc::timed_out ? " timed out"
              : result.error().code == Errc::closed    ? " closed"
                                                       : " failed";
      handler_.heard.push_back(std::move(what));
    }
    TestHandler& handler_;
    Counted counted_;
    Target target_;
    net::Duplex* duplex_ = nullptr;
    bool draining_ = false;
  };

  core::Async<Response> connect(Request& request, const Target& target) {
    if (target.kind == "own") return answer(request, target);
    if (target.kind == "later") return connect_later(target);
    Response response;
    response.fields.add("X-Upgrade", request.upgrade == "websocket" ? "websocket" : "another");
    response.fields.add("X-Body", request.body != nullptr ? "yes" : "no");
    response.upgrade = std::make_unique<Talk>(*this, target);
    return response;
  }
  core::Task<Response> connect_later(Target target) {
    Counted here(waiting);
    co_await core::Sleep(reactor_, reactor_.now() + 5ms);
    Response response;
    response.upgrade = std::make_unique<Talk>(*this, target);
    co_return response;
  }
  Response answer(const Request& request, const Target& target) {
    Response response;
    response.fields.add("Content-Type", "text/plain");
    if (target.kind == "shared") {
      const auto bytes = std::make_shared<std::string>(pattern(target.seed, target.size));
      response.body = SharedBytes{bytes, *bytes};
    } else if (target.kind == "spans") {
      response.body = in_pieces(pattern(target.seed, target.size), 1 + target.seed * 100);
    } else if (target.kind == "file") {
      response.body = FileRange{file_, ::fileno(file_.get()), target.seed, target.size};
    } else if (target.kind == "stream" || target.kind == "waits" || target.kind == "breaks" ||
               target.kind == "blocks" || target.kind == "plain" || target.kind == "trailed") {
      response.body = std::make_unique<Source>(*this, target);
    } else if (target.kind == "kept") {
      response.body = SharedBytes{kept, *kept};
    } else if (target.kind == "kept-spans") {
      SharedSpans spans(kept);
      for (std::size_t i = 0; i < kept->size(); i += 1000) spans.add(std::string_view(*kept).substr(i, 999));
      response.body = std::move(spans);
    } else if (target.kind == "kept-stream") {
      response.body = std::make_unique<KeptSource>(kept);
    } else if (target.kind == "empty") {
      response.status = 204;
    } else if (target.kind == "long-field") {
      response.fields.add_owned("X-Long", pattern(target.seed, target.size));
    } else if (target.kind == "fields") {
      Buffer text;
      for (const Field& field : request.fields)
        text.append(std::string(field.name) + ": " + std::string(field.value) + "\n");
      response.fields.add_owned("X-Path", std::string(request.path));
      response.fields.add_owned("X-Authority", std::string(request.authority));
      response.fields.add("Connection", "close");
      response.fields.add("Content-Length", "1");
      response.fields.add("Bad Name", "x");
      response.fields.add("X-Bad-Value", "a\r\nb");
      response.fields.add("X-Spaces", "  a b\t");
      response.body = std::move(text);
    } else {
      Buffer bytes;
      bytes.append(pattern(target.seed, target.size));
      response.body = std::move(bytes);
    }
    return response;
  }
  core::Task<Response> later(Target target) {
    Counted here(waiting);
    co_await core::Sleep(reactor_, target.kind == "never" ? never : reactor_.now() + 5ms);
    Response response;
    Buffer bytes;
    bytes.append(pattern(target.seed, target.size));
    response.body = std::move(bytes);
    co_return response;
  }
  // Reserves memory for the whole body and answers with its size, or with 400 if reading or reserving fails.
  core::Task<Response> keep(Request& request) {
    Buffer held;
    for (;;) {
      const auto piece = co_await request.body->read();
      if (!piece) co_return problem(400);
      if (piece->empty()) break;
      if (!request.body->keep(piece->size())) co_return problem(400);
      held.append(*piece);
    }
    Response response;
    Buffer body;
    body.append(std::to_string(held.size()));
    response.body = std::move(body);
    co_return response;
  }
  core::Task<Response> echo(Request& request) {
    Counted here(waiting);
    Buffer bytes;
    while (request.body != nullptr) {
      const auto piece = co_await request.body->read();
      if (!piece) co_return problem(400);
      if (piece->empty()) break;
      read += piece->size();
      bytes.append(*piece);
    }
    Response response;
    response.body = std::move(bytes);
    co_return response;
  }
  core::Task<Response> one_piece(Request& request) {
    Counted here(waiting);
    if (request.body != nullptr) {
      const auto piece = co_await request.body->read();
      read += piece ? piece->size() : 0;
    }
    co_await core::Sleep(reactor_, never);
    co_return Response{};
  }

  core::Reactor& reactor_;
  std::shared_ptr<std::FILE> file_;
};

}  // namespace sluice::http::h2

#include "http/h2/session.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include <nghttp2/nghttp2.h>

#include "base/log.h"
#include "core/slab.h"
#include "http/client_address.h"
#include "http/h2/stream.h"
#include "http/h2/tunnel.h"

namespace sluice::http::h2 {
namespace {

constexpr std::int32_t stream_window = 256 * 1024;       // most unread bytes of a request's body
constexpr std::int32_t connection_window = 1024 * 1024;  // most unread bytes of all bodies together
// A header section that decodes to more than this multiple of its limit is an attack.
constexpr std::size_t decoded_factor = 4;
constexpr Duration drain_patience = 1s;          // for requests in transit when the client was notified
constexpr Duration idle_drain_patience = 200ms;  // the same, of a connection without streams
constexpr Duration dropping_patience = 2s;
constexpr std::uint8_t drain_ping[8] = {'d', 'r', 'a', 'i', 'n', 'i', 'n', 'g'};

std::string_view view(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// nghttp2 allocates from the core's slab. The slab needs the size of a block to free it, so the size is stored before
// the block.
struct SessionMemory {
  static constexpr std::size_t prefix = alignof(std::max_align_t);

  static void* allocate(std::size_t bytes, void*) noexcept {
    try {
      char* const block = static_cast<char*>(core::slab_allocate(bytes + prefix));
      std::memcpy(block, &bytes, sizeof bytes);
      return block + prefix;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  static void free(void* pointer, void*) noexcept {
    if (pointer == nullptr) return;
    core::slab_free(static_cast<char*>(pointer) - prefix, size_of_block(pointer) + prefix);
  }
  static void* allocate_zeroed(std::size_t count, std::size_t bytes, void*) noexcept {
    if (bytes != 0 && count > SIZE_MAX / 2 / bytes) return nullptr;
    void* const block = allocate(count * bytes, nullptr);
    if (block != nullptr) std::memset(block, 0, count * bytes);
    return block;
  }
  static void* reallocate(void* pointer, std::size_t bytes, void*) noexcept {
    void* const grown = allocate(bytes, nullptr);
    if (grown == nullptr || pointer == nullptr) return grown;
    std::memcpy(grown, pointer, std::min(bytes, size_of_block(pointer)));
    free(pointer, nullptr);
    return grown;
  }

 private:
  static std::size_t size_of_block(const void* pointer) {
    std::size_t bytes = 0;
    std::memcpy(&bytes, static_cast<const char*>(pointer) - prefix, sizeof bytes);
    return bytes;
  }
};
constexpr nghttp2_mem session_memory{nullptr, &SessionMemory::allocate, &SessionMemory::free,
                                     &SessionMemory::allocate_zeroed, &SessionMemory::reallocate};

}  // namespace

struct Session::Callbacks {
  static Session& of(void* user) { return *static_cast<Session*>(user); }

  // nghttp2 is C code without exceptions. If memory runs out, the connection ends.
  template <class Act>
  static auto attempt(Session& self, Act act) noexcept -> decltype(act()) {
    try {
      return act();
    } catch (const std::bad_alloc&) {
      ++self.engine_.counters.out_of_memory;
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
  }

  static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    Session& self = of(user);
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      return attempt(self, [&] { return self.begin_headers(frame->hd.stream_id); });
    }
    self.in_head_ = nullptr;
    self.trailers_id_ = frame->hd.stream_id;
    self.trailer_bytes_ = 0;
    self.trailers_malformed_ = false;
    return 0;
  }
  static int header(nghttp2_session*, const nghttp2_frame*, nghttp2_rcbuf* name, nghttp2_rcbuf* value, std::uint8_t,
                    void* user) {
    const nghttp2_vec name_bytes = nghttp2_rcbuf_get_buf(name);
    const nghttp2_vec value_bytes = nghttp2_rcbuf_get_buf(value);
    Session& self = of(user);
    return attempt(self, [&] {
      return self.got_field(view(name_bytes.base, name_bytes.len), view(value_bytes.base, value_bytes.len),
                            nghttp2_rcbuf_is_static(name) != 0);
    });
  }
  static int frame_received(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    Session& self = of(user);
    return attempt(self, [&] { return frame_received(self, frame); });
  }
  static int frame_received(Session& self, const nghttp2_frame* frame) {
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS:
      case NGHTTP2_DATA: {
        const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
        if (frame->hd.type == NGHTTP2_DATA && !ends && frame->hd.length == frame->data.padlen) {
          self.guard_.got_empty_data(self.engine_.reactor.now());
        }
        Stream* const stream = self.find(frame->hd.stream_id);
        if (stream == nullptr) break;
        if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
          self.got_whole_head(*stream, ends);
        } else if (frame->hd.type == NGHTTP2_HEADERS) {
          self.got_trailers(*stream, ends);
        } else if (ends) {
          self.got_end(*stream);
        }
        break;
      }
      case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 &&
            std::memcmp(frame->ping.opaque_data, drain_ping, sizeof drain_ping) == 0) {
          self.drain_heard_ = true;
        }
        break;
      default:
        break;
    }
    return 0;
  }
  static int data_received(nghttp2_session* session, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                           std::size_t size, void* user) {
    Session& self = of(user);
    return attempt(self, [&] {
      if (Stream* const stream = self.find(id)) {
        self.got_data(*stream, view(data, size));
      } else {
        nghttp2_session_consume_connection(session, size);
      }
      return 0;
    });
  }
  static int stream_closed(nghttp2_session*, std::int32_t id, std::uint32_t, void* user) {
    Session& self = of(user);
    return attempt(self, [&] {
      if (Stream* const stream = self.find(id)) self.closed(*stream);
      return 0;
    });
  }
  static int invalid_frame(nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
    if (frame->hd.stream_id == 0) return 0;
    Session& self = of(user);
    return attempt(self, [&] { return self.guard_.ended_by_server(frame->hd.stream_id), 0; });
  }
  static int frame_sent(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    Session& self = of(user);
    return attempt(self, [&] { return frame_sent(self, frame); });
  }
  static int frame_sent(Session& self, const nghttp2_frame* frame) {
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS:
      case NGHTTP2_DATA: {
        const bool is_head = frame->hd.type == NGHTTP2_HEADERS;
        const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
        Stream* const stream = is_head || ends ? self.find(frame->hd.stream_id) : nullptr;
        if (stream == nullptr) break;
        if (is_head && !stream->interim.empty()) [[unlikely]] {
          self.engine_.encoded_fields.append(stream->interim.view());
          stream->interim.release();
        } else if (is_head && stream->continues == Stream::Continue::queued) {
          stream->continues = Stream::Continue::sent;
          self.encode_continue(frame->hd.length == 0);
        } else if (is_head && stream->state() < Stream::State::sending) {  // otherwise trailers
          stream->enter(Stream::State::sending);
          self.encode_fields(*stream, frame->hd.length == 0);
          if (stream->tunnelled) stream->exchange.release();
          if (!ends && self.window_is_shut(*stream)) self.add_ready(*stream);
        }
        if (!ends) break;
        stream->enter(Stream::State::sent);
        stream->body_unsent = false;
        if (!stream->client_done && stream->tunnel == nullptr) self.drop_body(*stream);
        break;
      }
      case NGHTTP2_RST_STREAM: {
        const Stream* const stream = self.find(frame->hd.stream_id);
        const bool our_fault = stream != nullptr && stream->failed;
        self.guard_.ended_by_server(frame->hd.stream_id);
        if (frame->rst_stream.error_code != NGHTTP2_NO_ERROR && !our_fault) {
          self.guard_.reset_by_server(self.engine_.reactor.now());
        }
        break;
      }
      default:
        break;
    }
    return 0;
  }
  static int frame_not_sent(nghttp2_session* session, const nghttp2_frame* frame, int, void* user) {
    Session& self = of(user);
    Stream* const stream = frame->hd.type == NGHTTP2_HEADERS ? self.find(frame->hd.stream_id) : nullptr;
    if (stream != nullptr) {
      stream->failed = true;
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_INTERNAL_ERROR);
    }
    return 0;
  }
  static int send_data(nghttp2_session*, nghttp2_frame*, const std::uint8_t* header, std::size_t size,
                       nghttp2_data_source* source, void* user) {
    Session& self = of(user);
    return attempt(self, [&] { return self.send_data(*static_cast<Stream*>(source->ptr), header, size); });
  }
  static ssize_t read_data(nghttp2_session*, std::int32_t, std::uint8_t*, std::size_t most, std::uint32_t* flags,
                           nghttp2_data_source* source, void* user) {
    Session& self = of(user);
    return attempt(self, [&] { return self.next_data(*static_cast<Stream*>(source->ptr), most, *flags); });
  }
};

void Session::install(nghttp2_session_callbacks& callbacks) {
  nghttp2_session_callbacks_set_on_begin_headers_callback(&callbacks, &Callbacks::begin_headers);
  nghttp2_session_callbacks_set_on_header_callback2(&callbacks, &Callbacks::header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(&callbacks, &Callbacks::frame_received);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(&callbacks, &Callbacks::data_received);
  nghttp2_session_callbacks_set_on_stream_close_callback(&callbacks, &Callbacks::stream_closed);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(&callbacks, &Callbacks::invalid_frame);
  nghttp2_session_callbacks_set_on_frame_send_callback(&callbacks, &Callbacks::frame_sent);
  nghttp2_session_callbacks_set_on_frame_not_send_callback(&callbacks, &Callbacks::frame_not_sent);
  nghttp2_session_callbacks_set_send_data_callback(&callbacks, &Callbacks::send_data);
}

Session::Session(Engine& engine, Owner& owner, std::string_view peer, bool secure,
                 const net::tls::PeerCertificate* certificate)
    : engine_(engine),
      owner_(owner),
      peer_(peer),
      limits_(engine.limits),
      guard_(limits_.size, engine.options.http2_resets),
      secure_(secure),
      certificate_(certificate),
      idle_since_(engine.reactor.now()),
      owes_since_(engine.reactor.now()) {
  nghttp2_mem memory = session_memory;
  if (nghttp2_session_server_new3(&session_, engine.callbacks, this, engine.session_options, &memory) != 0) {
    throw std::bad_alloc();
  }
  const std::array<nghttp2_settings_entry, 5> settings{{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, options().http2_streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, stream_window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(limits_.size)},
      // Disables the RFC 7540 dependency tree, so that clients cannot make the server rearrange it (RFC 9218, 2.1).
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
      {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
  }};
  if (nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size()) != 0 ||
      nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, connection_window) != 0) {
    nghttp2_session_del(session_);
    throw std::bad_alloc();
  }
}

Session::~Session() {
  end();
  upgrades_.cancel();
  nghttp2_session_del(session_);
}

void Session::end() {
  given_up_ = true;
  while (newest_ != nullptr) {
    nghttp2_session_set_stream_user_data(session_, newest_->id, nullptr);
    closed(*newest_);
  }
}

// Caches the last result, because several calls in a row usually ask for the same stream.
Stream* Session::find(std::int32_t id) {
  if (found_ == nullptr || found_->id != id) {
    found_ = static_cast<Stream*>(nghttp2_session_get_stream_user_data(session_, id));
  }
  return found_;
}

bool Session::over() const {
  return broken_ || (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0);
}

// ---- Receiving ----

void Session::receive(std::string_view bytes) {
  if (given_up_ || broken_) return;
  const Instant now = engine_.reactor.now();
  while (!bytes.empty()) {
    const std::size_t size = guard_.inspect(bytes, now);
    feed(bytes.substr(0, size));
    bytes.remove_prefix(size);
    if (given_up_ || broken_) return;
    if (const std::int32_t id = guard_.question()) guard_.settle(find(id) != nullptr, now);
    if (guard_.flood() != Flood::none) return give_up_flood();
    if (guard_.violation() != 0) return give_up(guard_.violation());
  }
  const bool owes = guard_.owes_frames();
  if (owes && (!owing_ || owed_block_ != guard_.block())) owes_since_ = now;
  owing_ = owes;
  owed_block_ = guard_.block();
  run_ready();
  if (drain_heard_) finish_drain();
}

void Session::feed(std::string_view bytes) {
  while (!bytes.empty() && guard_.flood() == Flood::none) {
    const ssize_t taken =
        nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    if (taken == NGHTTP2_ERR_FLOODED) return give_up(NGHTTP2_ENHANCE_YOUR_CALM);
    if (taken < 0) {
      broken_ = true;
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(taken));
  }
}

// Ends the connection: cancels everything that runs, and sends only a GOAWAY.
void Session::give_up(std::uint32_t error_code) {
  if (given_up_) return;
  end();
  if (nghttp2_session_terminate_session(session_, error_code) != 0) broken_ = true;
  owner_.has_output();
}

void Session::give_up_flood() {
  if (given_up_) return;
  ++engine_.counters.floods[std::to_underlying(guard_.flood())];
  log_error("client " + std::string(peer_) + ": its HTTP/2 connection is closed, because it sent too many " +
            std::string(flood_names[std::to_underlying(guard_.flood())]));
  give_up(NGHTTP2_ENHANCE_YOUR_CALM);
}

int Session::begin_headers(std::int32_t id) {
  std::unique_ptr<Stream> taken = engine_.take_stream();
  if (nghttp2_session_set_stream_user_data(session_, id, taken.get()) != 0)
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  Stream& stream = *taken.release();  // the list owns it
  stream.begin(*this, id);
  stream.next = newest_;
  if (newest_ != nullptr) newest_->previous = &stream;
  newest_ = &stream;
  ++streams_;
  in_head_ = &stream;
  return 0;
}

int Session::got_field(std::string_view name, std::string_view value, bool name_is_known) {
  // A few bytes of HPACK can decode to many long fields. More than decoded_factor times a limit is an attack.
  const std::size_t limit = limits_.size;
  if (in_head_ == nullptr) {
    trailer_bytes_ += name.size() + value.size() + RequestHead::field_overhead;
    if (name.starts_with(':') || !is_allowed_field(name, value, name_is_known)) trailers_malformed_ = true;
    if (trailer_bytes_ <= limit && !trailers_malformed_) got_trailer(name, value);
    if (trailer_bytes_ <= decoded_factor * limit) return 0;
  } else {
    RequestHead& head = in_head_->head;
    head.add(in_head_->arena, name, value, name_is_known, limits_);
    if (head.bytes() <= decoded_factor * limit && head.count() <= decoded_factor * limits_.fields) return 0;
  }
  guard_.header_decodes_to_too_much();
  return NGHTTP2_ERR_PAUSE;
}

void Session::got_whole_head(Stream& stream, bool ended) {
  in_head_ = nullptr;
  if (stream.head.is_malformed(ended)) return malformed(stream);
  stream.enter(Stream::State::queued);
  stream.client_done = ended;
  stream.began = engine_.reactor.now();
  add_ready(stream);
}

// The stream may be closed while its trailers arrive. Their memory counts as the body's.
void Session::got_trailer(std::string_view name, std::string_view value) {
  Stream* const stream = find(trailers_id_);
  if (stream == nullptr || stream->drops_body || stream->has_no_body() || stream->state() > Stream::State::handled)
    return;
  if (stream->body_refusal != 0 || !stream->keep(name.size() + value.size() + RequestHead::field_overhead)) return;
  stream->trailer_fields.push_back({stream->arena.copy(name), stream->arena.copy(value)});
}

// Trailers must end the request (RFC 9113, 8.1). After CONNECT, they are not allowed (RFC 9113, 8.5).
void Session::got_trailers(Stream& stream, bool ended) {
  if (!ended || trailers_malformed_ || stream.has_no_body()) return malformed(stream);
  got_end(stream);
}

void Session::malformed(Stream& stream) {
  if (std::exchange(stream.malformed, true)) return;
  stream.drops_body = true;
  remove_ready(stream);
  guard_.ended_by_server(stream.id);
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_PROTOCOL_ERROR);
}

void Session::got_data(Stream& stream, std::string_view bytes) {
  stream.received_bytes += bytes.size();
  if (stream.received_bytes > stream.head.content_length().value_or(UINT64_MAX)) {
    nghttp2_session_consume_connection(session_, bytes.size());
    return malformed(stream);
  }
  // Between the two limits, the body is refused when the handler reads it.
  if (stream.received_bytes > std::max(options().body_limit, options().most_body) && stream.body_refusal == 0 &&
      !stream.has_no_body()) {
    stream.body_refusal = 413;
    if (stream.reader_waits()) add_ready(stream);
  }
  const bool is_body = !stream.has_no_body();
  if (!stream.drops_body && stream.body_refusal == 0 && is_body && !stream.keep(bytes.size()) &&
      stream.reader_waits()) {
    add_ready(stream);
  }
  if (stream.drops_body || stream.body_refusal != 0) {
    nghttp2_session_consume_connection(session_, bytes.size());
    return;
  }
  if (stream.tunnel != nullptr) {
    if (stream.arrived.capacity() == 0) stream.arrived.swap(engine_.spare_input);
    add_ready(stream);
  }
  stream.arrived.append(bytes);
  if (stream.reader_waits()) add_ready(stream);
}

void Session::got_end(Stream& stream) {
  if (stream.malformed) return;
  if (stream.received_bytes != stream.head.content_length().value_or(stream.received_bytes)) return malformed(stream);
  stream.client_done = true;
  if (stream.reader_waits() || stream.tunnel != nullptr) add_ready(stream);
}

// The response was sent, and the client still sends its body. Bytes within its window are dropped, because an immediate
// reset makes some clients discard the response. After a while the stream is reset (RFC 9113, 8.1).
void Session::drop_body(Stream& stream) {
  stream.drops_body = true;
  stream.progress_at = engine_.reactor.now();
}

void Session::refuse_rest(Stream& stream) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_NO_ERROR);
  stream.client_done = true;
  owner_.has_output();
}

void Session::consumed(Stream& stream, std::size_t bytes) {
  nghttp2_session_consume(session_, stream.id, bytes);
  owner_.has_output();
}

void Session::send_continue(Stream& stream) {
  // append_frame() adds the status when the frame is sent.
  if (nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, stream.id, nullptr, nullptr, 0, nullptr) != 0) return;
  stream.continues = Stream::Continue::queued;
  owner_.has_output();
}

// ---- Answering ----

void Session::add_ready(Stream& stream) {
  if (std::exchange(stream.is_ready, true)) return;
  stream.next_ready = nullptr;
  stream.previous_ready = last_ready_;
  (last_ready_ != nullptr ? last_ready_->next_ready : first_ready_) = &stream;
  last_ready_ = &stream;
}

void Session::remove_ready(Stream& stream) {
  if (!std::exchange(stream.is_ready, false)) return;
  (stream.previous_ready != nullptr ? stream.previous_ready->next_ready : first_ready_) = stream.next_ready;
  (stream.next_ready != nullptr ? stream.next_ready->previous_ready : last_ready_) = stream.previous_ready;
}

// A request that was reset in the same receive() has left the queue and never reaches the handler.
void Session::run_ready() {
  while (Stream* const stream = first_ready_) {
    remove_ready(*stream);
    if (stream->tunnel != nullptr) {
      stream->tunnel->wake_writer();
      if (stream->tunnel != nullptr) stream->tunnel->wake_reader();
    } else if (stream->state() >= Stream::State::handled) {
      stream->wake_reader();
      take_over(*stream);
    } else {
      start(*stream);
    }
  }
}

void Session::start(Stream& stream) {
  Request& request = stream.exchange.request;
  Refusal refusal = stream.head.finish(stream.arena, known_authority_, limits_, request);
  const std::uint64_t most = std::max(options().body_limit, options().most_body);
  if (!refusal && stream.body_refusal == 503) refusal = {503, describe_body_refusal(503)};
  if (!refusal && (stream.head.content_length().value_or(0) > most || stream.body_refusal != 0)) {
    refusal = {413, "The request's body is longer than the server takes."};
  }
  // No handler has seen the request, so the client can safely retry it, on another connection if this one is draining.
  if (drain_ == Drain::done || !stream.occupy()) {
    stream.failed = true;
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_REFUSED_STREAM);
    return;
  }
  // Upgrades whose streams have closed count too. Otherwise a client could bypass the limit with resets.
  if (!refusal && stream.head.is_extended_connect() && upgrades_.size() >= options().http2_streams) {
    refusal = {503, "This connection has as many upgraded streams as it may."};
  }
  if (refusal) return refuse(stream, refusal);
  stream.enter(Stream::State::handled);
  stream.is_request = true;
  ++active(request);
  const bool has_body = !stream.client_done || !stream.arrived.empty() || !stream.trailer_fields.empty();
  request.body = has_body && !stream.head.is_extended_connect() ? &stream : nullptr;
  request.interim = &stream;
  set_client(stream.exchange, peer_, secure_, options().trusted_proxies.get());
  request.certificate = certificate_;
  try {
    core::Async<Response> answer = engine_.dispatcher.handle(stream.exchange);
    if (!answer.ready()) return stream.task.spawn(answer_later(*this, stream, answer.take_task()));
    stream.response = std::move(answer.get());
  } catch (const std::bad_alloc&) {
    answer_without_memory(stream);
  }
  respond(stream);
}

void Session::answer_without_memory(Stream& stream) {
  ++engine_.counters.out_of_memory;
  stream.response = {};
  stream.response.status = 503;
  stream.response.fields.add("Retry-After", "1");
}

// The gauge of active requests with this method.
std::uint32_t& Session::active(const Request& request) {
  return engine_.counters.active[secure_ ? 1 : 0][static_cast<std::size_t>(request.method)];
}

void Session::refuse(Stream& stream, const Refusal& refusal) {
  if (std::exchange(stream.is_request, false)) --active(stream.exchange.request);
  stream.drops_body = true;
  stream.body_refusal = 0;
  nghttp2_session_consume_connection(session_, stream.drop_unread());
  stream.response = problem(refusal.status, refusal.detail);
  if (refusal.status == 503) stream.response.fields.add("Retry-After", "1");
  respond(stream);
}

core::Task<void> Session::answer_later(Session& session, Stream& stream, core::Task<Response> answer) {
  try {
    stream.response = co_await std::move(answer);
  } catch (const std::bad_alloc&) {
    session.answer_without_memory(stream);
  }
  session.respond(stream);
  session.owner_.has_output();
}

void Session::respond(Stream& stream) {
  stream.forget_kept();
  if (stream.body_refusal != 0) {
    return refuse(stream, {stream.body_refusal, describe_body_refusal(stream.body_refusal)});
  }
  if (!stream.hold_answer()) [[unlikely]] {
    stream.response = answer_without_room(is_safe(stream.exchange.request.method));
  }
  try {
    stream.exchange.filter(stream.response);
  } catch (const std::bad_alloc&) {
    answer_without_memory(stream);
  }
  stream.enter(Stream::State::answered);
  Response& answer = stream.response;
  if (answer.status < 200 || answer.status > 999) answer.status = 500;

  const auto size = size_of(answer.body);
  const bool upgrades = answer.upgrade != nullptr;
  nghttp2_data_provider provider{};
  provider.source.ptr = &stream;
  provider.read_callback = &Callbacks::read_data;
  stream.body_unsent =
      (!size || *size != 0) && !has_no_body(answer.status) && stream.exchange.request.method != Method::head;
  stream.progress_at = engine_.reactor.now();
  const bool has_data = stream.body_unsent || upgrades;
  // append_frame() adds the fields when the frame is sent.
  if (nghttp2_submit_response(session_, stream.id, nullptr, 0, has_data ? &provider : nullptr) != 0) {
    stream.failed = true;
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_INTERNAL_ERROR);
    return;
  }
  stream.tunnelled = upgrades;
  if (!has_data) return;
  // Long responses share the connection, unless the client has set a priority.
  const auto priority = stream.head.priority();
  if (!priority && size && *size <= output_bytes && !upgrades) return;
  const Priority wanted = priority.value_or(Priority{.incremental = true});
  const nghttp2_extpri chosen{wanted.urgency, wanted.incremental ? 1 : 0};
  nghttp2_session_change_extpri_stream_priority(session_, stream.id, &chosen, 0);
  if (upgrades) hand_over(stream);
}

void Session::cut_answers_of(const void* owner) {
  for (Stream* stream = newest_; stream != nullptr; stream = stream->next) {
    if (!stream->tunnelled && owner_of(stream->response.body) == owner) cut(*stream);
  }
}

void Session::cut_pinned(const Pinned& pinned) {
  for (Stream* stream = newest_; stream != nullptr; stream = stream->next) {
    if (!stream->tunnelled && stream->exchange.pin.holds(pinned)) cut(*stream);
  }
}

// Also cuts a stream that has no response yet.
void Session::cut(Stream& stream) {
  const bool has_head = stream.state() >= Stream::State::sending;  // of the response
  if (!has_head || stream.body_unsent) {
    stream.failed = true;
    stream.body_unsent = false;
    if (nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_INTERNAL_ERROR) != 0) return;
    owner_.has_output();
  }
  // The reset may have to wait a long time behind output that the client does not read. The body must not be used until
  // then.
  stream.task.cancel();
  stream.source = Stream::Source::idle;
  stream.deferred = false;
  stream.pulled.release();
  if (!has_head) stream.response.fields = {};
  stream.response.body.emplace<std::monostate>();
}

// ---- Upgrades (RFC 8441) ----

// The request has been answered. From here on the stream's data belongs to the upgrade.
void Session::hand_over(Stream& stream) {
  SLUICE_ASSERT(!stream.exchange.request.upgrade.empty() && stream.response.status == 200);
  notify_observer(stream, false);
  if (stream.is_request) --active(stream.exchange.request);
  upgrades_.spawn(run_upgrade(*this, stream, stream.exchange.continue_upgraded(), std::move(stream.response.upgrade)));
}

// `upgraded`: ends with the upgrade; null if no filter waits for its end.
core::Task<void> Session::run_upgrade(Session& session, Stream& stream, std::unique_ptr<Exchange> upgraded,
                                      std::unique_ptr<Upgrade> upgrade) {
  try {
    Tunnel tunnel(session, stream, *upgrade);
    if (session.drain_ != Drain::no) upgrade->drain();
    co_await upgrade->run(tunnel, session.engine_.bodies, session.held_);
    upgrade.reset();
    if (upgraded != nullptr) upgraded->end({.status = 200, .broken = false});
  } catch (const std::bad_alloc&) {
    ++session.engine_.counters.out_of_memory;
  }
  session.owner_.upgrade_ended();
}

void Session::send_tunnelled(Stream& stream) {
  if (std::exchange(stream.deferred, false)) nghttp2_session_resume_data(session_, stream.id);
  owner_.has_output();
}

// As with TCP, a reset tells the client that data is missing.
void Session::end_tunnelled(Stream& stream, bool cut) {
  if (!cut) {
    // Even an empty DATA frame waits while the window is closed, so the wait needs a deadline.
    stream.body_unsent = true;
    stream.progress_at = engine_.reactor.now();
    return send_tunnelled(stream);
  }
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_CANCEL);
  owner_.has_output();
}

void Session::lend_back(Buffer& arrived) {
  if (engine_.spare_input.capacity() == 0) {
    arrived.swap(engine_.spare_input);
  } else {
    arrived.release();
  }
}

void Session::closed(Stream& stream) {
  if (const std::size_t unread = stream.unread_bytes(); unread != 0 && !given_up_) {
    nghttp2_session_consume_connection(session_, unread);
  }
  if (!stream.tunnelled) end_exchange(stream, stream.state() != Stream::State::sent);
  if (stream.tunnel != nullptr) stream.tunnel->detach();
  guard_.closed(stream.id);
  release(stream);
}

int Session::status_of(const Stream& stream) {
  return stream.state() >= Stream::State::answered ? stream.response.status
         : stream.state() != Stream::State::head   ? 499
                                                   : 400;
}

// Called once for each stream that no upgrade uses, when the response has been sent or never will be.
void Session::end_exchange(Stream& stream, bool broken) {
  stream.task.cancel();
  stream.response.body.emplace<std::monostate>();
  stream.exchange.end({.status = status_of(stream), .broken = broken});
  notify_observer(stream, broken);
  if (stream.is_request) --active(stream.exchange.request);
}

void Session::notify_observer(Stream& stream, bool broken) {
  if (engine_.observer == nullptr) return;
  const bool is_request = stream.is_request;
  engine_.observer->completed({.exchange = is_request ? &stream.exchange : nullptr,
                               .method = stream.exchange.request.method,
                               .secure = secure_,
                               .peer = is_request ? stream.exchange.request.peer : peer_,
                               .status = status_of(stream),
                               .body_bytes = stream.sent_bytes,
                               .duration = is_request ? std::max(clock() - stream.began, Duration{}) : Duration{},
                               .broken = broken});
}

// The clock is read once for all responses of one produce().
Instant Session::clock() {
  if (out_ == nullptr) return engine_.reactor.clock();
  if (!produced_at_) produced_at_ = engine_.reactor.clock();
  return *produced_at_;
}

void Session::release(Stream& stream) {
  remove_ready(stream);
  if (in_head_ == &stream) in_head_ = nullptr;
  if (found_ == &stream) found_ = nullptr;
  if (stream.next != nullptr) stream.next->previous = stream.previous;
  (stream.previous != nullptr ? stream.previous->next : newest_) = stream.next;
  --streams_;
  engine_.give_back(std::unique_ptr<Stream>(&stream));
  if (newest_ == nullptr) idle_since_ = engine_.reactor.now();
}

// ---- Draining and timeouts ----

void Session::drain() {
  go_away();
  for (Tunnel* tunnel = tunnels_; tunnel != nullptr;) {  // drain() may destroy the tunnel
    Tunnel* const next = tunnel->next();
    tunnel->upgrade().drain();
    tunnel = next;
  }
}

void Session::go_away() {
  if (drain_ != Drain::no || given_up_ || broken_) return;
  drain_ = Drain::announced;
  drain_until_ = engine_.reactor.now() + (newest_ == nullptr ? idle_drain_patience : drain_patience);
  // Two steps (RFC 9113, 6.8): first asks for no new requests; once the client has acknowledged that, refuses new ones.
  nghttp2_submit_shutdown_notice(session_);
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, drain_ping);
  owner_.has_output();
}

void Session::finish_drain() {
  if (drain_ != Drain::announced) return;
  drain_ = Drain::done;
  drain_until_ = never;
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_),
                        NGHTTP2_NO_ERROR, nullptr, 0);
  owner_.has_output();
}

void Session::refuse_all() {
  given_up_ = true;
  if (nghttp2_session_terminate_session2(session_, 0, NGHTTP2_NO_ERROR) != 0) broken_ = true;
}

Duration Session::shortest_patience() const {
  return std::min({options().header_timeout, options().write_timeout, dropping_patience});
}

Instant Session::expire(Instant now) {
  if (given_up_ || broken_) return never;
  Instant next = never;
  // Returns true if the deadline has passed. Otherwise schedules the next check for it.
  const auto passed = [&](Instant deadline) {
    if (now >= deadline) return true;
    next = std::min(next, deadline);
    return false;
  };
  if (drain_ == Drain::announced && passed(drain_until_)) finish_drain();
  if (owing_ && passed(owes_since_ + options().header_timeout)) {
    give_up(NGHTTP2_ENHANCE_YOUR_CALM);
    return never;
  }
  if (newest_ == nullptr) {
    if (passed(idle_since_ + options().idle_timeout)) {
      give_up(NGHTTP2_NO_ERROR);
      return never;
    }
    return next;
  }
  // Resets streams that cannot send because the client keeps their window or the connection's window closed.
  const Duration patience = options().write_timeout;
  const bool connection_shut = nghttp2_session_get_remote_window_size(session_) <= 0;
  for (Stream* stream = newest_; stream != nullptr; stream = stream->next) {
    if (stream->state() == Stream::State::sent && !stream->client_done && stream->tunnel == nullptr &&
        passed(stream->progress_at + dropping_patience)) {
      refuse_rest(*stream);
      continue;
    }
    if (!stream->body_unsent || stream->source == Stream::Source::pulling) continue;
    const bool shut = nghttp2_session_get_stream_remote_window_size(session_, stream->id) <= 0;
    const Instant since = shut ? stream->progress_at : std::max(stream->progress_at, progress_at_);
    if (!(shut || connection_shut) || !passed(since + patience)) continue;
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
    stream->body_unsent = false;
    owner_.has_output();
  }
  return next;
}

}  // namespace sluice::http::h2

// The sending part of Session: frames in order, fields of responses, and bodies.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include <nghttp2/nghttp2.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/copy.h"
#include "http/answer_fields.h"
#include "http/h1/scan.h"
#include "http/h2/session.h"
#include "http/h2/stream.h"
#include "http/h2/tunnel.h"

namespace sluice::http::h2 {
namespace {

constexpr std::size_t most_trailers = 16;

// nghttp2 keeps the views until the frame is sent, so they must be static or live as long as the stream.
nghttp2_nv pair(std::string_view name, std::string_view value) {
  return {const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(name.data())),
          const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

// Names are sent in lower case (RFC 9113, 8.2.1). They are tokens, so all bytes are below 0x80.
std::string_view lower_case(core::Arena& arena, std::string_view name) {
  constexpr std::uint64_t each = 0x0101'0101'0101'0101;
  constexpr std::size_t word = sizeof each;
  const std::size_t words = (name.size() + word - 1) / word;
  char* const to = static_cast<char*>(arena.allocate(words * word, word));
  static_cast<void>(copy_short(to, name));
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t bytes;
    std::memcpy(&bytes, to + i * word, word);  // the bytes after the name were allocated too
    const std::uint64_t low = bytes & 0x7F * each;
    const std::uint64_t from_a = low + (0x80 - 'A') * each;
    const std::uint64_t above_z = low + (0x7F - 'Z') * each;
    bytes |= ((from_a & ~above_z) & 0x80 * each) >> 2;
    std::memcpy(to + i * word, &bytes, word);
  }
  return {to, name.size()};
}

constexpr std::size_t frame_header_bytes = 9;
constexpr std::size_t most_payload = 16 * 1024;  // maximum size that every client accepts
constexpr std::size_t least_room = 2 * 1024;     // minimum for the next frame; with less, the output counts as full

// Writes the length field of a frame.
void put_length(char* frame, std::size_t length) {
  for (const int shift : {16, 8, 0}) *frame++ = static_cast<char>(length >> shift);
}

// Returns false for an invalid field, which a handler may have forwarded from elsewhere. It is left out.
bool make_valid(std::string_view name, std::string_view& value) {
  if (!is_token(name)) return false;
  while (!value.empty() && h1::is_ows(value.front())) value.remove_prefix(1);
  while (!value.empty() && h1::is_ows(value.back())) value.remove_suffix(1);
  const char* const end = value.data() + value.size();
  return h1::find_first<h1::EndsValue>(value.data(), value.data(), end) == end;
}

// Fields that HTTP/2 forbids (RFC 9113, 8.2.2), and those that the session writes itself.
bool is_connection_field(std::string_view name) {
  switch (name.size()) {
    case 7:
      return same_name(name, "upgrade");
    case 10:
      return same_name(name, "connection") || same_name(name, "keep-alive");
    case 14:
      return same_name(name, "content-length");
    case 16:
      return same_name(name, "proxy-connection");
    case 17:
      return same_name(name, "transfer-encoding");
    default:
      return false;
  }
}

bool is_full(const Buffer& out) { return out.size() > output_bytes - least_room; }

std::uint64_t known_size(const Body& body) { return size_of(body).value_or(0); }

}  // namespace

void Session::produce(Buffer& out) {
  out_ = &out;
  full_ = false;
  ahead_bytes_ = 0;
  produced_at_.reset();
  while (!full_ && !broken_) {
    const std::uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    if (size < 0) {
      broken_ = true;
    } else if (size > 0) {
      append_frame(out, {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)});
      full_ = is_full(out);
    } else if (!full_ && first_ready_ != nullptr) {
      run_ready();  // upgrades whose writes have completed
    } else if (!full_) {
      // A reset that was just sent may have exceeded the limit.
      if (guard_.flood() == Flood::none || given_up_) break;
      give_up_flood();
    }
  }
  out_ = nullptr;
  // nghttp2 has ended the connection because of a client error. Responses that are still running can no longer be sent.
  if (newest_ != nullptr && over()) end();
}

// Appends a frame of nghttp2. The fields of a header section are added here and not by nghttp2: HPACK has state, so
// fields must be encoded in the order of the frames, and only if the frame is sent. nghttp2 does not know this state.
// It encodes only trailers, without the dynamic table.
void Session::append_frame(Buffer& out, std::string_view frame) {
  const std::size_t begin = out.size();
  out.append(frame);
  if (frame[3] != NGHTTP2_HEADERS) return;
  follow_resizes(frame.substr(frame_header_bytes));
  Buffer& fields = engine_.encoded_fields;
  if (fields.empty()) return;  // trailers
  out.append(fields.view());
  fields.clear();
  const std::size_t payload = out.size() - begin - frame_header_bytes;
  if (payload > most_payload) [[unlikely]] {
    split_head(out, begin);
  } else {
    put_length(out.data() + begin, payload);
  }
}

// A header block may begin with size updates of the dynamic table, as requested by the client's settings (RFC 7541,
// 6.3).
void Session::follow_resizes(std::string_view block) {
  constexpr std::uint8_t most_in_prefix = 31;
  std::size_t at = 0;
  const auto next = [&] { return static_cast<std::uint8_t>(block[at++]); };
  while (at != block.size() && (static_cast<std::uint8_t>(block[at]) & 0xE0) == 0x20) {
    std::size_t bytes = next() & most_in_prefix;
    if (bytes == most_in_prefix) {
      std::uint8_t byte = 128;
      for (int shift = 0; (byte & 128) != 0; shift += 7) {
        byte = next();
        bytes += std::size_t{byte & 127u} << shift;
      }
    }
    fields_.resize(bytes);
  }
}

// A header section that does not fit into one frame continues in CONTINUATION frames (RFC 9113, 6.10).
void Session::split_head(Buffer& out, std::size_t begin) {
  Buffer whole;
  whole.append(out.view().substr(begin));
  out.truncate(begin);
  std::array<char, frame_header_bytes> header;
  std::memcpy(header.data(), whole.data(), header.size());
  whole.consume(header.size());
  header[4] = static_cast<char>(header[4] & ~NGHTTP2_FLAG_END_HEADERS);
  while (!whole.empty()) {
    const std::size_t size = std::min(whole.size(), most_payload);
    if (size == whole.size()) header[4] = static_cast<char>(header[4] | NGHTTP2_FLAG_END_HEADERS);
    put_length(header.data(), size);
    out.append({header.data(), header.size()});
    out.append(whole.view().substr(0, size));
    whole.consume(size);
    header[3] = NGHTTP2_CONTINUATION;
    header[4] = 0;
  }
}

void Session::encode_continue(bool with_table) {
  fields_.use_table(with_table);
  fields_.add_status(engine_.encoded_fields, 100);
}

// One interim response at a time waits for the client; further ones are dropped. The fields are encoded without the
// dynamic table, so that other frames can be sent before this one.
void Session::send_interim(Stream& stream, int status, std::span<const Field> fields) {
  Buffer& out = stream.interim;
  if (stream.state() != Stream::State::handled || !out.empty()) return;
  if (nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, stream.id, nullptr, nullptr, 0, nullptr) != 0) return;
  fields_.use_table(false);
  fields_.add_status(out, status);
  for (const Field& field : fields) {
    std::string_view value = field.value;
    if (make_valid(field.name, value) && !is_connection_field(field.name)) fields_.add(out, field.name, value);
  }
  owner_.has_output();
}

// Called just before nghttp2 outputs the frame, while the stream still exists. `with_table`: the frame has no size
// update of the dynamic table.
void Session::encode_fields(const Stream& stream, bool with_table) {
  const Response& answer = stream.response;
  const AnswerFields* const own = stream.exchange.pin.answer_fields();
  const AnswerFields& common = own != nullptr ? *own : *options().answer_fields;
  Buffer& out = engine_.encoded_fields;
  fields_.use_table(with_table);
  fields_.add_status(out, answer.status);
  bool has_date = false;
  bool has_server = common.server_name().empty();
  std::uint32_t trusted = answer.fields.trusted();
  for (const Field& field : answer.fields.items()) {
    const bool known = (trusted & 1) != 0;
    trusted >>= 1;
    std::string_view value = field.value;
    if (!known) {
      if (!make_valid(field.name, value) || is_connection_field(field.name)) continue;
      has_date |= same_name(field.name, "date");
      has_server |= same_name(field.name, "server");
    }
    fields_.add(out, field.name, value);
  }
  if (!has_date) fields_.add(out, "date", engine_.date());
  if (!has_server) fields_.add(out, "server", common.server_name());
  for (const auto& [name, value] : common.configured(secure_)) fields_.add(out, name, value);
  if (const auto size = size_of(answer.body); size && !has_no_body(answer.status) && !stream.tunnelled) {
    std::array<char, 20> digits;
    const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), *size).ptr;
    fields_.add(out, "content-length", {digits.data(), end});
  }
}

// Returns how many bytes of the body to send next. Called only if the client's windows and the output have room.
std::ptrdiff_t Session::next_data(Stream& stream, std::size_t most, std::uint32_t& flags) {
  flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  SLUICE_ASSERT(out_->size() + frame_header_bytes <= output_bytes);
  most = std::min(most, output_bytes - out_->size() - frame_header_bytes);
  if (stream.tunnelled) {
    const std::size_t pending = stream.tunnel != nullptr ? stream.tunnel->pending() : 0;
    const bool ended = stream.tunnel == nullptr || stream.tunnel->ended();
    stream.deferred = !ended && pending == 0;
    if (stream.head.count() != 0) {  // the response's header section has been sent
      stream.forget_request();
      stream.arena.release();
    }
    if (stream.deferred) return NGHTTP2_ERR_DEFERRED;
    if (ended) flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<std::ptrdiff_t>(std::min(pending, most));
  }
  Body& body = stream.response.body;
  if (!std::holds_alternative<std::unique_ptr<BodySource>>(body) && stream.source != Stream::Source::done) {
    if (stream.failed) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const std::uint64_t left = known_size(body) - stream.sent_bytes;
    const auto next = static_cast<std::size_t>(std::min<std::uint64_t>(left, most));
    if (next == left) flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<std::ptrdiff_t>(next);
  }
  stream.deferred = false;
  while (stream.pulled.empty() && stream.source == Stream::Source::idle && !stream.failed) {
    if (!pull(stream)) break;
  }
  // While the source writes into `pulled`, nothing of it may be sent.
  if (stream.source == Stream::Source::pulling) {
    stream.deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  if (stream.pulled.empty() && stream.failed) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  const std::size_t next = std::min(stream.pulled.size(), most);
  if (stream.source == Stream::Source::done && next == stream.pulled.size()) {
    flags |= NGHTTP2_DATA_FLAG_EOF;
    if (submit_trailers(stream)) flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
  }
  return static_cast<std::ptrdiff_t>(next);
}

bool Session::pull(Stream& stream) {
  const auto& source = std::get<std::unique_ptr<BodySource>>(stream.response.body);
  core::Async<Result<BodySource::Progress>> pulling = source->pull(stream.pulled);
  if (pulling.ready()) {
    const auto& progress = pulling.get();
    stream.failed = !progress;
    if (progress && *progress == BodySource::Progress::done) stream.source = Stream::Source::done;
    return true;
  }
  stream.source = Stream::Source::pulling;
  stream.task.spawn(pull_later(*this, stream, pulling.take_task()));
  return stream.source != Stream::Source::pulling;
}

core::Task<void> Session::pull_later(Session& session, Stream& stream,
                                     core::Task<Result<BodySource::Progress>> pulling) {
  auto next = Stream::Source::idle;
  try {
    const auto progress = co_await std::move(pulling);
    stream.failed = !progress;
    if (progress && *progress == BodySource::Progress::done) next = Stream::Source::done;
  } catch (const std::bad_alloc&) {
    ++session.engine_.counters.out_of_memory;
    stream.failed = true;
  }
  stream.source = next;
  stream.progress_at = session.engine_.reactor.now();  // the client was not the cause of the delay
  if (stream.deferred) {
    nghttp2_session_resume_data(session.session_, stream.id);
  } else {
    session.add_ready(stream);  // for take_over()
  }
  session.owner_.has_output();
}

bool Session::window_is_shut(const Stream& stream) const {
  return nghttp2_session_get_remote_window_size(session_) <= 0 ||
         nghttp2_session_get_stream_remote_window_size(session_, stream.id) <= 0;
}

// While the client's window is shut, nghttp2 asks for no data. This takes the rest of a small response, so that a
// client cannot hold the connections to servers and databases, and the places of filters, that made it. It also ends a
// response that used up the window: the last frame of nghttp2, though empty, would wait for the window.
void Session::take_over(Stream& stream) {
  if (stream.state() != Stream::State::sending || !stream.body_unsent || stream.tunnelled) return;
  if (stream.source == Stream::Source::pulling || !window_is_shut(stream)) return;
  Body& body = stream.response.body;
  std::uint64_t rest = 0;
  if (const auto* const source = std::get_if<std::unique_ptr<BodySource>>(&body)) {
    if ((*source)->size().value_or(0) > stream.sent_bytes + BodyBudget::small_answer_bytes) return;
    while (stream.source == Stream::Source::idle && stream.pulled.size() < BodyBudget::small_answer_bytes) {
      if (!pull(stream)) return;
      if (stream.failed) return cut(stream);
    }
    if (stream.source != Stream::Source::done) return;
    rest = stream.pulled.size();
    if (rest == 0) return end_without_data(stream);
    if ((*source)->trailers().empty()) body.emplace<std::monostate>();
  } else {
    rest = stream.source == Stream::Source::done ? stream.pulled.size() : known_size(body) - stream.sent_bytes;
  }
  if (rest <= BodyBudget::small_answer_bytes) stream.exchange.end({.status = stream.response.status, .broken = false});
}

// Ends the response by a trailer section, without fields if there are no trailers: it needs no window.
void Session::end_without_data(Stream& stream) {
  if (!submit_trailers(stream) && nghttp2_submit_trailer(session_, stream.id, nullptr, 0) != 0) return cut(stream);
  stream.body_unsent = false;
  owner_.has_output();
}

bool Session::submit_trailers(Stream& stream) {
  const auto* const source = std::get_if<std::unique_ptr<BodySource>>(&stream.response.body);
  if (source == nullptr) return false;
  std::array<nghttp2_nv, most_trailers> fields;
  std::size_t count = 0;
  for (const Field& field : (*source)->trailers()) {
    std::string_view value = field.value;
    if (count == fields.size() || !make_valid(field.name, value)) continue;
    const std::string_view name = lower_case(stream.arena, field.name);
    if (is_connection_field(name)) continue;
    fields[count] = pair(name, value);
    fields[count++].flags |= NGHTTP2_NV_FLAG_NO_INDEX;
  }
  return count != 0 && nghttp2_submit_trailer(session_, stream.id, fields.data(), count) == 0;
}

// Reads a frame's bytes to their place in the output. If there is only one stream, one read covers all frames that fit
// into the output, with gaps for their headers. All of them except the last have `most_payload` bytes. If the next
// frame has another place or size than expected, its bytes are read again.
bool Session::read_file(const Stream& stream, const FileRange& file, char* to, std::size_t size) {
  const std::size_t place = out_->size();
  if (ahead_at_ != place || size != std::min(ahead_bytes_, most_payload)) {
    std::uint64_t rest = 0;  // bytes that the client's windows allow beyond this frame
    if (streams_ == 1) {
      const auto window = std::min(nghttp2_session_get_remote_window_size(session_),
                                   nghttp2_session_get_stream_remote_window_size(session_, stream.id));
      rest = std::min(file.size - stream.sent_bytes, static_cast<std::uint64_t>(window)) - size;
    }
    std::array<iovec, output_bytes / most_payload + 1> parts{{{to, size}}};
    std::size_t count = 1;
    for (std::size_t end = frame_header_bytes + size; rest != 0 && place + end <= output_bytes - least_room; ++count) {
      const std::size_t room = output_bytes - place - end - frame_header_bytes;
      const std::size_t piece = std::min({std::size_t{rest}, most_payload, room});
      SLUICE_ASSERT(count < parts.size());
      parts[count] = {to + end, piece};
      end += frame_header_bytes + piece;
      rest -= piece;
    }
    const std::uint64_t offset = file.offset + stream.sent_bytes;
    ahead_bytes_ = 0;
    while (ahead_bytes_ < size) {
      const std::size_t got = ahead_bytes_;
      const auto at = static_cast<off_t>(offset + got);
      const ssize_t more = got == 0 ? ::preadv(file.fd, parts.data(), static_cast<int>(count), at)
                                    : ::pread(file.fd, to + got, size - got, at);
      if (more < 0 && errno == EINTR) continue;
      if (more <= 0) return false;
      ahead_bytes_ += static_cast<std::size_t>(more);
    }
  }
  ahead_bytes_ -= size;
  ahead_at_ = place + frame_header_bytes + size;
  return true;
}

int Session::send_data(Stream& stream, const std::uint8_t* frame_header, std::size_t size) {
  Buffer& out = *out_;
  const std::size_t before = out.size();
  Body& body = stream.response.body;
  const auto* const file = std::get_if<FileRange>(&body);
  char* to = out.reserve(file != nullptr ? output_bytes - before : frame_header_bytes + size);
  std::memcpy(to, frame_header, frame_header_bytes);
  to += frame_header_bytes;
  if (stream.tunnelled) {
    if (stream.tunnel != nullptr) {
      stream.tunnel->take(to, size);
      if (stream.tunnel->pending() == 0) add_ready(stream);
    }
  } else if (const auto* shared = std::get_if<SharedBytes>(&body)) {
    std::memcpy(to, shared->bytes.data() + stream.sent_bytes, size);
  } else if (const auto* own = std::get_if<Buffer>(&body)) {
    std::memcpy(to, own->data() + stream.sent_bytes, size);
  } else if (const auto* spans = std::get_if<SharedSpans>(&body)) {
    if (stream.sent_bytes == 0) stream.spans = SpanReader(spans->pieces());
    const std::size_t copied = stream.spans.copy(to, size);
    SLUICE_ASSERT(copied == size);
  } else if (file != nullptr) {
    if (!read_file(stream, *file, to, size)) {  // the file has become shorter or cannot be read
      out.truncate(before);
      stream.failed = true;
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
  } else if (size != 0) {
    std::memcpy(to, stream.pulled.data(), size);
    stream.pulled.consume(size);
  }
  out.commit(frame_header_bytes + size);
  stream.sent_bytes += size;
  stream.took(size);
  count_progress(stream, size);
  guard_.sent_data_frame();
  full_ = is_full(out);
  return full_ ? NGHTTP2_ERR_PAUSE : 0;
}

// Limits a client that opens its window a byte at a time to the time that `slowest_client` allows. nghttp2 subtracts
// the frame from the windows after this call.
void Session::count_progress(Stream& stream, std::size_t size) {
  const Instant now = engine_.reactor.now();
  const std::uint32_t slowest = options().slowest_client;
  const auto advance = [&](Instant& since, bool waited_for_client) {
    if (!waited_for_client || slowest == 0) {
      since = now;
    } else {
      since = std::min(now, since + Duration(std::chrono::seconds(size)) / slowest);
    }
  };
  advance(stream.progress_at, stream.starved);
  advance(progress_at_, starved_);
  const auto sent = static_cast<std::int32_t>(size);
  starved_ = nghttp2_session_get_remote_window_size(session_) <= sent;
  stream.starved = starved_ || nghttp2_session_get_stream_remote_window_size(session_, stream.id) <= sent;
  if (!stream.starved) return;
  add_ready(stream);  // for take_over()
  for (Stream* other = starved_ ? newest_ : nullptr; other != nullptr; other = other->next) {
    if (other->state() == Stream::State::sending && other->body_unsent) add_ready(*other);
  }
}

}  // namespace sluice::http::h2

#include "ws/decoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/utf8.h"

namespace sluice::ws {
namespace {

constexpr std::size_t least_trimmed = 16 * 1024;  // a smaller idle buffer is not worth a copy

}  // namespace

Decoder::Decoder(const Options& options)
    : options_(options),
      most_short_(static_cast<std::size_t>(std::min<std::uint64_t>({options.max_frame, options.max_message, 125}))) {}

CloseCode Decoder::judge(const FrameHeader& header) const {
  if (header.masked != options_.peer_masks) return CloseCode::protocol_error;
  if (is_control(header.opcode)) return CloseCode::none;
  const bool continues = header.opcode == Opcode::continuation;
  if (continues != in_message_) return CloseCode::protocol_error;
  if (header.compressed && (continues || options_.inflater == nullptr)) return CloseCode::protocol_error;
  if (header.payload_size > options_.max_frame) return CloseCode::too_large;
  if (header.payload_size > options_.max_message - gathered_.size()) return CloseCode::too_large;
  return CloseCode::none;
}

Decoder::Event Decoder::control(const FrameHeader& header, std::string_view payload, std::size_t consumed) const {
  Event event{.consumed = consumed, .data = payload};
  switch (header.opcode) {
    case Opcode::ping:
      event.kind = Event::Kind::ping;
      return event;
    case Opcode::pong:
      event.kind = Event::Kind::pong;
      return event;
    default:
      break;
  }
  event.kind = Event::Kind::close;
  if (payload.empty()) return event;
  if (payload.size() == 1) return refuse(CloseCode::protocol_error, consumed);
  const auto code =
      static_cast<std::uint16_t>(static_cast<std::uint8_t>(payload[0]) << 8 | static_cast<std::uint8_t>(payload[1]));
  if (!is_sendable(code)) return refuse(CloseCode::protocol_error, consumed);
  event.code = static_cast<CloseCode>(code);
  event.data = payload.substr(2);
  if (!is_utf8(event.data)) return refuse(CloseCode::invalid_data, consumed);
  return event;
}

Decoder::Event Decoder::finish(std::string_view whole, std::size_t consumed) {
  in_message_ = false;
  given_ = true;
  if (compressed_) {
    const auto outcome = options_.inflater->decompress(whole, inflated_, options_.max_message, options_.keep_context);
    if (outcome == Inflater::Outcome::too_large) return refuse(CloseCode::too_large, consumed);
    if (outcome == Inflater::Outcome::malformed) return refuse(CloseCode::invalid_data, consumed);
    whole = inflated_.view();
    if (text_ && !is_utf8(whole)) return refuse(CloseCode::invalid_data, consumed);
  }
  return {.kind = text_ ? Event::Kind::text : Event::Kind::binary,
          .code = CloseCode::none,
          .consumed = consumed,
          .data = whole};
}

void Decoder::trim() {
  if (std::exchange(given_, false)) release();
  inflated_.release();
  if (gathered_.capacity() <= 2 * gathered_.size() + least_trimmed) return;
  Buffer fitting;
  fitting.append(gathered_.view());
  gathered_ = std::move(fitting);
}

void Decoder::release() {
  gathered_.release();
  inflated_.release();
}

Decoder::Event Decoder::next(std::span<char> bytes) {
  if (given_) {
    given_ = false;
    gathered_.clear();
    inflated_.clear();
  }
  std::size_t used = 0;
  for (;;) {
    if (!in_frame_) {
      const std::span<char> rest = bytes.subspan(used);
      // The common case: a complete message in one short frame from a client. Only its length has to be checked.
      if (rest.size() >= 6 && !in_message_ && options_.peer_masks) [[likely]] {
        const auto first = static_cast<std::uint8_t>(rest[0]);
        const auto second = static_cast<std::uint8_t>(rest[1]);
        const std::size_t size = second - 0x80u;
        if ((first == 0x81 || first == 0x82) && size < 126 && rest.size() - 6 >= size && size <= most_short_)
            [[likely]] {
          Mask mask;
          std::memcpy(mask.data(), rest.data() + 2, 4);
          char* const payload = rest.data() + 6;
          apply_mask(payload, payload, size, mask);
          const bool text = first == 0x81;
          if (text && !is_utf8({payload, size})) return refuse(CloseCode::invalid_data, used + 6 + size);
          return {.kind = text ? Event::Kind::text : Event::Kind::binary,
                  .code = CloseCode::none,
                  .consumed = used + 6 + size,
                  .data = {payload, size}};
        }
      }
      const ParsedHeader parsed = parse_header({rest.data(), rest.size()});
      if (parsed.state == ParsedHeader::State::malformed) return refuse(CloseCode::protocol_error, used);
      if (parsed.state == ParsedHeader::State::need_more) return {.consumed = used, .data = {}};
      const FrameHeader& header = parsed.header;
      if (const CloseCode code = judge(header); code != CloseCode::none) return refuse(code, used);
      const bool whole = rest.size() - parsed.size >= header.payload_size;
      char* const payload = rest.data() + parsed.size;
      const auto size = static_cast<std::size_t>(header.payload_size);

      if (is_control(header.opcode)) {
        if (!whole) return {.consumed = used, .data = {}};
        if (header.masked) apply_mask(payload, payload, size, header.mask);
        return control(header, {payload, size}, used + parsed.size + size);
      }
      if (header.opcode != Opcode::continuation) {
        in_message_ = true;
        text_ = header.opcode == Opcode::text;
        compressed_ = header.compressed;
        utf8_.reset();
      }
      if (whole && header.fin && gathered_.empty()) [[likely]] {
        if (header.masked) apply_mask(payload, payload, size, header.mask);
        used += parsed.size + size;
        const std::string_view message(payload, size);
        if (text_ && !compressed_ && !is_utf8(message)) return refuse(CloseCode::invalid_data, used);
        return finish(message, used);
      }
      used += parsed.size;
      frame_ = header;
      frame_left_ = header.payload_size;
      in_frame_ = true;
    }

    const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(frame_left_, bytes.size() - used));
    if (piece != 0) {
      char* const to = gathered_.reserve(piece);
      const auto phase = static_cast<std::size_t>(frame_.payload_size - frame_left_);
      apply_mask(to, bytes.data() + used, piece, frame_.masked ? frame_.mask : Mask{}, phase);
      gathered_.commit(piece);
      used += piece;
      frame_left_ -= piece;
      if (text_ && !compressed_ && !utf8_.feed({to, piece})) return refuse(CloseCode::invalid_data, used);
    }
    if (frame_left_ != 0) return {.consumed = used, .data = {}};
    in_frame_ = false;
    if (frame_.fin) {
      if (text_ && !compressed_ && !utf8_.complete()) return refuse(CloseCode::invalid_data, used);
      return finish(gathered_.view(), used);
    }
  }
}

}  // namespace sluice::ws

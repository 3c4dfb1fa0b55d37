#pragma once

namespace sluice::sql::sqlite {

// Writes a finite number like std::to_chars, and appends ".0" to a whole one. Returns the end of the text, which has at
// most 40 characters. Numbers with at most three decimal places, such as prices, do not need std::to_chars.
char* write_real(char* out, double value);

}  // namespace sluice::sql::sqlite

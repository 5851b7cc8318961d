// Structures that cross into Python, declared once: a list of fields makes the structure and the text from which
// Python reads names, offsets and sizes (neaptide.native_library.structure).
//
// `#define POINT_FIELDS(FIELD) FIELD(std::int32_t, x) FIELD(std::int32_t, y)` is such a list; then
// `struct Point { POINT_FIELDS(NEAPTIDE_MEMBER) };` declares the structure, and `NEAPTIDE_LAYOUT(Point, POINT_FIELDS)`
// is the text.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

namespace neaptide {

/// u: unsigned or an enumeration, i: signed, t: text that ends at its first zero byte.
template <typename Field>
constexpr char field_kind() {
  if constexpr (std::is_enum_v<Field>)
    return 'u';
  else if constexpr (std::is_integral_v<Field>)
    return std::is_signed_v<Field> ? 'i' : 'u';
  else
    return 't';
}

inline std::string field_line(const char* name, std::size_t offset, std::size_t bytes, char kind) {
  return std::string(name) + ' ' + std::to_string(offset) + ' ' + std::to_string(bytes) + ' ' + kind + '\n';
}

}  // namespace neaptide

#define NEAPTIDE_MEMBER(Type, name) Type name{};
#define NEAPTIDE_FIELD_LINE(Type, name) \
  text += ::neaptide::field_line(#name, offsetof(Structure, name), sizeof(Type), ::neaptide::field_kind<Type>());
/// One line per field: name, offset, bytes, kind.
#define NEAPTIDE_LAYOUT(Name, FIELDS) \
  [] {                                \
    using Structure = Name;           \
    std::string text;                 \
    FIELDS(NEAPTIDE_FIELD_LINE)       \
    return text;                      \
  }()

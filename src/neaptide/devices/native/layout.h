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

/// u: unsigned or an enumeration, i: signed, f: floating point, p: a pointer.
template <typename Number>
constexpr char number_kind() {
  if constexpr (std::is_pointer_v<Number>)
    return 'p';
  else if constexpr (std::is_floating_point_v<Number>)
    return 'f';
  else
    return std::is_integral_v<Number> && std::is_signed_v<Number> ? 'i' : 'u';
}

inline std::string field_line(const char* name, std::size_t offset, std::size_t bytes, char kind, std::size_t count) {
  return std::string(name) + ' ' + std::to_string(offset) + ' ' + std::to_string(bytes) + ' ' + kind + ' ' +
         std::to_string(count) + '\n';
}

/// A field is a number, an array of numbers, or (t) a structure that holds a text which ends at its first zero byte.
template <typename Field>
std::string field_line(const char* name, std::size_t offset) {
  using Element = std::remove_extent_t<Field>;
  if constexpr (std::is_class_v<Element>)
    return field_line(name, offset, 1, 't', sizeof(Field));
  else
    return field_line(name, offset, sizeof(Element), number_kind<Element>(), std::extent_v<Field>);
}

}  // namespace neaptide

#define NEAPTIDE_MEMBER(Type, name) Type name{};
#define NEAPTIDE_FIELD_LINE(Type, name) text += ::neaptide::field_line<Type>(#name, offsetof(Structure, name));
/// One line per field: name, offset, bytes of one element, kind, and the number of elements (0: not an array).
#define NEAPTIDE_LAYOUT(Name, FIELDS) \
  [] {                                \
    using Structure = Name;           \
    std::string text;                 \
    FIELDS(NEAPTIDE_FIELD_LINE)       \
    return text;                      \
  }()

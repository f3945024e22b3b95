// SPDX-License-Identifier: MIT
#include "torch/schema.h"

#include <string.h>

namespace kw::torch {
namespace {

struct Word {
  const char* begin;
  size_t length;
};

bool operator==(const Word& word, const char* other) {
  return strlen(other) == word.length && strncmp(word.begin, other, word.length) == 0;
}

const struct {
  const char* name;
  Kind kind;
} kKinds[] = {
    {"Tensor", Kind::kTensor}, {"float", Kind::kReal},    {"int", Kind::kWhole},
    {"SymInt", Kind::kWhole},  {"bool", Kind::kFlag},     {"str", Kind::kString},
    {"int[]", Kind::kList},    {"SymInt[]", Kind::kList}, {"ScalarType", Kind::kType},
};

// A type as it stands before its name: "Tensor(a!)", "float", "Tensor?", "SymInt[]".
bool parse_type(const char** at, Argument* argument) {
  Word word{*at, strcspn(*at, "(? ,)")};
  const char* next = word.begin + word.length;
  argument->written = argument->optional = false;
  if (*next == '(') {
    const size_t inside = strcspn(next, ")");
    argument->written = memchr(next, '!', inside) != nullptr;
    next += inside + 1;
  }
  if (*next == '?') {
    argument->optional = true;
    ++next;
  }
  *at = next;
  for (const auto& known : kKinds)
    if (word == known.name) {
      argument->kind = known.kind;
      return true;
    }
  return false;
}

bool parse_results(const char* at, Schema* schema) {
  while (*at == ' ' || *at == '(') ++at;
  for (schema->results = 0; *at != '\0' && *at != ')'; ++schema->results) {
    Argument result;
    if (schema->results == kMostResults || !parse_type(&at, &result) || result.kind != Kind::kTensor || result.optional)
      return false;
    at += strspn(at, ", ");
  }
  return true;
}

}  // namespace

bool parse(const char* text, Schema* schema) {
  if (*text != '(') return false;
  const char* at = text + 1;
  for (schema->count = 0; *at != ')'; ++schema->count) {
    if (schema->count == kMostArguments || !parse_type(&at, &schema->arguments[schema->count])) return false;
    at += strcspn(at, ",)");  // its name, and its default
    if (*at == '\0') return false;
    at += strspn(at, ", ");
  }
  ++at;
  at += strspn(at, " ");
  return strncmp(at, "->", 2) == 0 && parse_results(at + 2, schema);
}

}  // namespace kw::torch

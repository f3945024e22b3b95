// SPDX-License-Identifier: MIT
// SHA-256 against FIPS 180-4's examples, and every length around the block and padding edges against one hash of
// hashes.
#include "core/sha256.h"

#include "../check.h"

static void expect(const char* data, size_t size, const char* expected) {
  char hex[65];
  kw::sha256_hex(data, size, hex);
  CHECK(strcmp(hex, expected) == 0, "%zu bytes: got %s, expected %s", size, hex, expected);
}

CASE(published) {
  expect("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  expect("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const char* two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  expect(two_blocks, strlen(two_blocks), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  static char a[1000000];
  memset(a, 'a', sizeof a);
  expect(a, sizeof a, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The digests of bytes 0, 1, 2 … of each length from 0 to 199, hashed in turn; the expected value is Python's
// hashlib's.
CASE(every_length) {
  static char digests[200 * 64], data[200];
  for (int i = 0; i < 200; ++i) data[i] = static_cast<char>(i);
  for (size_t length = 0; length < 200; ++length) {
    char hex[65];
    kw::sha256_hex(data, length, hex);
    memcpy(digests + 64 * length, hex, 64);
  }
  expect(digests, sizeof digests, "7a38a844c9e159de39f0862ee2e28569a8250831150a3fbf0a59c001129b2fb2");
}

RUN_CASES()

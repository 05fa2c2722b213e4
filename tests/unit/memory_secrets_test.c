/* SPDX-License-Identifier: Apache-2.0
 *
 * Which texts are secrets by their form, and which only look like secrets: a row each. The keys are invented, and
 * written in two pieces so that no scanner takes them for real ones. */
#include <sqlite3.h>
#include <string.h>

#include "tests/support/test.h"
#include "domains/memory/secrets.h"

#define RANDOM20 "a1B2c3D4e5F6g7H8i9J0"
#define RANDOM36 RANDOM20 "k1L2m3N4o5P6q7R8"
#define HEX32 "0123456789abcdef0123456789abcdef"

typedef struct row {
  const char *text, *left;
} row;

static void assert_left(const char *text, const char *expected) {
  tp_text left;
  char *block;
  size_t count;
  assert_int_equal(tp__memory_redact_secrets(tp_text_of(text), &left, &block, &count), TP_OK);
  if (left.size != strlen(expected) || memcmp(left.data, expected, left.size) != 0)
    fail_msg("'%s' leaves '%.*s', not '%s'", text, (int)left.size, left.data, expected);
  assert_true((count > 0) == (block != NULL));
  assert_true(block || left.data == text);
  sqlite3_free(block);
}

TEST(a_secret_is_replaced_and_what_stands_around_it_stays) {
  static const row rows[] = {
      {"key sk-" RANDOM36 " please", "key [redacted:key] please"},
      {"sk-"
       "proj-" RANDOM36 "_" RANDOM20,
       "[redacted:key]"},
      {"(sk-"
       "ant-api03-" RANDOM36 ")",
       "([redacted:key])"},
      {"sk_"
       "live_" RANDOM20 ".",
       "[redacted:key]."},
      {"AKIA"
       "IOSFODNN7EXAMPLE, and",
       "[redacted:key], and"},
      {"ghp_" RANDOM36, "[redacted:key]"},
      {"github_"
       "pat_" RANDOM36,
       "[redacted:key]"},
      {"glpat-" RANDOM20, "[redacted:key]"},
      {"xoxb-"
       "123456789012-" RANDOM20,
       "[redacted:key]"},
      {"AIza" RANDOM20 "k1L2m3N4o5P6q7R", "[redacted:key]"},
      {"SG." RANDOM20 "." RANDOM36, "[redacted:key]"},
      {"npm_" RANDOM36, "[redacted:key]"},
      {"hf_" RANDOM36, "[redacted:key]"},
      {"-----BEGIN RSA "
       "PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nbye",
       "[redacted:private key]\nbye"},
      {"x -----BEGIN "
       "PRIVATE KEY-----\nMIIE",
       "x [redacted:private key]"},
      {"-----BEGIN OPENSSH "
       "PRIVATE KEY----- b3Bl -----END OPENSSH PRIVATE KEY-----.",
       "[redacted:private key]."},
      {"password: hunter2", "password: [redacted:password]"},
      {"pw: hunter2", "pw: [redacted:password]"},
      {"secretkey: a1b2c3d4e5", "secretkey: [redacted:key]"},
      {"The password is correct!horse for now.", "The password is [redacted:password] for now."},
      {"my pw is hunter2.", "my pw is [redacted:password]."},
      {"Minha senha: hunter2", "Minha senha: [redacted:password]"},
      {"Mijn wachtwoord: hunter2", "Mijn wachtwoord: [redacted:password]"},
      {"L\xC3\xB6senord: hunter2", "L\xC3\xB6senord: [redacted:password]"},
      {"has\xC5\x82o: hunter2", "has\xC5\x82o: [redacted:password]"},
      {"Password = correcthorse", "Password = [redacted:password]"},
      {"my password is Tr0ub4dor&3", "my password is [redacted:password]"},
      {"The wifi password: \"two words 1\" works", "The wifi password: \"[redacted:password]\" works"},
      {"DB_PASSWORD=s3cr3t!", "DB_PASSWORD=[redacted:password]"},
      {"{\"password\": \"abcd1234\"}", "{\"password\": \"[redacted:password]\"}"},
      {"Pwd=abc12345;Server=x", "Pwd=[redacted:password];Server=x"},
      {"passphrase: 'correct horse battery'", "passphrase: '[redacted:password]'"},
      {"password: a,b;c1, then", "password: [redacted:password], then"},
      {"/?password=abc12345&x=1", "/?password=[redacted:password]&x=1"},
      {"Passwort: geheim99", "Passwort: [redacted:password]"},
      {"api_key=" RANDOM20, "api_key=[redacted:key]"},
      {"my API key is " RANDOM20 ".", "my API key is [redacted:key]."},
      {"client_secret: " RANDOM36, "client_secret: [redacted:key]"},
      {"token: \"" RANDOM36 "\"", "token: \"[redacted:key]\""},
      {"AccountKey=" RANDOM36 "==;x", "AccountKey=[redacted:key];x"},
      {"Authorization: Bearer " RANDOM36, "Authorization: Bearer [redacted:token]"},
      {"bearer " RANDOM20 ".", "bearer [redacted:token]."},
      {"Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted:token]"},
      {"eyJhbGciOiJIUzI1NiJ9."
       "eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4",
       "[redacted:token]"},
      {"postgres://anna:pa55@db/x", "postgres://anna:[redacted:password]@db/x"},
      {"mongodb+srv://u:p%40ss@c.example.net/?a=b", "mongodb+srv://u:[redacted:password]@c.example.net/?a=b"},
      {"redis://:longpass1@localhost:6379", "redis://:[redacted:password]@localhost:6379"},
      {"redis://u:x@localhost", "redis://u:[redacted:password]@localhost"},
      {"card 4111 1111 1111 1111 ok", "card [redacted:card] ok"},
      {"4111111111111111", "[redacted:card]"},
      {"5500-0000-0000-0004.", "[redacted:card]."},
      {"3782 822463 10005", "[redacted:card]"},
      {"6011000990139424", "[redacted:card]"},
      {"password: hunter2\npassword: hunter3", "password: [redacted:password]\npassword: [redacted:password]"}};
  assert_true(sizeof rows / sizeof rows[0] >= 30);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_left(rows[i].text, rows[i].left);
    assert_left(rows[i].left, rows[i].left); /* once more changes nothing */
  }
}

TEST(what_is_no_secret_stays) {
  static const char *const texts[] = {"",
                                      "d41d8cd98f00b204e9800998ecf8427e",         /* MD5 */
                                      "da39a3ee5e6b4b0d3255bfef95601890afd80709", /* SHA-1, a git id */
                                      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", /* SHA-256 */
                                      "commit c815a81e of main",
                                      "123e4567-e89b-12d3-a456-426614174000",
                                      "order 4111111111111112", /* Luhn fails */
                                      "order 1234567890123",
                                      "order 9999888877776666",
                                      "invoice 2024-0000-1234-5678",
                                      "+49 170 1234567890123",
                                      "call 0170 1234567",
                                      "+1 (555) 010-9999",
                                      "ISBN 978-3-16-148410-0",
                                      "IBAN DE89 3704 0044 0532 0130 00",
                                      "1700000000000 ms",
                                      "3.14159265358979323846",
                                      "4111.1111.1111.1111",
                                      "192.168.100.200",
                                      "The password is required.",
                                      "password: required",
                                      "the config of xpw: hunter2",
                                      "What is the pw?",
                                      "a pwm: hunter2",
                                      "What is the password?",
                                      "Reset your password: it must have 8 letters",
                                      "I forgot my password again, and the token expired.",
                                      "password: ",
                                      "the secret of happiness is sleep",
                                      "secret: be kind to people",
                                      "a token of love: flowers",
                                      "token: none",
                                      "if password == input",
                                      "password=$PASSWORD",
                                      "password: [redacted]",
                                      "task-management-system-for-teams",
                                      "sk-learn is a library, and so is scikit-learn",
                                      "sk-a-very-long-name-without-a-number",
                                      "AKIAN is a name",
                                      "the bearer of good news",
                                      "bearer of responsibilities",
                                      "https://example.net:8080/path@2",
                                      "https://anna@example.net/",
                                      "https://anna:@example.net/",
                                      "https://anna:secret",
                                      "postgres://anna:$PASSWORD@db/x",
                                      "postgres://anna:[password]@db/x",
                                      "postgres://anna:{password}@db/x",
                                      "4111 1111-1111 1111",
                                      "mailto:anna@example.net",
                                      "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
                                      "-----BEGIN PUBLIC KEY-----\nMIIE\n-----END PUBLIC KEY-----",
                                      "see https://github.com/x/y/commit/da39a3ee5e6b4b0d3255bfef95601890afd80709",
                                      "eyJ is how such a token begins",
                                      "My key: the one to the shed.",
                                      "\xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x94\x91"};
  assert_true(sizeof texts / sizeof texts[0] >= 30);
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) assert_left(texts[i], texts[i]);
}

/* What a turn without tool calls has. */
TEST(no_text_has_no_secret) {
  tp_text left = {"x", 1};
  char *block = NULL;
  size_t count = 1;
  assert_int_equal(tp__memory_redact_secrets((tp_text){NULL, 0}, &left, &block, &count), TP_OK);
  assert_true(left.size == 0 && !block && count == 0);
}

TEST_MAIN(count, arguments) { return test_main(count, arguments); }

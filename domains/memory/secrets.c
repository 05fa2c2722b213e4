/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/secrets.h"

#include <sqlite3.h>
#include <string.h>

/** A text that is being read, and the position. */
typedef struct reader {
  const char *begin, *end;
} reader;

/** A secret that was found, from `from` to before `end`. `from` may be after a word that announces the secret. */
typedef struct finding {
  const char *from, *end, *kind;
} finding;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static bool is_alnum(char c) { return is_digit(c) || is_lower(c) || is_upper(c); }
static bool is_key_byte(char c) { return is_alnum(c) || c == '_' || c == '-'; }
static bool is_token_byte(char c) { return c != '\0' && (is_alnum(c) || strchr("-._~+/=", c)); }
static bool is_tab_or_space(char c) { return c == ' ' || c == '\t'; }
static bool is_line_end(char c) { return c == '\n' || c == '\r'; }

static bool begins_with(const char *at, const char *end, const char *words) {
  size_t size = strlen(words);
  return (size_t)(end - at) >= size && sqlite3_strnicmp(at, words, (int)size) == 0;
}

static const char *after(const char *at, const char *end, bool (*fits)(char)) {
  while (at < end && fits(*at)) at++;
  return at;
}

/* Whether there is a digit: words have none, and random keys of vendors have some. */
static bool has_digit(const char *at, const char *end) {
  while (at < end && !is_digit(*at)) at++;
  return at < end;
}

/* ---- keys of vendors ---- */

/** The beginning of a vendor's key, case-sensitive, and how many bytes follow at least. */
static const struct vendor {
  const char *prefix;
  int least;
} vendors[] = {{"sk-", 20},      {"sk_live_", 16},    {"sk_test_", 16},
               {"rk_live_", 16}, {"rk_test_", 16},    {"whsec_", 16},
               {"AKIA", 16},     {"ASIA", 16},        {"ghp_", 30},
               {"gho_", 30},     {"ghu_", 30},        {"ghs_", 30},
               {"ghr_", 30},     {"github_pat_", 22}, {"glpat-", 16},
               {"xoxb-", 10},    {"xoxp-", 10},       {"xoxa-", 10},
               {"xoxr-", 10},    {"xoxs-", 10},       {"xapp-", 10},
               {"AIza", 30},     {"npm_", 30},        {"pypi-", 40},
               {"hf_", 20},      {"dop_v1_", 40},     {"shpat_", 28},
               {"shpss_", 28},   {"gsk_", 30},        {"xai-", 30},
               {"pplx-", 30},    {"r8_", 30},         {"tskey-", 16},
               {"lin_api_", 24}, {"dckr_pat_", 20},   {"glsa_", 28},
               {"sq0atp-", 20},  {"sq0csp-", 30},     {"AGE-SECRET-KEY-1", 40},
               {"ya29.", 20},    {"SG.", 30},         {"sbp_", 30},
               {"figd_", 30},    {"ATATT3", 30}};

static bool find_key(const reader *r, const char *at, finding *f) {
  if (at > r->begin && is_key_byte(at[-1])) return false;
  for (size_t i = 0; i < sizeof vendors / sizeof vendors[0]; i++) {
    if (*at != vendors[i].prefix[0]) continue;
    const size_t size = strlen(vendors[i].prefix);
    if ((size_t)(r->end - at) < size || memcmp(at, vendors[i].prefix, size) != 0) continue;
    const char *end = at + size;
    while (end < r->end && (is_key_byte(*end) || (*end == '.' && end + 1 < r->end && is_key_byte(end[1])))) end++;
    if (end - at < (ptrdiff_t)size + vendors[i].least || !has_digit(at + size, end)) continue;
    *f = (finding){at, end, "key"};
    return true;
  }
  return false;
}

/* Finds a JSON Web Token: three parts of base64url, the first of which is a map. */
static bool find_web_token(const reader *r, const char *at, finding *f) {
  const char *end = at;
  if ((at > r->begin && is_key_byte(at[-1])) || !begins_with(at, r->end, "eyJ") || at[0] != 'e') return false;
  for (int part = 0; part < 3; part++) {
    const char *from = end;
    end = after(end, r->end, is_key_byte);
    if (end - from < 8 || (part < 2 && (end == r->end || *end++ != '.'))) return false;
  }
  *f = (finding){at, end, "token"};
  return true;
}

/* ---- private keys ---- */

static bool find_private_key(const reader *r, const char *at, finding *f) {
  static const char begins[] = "-----BEGIN ", private[] = "PRIVATE KEY", ends[] = "-----END ";
  if (!begins_with(at, r->end, begins)) return false;
  const char *line = at;
  while (line < r->end && !is_line_end(*line) && line - at < 80) line++;
  if (!memmem(at, (size_t)(line - at), private, sizeof private - 1)) return false;
  const char *last = memmem(line, (size_t)(r->end - line), ends, sizeof ends - 1);
  if (!last) last = memmem(at + 11, (size_t)(r->end - at) - 11, ends, sizeof ends - 1);
  const char *end = last ? last + sizeof ends - 1 : r->end; /* a key whose end is missing reaches to the end of the
                                                               text */
  const char *dashes = last ? memmem(end, (size_t)(r->end - end), "-----", 5) : NULL;
  *f = (finding){at, dashes ? dashes + 5 : last ? end : r->end, "private key"};
  return true;
}

/* ---- passwords after their name ---- */

/** The names that precede a secret. After a name that is not one of a password, the value must look like a key. */
static const struct name {
  const char *word;
  bool is_password;
} names[] = {{"password", true},
             {"passwd", true},
             {"passphrase", true},
             {"passcode", true},
             {"pwd", true},
             {"passwort", true},
             {"kennwort", true},
             {"pw", true},
             {"senha", true},
             {"wachtwoord", true},
             {"l\xC3\xB6senord", true},
             {"has\xC5\x82o", true},
             {"mot de passe", true},
             {"contrase\xC3\xB1"
              "a",
              true},
             {"\xD0\xBF\xD0\xB0\xD1\x80\xD0\xBE\xD0\xBB\xD1\x8C", true},
             {"secret", false},
             {"secret_key", false},
             {"secretkey", false},
             {"secret key", false},
             {"api_key", false},
             {"apikey", false},
             {"api-key", false},
             {"api key", false},
             {"access_key", false},
             {"accesskey", false},
             {"access key", false},
             {"accountkey", false},
             {"token", false}};

/* Words after "password:" that are no password. */
static bool is_no_value(const char *at, const char *end) {
  static const char *const words[] = {"required", "none",    "null",    "empty",   "changed",   "reset",     "wrong",
                                      "invalid",  "here",    "below",   "above",   "unknown",   "true",      "false",
                                      "optional", "yes",     "hidden",  "expired", "incorrect", "forgotten", "redacted",
                                      "string",   "missing", "correct", "the",     "your",      "must",      "should"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if ((size_t)(end - at) == strlen(words[i]) && begins_with(at, end, words[i])) return true;
  return false;
}

/* Skips ":" or "=", with quotes and spaces around it, or "is". @return NULL: no value follows. */
static const char *skip_to_value(const reader *r, const char *at, bool *ret_is, char *ret_quote) {
  const char *from = at;
  *ret_is = false;
  *ret_quote = '\0';
  if (at < r->end && (*at == '"' || *at == '\'')) at++;
  at = after(at, r->end, is_tab_or_space);
  if (begins_with(at, r->end, "is ") && at > from) {
    at += 3;
    *ret_is = true;
    if (at < r->end && *at == ':') at++;
  } else if (at < r->end && (*at == ':' || *at == '=')) {
    at++;
    if (at < r->end && *at == '=') return NULL; /* "==" is a comparison */
  } else {
    return NULL;
  }
  at = after(at, r->end, is_tab_or_space);
  if (at < r->end && (*at == '"' || *at == '\'' || *at == '`')) *ret_quote = *at++;
  return at;
}

static bool looks_random(const char *at, const char *end) {
  bool digit = false, letter = false, sign = false, upper = false, lower = false;
  for (const char *c = at; c < end; c++) {
    digit = digit || is_digit(*c);
    upper = upper || (is_upper(*c) && c > at);
    lower = lower || is_lower(*c);
    letter = letter || is_upper(*c) || is_lower(*c);
    sign = sign || strchr("!@#$%^&*?+~", *c);
  }
  return (digit && letter) || (sign && (letter || digit)) || (upper && lower);
}

static const char *end_of_quoted(const reader *r, const char *at, char quote) {
  while (at < r->end && !is_line_end(*at) && *at != quote) at++;
  return at;
}

/* Returns the end of a value: the next space, without the punctuation of the sentence; after "=" the next setting. */
static const char *end_of_value(const reader *r, const char *value) {
  const char *end = value, *separators = value[-1] == '=' ? "\"'`<>;&," : "\"'`<>";
  while (end < r->end && !is_line_end(*end) && !is_tab_or_space(*end) && !strchr(separators, *end)) end++;
  while (end > value && strchr(".,;:)]}", end[-1])) end--;
  return end;
}

static bool find_password(const reader *r, const char *at, finding *f) {
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if ((*at | 0x20) != (names[i].word[0] | 0x20) || !begins_with(at, r->end, names[i].word)) continue;
    const char *word = at + strlen(names[i].word);
    bool says_is;
    char quote;
    if (word < r->end && is_alnum(*word)) continue;
    if (word - at == 2 && at > r->begin && (is_alnum(at[-1]) || (at[-1] & 0x80)))
      continue; /* "pw" is also the end of
                                                                                               other words */
    const char *value = skip_to_value(r, word, &says_is, &quote), *end = value;
    if (!value) continue;
    const bool is_password = names[i].is_password;
    end = quote ? end_of_quoted(r, value, quote) : end_of_value(r, value);
    const size_t size = (size_t)(end - value);
    const bool last = end == r->end || is_line_end(*end) || *end == quote || !is_tab_or_space(*end);
    const bool random = looks_random(value, end) || (is_password && size >= 4 && has_digit(value, end));
    if (size < (is_password ? 4u : 8u) || size > 512 || *value == '[' || *value == '$' || *value == '{') continue;
    if (is_no_value(value, end) || !(random || (is_password && last && !says_is))) continue;
    *f = (finding){value, end, is_password ? "password" : "key"};
    return true;
  }
  return false;
}

/* ---- tokens of HTTP ---- */

static bool find_bearer(const reader *r, const char *at, finding *f) {
  static const char *const schemes[] = {"bearer ", "authorization: basic ", "authorization: token "};
  if (at > r->begin && is_alnum(at[-1])) return false;
  for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
    if (!begins_with(at, r->end, schemes[i])) continue;
    const char *value = after(at + strlen(schemes[i]), r->end, is_tab_or_space),
               *end = after(value, r->end, is_token_byte);
    while (end > value && end[-1] == '.') end--;
    if (end - value < (i == 1 ? 8 : 16) || !(has_digit(value, end) || i == 1)) return false;
    *f = (finding){value, end, "token"};
    return true;
  }
  return false;
}

/* ---- connection strings: scheme://user:password@host ---- */

static bool find_connection(const reader *r, const char *at, finding *f) {
  if (!begins_with(at, r->end, "://")) return false;
  const char *user = at + 3, *colon = user, *end;
  while (colon < r->end && !is_tab_or_space(*colon) && !is_line_end(*colon) && !strchr(":/@?#", *colon)) colon++;
  if (colon == r->end || *colon != ':') return false;
  for (end = colon + 1; end < r->end && *end != '@'; end++)
    if (is_tab_or_space(*end) || is_line_end(*end) || strchr("/?#\"'<>", *end)) return false;
  if (end == r->end || end == colon + 1 || colon[1] == '$' || colon[1] == '[' || colon[1] == '{') return false;
  *f = (finding){colon + 1, end, "password"};
  return true;
}

/* ---- cards ---- */

static bool is_luhn(const char *digits, int count) {
  int sum = 0;
  for (int i = 0; i < count; i++) {
    int digit = digits[count - 1 - i] - '0';
    if (i % 2) digit = digit > 4 ? 2 * digit - 9 : 2 * digit;
    sum += digit;
  }
  return sum % 10 == 0;
}

static int first_digits(const char *digits, int count) {
  int number = 0;
  for (int i = 0; i < count; i++) number = 10 * number + digits[i] - '0';
  return number;
}

/* Whether a number has first digits and a length that card networks use. */
static bool is_issued(const char *digits, int count) {
  const int two = first_digits(digits, 2), three = first_digits(digits, 3), four = first_digits(digits, 4);
  if (digits[0] == '4') return count == 16 || count == 13 || count == 19;
  if (two == 34 || two == 37) return count == 15;
  if (two == 36 || two == 38 || (three >= 300 && three <= 305)) return count == 14;
  return count == 16 && ((two >= 51 && two <= 55) || (four >= 2221 && four <= 2720) || four == 6011 || two == 65 ||
                         (three >= 644 && three <= 649) || (four >= 3528 && four <= 3589));
}

/* Finds digits in groups with the same separator, or without separators. */
static bool find_card(const reader *r, const char *at, finding *f) {
  enum { DIGITS_MAX = 19, GROUP_MIN = 3 };
  char digits[DIGITS_MAX], separator = '\0';
  int count = 0, group = 0;
  const char *from = at;
  if (!is_digit(*at) || (at > r->begin && (is_key_byte(at[-1]) || strchr("+.,/#", at[-1])))) return false;
  for (; at < r->end; at++) {
    if (is_digit(*at)) {
      if (count == DIGITS_MAX) return false;
      digits[count++] = *at;
      group++;
      continue;
    }
    const bool goes_on = (*at == ' ' || *at == '-') && at + 1 < r->end && is_digit(at[1]);
    if (!goes_on || group < GROUP_MIN || (separator && *at != separator)) break;
    separator = *at;
    group = 0;
  }
  if (at < r->end && (is_key_byte(*at) || ((*at == '.' || *at == ',') && at + 1 < r->end && is_digit(at[1]))))
    return false;
  if (count < 13 || !is_issued(digits, count) || !is_luhn(digits, count)) return false;
  *f = (finding){from, at, "card"};
  return true;
}

/* ---- the walk ---- */

static bool find_at(const reader *r, const char *at, finding *f) {
  const char c = (char)(*at | 0x20);
  if (*at == '-') return find_private_key(r, at, f);
  if (*at == ':') return find_connection(r, at, f);
  if (is_digit(*at)) return find_card(r, at, f);
  if (!is_lower(c) && !(*at & 0x80)) return false;
  return find_key(r, at, f) || (*at == 'e' && find_web_token(r, at, f)) ||
         ((c == 'b' || c == 'a') && find_bearer(r, at, f)) || find_password(r, at, f);
}

tp_status tp__memory_redact_secrets(tp_text text, tp_text *ret_text, char **ret_block, size_t *ret_count) {
  *ret_text = text;
  *ret_block = NULL;
  *ret_count = 0;
  if (text.size == 0) return TP_OK;
  const reader r = {text.data, text.data + text.size};
  const char *from = text.data;
  sqlite3_str *left = NULL;
  for (const char *at = text.data; at < r.end;) {
    finding f;
    if (!find_at(&r, at, &f)) {
      at++;
      continue;
    }
    if (!left) left = sqlite3_str_new(NULL);
    sqlite3_str_append(left, from, (int)(f.from - from));
    sqlite3_str_appendf(left, "[redacted:%s]", f.kind);
    ++*ret_count;
    at = from = f.end;
  }
  if (!left) return TP_OK;
  sqlite3_str_append(left, from, (int)(r.end - from));
  const bool whole = sqlite3_str_errcode(left) == SQLITE_OK;
  const size_t size = (size_t)sqlite3_str_length(left);
  *ret_block = sqlite3_str_finish(left);
  if (!whole || !*ret_block) {
    sqlite3_free(*ret_block);
    *ret_block = NULL;
    return TP_ERR_NO_MEMORY;
  }
  *ret_text = (tp_text){*ret_block, size};
  return TP_OK;
}

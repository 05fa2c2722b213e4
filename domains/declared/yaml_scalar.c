/* SPDX-License-Identifier: Apache-2.0
 *
 * yaml_scalar.c: the meaning of a plain scalar: the core schema of YAML 1.2 (section 10.3.2) and nothing of YAML 1.1.
 * So yes, no, on and off are text, and 0777 is seven hundred and seventy-seven. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "domains/declared/yaml.h"

static size_t count_digits(const char *text) { return strspn(text, "0123456789"); }

/* The digits of an int and its base; NULL when the scalar is no int. */
static const char *int_digits(const char *text, size_t size, bool *ret_negative, unsigned *ret_base) {
  const char *digits = text, *allowed = "0123456789";
  *ret_negative = false;
  *ret_base = 10;
  if (size > 2 && text[0] == '0' && (text[1] == 'o' || text[1] == 'x')) {
    *ret_base = text[1] == 'o' ? 8 : 16;
    allowed = text[1] == 'o' ? "01234567" : "0123456789abcdefABCDEF";
    digits += 2;
  } else if (text[0] == '-' || text[0] == '+') {
    *ret_negative = text[0] == '-';
    digits++;
  }
  size_t count = strspn(digits, allowed);
  return count > 0 && digits + count == text + size ? digits : NULL;
}

static unsigned digit_of(char digit) {
  if (digit <= '9') return (unsigned)(digit - '0');
  return (unsigned)((digit | 0x20) - 'a') + 10;
}

/* False when the number does not fit. Counts downwards, because there is one more negative number than positive
 * ones. */
static bool read_int(const char *digits, bool negative, unsigned base, int64_t *ret_number) {
  int64_t number = 0;
  for (; *digits; digits++) {
    if (__builtin_mul_overflow(number, (int64_t)base, &number)) return false;
    if (__builtin_sub_overflow(number, (int64_t)digit_of(*digits), &number)) return false;
  }
  if (!negative && number == INT64_MIN) return false;
  *ret_number = negative ? number : -number;
  return true;
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_float(const char *text, size_t size) {
  const char *at = text + (text[0] == '-' || text[0] == '+');
  size_t whole = count_digits(at), fraction = 0;
  at += whole;
  if (*at == '.') {
    fraction = count_digits(++at);
    at += fraction;
  }
  if (whole == 0 && fraction == 0) return false;
  if (*at == 'e' || *at == 'E') {
    at++;
    if (*at == '-' || *at == '+') at++;
    size_t exponent = count_digits(at);
    if (exponent == 0) return false;
    at += exponent;
  }
  return at == text + size;
}

/* Uses strtod in the C locale, because the host may have set a locale with a decimal comma. Underflow becomes 0 or a
 * denormal. */
static tp_status read_float(const char *text, double *ret_number) {
  locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c_locale) return TP_ERR_NO_MEMORY;
  double number = strtod_l(text, NULL, c_locale);
  freelocale(c_locale);
  if (isinf(number)) return TP_ERR_MALFORMED;
  *ret_number = number;
  return TP_OK;
}

static bool is_infinity(const char *text, size_t size) {
  size_t sign = text[0] == '-' || text[0] == '+';
  return tp__is_one_of((tp_text){text + sign, size - sign}, ".inf .Inf .INF");
}

tp_status tp__yaml_resolve(const char *text, size_t size, tp__yaml_item *item) {
  bool negative;
  unsigned base;
  const char *digits = int_digits(text, size, &negative, &base);
  if (digits) {
    item->kind = TP_VALUE_INT;
    return read_int(digits, negative, base, &item->as.integer) ? TP_OK : TP_ERR_MALFORMED;
  }
  if (size == 0 || tp__is_one_of((tp_text){text, size}, "~ null Null NULL")) {
    item->kind = TP_VALUE_NULL;
  } else if (tp__is_one_of((tp_text){text, size}, "true True TRUE false False FALSE")) {
    item->kind = TP_VALUE_BOOL;
    item->as.boolean = (text[0] | 0x20) == 't';
  } else if (is_float(text, size)) {
    item->kind = TP_VALUE_DOUBLE;
    return read_float(text, &item->as.real);
  } else if (is_infinity(text, size)) {
    item->kind = TP_VALUE_DOUBLE;
    item->as.real = text[0] == '-' ? -(double)INFINITY : (double)INFINITY;
  } else if (tp__is_one_of((tp_text){text, size}, ".nan .NaN .NAN")) {
    item->kind = TP_VALUE_DOUBLE;
    item->as.real = (double)NAN;
  } else {
    item->kind = TP_VALUE_TEXT;
  }
  return TP_OK;
}

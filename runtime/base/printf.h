/* SPDX-License-Identifier: Apache-2.0
 *
 * printf.h: lets the compiler compare a format with its arguments. It holds only macros, so every module may include
 * it, also the modules that use only the public headers. */
#ifndef TP__PRINTF_H
#define TP__PRINTF_H

#if defined(__GNUC__)
#define TP__PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))
#else
#define TP__PRINTF(format_index, first_index)
#endif

#endif

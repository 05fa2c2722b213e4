/* SPDX-License-Identifier: Apache-2.0
 *
 * file: reading a file that another program or person made. A regular file is read up to a bound. A directory, a FIFO,
 * a socket and a device are refused, and opening one of them never waits. No state. */
#ifndef TP__SUPPORT_FILE_H
#define TP__SUPPORT_FILE_H

#include <sys/stat.h>

#include "support/bytes.h"
#include "support/fault.h"

/** Opens a regular file for reading.
 *  @param directory  the directory from which a relative path starts: a descriptor, or AT_FDCWD.
 *  @param ret_stat   of the opened file; may be NULL.
 *  @return a descriptor; -EISDIR for a directory; -ENOTSUP for anything else that is no regular file; or the error of
 *          open(2), negative. */
int tp__file_open(int directory, const char *path, struct stat *ret_stat);

/** Reads a file, which may grow meanwhile, from its start to its end. A file whose size is above bytes_max is not read.
 *  @param bytes  gets the content after its present bytes; on failure it may have a part of it.
 *  @return 0; -EFBIG: it has more than bytes_max bytes; -ENOMEM; or the error of tp__file_open() or read(2). */
int tp__file_read(int directory, const char *path, size_t bytes_max, tp__bytes *bytes);
/** Makes the checks of tp__file_open() for a descriptor that was opened elsewhere, with O_NONBLOCK and O_NOCTTY.
 *  @param ret_stat  may be NULL. @return 0; -EISDIR; -ENOTSUP; or the error of fstat(2), negative. */
int tp__file_check_type(int fd, struct stat *ret_stat);
/** Opens a file that a person named on a command line, which may also be a pipe (`<(command)`). Opening never waits: a
 *  FIFO without a writer is empty. @return a descriptor, or the error of open(2), negative. */
int tp__file_open_stream(const char *path);
/** As tp__file_read(), for a descriptor of the functions above, or for standard input. Waits for the writer of a
 *  pipe. */
int tp__file_read_open(int fd, size_t bytes_max, tp__bytes *bytes);

/** Fills fault (may be NULL) with an error of the functions above; the message has the form "FORMAT: why".
 *  @param error  negative.   @return TP_ERR_NO_MEMORY; TP_ERR_TOO_LARGE; TP_ERR_IO. */
tp_status tp__file_refuse(tp_fault *fault, const char *path, int error, size_t bytes_max, const char *format, ...)
    TP__PRINTF(5, 6);
/** The text for an error of the functions above: "is a directory", "is not a regular file", or the text of the
 *  errno. */
const char *tp__file_words(int error);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * image: reads the files of a request as images: data: URLs, https: URLs, and files below one directory. */
#ifndef TP__OPENAI_IMAGE_H
#define TP__OPENAI_IMAGE_H

#include "providers/openai/form.h"

enum { TP__OPENAI_IMAGE_BYTES_MAX = 20 << 20, TP__OPENAI_IMAGES_MAX = 64 };

/** @param file       as tp_model_request.files has it.
 *  @param directory  an open directory; below 0: paths are refused.
 *  @param image      zero-filled; call fini in either case.
 *  @return TP_OK, or the error in the fault. */
tp_status tp__openai_image_read(tp_text file, int directory, tp__openai_media *image, tp_fault *fault);
/** The bytes of a part, or its data: or https: URL, as media of its kind.
 *  @param url  media types are not checked, only the form of a data: URL.
 *  @return TP_OK; TP_ERR_NO_MEMORY; TP_ERR_USAGE for a URL that is neither. */
tp_status tp__openai_media_read(const tp_part *part, tp__openai_media *media);
void tp__openai_image_fini(tp__openai_media *image);

#endif

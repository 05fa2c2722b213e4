/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/bug.h"

enum tp__bug tp__planted_bug;

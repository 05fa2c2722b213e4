/* SPDX-License-Identifier: Apache-2.0
 *
 * main() of every file of tests that has none of its own. */
#include "tests/support/test.h"

int main(int count, char **arguments) { return test_main(count, arguments); }

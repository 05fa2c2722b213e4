/* SPDX-License-Identifier: Apache-2.0
 *
 * replay: the main() of a fuzz target outside libFuzzer: passes the empty input, then every file of a corpus directory,
 * in the order of their names. It fails when a file cannot be read or the directory is empty. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
  FILE *file = fopen(path, "rb");
  struct stat status;
  if (file == NULL || fstat(fileno(file), &status) != 0) {
    perror(path);
    if (file != NULL) fclose(file);
    return 1;
  }
  /* Just its size, so that AddressSanitizer sees a read beyond the end. */
  size_t size = (size_t)status.st_size;
  uint8_t *bytes = malloc(size > 0 ? size : 1);
  int failed = bytes == NULL || fread(bytes, 1, size, file) != size;
  if (failed) {
    perror(path);
  } else {
    LLVMFuzzerTestOneInput(bytes, size);
  }
  free(bytes);
  fclose(file);
  return failed;
}

int main(int argc, char **argv) {
  struct dirent **names = NULL;
  if (argc != 2) return fprintf(stderr, "usage: %s CORPUS-DIRECTORY\n", argv[0]), 2;
  int count = scandir(argv[1], &names, NULL, alphasort);
  if (count < 0) return perror(argv[1]), 2;
  int failed = 0, replayed = 0;
  LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
  for (int i = 0; i < count; i++) {
    char path[4096];
    if (names[i]->d_name[0] != '.') {
      snprintf(path, sizeof path, "%s/%s", argv[1], names[i]->d_name);
      failed += replay_file(path);
      replayed += 1;
    }
    free(names[i]);
  }
  free(names);
  printf("%d inputs replayed, %d not readable\n", replayed, failed);
  return failed > 0 || replayed == 0;
}

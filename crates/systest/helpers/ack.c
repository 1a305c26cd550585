/* A writer that acknowledges synced records: what an injection is tried on before it tries the product.
 *
 * ack FILE                   appends numbered records, syncs each, then says its number on stdout. */
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int sync_folder_of(const char *file) {
    char path[4096];
    snprintf(path, sizeof path, "%s", file);
    int folder = open(dirname(path), O_RDONLY | O_DIRECTORY);
    int failed = folder < 0 || fsync(folder) != 0;
    close(folder);
    return failed;
}

int main(int count, char **words) {
    if (count != 2) {
        fprintf(stderr, "usage: ack FILE\n");
        return 2;
    }
    int file = open(words[1], O_CREAT | O_WRONLY | O_APPEND, 0600);
    if (file < 0 || sync_folder_of(words[1])) {
        perror(words[1]);
        return 1;
    }
    for (long number = 1;; number++) {
        char record[64];
        int length = snprintf(record, sizeof record, "record %ld\n", number);
        if (write(file, record, length) != length || fdatasync(file) != 0) {
            perror("ack");
            return 1;
        }
        dprintf(1, "%ld\n", number);
    }
}

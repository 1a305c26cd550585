/* Cuts the power of one file system: what was not synced is gone, later calls fail with EIO.
 *
 * godown MOUNTPOINT          ext4 and XFS answer the same number; nothing is flushed first. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>

#define SHUTDOWN _IOR('X', 125, uint32_t)
#define WITHOUT_FLUSHING_THE_LOG 2

int main(int count, char **words) {
    uint32_t how = WITHOUT_FLUSHING_THE_LOG;
    if (count != 2) {
        fprintf(stderr, "usage: godown MOUNTPOINT\n");
        return 2;
    }
    int folder = open(words[1], O_RDONLY | O_DIRECTORY);
    if (folder < 0 || ioctl(folder, SHUTDOWN, &how) != 0) {
        perror(words[1]);
        return 1;
    }
    return 0;
}

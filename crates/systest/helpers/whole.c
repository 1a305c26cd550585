/* A writer that goes on after short writes: what the injection of short writes is tried on.
 *
 * whole FILE                 writes 300,000 bytes, 1,000 at a time, each completed however short its
 *                            calls are; ends with 3 if a call changes a register it must not. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The call itself, since a C library hides what became of the registers. */
static long call_write(int file, const char *bytes, unsigned long *count) {
    long answer;
    __asm__ volatile("syscall"
                     : "=a"(answer), "+d"(*count)
                     : "a"(SYS_write), "D"(file), "S"(bytes)
                     : "rcx", "r11", "memory");
    return answer;
}

int main(int count, char **words) {
    if (count != 2) {
        fprintf(stderr, "usage: whole FILE\n");
        return 2;
    }
    int file = open(words[1], O_CREAT | O_WRONLY | O_TRUNC, 0600);
    if (file < 0) {
        perror(words[1]);
        return 1;
    }
    for (int turn = 0; turn < 300; turn++) {
        char block[1000];
        for (int at = 0; at < 1000; at++)
            block[at] = (char)(turn + at * 7);
        for (int done = 0; done < 1000;) {
            unsigned long before = 1000 - done, after = before;
            long taken = call_write(file, block + done, &after);
            if (after != before)
                return 3;
            if (taken <= 0)
                return 1;
            done += taken;
        }
    }
    return 0;
}

/* Checks of the test programs. If one fails, it prints its line and ends the program. */
#ifndef ETW_TESTS_CHECK_H
#define ETW_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

/* A call returns the wanted value. */
#define CHECK(call, wanted)                                                                   \
    do {                                                                                      \
        unsigned long found = (unsigned long)(call);                                          \
        if (found != (unsigned long)(wanted)) {                                               \
            fprintf(stderr, "line %d: %s: %lu (0x%lx)\n", __LINE__, #call, found, found);     \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

/* A condition is true. */
#define CHECK_TRUE(condition)                                               \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);         \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

#endif

/* Checks of the programs in this folder: each that fails is printed and counted. */
#ifndef ETW_TESTS_COUNT_WRONG_H
#define ETW_TESTS_COUNT_WRONG_H

#include <stdio.h>

static int wrong;
#define CHECK(is_right)                                             \
    do {                                                            \
        if (!(is_right)) {                                          \
            fprintf(stderr, "line %d: %hs\n", __LINE__, #is_right); \
            wrong++;                                                \
        }                                                           \
    } while (0)

#endif

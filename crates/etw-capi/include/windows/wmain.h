/*
 * A main that calls wmain, for programs with wmain and -fshort-wchar. One file of the program includes it, or is compiled with
 * -include wmain.h.
 *
 * Part of openetw.
 */
#ifndef ETW_WMAIN_H
#define ETW_WMAIN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __SIZEOF_WCHAR_T__ != 2
#error "wmain has arguments of 16 bits: compile with -fshort-wchar."
#endif

#ifdef __cplusplus
extern "C" {
#endif
typedef int etw_wmain_function(int, uint16_t **);

/* The forms of wmain: in C; in C++ with wchar_t **, with const wchar_t **, with wchar_t *const *, and without parameters. */
extern etw_wmain_function etw_wmain_of_c __asm__("wmain") __attribute__((weak));
extern etw_wmain_function etw_wmain_of_cpp __asm__("_Z5wmainiPPw") __attribute__((weak));
extern etw_wmain_function etw_wmain_of_cpp_const __asm__("_Z5wmainiPPKw") __attribute__((weak));
extern etw_wmain_function etw_wmain_of_cpp_const_array __asm__("_Z5wmainiPKPw") __attribute__((weak));
extern etw_wmain_function etw_wmain_of_cpp_without __asm__("_Z5wmainv") __attribute__((weak));
#ifdef __cplusplus
}
#endif

/* Converts UTF-8 to UTF-16; invalid bytes become U+FFFD. */
static inline uint16_t *etw_wmain_text(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    uint16_t *units = (uint16_t *)malloc((strlen(text) + 1) * 2 * sizeof *units), *to = units;
    if (units == NULL)
        abort();
    while (*at != 0) {
        static const uint32_t smallest[4] = {0, 0x80, 0x800, 0x10000};
        const int more = *at < 0x80 ? 0 : *at >> 5 == 6 ? 1 : *at >> 4 == 14 ? 2 : *at >> 3 == 30 ? 3 : -1;
        uint32_t c = more <= 0 ? *at : *at & (0x3fu >> more);
        int n = 0;
        while (n < more && at[n + 1] >> 6 == 2)
            c = c << 6 | (at[++n] & 0x3fu);
        if (more < 0 || n < more || c < smallest[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
            c = 0xfffd;
        at += n + 1;
        if (c >= 0x10000) {
            *to++ = (uint16_t)(0xd800 + ((c - 0x10000) >> 10));
            c = 0xdc00 + ((c - 0x10000) & 0x3ff);
        }
        *to++ = (uint16_t)c;
    }
    *to = 0;
    return units;
}

int main(int count, char **arguments)
{
    etw_wmain_function *all[] = {etw_wmain_of_c, etw_wmain_of_cpp, etw_wmain_of_cpp_const, etw_wmain_of_cpp_const_array, etw_wmain_of_cpp_without};
    uint16_t **wides = (uint16_t **)calloc((size_t)count + 1, sizeof *wides);
    if (wides == NULL)
        abort();
    for (int n = 0; n < count; n++)
        wides[n] = etw_wmain_text(arguments[n]);
    for (size_t n = 0; n < sizeof all / sizeof all[0]; n++)
        if (all[n] != NULL)
            return all[n](count, wides);
    fputs("The program has neither main nor wmain.\n", stderr);
    return 127;
}

#endif

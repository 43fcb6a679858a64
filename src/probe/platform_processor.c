/* What depends on the processor and not on the system. */
#include "platform.h"

#if defined(__x86_64__) || defined(__SSE__)
#include <xmmintrin.h>
#endif

int platform_float_control(uint64_t *word, uint64_t *flush_bits)
{
#if defined(__x86_64__) || defined(__SSE__)
    *word = _mm_getcsr();
    *flush_bits = UINT64_C(0x8040); /* FTZ, bit 15; DAZ, bit 6 */
    return 0;
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    *word = control;
    *flush_bits = UINT64_C(1) << 24; /* FZ */
    return 0;
#else
    (void)word;
    (void)flush_bits;
    return -1;
#endif
}

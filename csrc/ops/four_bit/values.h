// SPDX-License-Identifier: MIT
// The values that 4-bit codes stand for and where one code ends and the next begins, for device code and the CPU path.
// Lists to initialise arrays with: device code must not have constants of internal linkage.
#pragma once

// By code: the quantiles of a normal distribution, from -1 to 1 (QLoRA, Dettmers et al. 2023, appendix E).
#define KW_NF4_VALUES                                                                                 \
  -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,    \
      -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f, \
      0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f

// By code: the upper bit is the sign; 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4.
#define KW_FP4_VALUES                                                                                                \
  0.0f, 0.0052083334885537624f, 0.6666666865348816f, 1.0f, 0.3333333432674408f, 0.5f, 0.1666666716337204f, 0.25f,    \
      0.0f, -0.0052083334885537624f, -0.6666666865348816f, -1.0f, -0.3333333432674408f, -0.5f, -0.1666666716337204f, \
      -0.25f

// Of a scaled value s: how many of these it exceeds is its code. Those of bitsandbytes 0.50.2's CUDA library, to the
// bit; two of them are a unit in the last place off the middle between their neighbours.
#define KW_NF4_BOUNDS                                                                                                  \
  -0.8480964303016663f, -0.6106328964233398f, -0.459995269775390625f, -0.33967941999435425f, -0.23460739850997925f,    \
      -0.13791173696517944f, -0.045525018125772476f, 0.03979014977812767f, 0.12025525420904160f, 0.20352125167846680f, \
      0.29201376438140869f, 0.38931253552436829f, 0.50166338682174683f, 0.64278692007064819f, 0.86147838830947876f

// How many of these |s| exceeds is its place in the list of codes below; 8 is added where s <= -2^-126. The same
// library's: 0.0026041700…, 0.41666668… and 0.58333301… are short decimals of the middles.
#define KW_FP4_BOUNDS                                                                                \
  0.0026041700039058924f, 0.0859375f, 0.2083333283662796f, 0.2916666567325592f, 0.4166666865348816f, \
      0.5833330154418945f, 0.8333333134651184f
#define KW_FP4_CODES 0, 1, 6, 7, 4, 5, 2, 3

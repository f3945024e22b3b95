/* SPDX-License-Identifier: MIT */
/* What the launchers of the block-wise operators hand to their kernels, laid out alike on host and device. */
#ifndef KW_OPTIM_PARAMS_H
#define KW_OPTIM_PARAMS_H

struct KwQuantizeBlockwiseParams {
  char* codes;
  char* absmax;
  const char* x;
  const char* map;
  long long count;
  int block_log2; /* elements a block */
  int aligned;    /* x, for units of 16 bytes, and codes, for a unit's codes */
};

struct KwDequantizeBlockwiseParams {
  char* y;
  const char* codes;
  const char* absmax;
  const char* map;
  long long count;
  int block_log2;
  int aligned; /* y, for units of 16 bytes, and codes, for a unit's codes */
};

/* Of a launch at most, so that all are in a kernel's parameters, which are 4 KB. */
#define KW_OPTIMIZER_TENSORS 40

struct KwOptimizerTensor {
  char* param;
  const char* grad;
  char* state1;
  char* state2;
  char* state3; /* of AdEMAMix, behind state1 */
  char* absmax1;
  char* absmax2;
  char* absmax3;
  long long count;
  unsigned end;     /* the first tile after this tensor's, of all of the launch */
  unsigned aligned; /* for loads of 16 bytes of all, and of 8 codes */
};

struct KwOptimizerParams {
  struct KwOptimizerTensor tensor[KW_OPTIMIZER_TENSORS];
  const char* map1; /* of 8-bit states */
  const char* map2;
  unsigned tiles;
  int rule, dtype;
  float lr, beta1, rest1, beta2, rest2, beta3, rest3; /* rest is 1 - beta */
  float alpha, eps;
  float correction1, correction2; /* 1 / (1 - beta1^step), 1 / sqrt(1 - beta2^step) */
  float decay;                    /* what a parameter is multiplied by, 1 where decay is the gradient's */
  float grad_decay;               /* how much of the parameter is added to the gradient */
  float grad_scale;
  int first; /* whether momentum begins with the gradient */
};

#endif

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

/* What of a step's numbers changes from one step to the next (numbers.h). */
struct KwOptimizerMoves {
  float lr, alpha, beta3, rest3;
  float correction1, correction2; /* 1 / (1 - beta1^step), 1 / sqrt(1 - beta2^step) */
  float decay;                    /* what a parameter is multiplied by, 1 where decay is the gradient's */
  int first;                      /* whether momentum begins with the gradient */
};

/* A step whose number moves on in memory: how many were taken since it was zero, and what the last one's numbers were.
 */
struct KwOptimizerMoving {
  long long taken;
  struct KwOptimizerMoves moves;
};

struct KwOptimizerParams {
  struct KwOptimizerTensor tensor[KW_OPTIMIZER_TENSORS];
  const char* map1; /* of 8-bit states */
  const char* map2;
  const char* moving; /* a KwOptimizerMoving whose numbers take the place of `moves`, or none */
  unsigned tiles;
  int rule, dtype;
  float beta1, rest1, beta2, rest2; /* rest is 1 - beta */
  float eps;
  float grad_decay; /* how much of the parameter is added to the gradient */
  float grad_scale;
  struct KwOptimizerMoves moves;
};

/* Of a step as it was asked for, what its moves are made of. */
struct KwOptimizerStep {
  double lr, beta1, beta2, beta3, alpha, decay; /* decay of the parameter, not of the gradient */
  long long step;
};

struct KwOptimizerAdvanceParams {
  char* moving;
  const char* lr; /* a double that is read instead of the step's, or none */
  const char* alpha;
  const char* beta3;
  struct KwOptimizerStep step; /* the first since `moving` was zero */
};

#endif

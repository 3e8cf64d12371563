/* The public NCCL API up to 2.30, declared by us from its documentation so that the emulator, the
 * examples and the tests build on a machine without NVIDIA's header. Names, values, layouts and
 * calling conventions are those of NCCL 2.30.7; nothing here is emulator-specific. A program built
 * against this header runs with NVIDIA's library unchanged.
 *
 * Every function returns ncclResult_t unless stated, and exists a second time with the prefix pnccl
 * (the profiling interface: ncclX may be interposed, pncclX is always the library's own). */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 30
#define NCCL_PATCH 7
#define NCCL_SUFFIX ""
#define NCCL_VERSION_CODE 23007
/* Up to 2.8 one digit per part fewer than since. */
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))

#ifdef __cplusplus
extern "C" {
#endif

/* As in the CUDA runtime; a repeated identical typedef is allowed. */
typedef struct CUstream_st* cudaStream_t;

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId; /* passed by value */

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8,
  ncclNumResults = 9
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
/* Values from ncclNumOps on are operations made by ncclRedOpCreatePreMulSum. */
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

typedef enum {
  ncclStatGpuMemSuspend = 0,
  ncclStatGpuMemSuspended = 1,
  ncclStatGpuMemPersist = 2,
  ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;

#define NCCL_API_MAGIC 0xcafebeef
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_UNDEF_FLOAT (-1.0f)
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM 0x01

/* Settings of one communicator. Start from NCCL_CONFIG_INITIALIZER; the first three fields are the
 * library's. */
typedef struct ncclConfig_v23000 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName; /* not copied by NCCL */
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                             \
  {                                                                                         \
    sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,                \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,                \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                 \
  }

typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* microseconds */
} ncclSimInfo_t;
#define NCCL_SIM_INFO_INITIALIZER                                                        \
  {                                                                                      \
    sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), \
        NCCL_UNDEF_FLOAT                                                                 \
  }

typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

typedef struct ncclParamHandle* ncclParamHandle_t;

/* NCCL_DECLARE_(name, (parameters)): the function and its pnccl twin. */
#define NCCL_DECLARE_(name, parameters) \
  ncclResult_t nccl##name parameters;   \
  ncclResult_t pnccl##name parameters;

/* Memory, version, unique id */
NCCL_DECLARE_(MemAlloc, (void** ptr, size_t size))
NCCL_DECLARE_(MemFree, (void* ptr))
NCCL_DECLARE_(GetVersion, (int* version))
NCCL_DECLARE_(GetUniqueId, (ncclUniqueId * uniqueId))

/* Life cycle */
NCCL_DECLARE_(CommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank))
NCCL_DECLARE_(CommInitRankConfig,
              (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config))
NCCL_DECLARE_(CommInitRankScalable, (ncclComm_t * newcomm, int nranks, int myrank, int nId,
                                     ncclUniqueId* commIds, ncclConfig_t* config))
NCCL_DECLARE_(CommInitAll, (ncclComm_t * comm, int ndev, const int* devlist))
NCCL_DECLARE_(CommFinalize, (ncclComm_t comm))
NCCL_DECLARE_(CommDestroy, (ncclComm_t comm))
NCCL_DECLARE_(CommAbort, (ncclComm_t comm))
NCCL_DECLARE_(CommRevoke, (ncclComm_t comm, int revokeFlags))
NCCL_DECLARE_(CommSplit,
              (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config))
NCCL_DECLARE_(CommShrink, (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                           ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags))
NCCL_DECLARE_(CommGetUniqueId, (ncclComm_t comm, ncclUniqueId* uniqueId))
NCCL_DECLARE_(CommGrow, (ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                         ncclComm_t* newcomm, ncclConfig_t* config))
NCCL_DECLARE_(CommSuspend, (ncclComm_t comm, int flags))
NCCL_DECLARE_(CommResume, (ncclComm_t comm))

/* Queries and errors */
const char* ncclGetErrorString(ncclResult_t result);
const char* pncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
const char* pncclGetLastError(ncclComm_t comm);
NCCL_DECLARE_(CommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError))
NCCL_DECLARE_(CommCount, (const ncclComm_t comm, int* count))
NCCL_DECLARE_(CommCuDevice, (const ncclComm_t comm, int* device))
NCCL_DECLARE_(CommUserRank, (const ncclComm_t comm, int* rank))
NCCL_DECLARE_(CommMemStats, (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value))
void ncclResetDebugInit(void);
void pncclResetDebugInit(void);

/* Registration */
NCCL_DECLARE_(CommRegister, (const ncclComm_t comm, void* buff, size_t size, void** handle))
NCCL_DECLARE_(CommDeregister, (const ncclComm_t comm, void* handle))
NCCL_DECLARE_(CommWindowRegister,
              (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags))
NCCL_DECLARE_(CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win))
NCCL_DECLARE_(WinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void** outUserPtr))

/* Reduction operations */
NCCL_DECLARE_(RedOpCreatePreMulSum, (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype,
                                     ncclScalarResidence_t residence, ncclComm_t comm))
NCCL_DECLARE_(RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))

/* Collectives; counts are elements: of the whole vector (Reduce, Bcast, Broadcast, AllReduce) or
 * per rank. */
NCCL_DECLARE_(Reduce, (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                       ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream))
NCCL_DECLARE_(Bcast, (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                      cudaStream_t stream))
NCCL_DECLARE_(Broadcast, (const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream))
NCCL_DECLARE_(AllReduce,
              (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
NCCL_DECLARE_(ReduceScatter,
              (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
NCCL_DECLARE_(AllGather, (const void* sendbuff, void* recvbuff, size_t sendcount,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream))
NCCL_DECLARE_(AlltoAll, (const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream))
NCCL_DECLARE_(Gather, (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                       int root, ncclComm_t comm, cudaStream_t stream))
NCCL_DECLARE_(Scatter, (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream))

/* Point to point and one-sided */
NCCL_DECLARE_(Send, (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                     ncclComm_t comm, cudaStream_t stream))
NCCL_DECLARE_(Recv, (void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                     ncclComm_t comm, cudaStream_t stream))
NCCL_DECLARE_(PutSignal, (const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                          ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                          unsigned int flags, ncclComm_t comm, cudaStream_t stream))
NCCL_DECLARE_(Signal, (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                       cudaStream_t stream))
NCCL_DECLARE_(WaitSignal,
              (int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm, cudaStream_t stream))

/* Groups */
NCCL_DECLARE_(GroupStart, (void))
NCCL_DECLARE_(GroupEnd, (void))
NCCL_DECLARE_(GroupSimulateEnd, (ncclSimInfo_t * simInfo))

/* Run-time parameters */
NCCL_DECLARE_(ParamBind, (ncclParamHandle_t * out, const char* key))
NCCL_DECLARE_(ParamGetI8, (ncclParamHandle_t h, int8_t* out))
NCCL_DECLARE_(ParamGetI16, (ncclParamHandle_t h, int16_t* out))
NCCL_DECLARE_(ParamGetI32, (ncclParamHandle_t h, int32_t* out))
NCCL_DECLARE_(ParamGetI64, (ncclParamHandle_t h, int64_t* out))
NCCL_DECLARE_(ParamGetU8, (ncclParamHandle_t h, uint8_t* out))
NCCL_DECLARE_(ParamGetU16, (ncclParamHandle_t h, uint16_t* out))
NCCL_DECLARE_(ParamGetU32, (ncclParamHandle_t h, uint32_t* out))
NCCL_DECLARE_(ParamGetU64, (ncclParamHandle_t h, uint64_t* out))
NCCL_DECLARE_(ParamGetStr, (ncclParamHandle_t h, const char** out))
NCCL_DECLARE_(ParamGet, (ncclParamHandle_t h, void* out, int maxLen, int* len))
NCCL_DECLARE_(ParamGetParameter, (const char* key, const char** value, int* valueLen))
NCCL_DECLARE_(ParamGetAllParameterKeys, (const char*** table, int* tableLen))
void ncclParamDumpAll(void);
void pncclParamDumpAll(void);

#undef NCCL_DECLARE_

#ifdef __cplusplus
}
#endif

#endif /* NCCL_H_ */

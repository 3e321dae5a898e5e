/*
 * The system providers of Windows 11: classes of the kernel's events as providers of sessions with EVENT_TRACE_SYSTEM_LOGGER_MODE, and their
 * keywords. Included by evntrace.h. Keywords without events on Linux are left out; without any other they return ERROR_NOT_SUPPORTED.
 *
 * Part of openetw. Written to Microsoft's documentation; names and values are theirs.
 */
#ifndef ETW_SYSTEM_PROVIDERS_H
#define ETW_SYSTEM_PROVIDERS_H

#include "etw_define_guid.h"

DEFINE_GUID(SystemIoProviderGuid, 0x3d5c43e3, 0x0f1c, 0x4202, 0xb8, 0x17, 0x17, 0x4c, 0x00, 0x70, 0xdc, 0x79);
DEFINE_GUID(SystemMemoryProviderGuid, 0x82958ca9, 0xb6cd, 0x47f8, 0xa3, 0xa8, 0x03, 0xae, 0x85, 0xa4, 0xbc, 0x24);
DEFINE_GUID(SystemProcessProviderGuid, 0x151f55dc, 0x467d, 0x471f, 0x83, 0xb5, 0x5f, 0x88, 0x9d, 0x46, 0xff, 0x66);
DEFINE_GUID(SystemSchedulerProviderGuid, 0x599a2a76, 0x4d91, 0x4910, 0x9a, 0xc7, 0x7d, 0x33, 0xf2, 0xe9, 0x7a, 0x6c);
DEFINE_GUID(SystemProfileProviderGuid, 0xbfeb0324, 0x1cee, 0x496f, 0xa4, 0x09, 0x2a, 0xc2, 0xb4, 0x8a, 0x63, 0x22);
DEFINE_GUID(SystemInterruptProviderGuid, 0xd4bbee17, 0xb545, 0x4888, 0x85, 0x8b, 0x74, 0x41, 0x69, 0x01, 0x5b, 0x25);
DEFINE_GUID(SystemRegistryProviderGuid, 0x16156bd9, 0xfab4, 0x4cfa, 0xa2, 0x32, 0x89, 0xd1, 0x09, 0x90, 0x58, 0xe3);
DEFINE_GUID(SystemSyscallProviderGuid, 0x434286f7, 0x6f1b, 0x45bb, 0xb3, 0x7e, 0x95, 0xf6, 0x23, 0x04, 0x6c, 0x7c);
DEFINE_GUID(SystemPowerProviderGuid, 0xc134884a, 0x32d5, 0x4488, 0x80, 0xe5, 0x14, 0xed, 0x7a, 0xbb, 0x82, 0x69);
DEFINE_GUID(SystemAlpcProviderGuid, 0xfcb9baaf, 0xe529, 0x4980, 0x92, 0xe9, 0xce, 0xd1, 0xa6, 0xaa, 0xdf, 0xdf);
DEFINE_GUID(SystemConfigProviderGuid, 0xfef3a8b6, 0x318d, 0x4b67, 0xa9, 0x6a, 0x3b, 0x0f, 0x6b, 0x8f, 0x18, 0xfe);
DEFINE_GUID(SystemCpuProviderGuid, 0xc6c5265f, 0xeae8, 0x4650, 0xaa, 0xe4, 0x9d, 0x48, 0x60, 0x3d, 0x85, 0x10);
DEFINE_GUID(SystemHypervisorProviderGuid, 0xbafa072a, 0x918a, 0x4bed, 0xb6, 0x22, 0xbc, 0x15, 0x20, 0x97, 0x09, 0x8f);
DEFINE_GUID(SystemIoFilterProviderGuid, 0xfbd09363, 0x9e22, 0x4661, 0xb8, 0xbf, 0xe7, 0xa3, 0x4b, 0x53, 0x5b, 0x8c);
DEFINE_GUID(SystemLockProviderGuid, 0x721ddfd3, 0xdacc, 0x4e1e, 0xb2, 0x6a, 0xa2, 0xcb, 0x31, 0xd4, 0x70, 0x5a);
DEFINE_GUID(SystemObjectProviderGuid, 0xfebd7460, 0x3d1d, 0x47eb, 0xaf, 0x49, 0xc9, 0xee, 0xb1, 0xe1, 0x46, 0xf2);
DEFINE_GUID(SystemTimerProviderGuid, 0x4f061568, 0xe215, 0x499f, 0xab, 0x2e, 0xed, 0xa0, 0xae, 0x89, 0x0a, 0x5b);

#define SYSTEM_ALPC_KW_GENERAL 0x1ull

#define SYSTEM_CONFIG_KW_SYSTEM 0x1ull
#define SYSTEM_CONFIG_KW_GRAPHICS 0x2ull
#define SYSTEM_CONFIG_KW_STORAGE 0x4ull
#define SYSTEM_CONFIG_KW_NETWORK 0x8ull
#define SYSTEM_CONFIG_KW_SERVICES 0x10ull
#define SYSTEM_CONFIG_KW_PNP 0x20ull
#define SYSTEM_CONFIG_KW_OPTICAL 0x40ull

#define SYSTEM_CPU_KW_CONFIG 0x1ull
#define SYSTEM_CPU_KW_CACHE_FLUSH 0x2ull
#define SYSTEM_CPU_KW_SPEC_CONTROL 0x4ull

#define SYSTEM_HYPERVISOR_KW_PROFILE 0x1ull
#define SYSTEM_HYPERVISOR_KW_CALLOUTS 0x2ull
#define SYSTEM_HYPERVISOR_KW_VTL_CHANGE 0x4ull

#define SYSTEM_INTERRUPT_KW_GENERAL 0x1ull
#define SYSTEM_INTERRUPT_KW_CLOCK_INTERRUPT 0x2ull
#define SYSTEM_INTERRUPT_KW_DPC 0x4ull
#define SYSTEM_INTERRUPT_KW_DPC_QUEUE 0x8ull
#define SYSTEM_INTERRUPT_KW_WDF_DPC 0x10ull
#define SYSTEM_INTERRUPT_KW_WDF_INTERRUPT 0x20ull
#define SYSTEM_INTERRUPT_KW_IPI 0x40ull

#define SYSTEM_IO_KW_DISK 0x1ull
#define SYSTEM_IO_KW_DISK_INIT 0x2ull
#define SYSTEM_IO_KW_FILENAME 0x4ull
#define SYSTEM_IO_KW_SPLIT 0x8ull
#define SYSTEM_IO_KW_FILE 0x10ull
#define SYSTEM_IO_KW_OPTICAL 0x20ull
#define SYSTEM_IO_KW_OPTICAL_INIT 0x40ull
#define SYSTEM_IO_KW_DRIVERS 0x80ull
#define SYSTEM_IO_KW_CC 0x100ull
#define SYSTEM_IO_KW_NETWORK 0x200ull

#define SYSTEM_IOFILTER_KW_GENERAL 0x1ull
#define SYSTEM_IOFILTER_KW_INIT 0x2ull
#define SYSTEM_IOFILTER_KW_FASTIO 0x4ull
#define SYSTEM_IOFILTER_KW_FAILURE 0x8ull

#define SYSTEM_LOCK_KW_SPINLOCK 0x1ull
#define SYSTEM_LOCK_KW_SPINLOCK_COUNTERS 0x2ull
#define SYSTEM_LOCK_KW_SYNC_OBJECTS 0x4ull

#define SYSTEM_MEMORY_KW_GENERAL 0x1ull
#define SYSTEM_MEMORY_KW_HARD_FAULTS 0x2ull
#define SYSTEM_MEMORY_KW_ALL_FAULTS 0x4ull
#define SYSTEM_MEMORY_KW_POOL 0x8ull
#define SYSTEM_MEMORY_KW_MEMINFO 0x10ull
#define SYSTEM_MEMORY_KW_PFSECTION 0x20ull
#define SYSTEM_MEMORY_KW_MEMINFO_WS 0x40ull
#define SYSTEM_MEMORY_KW_HEAP 0x80ull
#define SYSTEM_MEMORY_KW_WS 0x100ull
#define SYSTEM_MEMORY_KW_CONTMEM_GEN 0x200ull
#define SYSTEM_MEMORY_KW_VIRTUAL_ALLOC 0x400ull
#define SYSTEM_MEMORY_KW_FOOTPRINT 0x800ull
#define SYSTEM_MEMORY_KW_SESSION 0x1000ull
#define SYSTEM_MEMORY_KW_REFSET 0x2000ull
#define SYSTEM_MEMORY_KW_VAMAP 0x4000ull
#define SYSTEM_MEMORY_KW_NONTRADEABLE 0x8000ull

#define SYSTEM_OBJECT_KW_GENERAL 0x1ull
#define SYSTEM_OBJECT_KW_HANDLE 0x2ull

#define SYSTEM_POWER_KW_GENERAL 0x1ull
#define SYSTEM_POWER_KW_HIBER_RUNDOWN 0x2ull
#define SYSTEM_POWER_KW_PROCESSOR_IDLE 0x4ull
#define SYSTEM_POWER_KW_IDLE_SELECTION 0x8ull
#define SYSTEM_POWER_KW_PPM_EXIT_LATENCY 0x10ull

#define SYSTEM_PROCESS_KW_GENERAL 0x1ull
#define SYSTEM_PROCESS_KW_INSWAP 0x2ull
#define SYSTEM_PROCESS_KW_FREEZE 0x4ull
#define SYSTEM_PROCESS_KW_PERF_COUNTER 0x8ull
#define SYSTEM_PROCESS_KW_WAKE_COUNTER 0x10ull
#define SYSTEM_PROCESS_KW_WAKE_DROP 0x20ull
#define SYSTEM_PROCESS_KW_WAKE_EVENT 0x40ull
#define SYSTEM_PROCESS_KW_DEBUG_EVENTS 0x80ull
#define SYSTEM_PROCESS_KW_DBGPRINT 0x100ull
#define SYSTEM_PROCESS_KW_JOB 0x200ull
#define SYSTEM_PROCESS_KW_WORKER_THREAD 0x400ull
#define SYSTEM_PROCESS_KW_THREAD 0x800ull
#define SYSTEM_PROCESS_KW_LOADER 0x1000ull

#define SYSTEM_PROFILE_KW_GENERAL 0x1ull
#define SYSTEM_PROFILE_KW_PMC_PROFILE 0x2ull

#define SYSTEM_REGISTRY_KW_GENERAL 0x1ull
#define SYSTEM_REGISTRY_KW_HIVE 0x2ull
#define SYSTEM_REGISTRY_KW_NOTIFICATION 0x4ull

#define SYSTEM_SCHEDULER_KW_XSCHEDULER 0x1ull
#define SYSTEM_SCHEDULER_KW_DISPATCHER 0x2ull
#define SYSTEM_SCHEDULER_KW_KERNEL_QUEUE 0x4ull
#define SYSTEM_SCHEDULER_KW_SHOULD_YIELD 0x8ull
#define SYSTEM_SCHEDULER_KW_ANTI_STARVATION 0x10ull
#define SYSTEM_SCHEDULER_KW_LOAD_BALANCER 0x20ull
#define SYSTEM_SCHEDULER_KW_AFFINITY 0x40ull
#define SYSTEM_SCHEDULER_KW_PRIORITY 0x80ull
#define SYSTEM_SCHEDULER_KW_IDEAL_PROCESSOR 0x100ull
#define SYSTEM_SCHEDULER_KW_CONTEXT_SWITCH 0x200ull
#define SYSTEM_SCHEDULER_KW_COMPACT_CSWITCH 0x400ull

#define SYSTEM_SYSCALL_KW_GENERAL 0x1ull

#define SYSTEM_TIMER_KW_GENERAL 0x1ull
#define SYSTEM_TIMER_KW_CLOCK_TIMER 0x2ull

/* The filter of pool tags on the memory provider. */
#define SYSTEM_MEMORY_POOL_FILTER_ID 1

#endif

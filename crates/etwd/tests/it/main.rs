//! Tests of a host with programs of other processes: the test binary starts itself again in a role.
#![allow(missing_docs)]
#![cfg(target_os = "linux")]

mod auto_compression;
mod call_stacks;
mod changes;
mod channels;
mod classic_providers;
mod controllers;
mod daemon;
mod delivery;
mod eight_session_limit;
mod event_logs;
mod hostile_input;
mod idle_exit;
mod interrupted_requests;
mod killed_programs;
mod live_readers;
mod locked_memory;
mod program_roles;
mod programs;
mod rig;
mod sessions;
mod system_changes;
mod system_events;
mod system_files;
mod system_limits;
mod torture;
mod worker_replacement;

//! The command as users meet it: arguments, output, exit status.

#[cfg(target_os = "linux")]
mod book;
#[cfg(target_os = "linux")]
mod broken_setups;
mod check;
mod columns;
#[cfg(target_os = "linux")]
mod controllers;
mod convert;
mod corpus;
mod counting;
#[cfg(target_os = "linux")]
mod doctor;
mod dump;
mod event_log;
mod examples;
mod fixture;
mod formats;
mod join;
#[cfg(target_os = "linux")]
mod log_settings;
mod lost_switches;
#[cfg(target_os = "linux")]
mod mc;
#[cfg(target_os = "linux")]
mod messages;
#[cfg(target_os = "linux")]
mod names;
mod off_cpu;
mod owners;
mod packs;
mod part;
mod perfetto;
#[cfg(target_os = "linux")]
mod publishers;
#[cfg(target_os = "linux")]
mod refused_recordings;
mod repair;
mod results;
mod rewrite;
#[cfg(target_os = "linux")]
mod rootless;
mod sampling;
mod stat;
#[cfg(target_os = "linux")]
mod system_events;
#[cfg(target_os = "linux")]
mod tail;
#[cfg(target_os = "linux")]
mod terminal;
mod tracewpp;
#[cfg(target_os = "linux")]
mod transcripts;
mod views;
#[cfg(target_os = "linux")]
mod wevtutil_options;
mod windows_forms;
#[cfg(windows)]
mod windows_sessions;

//! Tests of several views at once, and the small profiles that they and the terminal's tests share.

#[cfg(test)]
pub(crate) mod account;
#[cfg(test)]
pub(crate) mod filter;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
pub(crate) mod fixture_waits;
#[cfg(test)]
pub(crate) mod generated_code;
#[cfg(test)]
pub(crate) mod hostile;
#[cfg(test)]
pub(crate) mod idle;
#[cfg(test)]
pub(crate) mod pages;
#[cfg(test)]
pub(crate) mod property;
#[cfg(test)]
pub(crate) mod timeline;
#[cfg(test)]
pub(crate) mod unaccounted;
#[cfg(test)]
pub(crate) mod views;
#[cfg(test)]
pub(crate) mod wait_views;
